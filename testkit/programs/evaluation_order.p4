// Operands and arguments are evaluated from left to right, each with what the ones before it changed.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
}

header out_t {
    bit<8> sum;
    bit<8> difference;
    bit<8> arguments;
    bit<8> last;
}

#include "harness.p4"

bit<8> next(inout bit<8> x) {
    x = x + 1;
    return x;
}

bit<8> combine(in bit<8> a, in bit<8> b, in bit<8> c) {
    return a * 4 + b * 2 + c;
}

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        bit<8> x = hdr.i.a;
        hdr.o.sum = next(x) + next(x);
        x = hdr.i.a;
        hdr.o.difference = next(x) - 2 * next(x);
        x = hdr.i.a;
        hdr.o.arguments = combine(next(x), x, next(x));
        hdr.o.last = x;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
