// Concatenation: the left operand is the high part; widths and signs may differ.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<4> a;
    bit<12> b;
    int<8> c;
}

header out_t {
    bit<16> ab;
    bit<16> ba;
    bit<24> abc;
    bit<24> with_constant;
    bit<8> repeated;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.ab = hdr.i.a ++ hdr.i.b;
        hdr.o.ba = hdr.i.b ++ hdr.i.a;
        hdr.o.abc = hdr.i.a ++ hdr.i.b ++ hdr.i.c;
        hdr.o.with_constant = 8w0xee ++ (hdr.i.b ++ hdr.i.a);
        hdr.o.repeated = hdr.i.a ++ hdr.i.a;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
