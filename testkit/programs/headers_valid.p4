// Header validity: setValid, setInvalid, copies of valid and invalid headers, equality; a header keeps its fields when it is set valid again.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<8> b;
}

header out_t {
    bit<8> start;
    bit<8> after_set;
    bit<8> after_copy;
    bit<8> copy_of_invalid;
    bit<8> equality;
    bit<8> initialised;
}

#include "harness.p4"

header h_t {
    bit<8> v;
}

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        h_t x = (h_t){#};
        h_t y = (h_t){#};
        hdr.o.start = x.isValid() ? 8w1 : 8w0;
        x.setValid();
        x.v = hdr.i.a;
        hdr.o.after_set = x.isValid() ? x.v : 8w0;
        y = x;
        x.v = 0;
        hdr.o.after_copy = y.isValid() ? y.v : 8w0xee;
        bit<8> equality = 0;
        h_t z = { v = hdr.i.a };
        if (z == y) {
            equality = equality + 1;
        }
        x.setInvalid();
        if (x != y) {
            equality = equality + 2;
        }
        z.setInvalid();
        if (x == z) {
            equality = equality + 4;
        }
        hdr.o.equality = equality;
        y = x;
        hdr.o.copy_of_invalid = y.isValid() ? 8w1 : 8w0;
        h_t w = { hdr.i.b };
        hdr.o.initialised = w.isValid() ? w.v : 8w0;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
