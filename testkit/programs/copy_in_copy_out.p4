// Arguments are copied in from left to right before a call and out from left to right after it: inside, two parameters never
// are the same variable, and the last one copied out wins.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<8> b;
}

header out_t {
    bit<8> same;
    bit<8> seen;
    bit<8> swapped_a;
    bit<8> swapped_b;
    bit<8> outs;
}

#include "harness.p4"

// `y` has the caller's value even after `x`, the same variable there, has changed.
void add_both(inout bit<8> x, inout bit<8> y, out bit<8> seen) {
    x = x + 10;
    seen = y;
    y = y + 20;
}

void swap(inout bit<8> x, inout bit<8> y) {
    bit<8> held = x;
    x = y;
    y = held;
}

void two_outs(out bit<8> x, out bit<8> y) {
    y = 2;
    x = 1;
}

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        bit<8> x = hdr.i.a;
        bit<8> seen;
        add_both(x, x, seen);
        hdr.o.same = x;
        hdr.o.seen = seen;
        bit<8> p = hdr.i.a;
        bit<8> q = hdr.i.b;
        swap(p, q);
        hdr.o.swapped_a = p;
        hdr.o.swapped_b = q;
        bit<8> both;
        two_outs(both, both);
        hdr.o.outs = both;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
