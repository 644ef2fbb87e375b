// Entries in the program: in their order where no priority is written, by priority where it is; entries that the control
// plane may change.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
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

    table in_order {
        key = { hdr.i.a : ternary; }
        actions = { set; }
        const default_action = set(0);
        const entries = {
            0x10 &&& 0xf0 : set(1);
            0x12          : set(2);
            0x22          : set(3);
            _             : set(4);
        }
    }

    table by_priority {
        key = { hdr.i.a : ternary; }
        actions = { set_w; }
        const default_action = set_w(0);
        largest_priority_wins = false;
        entries = {
            priority = 10: 0x10 &&& 0xf0 : set_w(1);
            priority = 5: 0x12 : set_w(2);
            priority = 20: 0x02 &&& 0x0f : set_w(3);
        }
    }

    table to_begin_with {
        key = { hdr.i.a : exact; }
        actions = { set_x; }
        default_action = set_x(0);
        entries = {
            0x12 : set_x(1);
            const 0x22 : set_x(2);
        }
    }

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        in_order.apply();
        by_priority.apply();
        to_begin_with.apply();
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
