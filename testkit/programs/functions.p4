// Functions: return from the middle, recursion-free nesting, default arguments, arguments by name, void functions.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
}

header out_t {
    bit<8> clamped;
    bit<8> by_default;
    bit<8> by_name;
    bit<8> nested;
    bit<8> out_value;
}

#include "harness.p4"

bit<8> clamp(in bit<8> value) {
    if (value > 100) {
        return 100;
    }
    return value;
}

bit<8> scale(in bit<8> value, in bit<8> factor = 2, in bit<8> offset = 5) {
    return value * factor + offset;
}

void set_to(out bit<8> result, in bit<8> value) {
    result = value + 1;
}

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.clamped = clamp(hdr.i.a);
        hdr.o.by_default = scale(hdr.i.a);
        hdr.o.by_name = scale(offset = 1, value = hdr.i.a, factor = 3);
        hdr.o.nested = clamp(scale(clamp(hdr.i.a)));
        set_to(value = hdr.i.a, result = hdr.o.out_value);
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
