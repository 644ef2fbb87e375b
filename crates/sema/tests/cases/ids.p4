// Ids and keys that controllers can name.
#include <v1model.p4>

enum Plain { A, B }
enum bit<8> Typed { A = 1 }
header H { bit<8> a; }
struct Hs { H h; }
struct M { Plain plain; Typed typed; }
const int FIVE = 5;

parser P(packet_in p, out Hs hs, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hs.h); transition accept; }
}
control V(inout Hs hs, inout M m) { apply { } }
control I(inout Hs hs, inout M m, inout standard_metadata_t s) {
    @id(5) action a(@id(7) bit<8> x) { }
    @id(0x01000005) action b() { }              // error[E0604]
    @id(0x02000006) action c() { }              // error[E0604]
    @id(FIVE) counter(4, CounterType.packets) k;
    @id(0x12000005) counter(4, CounterType.packets) l;      // error[E0604]
    @id(0x13000006) counter(4, CounterType.packets) n;      // error[E0604]
    @id(FIVE) table t { key = { hs.h.a : exact @id(0xffffffff); } actions = { a; b; c; NoAction; } }
    table plain { key = { m.plain : exact; } actions = { NoAction; } }      // error[E0702]
    table typed { key = { m.typed : exact; } actions = { NoAction; } }
    table constant {
        key = { m.plain : exact; }
        actions = { NoAction; }
        const entries = { Plain.A : NoAction(); }
    }
    apply {
        m.plain = Plain.A; m.typed = Typed.A;
        t.apply(); plain.apply(); typed.apply(); constant.apply(); k.count(0); l.count(0); n.count(0);
    }
}
control E(inout Hs hs, inout M m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in Hs hs) { apply { p.emit(hs.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
