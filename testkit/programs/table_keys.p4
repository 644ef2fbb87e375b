// Keys that are expressions, slices, validity, header fields and wide values; a table without keys; a table applied in a condition.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<128> address;
}

header out_t {
    bit<8> v;
    bit<8> w;
    bit<8> x;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set(bit<8> v) {
        hdr.o.v = v;
    }

    action set_w(bit<8> w) {
        hdr.o.w = w;
    }

    action set_x(bit<8> x) {
        hdr.o.x = x;
    }

    table t {
        key = {
            hdr.i.a + 1       : exact @name("next");
            hdr.i.a[7:6]      : exact @name("top");
            hdr.i.isValid()   : exact @name("valid");
            hdr.i.address     : lpm;
        }
        actions = { set; }
        default_action = set(0);
    }

    table no_keys {
        actions = { set_w; }
        default_action = set_w(7);
    }

    table twice {
        key = { hdr.o.v : exact; }
        actions = { set_x; NoAction; }
        default_action = NoAction();
    }

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.x = 0;
        t.apply();
        no_keys.apply();
        if (twice.apply().miss) {
            hdr.o.x = 0xff;
        }
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
