// Annotations.
#include <core.p4>

@name("a" ++ "b") const bit<8> joined = 1;
@name(3) const bit<8> number = 1;               // error[E0604]
@name const bit<8> missing = 1;                 // error[E0604]
@values[1, "two", true, 1 + 2] const bit<8> listed = 1;
@pairs[a = 1, b = "x"] const bit<8> keyed = 1;
@pairs[a = 1, a = 2] const bit<8> twice = 1;    // error[E0202]
@values[1] @values[2] const bit<8> dup = 1;     // error[E0202]
@values[{ 1, 2 }] const bit<8> tuple_value = 1; // error[E0604]
@match(exact) const bit<8> m1 = 1;
@match(sometimes) const bit<8> m2 = 1;          // error[E0604]
@pkginfo const bit<8> pk = 1;                   // error[E0604]
@p4runtime_translation("p4.org/x", bit<32>) type bit<9> Port;
@p4runtime_translation("p4.org/x", bool) type bit<9> BadPort;   // error[E0604]
@deprecated("use other") extern void old();
control c() { apply { old(); } }                // warning[W0302]
const bool checked = static_assert(1 == 1, "fine");
const bool failed = static_assert(1 == 2, "never");     // error[E0605]
