// Tables: keys, actions, default actions, properties.
#include <core.p4>

header H { bit<8> a; bit<16> b; varbit<16> v; }
struct S { bit<8> x; }
action global(bit<8> x) {}

control c(inout H h, inout S s, in bit<8> ro) {
    bit<8> v;
    action none() {}
    action data(bit<8> x) { h.a = x; }
    action bound(inout bit<8> p, bit<8> x) { p = x; }
    action a(in bit<8> p) {}

    table good {
        key = { h.a : exact; h.b : lpm; h.isValid() : exact; h.b[7:0] : ternary; h.b & 0xff : ternary; h.a + 1 : exact @name("sum"); }
        actions = { none; data; bound(v); @defaultonly NoAction; }
        default_action = data(3);
        size = 100;
    }
    table implicit { actions = { none; } key = { s.x : exact; } }
    table keyless { actions = { bound(v); } const default_action = bound(v, 5); }
    table noactions { key = { s.x : exact; } }                      // error[E0701]
    table badkind { key = { s.x : exakt; } actions = { none; } }    // error[E0201]
    table badkey { key = { s : exact; } actions = { none; } }       // error[E0702]
    table badname { key = { s.x + 1 : exact; } actions = { none; } }    // error[E0702]
    table unknown { actions = { nune; } }                           // error[E0201]
    table notaction { actions = { v; } }                            // error[E0703]
    table twice { actions = { none; none; } }                       // error[E0202]
    table unbound { actions = { bound; } }                          // error[E0501]
    table overbound { actions = { bound(v, 1); } }                  // error[E0703]
    table dataarg { actions = { data(1); } }                        // error[E0703]
    table lvalue { actions = { bound(1); } }                        // error[E0403]
    table notlisted { actions = { none; } default_action = data(1); }       // error[E0703]
    table otherarg { actions = { bound(v); } default_action = bound(s.x, 1); }  // error[E0703]
    table missing { actions = { data; } default_action = data(); }  // error[E0501]
    table notconst { actions = { data; } default_action = data(h.a); }      // error[E0404]
    table early { default_action = none(); actions = { none; } }    // error[E0701]
    table tableonly { actions = { @tableonly none; } default_action = none; }   // error[E0703]
    table badsize { actions = { none; } size = h.a; }               // error[E0404]
    table dup { actions = { none; } size = 1; size = 2; }           // error[E0202]
    table self { key = { self : exact; } actions = { none; } }      // error[E0205]

    action applies() { good.apply(); }                              // error[E0408]
    apply {
        if (good.apply().hit && !implicit.apply().miss) {}
        switch (good.apply().action_run) {
            none: { v = 1; }
            data:
            bound: { v = 2; }
            a: {}                                                   // error[E0903]
            none: {}                                                // error[E0903]
            1: {}                                                   // error[E0903]
            default: { v = 3; }
        }
        good.apply(1);                                              // error[E0501]
        v = good.apply();                                           // error[E0301]
        bool b = good.apply().action_run == good.apply().action_run;    // error[E0408]
    }
}
