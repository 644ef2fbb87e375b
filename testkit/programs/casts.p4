// Casts: widening by zeros or by the sign, narrowing, between signed and unsigned, between bit<1> and bool.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    int<8> s;
    bit<1> flag;
    bit<7> pad;
}

header out_t {
    bit<16> zeros;
    int<16> sign;
    bit<16> sign_then_bits;
    bit<4> low;
    bit<4> signed_low;
    int<8> as_signed;
    bit<8> as_unsigned;
    bit<8> flag_as_byte;
    bit<8> not_flag;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.zeros = (bit<16>)hdr.i.a;
        hdr.o.sign = (int<16>)hdr.i.s;
        hdr.o.sign_then_bits = (bit<16>)(int<16>)hdr.i.s;
        hdr.o.low = (bit<4>)hdr.i.a;
        hdr.o.signed_low = (bit<4>)(int<4>)hdr.i.s;
        hdr.o.as_signed = (int<8>)hdr.i.a;
        hdr.o.as_unsigned = (bit<8>)hdr.i.s;
        bool flag = (bool)hdr.i.flag;
        hdr.o.flag_as_byte = (bit<8>)(bit<1>)flag;
        hdr.o.not_flag = 7w0 ++ (bit<1>)!flag;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
