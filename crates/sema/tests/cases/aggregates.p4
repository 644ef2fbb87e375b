// Tuple, structure-valued and default expressions; header stacks and unions.
#include <core.p4>

header H { bit<8> a; bit<8> b; }
header K { bit<16> c; }
header_union U { H h; K k; }
struct S { bit<8> x; bool y; }
struct N { S s; H h; tuple<bit<4>, bool> t; }
struct NoDefault { packet p; }                  // error[E0201]

const S s1 = { 1, true };
const S s2 = { y = true, x = 1 };
const S s3 = { y = true, ... };
const S s4 = { 1, ... };
const S s5 = ...;
const N n1 = { { 1, true }, { 2, 3 }, { 4, false } };
const N n2 = { h = {#}, ... };
const bit<8> folded = n1.s.x;
const bool same = s1 == s2;
const bit<4> from_tuple = { 4w3, true }[0];
const S few = { 1 };                            // error[E0407]
const S many = { 1, true, 2 };                  // error[E0407]
const S missing = { x = 1 };                    // error[E0407]
const S unknown = { x = 1, z = 2, y = true };   // error[E0402]
const S twice = { x = 1, x = 2, y = true };     // error[E0202]
const S wrong = { true, 1 };                    // error[E0301]
const bit<8> scalar = { 1 };                    // error[E0301]
const U whole = { h = { 1, 2 } };               // error[E0407]
const U none = {#};
const S invalid = {#};                          // error[E0301]
const match_kind mk = ...;                      // error[E0301]

control c(inout H h, inout H[4] stack, inout U u, inout bit<8>[3] arr, inout tuple<bit<8>, bool> t) {
    apply {
        h = { 1, 2 };
        h = { b = 1, ... };
        h = (H){ 1, 2 };
        h = {#};
        stack = { { 1, 2 }, { 3, 4 }, ... };
        stack = { { 1, 2 }, { 3, 4 } };         // error[E0407]
        stack[1] = stack[h.a];
        stack[4] = h;                           // error[E0406]
        stack[-1] = h;                          // error[E0406]
        stack[true] = h;                        // error[E0301]
        stack.push_front(1);
        stack.pop_front(h.a);                   // error[E0404]
        stack.push_front(-1);                   // error[E0406]
        h.a = (bit<8>)stack.size;
        h = stack.next;                         // error[E0408]
        h.a = (bit<8>)stack.lastIndex;          // error[E0408]
        u.h = h;
        u.h.setValid();
        u.setValid();                           // error[E0402]
        if (u.isValid() && u.k.isValid()) {}
        h.setValid();
        h.setInvalid(1);                        // error[E0501]
        h.isvalid();                            // error[E0402]
        arr[0] = h.a;
        arr.push_front(1);                      // error[E0402]
        t = { 1, true };
        t[0] = 2;
        h.a = t[2];                             // error[E0406]
        h.a = t[h.a];                           // error[E0404]
        tuple<bit<8>, bool> other = t;
        H copied = t;                           // error[E0301]
        bit<8> bytes = (bit<8>)h.minSizeInBytes() + (bit<8>)H.maxSizeInBits();
    }
}
