// Signed values: arithmetic, order, and the right shift that keeps the sign.

#include <core.p4>
#include <v1model.p4>

header in_t {
    int<8> a;
    int<8> b;
}

header out_t {
    int<8> sum;
    int<8> difference;
    int<8> product;
    int<8> minus_a;
    int<8> shifted;
    bit<1> less;
    bit<1> greater;
    bit<1> equal;
    bit<1> negative;
    bit<4> pad;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.sum = hdr.i.a + hdr.i.b;
        hdr.o.difference = hdr.i.a - hdr.i.b;
        hdr.o.product = hdr.i.a * hdr.i.b;
        hdr.o.minus_a = -hdr.i.a;
        hdr.o.shifted = hdr.i.a >> 2;
        hdr.o.less = (bit<1>)(hdr.i.a < hdr.i.b);
        hdr.o.greater = (bit<1>)(hdr.i.a > hdr.i.b);
        hdr.o.equal = (bit<1>)(hdr.i.a == hdr.i.b);
        hdr.o.negative = (bit<1>)(hdr.i.a < 0);
        hdr.o.pad = 0;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
