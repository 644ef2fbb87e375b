// Keys of validity and of expressions by the names that p4c's runner of tests takes.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
struct H { h_t h; }
struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { p.extract(h.h); transition accept; } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    action a(bit<9> p) { s.egress_spec = p; }
    table t { key = { h.h.isValid() : exact; h.h.a & 0xf : exact; } actions = { a; } }
    apply { t.apply(); }
}
control V(inout H h, inout M m) { apply {} }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
