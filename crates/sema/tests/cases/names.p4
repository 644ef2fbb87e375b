// Names: scopes, order, duplicates, recursion.
#include <core.p4>

const bit<8> a = 1;
const bit<8> a = 2;                       // error[E0202]
const bit<8> b = c;                       // error[E0201]
const bit<8> c = 3;
const bit<8> self = self;                 // error[E0205]
struct S { bit<8> x; bit<8> x; }          // error[E0202]
struct T { U u; }                         // error[E0201]
enum E { one, two, one }                  // error[E0202]
error { Mine, NoError }                   // error[E0202]
match_kind { mine, exact }                // error[E0202]
typedef S_missing X;                      // error[E0201]
bit<8> f(in bit<8> x) { return f(x); }    // error[E0205]
bit<8> g<A, A>(in A x) { return 1; }      // error[E0202]
void params(in bit<8> p, in bit<8> p) {}  // error[E0202]

control shadows(inout bit<8> v) {
    bit<8> v = 1;
    action act(bit<8> p) { bit<8> p = 2; }    // error[E0204]
    apply {
        bit<8> y = .a;
        { bit<8> y = 2; bit<4> a = 1; v = (bit<8>)a + y; }
        bit<8> y = 3;                          // error[E0202]
        z = 1;                                 // error[E0201]
        .v = 1;                                // error[E0201]
        later();                               // error[E0201]
        shadows.apply(v);                      // error[E0205]
        a = 1;                                 // error[E0403]
    }
}
void later() {}

// An action may have the name of a function that it calls.
extern void hash(in bit<8> x);
control inner(inout bit<8> x) {
    action hash() { hash(x); }
    apply { hash(); }
}
