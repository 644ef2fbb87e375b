// Shifts by an amount of the packet: as far as the width and beyond it.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<16> a;
    int<16> s;
    bit<8> n;
}

header out_t {
    bit<16> left;
    bit<16> right;
    int<16> signed_left;
    int<16> signed_right;
    bit<16> by_constant;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.left = hdr.i.a << hdr.i.n;
        hdr.o.right = hdr.i.a >> hdr.i.n;
        hdr.o.signed_left = hdr.i.s << hdr.i.n;
        hdr.o.signed_right = hdr.i.s >> hdr.i.n;
        hdr.o.by_constant = (hdr.i.a << 4) >> 8;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
