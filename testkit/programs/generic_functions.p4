// Generic functions with given and with inferred type arguments, and functions that share a name.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<16> b;
}

header out_t {
    bit<8> small;
    bit<16> large;
    bit<16> second;
    bit<8> one;
    bit<8> two;
}

#include "harness.p4"

T choose<T>(in bool first, in T x, in T y) {
    if (first) {
        return x;
    }
    return y;
}

B second_of<A, B>(in A x, in B y) {
    return y;
}

bit<8> shape(in bit<8> x) {
    return x + 1;
}

bit<8> shape(in bit<8> x, in bit<8> y) {
    return x + 2 * y;
}

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.small = choose(hdr.i.a > 10, hdr.i.a, 8w10);
        hdr.o.large = choose<bit<16>>(hdr.i.b > 1000, hdr.i.b, 1000);
        hdr.o.second = second_of(hdr.i.a, hdr.i.b);
        hdr.o.one = shape(hdr.i.a);
        hdr.o.two = shape(hdr.i.a, 8w3);
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
