// Compound assignments, on fields and slices.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<16> a;
    bit<16> b;
}

header out_t {
    bit<16> plus;
    bit<16> minus;
    bit<16> times;
    bit<16> and_;
    bit<16> or_;
    bit<16> xor_;
    bit<16> left;
    bit<16> right;
    bit<16> saturated;
    bit<16> floored;
    bit<16> slice;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.plus = hdr.i.a;
        hdr.o.plus += hdr.i.b;
        hdr.o.minus = hdr.i.a;
        hdr.o.minus -= hdr.i.b;
        hdr.o.times = hdr.i.a;
        hdr.o.times *= hdr.i.b;
        hdr.o.and_ = hdr.i.a;
        hdr.o.and_ &= hdr.i.b;
        hdr.o.or_ = hdr.i.a;
        hdr.o.or_ |= hdr.i.b;
        hdr.o.xor_ = hdr.i.a;
        hdr.o.xor_ ^= hdr.i.b;
        hdr.o.left = hdr.i.a;
        hdr.o.left <<= 3;
        hdr.o.right = hdr.i.a;
        hdr.o.right >>= 3;
        hdr.o.saturated = hdr.i.a;
        hdr.o.saturated |+|= hdr.i.b;
        hdr.o.floored = hdr.i.a;
        hdr.o.floored |-|= hdr.i.b;
        hdr.o.slice = hdr.i.a;
        hdr.o.slice[11:4] += hdr.i.b[7:0];
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
