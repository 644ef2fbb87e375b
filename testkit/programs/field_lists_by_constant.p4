// `@field_list` takes constants: x is kept by list 1, y by list 2, z by both.
#include <core.p4>
#include <v1model.p4>
const int ONE = 1;
const bit<8> TWO = 2;
struct M { @field_list(ONE) bit<8> x; @field_list(TWO) bit<8> y; @field_list(ONE, TWO) bit<8> z; }
header h_t { bit<8> a; bit<8> b; bit<8> c; }
struct H { h_t h; }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { p.extract(h.h); transition accept; } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (s.instance_type == 0) {
            m.x = 7; m.y = 8; m.z = 9;
            if (h.h.a == 1) resubmit_preserving_field_list(ONE); else resubmit_preserving_field_list(TWO);
        } else { h.h.a = m.x; h.h.b = m.y; h.h.c = m.z; }
    }
}
control V(inout H h, inout M m) { apply {} }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
