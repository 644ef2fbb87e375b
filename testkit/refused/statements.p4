// Rules about statements, directions, returns and initialisation (P4_16 specification, sections 6.8, 11 and 12). A case begins at //#;
// each line that must be refused is marked //~; a case without marks must be accepted.

#include <core.p4>

header h_t { bit<8> x; }

//# an in parameter is not assigned
control c(in bit<8> a) {
    apply {
        a = 1; //~
    }
}

//# a constant is not assigned
const bit<8> K = 1;
control c() {
    apply {
        K = 2; //~
    }
}

//# a value is not assigned
control c(inout bit<8> a) {
    apply {
        a + 1 = 2; //~
    }
}

//# a directionless parameter is not assigned
control c(inout bit<8> r) {
    action f(bit<8> a) {
        a = 1; //~
    }
    apply {
        f(1);
    }
}

//# an out argument is a place
void f(out bit<8> a) { a = 1; }
control c() {
    apply {
        f(5); //~
    }
}

//# an inout argument is not an in parameter
void f(inout bit<8> a) { a = 1; }
control c(in bit<8> x) {
    apply {
        f(x); //~
    }
}

//# slices, fields and elements are places
void f(inout bit<4> a) { a = 1; }
control c(inout bit<8> x, inout h_t[2] s) {
    apply {
        f(x[3:0]);
        s[1].x = 2;
    }
}

//# a function that returns nothing has no value
void f() { }
control c(out bit<8> r) {
    apply {
        r = f(); //~
    }
}

//# a return value has the function's type
bit<8> f(in bit<16> a) {
    return a; //~
}

//# a function with a type returns a value
bit<8> f() {
    return; //~
}

//# a function without a type returns none
void f() {
    return 1; //~
}

//# every way through a function returns
bit<8> f(in bool b) { //~
    if (b) {
        return 1;
    }
}

//# all ways return
bit<8> f(in bool b) {
    if (b) {
        return 1;
    } else {
        return 2;
    }
}

//# a control returns no value
control c() {
    apply {
        return 1; //~
    }
}

//# a variable is declared once in its block
control c() {
    apply {
        bit<8> x = 1;
        bit<8> x = 2; //~
    }
}

//# a variable's initialiser has its type
control c() {
    apply {
        bit<8> x = true; //~
    }
}

//# break is for loops
control c() {
    apply {
        break; //~
    }
}

//# continue is for loops
control c() {
    apply {
        continue; //~
    }
}

//# a loop's condition is a bool
control c() {
    apply {
        for (bit<8> i = 0; i; i = i + 1) { } //~
    }
}

//# switch labels are constants
control c(in bit<8> a, in bit<8> b) {
    apply {
        switch (a) {
            b: { } //~
        }
    }
}

//# switch labels are distinct
control c(in bit<8> a) {
    apply {
        switch (a) {
            1: { }
            1: { } //~
        }
    }
}

//# switch has one default
control c(in bit<8> a) {
    apply {
        switch (a) {
            default: { }
            default: { } //~
        }
    }
}

//# switch labels have the expression's type
enum e_t { A, B }
control c(in bit<8> a) {
    apply {
        switch (a) {
            e_t.A: { } //~
        }
    }
}

//# switch on action_run names the table's actions
control c(in bit<8> a) {
    action x() { }
    action y() { }
    table t {
        key = { a : exact; }
        actions = { x; NoAction; }
        default_action = NoAction();
    }
    apply {
        switch (t.apply().action_run) {
            y: { } //~
        }
    }
}

//# exit is not for functions
void f() {
    exit; //~
}

//# a header method that does not exist
control c(inout h_t h) {
    apply {
        h.setVald(); //~
    }
}

//# push_front takes a constant
control c(inout h_t[2] s, in bit<8> n) {
    apply {
        s.push_front(n); //~
    }
}

//# functions do not call themselves
bit<8> f(in bit<8> a) {
    return f(a); //~
}

//# actions do not call themselves
control c() {
    action a() {
        a(); //~
    }
    apply {
        a();
    }
}

//# a control does not apply itself
control c() {
    apply {
        c.apply(); //~
    }
}
