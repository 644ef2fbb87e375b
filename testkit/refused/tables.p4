// Rules about controls, actions and tables (P4_16 specification, section 14). A case begins at //#; each line that must be refused is
// marked //~; a case without marks must be accepted.

#include <core.p4>

header h_t { bit<8> x; bit<16> y; }

//# a key's match kind exists
control c(in h_t h) {
    table t {
        key = { h.x : exactly; } //~
        actions = { NoAction; }
        default_action = NoAction();
    }
    apply { t.apply(); }
}

//# a table has actions
control c(in h_t h) {
    table t { //~
        key = { h.x : exact; }
    }
    apply { t.apply(); }
}

//# a table's actions exist
control c(in h_t h) {
    table t {
        key = { h.x : exact; }
        actions = { nosuch; NoAction; } //~
        default_action = NoAction();
    }
    apply { t.apply(); }
}

//# an action is listed once
control c(in h_t h) {
    action a() { }
    table t {
        key = { h.x : exact; }
        actions = { a; a; } //~
        default_action = a();
    }
    apply { t.apply(); }
}

//# the default action is in the list
control c(in h_t h) {
    action a() { }
    action b() { }
    table t {
        key = { h.x : exact; }
        actions = { a; }
        default_action = b(); //~
    }
    apply { t.apply(); }
}

//# the default action has its arguments
control c(in h_t h) {
    action a(bit<8> v) { }
    table t {
        key = { h.x : exact; }
        actions = { a; }
        default_action = a(); //~
    }
    apply { t.apply(); }
}

//# the default action's arguments are constants
control c(in h_t h) {
    action a(bit<8> v) { }
    table t {
        key = { h.x : exact; }
        actions = { a; }
        default_action = a(h.x); //~
    }
    apply { t.apply(); }
}

//# an action's parameters with a direction are given in the list
control c(in h_t h, inout bit<8> v) {
    action a(in bit<8> x, bit<8> y) { v = x + y; }
    table t {
        key = { h.x : exact; }
        actions = { a(h.x); }
        default_action = a(h.x, 1);
    }
    apply { t.apply(); }
}

//# ... and must not be left out
control c(in h_t h, inout bit<8> v) {
    action a(in bit<8> x, bit<8> y) { v = x + y; }
    table t {
        key = { h.x : exact; }
        actions = { a; } //~
    }
    apply { t.apply(); }
}

//# directionless parameters come last
control c(inout bit<8> v) {
    action a(bit<8> y, in bit<8> x) { v = x + y; } //~
    apply { a(1, 2); }
}

//# a table has no property twice
control c(in h_t h) {
    table t {
        key = { h.x : exact; }
        actions = { NoAction; }
        default_action = NoAction();
        default_action = NoAction(); //~
    }
    apply { t.apply(); }
}

//# entries fit the keys
control c(in h_t h) {
    action a() { }
    table t {
        key = { h.x : exact; h.y : exact; }
        actions = { a; }
        default_action = a();
        const entries = {
            (1, 2): a();
            1: a(); //~
        }
    }
    apply { t.apply(); }
}

//# entries have the keys' types
control c(in h_t h) {
    action a() { }
    table t {
        key = { h.x : exact; }
        actions = { a; }
        default_action = a();
        const entries = {
            true: a(); //~
        }
    }
    apply { t.apply(); }
}

//# an entry's action is in the list
control c(in h_t h) {
    action a() { }
    action b() { }
    table t {
        key = { h.x : exact; }
        actions = { a; }
        default_action = a();
        const entries = {
            1: b(); //~
        }
    }
    apply { t.apply(); }
}

//# an entry's action has its arguments
control c(in h_t h) {
    action a(bit<8> v) { }
    table t {
        key = { h.x : exact; }
        actions = { a; }
        default_action = a(0);
        const entries = {
            1: a(); //~
        }
    }
    apply { t.apply(); }
}

//# a table without keys has no entries
control c(in h_t h) {
    action a() { }
    table t { //~
        actions = { a; }
        default_action = a();
        const entries = {
            1: a();
        }
    }
    apply { t.apply(); }
}

//# a table has no such field
control c(in h_t h, out bool r) {
    table t {
        key = { h.x : exact; }
        actions = { NoAction; }
        default_action = NoAction();
    }
    apply {
        r = t.apply().found; //~
    }
}

//# a table is applied, not called
control c(in h_t h) {
    table t {
        key = { h.x : exact; }
        actions = { NoAction; }
        default_action = NoAction();
    }
    apply {
        t(); //~
    }
}

//# a table that nobody declared
control c() {
    apply {
        t.apply(); //~
    }
}

//# tables are not applied by actions
control c(in h_t h) {
    table t {
        key = { h.x : exact; }
        actions = { NoAction; }
        default_action = NoAction();
    }
    action a() {
        t.apply(); //~
    }
    apply { a(); }
}

//# a control is instantiated with its constructor's arguments
control inner()(bit<8> n) { apply { } }
control c() {
    inner() i; //~
    apply { i.apply(); }
}

//# constructor arguments are constants
control inner()(bit<8> n) { apply { } }
control c(in bit<8> x) {
    inner(x) i; //~
    apply { i.apply(); }
}

//# a control is applied with its arguments
control inner(in bit<8> x) { apply { } }
control c() {
    inner() i;
    apply {
        i.apply(); //~
    }
}

//# an instance that nobody declared
control c() {
    apply {
        nosuch.apply(); //~
    }
}

//# what is instantiated is a type
control c() {
    nosuch() i; //~
    apply { }
}

//# controls do not contain themselves
control c() {
    c() inner; //~
    apply { inner.apply(); }
}

//# a table's size is not negative
control c(in h_t h) {
    table t {
        key = { h.x : exact; }
        actions = { NoAction; }
        size = -1; //~
    }
    apply { t.apply(); }
}

//# a table's size is at most 2^31 - 1
control c(in h_t h) {
    table t {
        key = { h.x : exact; }
        actions = { NoAction; }
        size = 2147483648; //~
    }
    apply { t.apply(); }
}

//# a name in an annotation that holds numbers exists
control c(in h_t h) {
    @id(NOSUCH) //~
    action a() { }
    apply { a(); }
}

//# an id is one number
control c(in h_t h) {
    @id("x") //~
    action a() { }
    apply { a(); }
}

//# an id may be an expression
const bit<32> BASE = 0x01000000;
control c(in h_t h) {
    @id(BASE + 17)
    action a() { }
    apply { a(); }
}

//# a description is one string
control c(in h_t h) {
    @brief(5) //~
    action a() { }
    apply { a(); }
}

//# a priority is known at compile time
control c(in h_t h) {
    table t {
        key = { h.x : ternary; }
        actions = { NoAction; }
        const entries = {
            1 &&& 1 : NoAction() @priority(h.y); //~
        }
    }
    apply { t.apply(); }
}
