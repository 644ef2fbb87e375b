// Ranges of signed keys are in the order of signed numbers: in const entries, in those of the control plane, and with keys of many bits.

#include <core.p4>
#include <v1model.p4>

header in_t {
    int<8>   small;
    int<72>  large;
}

header out_t {
    bit<8> v;
    bit<8> w;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set_v(bit<8> v) {
        hdr.o.v = v;
    }

    action set_w(bit<8> w) {
        hdr.o.w = w;
    }

    table fixed {
        key = { hdr.i.small : range; }
        actions = { set_v; }
        const default_action = set_v(0);
        const entries = {
            -1       : set_v(1);
            -5 .. 5  : set_v(2);
            -128..-6 : set_v(3);
            6 .. 100 : set_v(4);
        }
    }

    table told {
        key = { hdr.i.large : range; }
        actions = { set_w; }
        default_action = set_w(0);
    }

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        fixed.apply();
        told.apply();
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
