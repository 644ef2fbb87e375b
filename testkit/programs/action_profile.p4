// An action profile: entries share members, and a changed member changes all of them.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
}

header out_t {
    bit<8> v;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set(bit<8> v) {
        hdr.o.v = v;
    }

    action_profile(16) members;

    table t {
        key = { hdr.i.a : exact; }
        actions = { set; NoAction; }
        implementation = members;
    }

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.v = 0;
        t.apply();
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
