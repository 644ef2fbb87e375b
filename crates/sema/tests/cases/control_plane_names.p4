// Two tables or actions that the control plane could not tell apart.
#include <core.p4>

control Proto(inout bit<8> x);
package Pack(Proto p);
@name("shared") action top() {}
control Inner(inout bit<8> x) {
    @name(".absolute") table t { key = { x : exact; } actions = { NoAction; } }     // error[E0606]
    apply { t.apply(); }
}
control c(inout bit<8> x) {
    Inner() one;
    Inner() two;
    @name(".shared") action mine() { x = 1; }   // warning[W0606]
    table a { key = { x : exact; } actions = { top; mine; NoAction; } }
    @name("a") table b { key = { x : exact; } actions = { NoAction; } }     // error[E0606]
    @hidden @name("a") table hidden { key = { x : exact; } actions = { NoAction; } }
    apply { one.apply(x); two.apply(x); a.apply(); b.apply(); hidden.apply(); }
}
Pack(c()) main;
