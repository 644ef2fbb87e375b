// Resubmission: the packet as it came in begins again with the fields of the list, and wins over everything else that ingress
// decided.

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
        if (hdr.i.kind != 0 && meta.kept < hdr.i.kind) {
            meta.kept = meta.kept + 1;
            meta.lost = meta.lost + 1;
            hdr.i.v = 0xee;
            mark_to_drop(sm);
            resubmit_preserving_field_list(1);
        }
        hdr.i.kept = meta.kept + meta.lost;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
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
