// Exact match on several keys: hit, miss, the default action and its arguments, both changed at run time, entries removed.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<16> b;
}

header out_t {
    bit<8> v;
    bit<8> hit;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set(bit<8> v) {
        hdr.o.v = v;
    }

    table t {
        key = {
            hdr.i.a : exact;
            hdr.i.b : exact @name("second");
        }
        actions = { set; NoAction; }
        default_action = set(0xdd);
    }

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.v = 0;
        hdr.o.hit = t.apply().hit ? 8w1 : 8w0;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
