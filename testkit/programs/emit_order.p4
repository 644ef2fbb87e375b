// emit writes valid headers only, in the order of the calls and, within structs and stacks, of the members; a header may be
// emitted twice.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> valid;
}

header h_t {
    bit<8> v;
}

struct pair_t {
    h_t x;
    h_t y;
}

struct headers_t {
    in_t   i;
    h_t[2] stack;
    pair_t pair;
    h_t    twice;
}

struct metadata_t { }

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
        if (hdr.i.valid[0:0] == 1) { hdr.stack[0] = { 0x51 }; }
        if (hdr.i.valid[1:1] == 1) { hdr.stack[1] = { 0x52 }; }
        if (hdr.i.valid[2:2] == 1) { hdr.pair.x = { 0x61 }; }
        if (hdr.i.valid[3:3] == 1) { hdr.pair.y = { 0x62 }; }
        hdr.twice = { 0x77 };
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
        packet.emit(hdr.twice);
        packet.emit(hdr.pair);
        packet.emit(hdr.stack);
        packet.emit(hdr.i);
        packet.emit(hdr.twice);
    }
}

V1Switch(TestParser(), Verify(), TestIngress(), TestEgress(), Update(), TestDeparser()) main;
