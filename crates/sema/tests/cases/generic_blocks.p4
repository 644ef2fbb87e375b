// Generic parsers and controls, several of one name, direct application.
#include <core.p4>

control Swap<T>(inout T a, inout T b)() {
    apply { T tmp = a; a = b; b = tmp; }
}
control Twice<T>(inout T a)(T by) {
    apply { a = by; }
}
control Named(inout bit<8> x)(bit<8> a) { apply { x = a; } }
control Named(inout bit<8> x)(bit<16> b) { apply { x = (bit<8>)b; } }
control Direct(inout bit<8> x) { apply { x = x + 1; } }
control NeedsArgs(inout bit<8> x)(bit<8> n) { apply { x = n; } }

control c(inout bit<8> x, inout bit<16> y) {
    Twice(8w3) twice;
    Named(a = 1) first;
    Named(b = 2) second;
    apply {
        bit<8> z = 1;
        Swap<bit<8>>.apply(x, z);
        bit<16> w = 2;
        Swap<bit<16>>.apply(y, w);
        Swap<bit<16>>.apply(y, z);              // error[E0301]
        twice.apply(x);
        first.apply(x);
        second.apply(x);
        Direct.apply(x);
        Direct.apply(x);
        NeedsArgs.apply(x);                     // error[E0503]
    }
}
control Proto<T>(inout T t);
control Fill<T>(inout T t) { apply {} }
package Pack<T>(Proto<T> p, Proto<T> q = Fill<T>());
control One(inout bit<8> t) { apply {} }
Pack(One()) inferred;
Pack<bit<8>>(One(), Fill()) filled;
