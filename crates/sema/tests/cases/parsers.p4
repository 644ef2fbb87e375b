// Parsers: states, selects, value sets, sub-parsers.
#include <core.p4>

header H { bit<8> a; bit<16> b; }
header V { bit<8> n; varbit<64> rest; }
struct Hs { H h; V v; H[3] stack; }
struct Key { bit<8> a; bit<16> b; }

parser Sub(packet_in p, out H h) {
    state start { p.extract(h); transition accept; }
}

parser Good(packet_in p, out Hs hs) {
    value_set<bit<8>>(4) known;
    value_set<Key>(4) pairs;
    Sub() sub;
    bit<8> count = 0;
    state start {
        sub.apply(p, hs.h);
        p.extract(hs.stack.next);
        hs.stack.last.a = 1;
        verify(hs.h.a != 0, error.NoMatch);
        transition select(hs.h.a, hs.h.b) {
            (1, 2) : two;
            (0x10 &&& 0xf0, 5 .. 10) : two;
            pairs : accept;
            (_, 7) : three;
            default : reject;
            (1, 1) : two;                       // warning[W0801]
        }
    }
    state two {
        transition select(hs.h.a) { known : three; 1 : three; _ : accept; }
    }
    state three {
        if (count > 2) { count = count + 1; }
        p.extract(hs.v, (bit<32>)hs.h.a);
        bit<8> next = p.lookahead<bit<8>>();
        transition start;
    }
    state never { transition accept; }
}

parser Bad(packet_in p, out Hs hs, in bit<8> x) {
    bit<8> one;
    state start {
        p.extract(hs.v);                        // error[E0501]
        p.extract(hs.h, 8);                     // error[E0501]
        p.extract(hs);                          // error[E0501]
        p.extract(one);                         // error[E0501]
        x = 1;                                  // error[E0403]
        transition missing;                     // error[E0201]
    }
    state start { transition accept; }          // error[E0202]
    state accept { transition reject; }         // error[E0801]
    state one { transition accept; }            // error[E0202]
    state types {
        transition select(hs.h.a, one) {
            (1, 2, 3) : accept;                 // error[E0802]
            (true, 1) : accept;                 // error[E0301]
            1 : accept;                         // error[E0802]
            (1, 2) : x;                         // error[E0801]
        }
    }
    state structs {
        transition select(hs.h) { _ : accept; } // error[E0802]
    }
    state ints {
        transition select(1) { 1 : accept; }    // error[E0802]
    }
}
parser NoStart() {                              // error[E0801]
    state first { transition accept; }
}
control ctl() { apply {} }
parser Instances() {
    ctl() c;                                    // error[E0602]
    value_set<H>(4) vs;                         // error[E0302]
    state start { ctl.apply(); transition accept; }     // error[E0408]
}
