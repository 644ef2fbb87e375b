// Slices as values and as places: only the named bits change.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<32> a;
    bit<8> b;
}

header out_t {
    bit<8> middle;
    bit<1> top;
    bit<7> rest;
    bit<32> written;
    bit<32> nested;
    bit<16> of_sum;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.middle = hdr.i.a[19:12];
        hdr.o.top = hdr.i.a[31:31];
        hdr.o.rest = hdr.i.a[6:0];
        hdr.o.written = hdr.i.a;
        hdr.o.written[15:8] = hdr.i.b;
        hdr.o.written[31:31] = 1;
        hdr.o.nested = hdr.i.a;
        hdr.o.nested[23:8][11:4] = hdr.i.b;
        hdr.o.of_sum = (hdr.i.a + 1)[15:0];
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
