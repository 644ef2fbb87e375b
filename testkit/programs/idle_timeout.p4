// Idle time-outs: an entry that no packet has hit for its time-out is told once, and again after it was hit.

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

    table t {
        key = { hdr.i.a : exact; }
        actions = { set; }
        default_action = set(0);
        support_timeout = true;
    }

    action nothing() { }

    table u {
        key = { hdr.i.a : exact; }
        actions = { nothing; }
        default_action = nothing();
        support_timeout = true;
    }

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        t.apply();
        if (hdr.i.a != 3) {
            u.apply();
        }
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
