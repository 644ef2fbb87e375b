// Calls as arguments of calls, results that later calls could disturb, indices that the right side moves.
#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<8> b;
    bit<8> i;
}

header out_t {
    bit<8> nested;
    bit<8> twice;
    bit<8> order;
    bit<8> kept;
    bit<8> moved0;
    bit<8> moved1;
    bit<8> chosen;
    bit<8> deep;
}

#include "harness.p4"

// Its local variable is alive while its own result is being used.
bit<8> step(in bit<8> x) {
    bit<8> t = x;
    t = t + 1;
    return t;
}

// Returns the old value and leaves the new one.
bit<8> bump(inout bit<8> x) {
    bit<8> old = x;
    x = x + 10;
    return old;
}

bit<8> first(in bit<8> x, in bit<8> y) {
    if (x > y) {
        return x;
    }
    return y;
}

void both(out bit<8> x, out bit<8> y, in bit<8> z) {
    x = z;
    y = z + 1;
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    bit<8>[4] cells;
    bit<8> x;
    bit<8> y;
    bit<8> i;
    apply {
        hdr.o.setValid();
        // ((a + 1) + 1) + 1
        hdr.o.nested = step(step(step(hdr.i.a)));
        // the first result must outlive the second call: (a + 1) + (b + 1)
        hdr.o.twice = step(hdr.i.a) + step(hdr.i.b);
        // a + a + (a + 10): the operands are read in their turn
        x = hdr.i.a;
        hdr.o.order = x + bump(x) + x;
        // the value of x is taken before bump moves it
        x = hdr.i.a;
        hdr.o.kept = first(x, bump(x) - 1) + x;
        // the place is chosen before the right side is evaluated
        cells[0] = 0;
        cells[1] = 0;
        i = 0;
        cells[i[1:0]] = bump(i) + 7;
        hdr.o.moved0 = cells[0];
        hdr.o.moved1 = cells[1];
        // copy-out from left to right: the last one stays
        both(y, y, hdr.i.b);
        hdr.o.chosen = y;
        // an index out of a call, and a call out of an index
        cells[0] = 5;
        cells[1] = 6;
        cells[2] = 7;
        cells[3] = 8;
        hdr.o.deep = step(cells[step(hdr.i.i)[1:0]]);
        sm.egress_spec = 1;
    }
}

V1Switch(TestParser(), NoChecks(), TestIngress(), NoEgress(), NoChecks(), TestDeparser()) main;
