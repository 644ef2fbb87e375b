// Arithmetic wraps at the width of the type, not at that of a machine word.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<5> a;
    bit<5> b;
    bit<6> pad;
    bit<65> c;
    bit<65> d;
    bit<6> pad2;
}

header out_t {
    bit<5> sum;
    bit<5> product;
    bit<6> pad;
    bit<65> wide_sum;
    bit<65> wide_difference;
    bit<65> wide_product;
    bit<5> pad2;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.sum = hdr.i.a + hdr.i.b;
        hdr.o.product = hdr.i.a * hdr.i.b;
        hdr.o.pad = 0;
        hdr.o.wide_sum = hdr.i.c + hdr.i.d;
        hdr.o.wide_difference = hdr.i.c - hdr.i.d;
        hdr.o.wide_product = hdr.i.c * hdr.i.d;
        hdr.o.pad2 = 0;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
