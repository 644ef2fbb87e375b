// Entries and default actions of the program satisfy the restrictions of tables and actions.
#include <v1model.p4>

enum Plain { A, B }
enum bit<8> Typed { ONE = 1, TWO = 2 }
@p4runtime_translation("u", string)
type bit<9> Port;
error { Odd }
header H { bit<8> a; bit<16> b; bit<32> c; int<8> s; bit<8> u; }
struct Hs { H h; }
struct M { Port port; Typed typed; Plain plain; error code; bool flag; }
const bit<8> NINE = 4 + 5;

parser P(packet_in p, out Hs hs, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hs.h); transition accept; }
}
control V(inout Hs hs, inout M m) { apply { } }
control Sub(inout Hs hs)(bit<8> chosen) {
    @entry_restriction("hs.h.a != 9")
    table unknown {
        key = { hs.h.a : exact; }
        actions = { NoAction; }
        const entries = {
            chosen : NoAction();
            NINE : NoAction();                      // warning[W0604]
        }
    }
    apply { unknown.apply(); }
}
control I(inout Hs hs, inout M m, inout standard_metadata_t s) {
    Sub(9) sub;
    @action_restriction("port != 0; typed != 2; code != 'Odd'; far != '7'; !(port == 5 && on == 1)")
    action send(inout bit<8> x, @name("port") bit<9> number, Typed typed, error code, Port far, bool on) { }

    @entry_restriction("
        hs.h.a != 9;
        n::mask == 0 || n::mask == -1;
        l::prefix_length == 0 || l::prefix_length >= 24;
        r::low != 0 -> r::high <= 10;
        o::mask != 0 -> o != 0xff;
        ::priority < 100;
    ")
    table kinds {
        key = {
            hs.h.a : ternary @name("hs.h.a"); hs.h.b : ternary @name("n"); hs.h.c : lpm @name("l");
            hs.h.b : range @name("r"); hs.h.u : optional @name("o");
        }
        actions = { NoAction; }
        entries = {
            priority = 99: (8, _, _, _, _) : NoAction();
            priority = 90: (9, _, _, _, _) : NoAction();                    // warning[W0604]
            priority = 80: (1, 0x10, _, _, _) : NoAction();
            priority = 70: (1, 0x10 &&& 0xff, _, _, _) : NoAction();        // warning[W0604]
            const priority = 60: (1, 0, 0x0a000000 &&& 0xffffff00, _, _) : NoAction();
            priority = 50: (1, 0, 0x0a000000 &&& 0xff000000, _, _) : NoAction();    // warning[W0604]
            priority = 40: (1, 0, 1, 1 .. 10, _) : NoAction();
            priority = 30: (1, 0, 1, 1 .. 11, _) : NoAction();              // warning[W0604]
            priority = 20: (2, 0, 1, 3, 0xfe) : NoAction();
            priority = 10: (2, 0, 1, 3, 0xff) : NoAction();                 // warning[W0604]
        }
    }
    @entry_restriction("::priority < 100")
    table priorities {
        key = { hs.h.a : ternary; }
        actions = { NoAction; }
        entries = {
            priority = 101: 1 : NoAction();         // warning[W0604]
            priority = 99: 2 : NoAction();
        }
    }
    @entry_restriction("p != '7'; m.typed != 2; plain != 'B'; c != 'Odd'; m.flag == 0; s != 0xff")
    table types {
        key = {
            m.port : exact @name("p"); m.typed : exact; m.plain : optional @name("plain");
            m.code : exact @name("c"); m.flag : exact; hs.h.s : exact @name("s");
        }
        actions = { NoAction; }
        const entries = {
            ((Port)6, Typed.ONE, Plain.A, error.NoError, false, 1) : NoAction();
            ((Port)6, Typed.ONE, _, error.NoError, false, 1) : NoAction();
            ((Port)7, Typed.ONE, Plain.A, error.NoError, false, 1) : NoAction();    // warning[W0604]
            ((Port)6, Typed.TWO, Plain.A, error.NoError, false, 1) : NoAction();    // warning[W0604]
            ((Port)6, Typed.ONE, Plain.B, error.NoError, false, 1) : NoAction();    // warning[W0604]
            ((Port)6, Typed.ONE, Plain.A, error.Odd, false, 1) : NoAction();        // warning[W0604]
            ((Port)6, Typed.ONE, Plain.A, error.NoError, true, 1) : NoAction();     // warning[W0604]
            ((Port)6, Typed.ONE, Plain.A, error.NoError, false, -1) : NoAction();   // warning[W0604]
        }
    }
    table arguments {
        key = { hs.h.a : exact; }
        actions = { send(hs.h.u); NoAction; }
        const entries = {
            1 : send(hs.h.u, 1, Typed.ONE, error.NoError, (Port)1, true);
            2 : send(hs.h.u, 0, Typed.ONE, error.NoError, (Port)1, true);       // warning[W0604]
            3 : send(hs.h.u, 1, Typed.TWO, error.NoError, (Port)1, true);       // warning[W0604]
            4 : send(hs.h.u, 1, Typed.ONE, error.Odd, (Port)1, true);           // warning[W0604]
            5 : send(hs.h.u, 1, Typed.ONE, error.NoError, (Port)7, true);       // warning[W0604]
            6 : send(hs.h.u, 5, Typed.ONE, error.NoError, (Port)1, false);
            7 : send(hs.h.u, 5, Typed.ONE, error.NoError, (Port)1, true);       // warning[W0604]
        }
        default_action = send(hs.h.u, 0, Typed.ONE, error.NoError, (Port)1, false); // warning[W0604]
    }
    apply { sub.apply(hs); kinds.apply(); priorities.apply(); types.apply(); arguments.apply(); }
}
control E(inout Hs hs, inout M m, inout standard_metadata_t s) { apply { } }
control C(inout Hs hs, inout M m) { apply { } }
control D(packet_out p, in Hs hs) { apply { p.emit(hs.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
