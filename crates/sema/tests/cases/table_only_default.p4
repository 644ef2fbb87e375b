// `NoAction` is the default action where none is written: then it cannot be for entries only.
#include <core.p4>

control c(inout bit<8> x) {
    action a() { x = 1; }
    table t { key = { x : exact; } actions = { @tableonly NoAction; a; } }  // error[E0703]
    table u { key = { x : exact; } actions = { @tableonly NoAction; a; } default_action = a; }
    table v { key = { x : exact; } actions = { NoAction; a; } }
    apply { t.apply(); u.apply(); v.apply(); }
}
