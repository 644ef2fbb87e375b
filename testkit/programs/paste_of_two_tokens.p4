// `##` that makes no single token leaves both side by side, as with p4c.
#include <core.p4>
#include <v1model.p4>
#define BUMP(n) m.x##n##=m.x##n##+1;
#define RUN(f, n) f##n##(h.h.a);
struct M { bit<8> x0; bit<8> x1; }
header h_t { bit<8> a; bit<8> b; }
struct H { h_t h; }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { p.extract(h.h); transition accept; } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    action set_0(in bit<8> v) { m.x0 = v; m.x1 = 3; }
    apply { RUN(set_, 0) BUMP(0) BUMP(1) s.egress_spec = 1; h.h.a = m.x0; h.h.b = m.x1; }
}
control V(inout H h, inout M m) { apply {} }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
