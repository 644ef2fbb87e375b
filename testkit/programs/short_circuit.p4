// && and || evaluate their right operand only when the left one does not decide.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<8> b;
}

header out_t {
    bit<8> conjunction;
    bit<8> disjunction;
    bit<8> and_calls;
    bit<8> or_calls;
}

#include "harness.p4"

bool test(in bit<8> value, inout bit<8> calls) {
    calls = calls + 1;
    return value != 0;
}

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        bit<8> and_calls = 0;
        bit<8> or_calls = 0;
        bool conjunction = test(hdr.i.a, and_calls) && test(hdr.i.b, and_calls);
        bool disjunction = test(hdr.i.a, or_calls) || test(hdr.i.b, or_calls);
        hdr.o.conjunction = conjunction ? 8w1 : 8w0;
        hdr.o.disjunction = disjunction ? 8w1 : 8w0;
        hdr.o.and_calls = and_calls;
        hdr.o.or_calls = or_calls;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
