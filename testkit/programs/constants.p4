// Constant expressions are evaluated at compile time, with integers of any size.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
}

header out_t {
    bit<64> big;
    bit<8> quotient;
    bit<8> remainder;
    int<16> negative;
    bit<32> powers;
    bit<8> digits;
    bit<8> chosen;
}

#include "harness.p4"

const int WIDE = (1 << 70) >> 10;
const bit<64> HUGE = WIDE + 0x1234;
const int LIMIT = 3 * 4;
const bool CHECKED = static_assert(LIMIT == 12);

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.big = HUGE;
        hdr.o.quotient = 100 / 7;
        hdr.o.remainder = 100 % 7;
        hdr.o.negative = -5 * 3 + 1;
        hdr.o.powers = (1 << 20) + (1 << 2);
        hdr.o.digits = 8w0b1010_0101 ^ 8w0o17 ^ 8w0x_f_0;
        hdr.o.chosen = LIMIT > 10 && !static_assert(LIMIT == 12, "twelve") ? 8w1 : 8w2;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
