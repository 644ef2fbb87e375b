// Constraints of entries and actions.
#include <v1model.p4>

enum Plain { A, B }
enum bit<8> Typed { A = 1 }
@p4runtime_translation("u", string)
type bit<9> Port;
@p4runtime_translation("u", bit<32>)
type bit<9> Number;
header H { bit<8> a; bit<16> b; bit<32> c; bit<9> d; bool e; bit<6> pad; }
struct Hs { H h; }
struct M { Port port; Number number; Typed typed; }

#define TEXT "h.a == 1"

parser P(packet_in p, out Hs hs, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hs.h); transition accept; }
}
control V(inout Hs hs, inout M m) { apply { } }
control I(inout Hs hs, inout M m, inout standard_metadata_t s) {
    @action_restriction("x != 0; port == 'eth0' || on == 1; x == -1 -> true")
    action a(bit<9> x, Port port, bool on) { }
    @action_restriction("y != 0")       // warning[W0604]
    action b(inout bit<8> y, bit<9> x) { }
    @action_restriction("::priority > 0")       // warning[W0604]
    action c() { }
    @action_restriction("x::value > 0")         // warning[W0604]
    action d(@name("x") bit<9> z) { }

    @entry_restriction("
        // All parts of all kinds.
        hs.h.a == 1 -> n::mask == -1;
        hs.h.a != 1 -> (l::prefix_length == 0 || l::prefix_length >= 24);
        r::low <= r::high && o::mask == 0x1ff;
        hs.h.e == 1 && p == 'x' && m.number == 5 && m.typed == 1;
        ::priority < 0x7fffffff; /* the last */ true;
    ")
    table all {
        key = {
            hs.h.a : exact; hs.h.b : ternary @name("n"); hs.h.b : range @name("r");
            hs.h.c : lpm @name("l"); hs.h.d : optional @name("o"); hs.h.e : exact;
            m.port : exact @name("p"); m.number : exact; m.typed : exact;
        }
        actions = { a; NoAction; }
    }
    @entry_restriction(TEXT)                    // warning[W0604]
    table name_of_none { key = { hs.h.a : exact; } actions = { NoAction; } }
    @entry_restriction("hs.h.a == 1;" "hs.h.a != 2")
    table two_strings { key = { hs.h.a : exact; } actions = { NoAction; } }
    @entry_restriction(hs.h.a == 1)             // warning[W0604]
    table no_string { key = { hs.h.a : exact; } actions = { NoAction; } }
    @entry_restriction("hs.h.b::mask == 1")     // warning[W0604]
    table no_mask { key = { hs.h.b : lpm; } actions = { NoAction; } }
    @entry_restriction("hs.h.a == 1 -> true -> true")   // warning[W0604]
    table no_row { key = { hs.h.a : exact; } actions = { NoAction; } }
    @entry_restriction("hs.h.a + 1 == 2")       // warning[W0604]
    table no_sum { key = { hs.h.a : exact; } actions = { NoAction; } }
    @entry_restriction                          // warning[W0604]
    table nothing { key = { hs.h.a : exact; } actions = { NoAction; } }
    apply {
        all.apply(); name_of_none.apply(); two_strings.apply(); no_string.apply();
        no_mask.apply(); no_row.apply(); no_sum.apply(); nothing.apply();
    }
}
control E(inout Hs hs, inout M m, inout standard_metadata_t s) {
    apply { resubmit_preserving_field_list(1); }       // warning[W1001]
}
control D(packet_out p, in Hs hs) { apply { p.emit(hs.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
