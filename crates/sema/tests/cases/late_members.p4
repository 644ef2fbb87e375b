// Error codes and match kinds are known in the whole program, wherever they are declared.
#include <core.p4>

error { Early }
match_kind { early_kind }

header H { bit<8> a; }

control c(inout H h, in error e) {
    action a() {}
    table t { key = { h.a : late_kind; e : early_kind; } actions = { a; NoAction; } }
    apply {
        if (e == error.Late || e == error.Early) t.apply();
        if (e == error.Never) t.apply();                        // error[E0201]
    }
}

error { Late, Later }
match_kind { late_kind }
error { Later }             // error[E0202]
match_kind { exact }        // error[E0202]
