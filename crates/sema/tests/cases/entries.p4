// Entries: keys, actions and priorities.
#include <core.p4>
match_kind { range, optional }
enum bit<8> E { a = 1, b = 2 }

control c(in bit<8> x, in bit<16> y, in E e, in bool b) {
    action a() {}
    action p(bit<8> v) {}
    table exacts {
        key = { x : exact; y : exact; e : exact; b : exact; }
        actions = { a; p; @defaultonly NoAction; }
        const entries = {
            (1, 2, E.a, true) : a();
            (1, 3, E.b, false) : p(3);
            { 4, 5, E.b, false } : a;
            (1, 2, E.a, true) : p(1);           // error[E0704]
            (1, 2) : a();                       // error[E0802]
            (1, true, E.a, true) : a();         // error[E0301]
            (1, y, E.a, true) : a();            // error[E0404]
            (9, 9, E.a, true) : p();            // error[E0501]
            (9, 8, E.a, true) : q();            // error[E0201]
            (9, 7, E.a, true) : NoAction();     // error[E0704]
        }
    }
    table ternaries {
        key = { x : ternary; y : range; }
        actions = { a; p; }
        default_action = a;
        largest_priority_wins = false;
        priority_delta = 10;
        entries = {
            const priority = 10 : (1 &&& 3, 5 .. 7) : p(1);
            (2, _) : p(2);
            priority = 20 : (3, _) : p(3);      // warning[W0701]
            _ : a;
        }
    }
    table wrongorder {
        key = { x : ternary; }
        actions = { a; }
        default_action = a;
        entries = {
            priority = 1 : 1 : a;
            priority = 2 : 2 : a;               // warning[W0701]
        }
    }
    table silenced {
        key = { x : ternary; }
        actions = { a; }
        default_action = a;
        @noWarn("entries_out_of_priority_order")
        entries = { priority = 1 : 1 : a; priority = 2 : 2 : a; }
    }
    table first {
        key = { x : ternary; }
        actions = { a; }
        default_action = a;
        entries = {
            1 : a;                              // error[E0704]
            priority = 2 : 2 : a;
        }
    }
    table negative {
        key = { x : ternary; }
        actions = { a; }
        default_action = a;
        entries = {
            priority = 1 : 1 : a;
            2 : a;
            3 : a;                              // error[E0704]
        }
    }
    table needsnone {
        key = { x : exact; }
        actions = { a; }
        default_action = a;
        entries = { priority = 1 : 1 : a; }     // error[E0704]
    }
    table constant {
        key = { x : ternary; }
        actions = { a; }
        default_action = a;
        const entries = { priority = 1 : 1 : a; }   // error[E0704]
    }
    table keyless {                             // error[E0704]
        actions = { a; }
        default_action = a;
        entries = { _ : a; }
    }
    apply { exacts.apply(); ternaries.apply(); }
}
