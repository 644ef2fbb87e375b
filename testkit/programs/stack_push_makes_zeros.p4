// An element that push_front makes is invalid, and zero when it is made valid, as in simple_switch;
// the same of a stack of unions.
#include <core.p4>
#include <v1model.p4>
header e_t { bit<8> v; }
header f_t { bit<16> w; }
header_union u_t { e_t a; f_t b; }
struct H { e_t[4] e; u_t[2] u; }
struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { p.extract(h.e.next); p.extract(h.e.next); p.extract(h.u.next.b); transition accept; } }
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) { apply { s.egress_spec = 1; h.e.push_front(1); h.e[0].setValid();
    h.u.push_front(1); h.u[0].b.setValid(); } }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply { b.emit(h.e); b.emit(h.u); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
