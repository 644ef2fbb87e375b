// switch on action_run: hit and default action alike, fall-through, default.

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
    action one() { }
    action two() { }
    action three() { }
    action four() { }

    table t {
        key = { hdr.i.a : exact; }
        actions = { one; two; three; four; }
        default_action = four();
    }

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        switch (t.apply().action_run) {
            one: { hdr.o.v = 1; }
            two:
            three: { hdr.o.v = 23; }
            default: { hdr.o.v = 99; }
        }
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
