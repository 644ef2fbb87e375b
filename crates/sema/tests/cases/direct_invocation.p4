// What is invoked directly twice has one name: allowed where nothing in it has a name for the control plane.
#include <core.p4>

control Proto(inout bit<8> x);
package Pack(Proto p);
control Table(inout bit<8> x) {
    table t { key = { x : exact; } actions = { NoAction; } }
    apply { t.apply(); }
}
control Around(inout bit<8> x) { Table() inner; apply { inner.apply(x); } }
control Plain(inout bit<8> x) { action up() { x = x + 1; } apply { up(); } }
control c(inout bit<8> x) {
    apply {
        Plain.apply(x);
        Plain.apply(x);
        Table.apply(x);
        Table.apply(x);     // error[E0606]
        Around.apply(x);
        Around.apply(x);    // error[E0606]
    }
}
Pack(c()) main;
