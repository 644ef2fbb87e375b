// Actions called directly: parameters of every direction, and actions that call actions.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<8> b;
}

header out_t {
    bit<8> in_param;
    bit<8> inout_param;
    bit<8> out_param;
    bit<8> from_data;
    bit<8> nested;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action mix(in bit<8> from, inout bit<8> both, out bit<8> to, bit<8> data) {
        hdr.o.in_param = from;
        both = both + from;
        to = both + 1;
        hdr.o.from_data = data;
    }

    action add(in bit<8> n) {
        hdr.o.nested = hdr.o.nested + n;
    }

    action outer(in bit<8> n) {
        hdr.o.nested = n;
        add(1);
        add(10);
    }

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        bit<8> x = hdr.i.a;
        bit<8> y;
        mix(hdr.i.b, x, y, 3);
        hdr.o.inout_param = x;
        hdr.o.out_param = y;
        outer(hdr.i.a);
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
