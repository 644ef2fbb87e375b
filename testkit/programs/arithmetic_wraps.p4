// Unsigned addition, subtraction, multiplication and negation wrap around.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<8> b;
}

header out_t {
    bit<8> sum;
    bit<8> difference;
    bit<8> product;
    bit<8> minus_a;
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
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
