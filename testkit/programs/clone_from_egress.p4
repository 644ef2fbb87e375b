// Egress clones: the copy goes through egress again, with the headers as egress left them, and keeps the fields of its list.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> kind;
    bit<8> v;
    bit<8> trace;
    bit<8> kept;
}

struct headers_t {
    in_t i;
}

struct metadata_t {
    @field_list(1)
    bit<8> kept;
    bit<8> lost;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        meta.kept = 0x44;
        meta.lost = 0x55;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        hdr.i.trace = hdr.i.trace << 4 | (bit<8>)sm.instance_type;
        hdr.i.v = hdr.i.v + 1;
        hdr.i.kept = meta.kept + meta.lost;
        if (hdr.i.kind == 1 && sm.instance_type == 0) {
            clone_preserving_field_list(CloneType.E2E, 5, 1);
        }
        if (hdr.i.kind == 2 && sm.instance_type == 0) {
            clone(CloneType.E2E, 5);
            mark_to_drop(sm);
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(TestParser(), Verify(), TestIngress(), TestEgress(), Update(), TestDeparser()) main;
