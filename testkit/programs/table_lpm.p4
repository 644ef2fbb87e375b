// Longest prefix match, beside an exact key: the longest one wins in whatever order they were added, /0 matches all, /32 one.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> vrf;
    bit<32> dst;
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
            hdr.i.vrf : exact;
            hdr.i.dst : lpm;
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
