// Controls as parts of others: constructor parameters, two instances with their own state, direct application by type.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
}

header out_t {
    bit<8> first;
    bit<8> second;
    bit<8> twice;
    bit<8> direct;
}

#include "harness.p4"

// Adds `base` and how often this instance has run.
control Add(in bit<8> a, out bit<8> result)(bit<8> base) {
    register<bit<8>>(1) runs;

    apply {
        bit<8> n;
        runs.read(n, 0);
        n = n + 1;
        runs.write(0, n);
        result = a + base + n;
    }
}

control AddOne(in bit<8> a, out bit<8> result) {
    apply {
        result = a + 1;
    }
}

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Add(100) first;
    Add(200) second;

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        first.apply(hdr.i.a, hdr.o.first);
        second.apply(hdr.i.a, hdr.o.second);
        first.apply(hdr.i.a, hdr.o.twice);
        AddOne.apply(hdr.i.a, hdr.o.direct);
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
