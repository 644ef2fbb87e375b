// Recirculation: the packet as deparsed begins again with the fields of the list.

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
        hdr.i.trace = hdr.i.trace << 4 | (bit<8>)sm.instance_type;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (hdr.i.kind != 0) {
            hdr.i.kind = hdr.i.kind - 1;
            hdr.i.v = hdr.i.v + 1;
            meta.kept = meta.kept + 3;
            meta.lost = 9;
            recirculate_preserving_field_list(1);
        } else {
            hdr.i.kept = meta.kept + meta.lost;
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
