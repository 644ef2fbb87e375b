// An entry gives for each key what its match kind can hold.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> x; bit<8> y; }
struct H { h_t h; }
struct M {}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    action a() {}
    table t {
        key = { h.h.x : exact; h.h.y : optional; }
        actions = { a; }
        default_action = a;
        entries = {
            (1, _) : a();
            (_, 2) : a();                       // error[E0704]
            (1 &&& 3, 3) : a();                 // error[E0704]
            (2, 4 &&& 5) : a();                 // error[E0704]
            (3, 4 .. 5) : a();                  // error[E0704]
            _ : a();                            // error[E0704]
        }
    }
    apply { t.apply(); }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in H h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
