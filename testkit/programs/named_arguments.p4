// Arguments with names are evaluated and copied out in the order of the call (section 6.8, steps 1 and 6).
#include <core.p4>
#include <v1model.p4>
struct M { }
header h_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct H { h_t h; }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { p.extract(h.h); transition accept; } }
control V(inout H h, inout M m) { apply {} }
bit<8> tick(inout bit<8> n) { n = n + 1; return n; }
void store(in bit<8> x, in bit<8> y, out bit<8> rx, out bit<8> ry) { rx = x; ry = y; }
void two(out bit<8> x, out bit<8> y) { x = 0xAA; y = 0xBB; }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    apply {
        bit<8> n = 0; s.egress_spec = 1;
        store(y = tick(n), x = tick(n), rx = h.h.a, ry = h.h.b);
        two(y = h.h.c, x = h.h.c);
        two(x = h.h.d, y = h.h.d);
    }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
