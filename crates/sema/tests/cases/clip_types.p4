// Floats are carried and compared in P4, and `@mirror` needs a number of entries.
#include <v1model.p4>
#include <clip.p4>

header H { bit<8> a; float32 x; float64 y; }
struct Hs { H h; }
struct M { float32 m; }

parser P(packet_in p, out Hs hs, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hs.h); transition accept; }
}
control V(inout Hs hs, inout M m) { apply { } }
control I(inout Hs hs, inout M m, inout standard_metadata_t s) {
    @mirror(0)                          // error[E0604]
    table nothing { key = { hs.h.x : exact; } actions = { NoAction; } }
    @mirror("ten")                      // error[E0604]
    table text { key = { hs.h.x : exact; } actions = { NoAction; } }
    @mirror                             // error[E0604]
    table empty { key = { hs.h.x : exact; } actions = { NoAction; } }
    apply {
        m.m = hs.h.x;
        if (m.m == hs.h.x) { hs.h.x = m.m; }
        hs.h.x = hs.h.x + m.m;          // error[E0401]
        hs.h.x = -m.m;                  // error[E0401]
        if (m.m < hs.h.x) { }           // error[E0401]
        hs.h.x = (float32) ((bit<32>) hs.h.x + 1);
        hs.h.y = hs.h.x;                // error[E0301]
        nothing.apply(); text.apply(); empty.apply();
    }
}
control E(inout Hs hs, inout M m, inout standard_metadata_t s) { apply {} }
control C(inout Hs hs, inout M m) { apply {} }
control D(packet_out p, in Hs hs) { apply { p.emit(hs); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
