// The conditional operator evaluates one of its branches only.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<8> b;
}

header out_t {
    bit<8> larger;
    bit<8> nested;
    bit<8> calls;
}

#include "harness.p4"

bit<8> count(inout bit<8> calls, in bit<8> step) {
    calls = calls + step;
    return calls;
}

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        bit<8> calls = 0;
        hdr.o.larger = hdr.i.a > hdr.i.b ? hdr.i.a : hdr.i.b;
        hdr.o.nested = hdr.i.a == 0 ? 8w1 : hdr.i.b == 0 ? 8w2 : 8w3;
        bit<8> ignored = hdr.i.a > hdr.i.b ? count(calls, 1) : count(calls, 16);
        hdr.o.calls = calls;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
