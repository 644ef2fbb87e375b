// And, or, exclusive or and complement.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<16> a;
    bit<16> b;
}

header out_t {
    bit<16> both;
    bit<16> either;
    bit<16> one;
    bit<16> none;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.both = hdr.i.a & hdr.i.b;
        hdr.o.either = hdr.i.a | hdr.i.b;
        hdr.o.one = hdr.i.a ^ hdr.i.b;
        hdr.o.none = ~(hdr.i.a | hdr.i.b);
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
