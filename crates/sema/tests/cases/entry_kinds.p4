// An entry gives for each key what its match kind can hold, whatever the architecture.
#include <core.p4>
match_kind { range, optional }

control c(in bit<8> x, in bit<8> y) {
    action a() {}
    table t {
        key = { x : exact; y : optional; }
        actions = { a; }
        default_action = a;
        entries = {
            (1, _) : a();
            (_, 2) : a();                       // error[E0704]
            (1 &&& 3, 3) : a();                 // error[E0704]
            (2, 4 &&& 5) : a();                 // error[E0704]
            (3, 4 .. 5) : a();                  // error[E0704]
            _ : a();                            // error[E0704]
        }
    }
    apply { t.apply(); }
}
