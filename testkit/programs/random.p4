// Random values keep to their bounds, both included.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
}

header out_t {
    bit<8> within;
    bit<8> single;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        bit<16> r;
        random(r, 100, 107);
        hdr.o.within = r >= 100 && r <= 107 ? 8w1 : 8w0;
        bit<8> only;
        random(only, 8w5, 8w5);
        hdr.o.single = only;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
