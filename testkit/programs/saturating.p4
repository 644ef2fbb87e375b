// Saturating addition and subtraction stop at the ends of the type.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<8> b;
    int<8> c;
    int<8> d;
}

header out_t {
    bit<8> sum;
    bit<8> difference;
    int<8> signed_sum;
    int<8> signed_difference;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.sum = hdr.i.a |+| hdr.i.b;
        hdr.o.difference = hdr.i.a |-| hdr.i.b;
        hdr.o.signed_sum = hdr.i.c |+| hdr.i.d;
        hdr.o.signed_difference = hdr.i.c |-| hdr.i.d;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
