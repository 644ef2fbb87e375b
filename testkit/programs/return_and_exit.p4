// return leaves an action or a control; exit leaves everything, from however deep, after the copies out.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
}

header out_t {
    bit<8> trace;
    bit<8> deep;
}

#include "harness.p4"

// 3 exits here, 4 returns here.
control Inner(in bit<8> a, inout bit<8> trace, out bit<8> deep) {
    action leave() {
        deep = 7;
        exit;
    }

    apply {
        deep = 5;
        if (a == 4) {
            return;
        }
        trace = trace | 0x20;
        if (a == 3) {
            leave();
        }
        deep = 9;
    }
}

control Outer(in bit<8> a, inout bit<8> trace, inout bit<8> deep) {
    Inner() inner;

    apply {
        trace = trace | 0x08;
        inner.apply(a, trace, deep);
        trace = trace | 0x40;
    }
}

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Outer() outer;

    action maybe_return(in bit<8> a) {
        if (a < 2) {
            return;
        }
        hdr.o.trace = hdr.o.trace | 0x02;
    }

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.trace = 1;
        hdr.o.deep = 0;
        if (hdr.i.a == 0) {
            return;
        }
        maybe_return(hdr.i.a);
        outer.apply(hdr.i.a, hdr.o.trace, hdr.o.deep);
        hdr.o.trace = hdr.o.trace | 0x80;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
