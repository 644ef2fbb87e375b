// Ternary match: among the entries that match, the one with the largest priority; keys left out match all.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<16> a;
    bit<8> b;
}

header out_t {
    bit<8> v;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set(bit<8> v) {
        hdr.o.v = v;
    }

    table t {
        key = {
            hdr.i.a : ternary;
            hdr.i.b : ternary;
        }
        actions = { set; }
        default_action = set(0);
    }

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        t.apply();
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
