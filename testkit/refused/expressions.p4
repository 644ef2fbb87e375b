// Rules about expressions (P4_16 specification, section 8). A case begins at //#; each line that must be refused is marked //~; a
// case without marks must be accepted.

#include <core.p4>

header h_t { bit<8> x; }
header g_t { bit<8> x; }
struct s_t { bit<8> x; bit<16> y; }

//# operands of different widths
control c(out bit<8> r, in bit<8> a, in bit<16> b) {
    apply {
        r = a + b; //~
    }
}

//# operands of different signs
control c(out bool r, in bit<8> a, in int<8> b) {
    apply {
        r = a < b; //~
    }
}

//# an assignment widens nothing
control c(out bit<16> r, in bit<8> a) {
    apply {
        r = a; //~
    }
}

//# a number takes the width of the other operand
control c(out bit<16> r, in bit<16> a) {
    apply {
        r = a + 5;
    }
}

//# bool is no number
control c(out bit<8> r, in bool b) {
    apply {
        r = b + 1; //~
    }
}

//# a number is no condition
control c(out bit<8> r, in bit<1> b) {
    apply {
        r = 0;
        if (b) { //~
            r = 1;
        }
    }
}

//# && takes bools
control c(out bool r, in bit<1> a, in bit<1> b) {
    apply {
        r = a && b; //~
    }
}

//# ! takes a bool, ~ takes bits
control c(out bool r, out bit<8> s, in bit<8> a, in bool b) {
    apply {
        r = !a; //~
        s = ~b; //~
    }
}

//# both branches of ?: have one type
control c(out bit<8> r, in bool b, in bit<8> x, in bit<16> y) {
    apply {
        r = b ? x : y; //~
    }
}

//# a shift's amount is unsigned
control c(out bit<8> r, in bit<8> a, in int<8> n) {
    apply {
        r = a << n; //~
    }
}

//# a constant shift's amount is not negative
const bit<8> x = 8w1 << -1; //~

//# division by zero
const int x = 5 / 0; //~

//# remainder by zero
const bit<8> x = 8w5 % 0; //~

//# division of negative numbers
const int x = -5 / 2; //~

//# division of signed values is not defined
control c(out int<8> r, in int<8> a) {
    apply {
        r = a / 8s2; //~
    }
}

//# slices lie within their operand
control c(out bit<8> r, in bit<8> a) {
    apply {
        r = a[8:1]; //~
    }
}

//# a slice's bounds are in order
control c(out bit<4> r, in bit<8> a) {
    apply {
        r = a[3:6]; //~
    }
}

//# a slice's bounds are constants
control c(out bit<4> r, in bit<8> a, in bit<8> n) {
    apply {
        r = a[n:0]; //~
    }
}

//# a slice has the width of its bounds
control c(out bit<8> r, in bit<8> a) {
    apply {
        r = a[3:0]; //~
    }
}

//# a bool has no slices
control c(out bit<1> r, in bool a) {
    apply {
        r = a[0:0]; //~
    }
}

//# concatenation needs widths
control c(out bit<16> r, in bit<8> a) {
    apply {
        r = a ++ 5; //~
    }
}

//# casts change the width or the sign, not both
control c(out int<16> r, in bit<8> a) {
    apply {
        r = (int<16>)a; //~
    }
}

//# only bit<1> casts to bool
control c(out bool r, in bit<8> a) {
    apply {
        r = (bool)a; //~
    }
}

//# structs do not cast to numbers
control c(out bit<24> r, in s_t s) {
    apply {
        r = (bit<24>)s; //~
    }
}

//# a struct has no such field
control c(out bit<8> r, in s_t s) {
    apply {
        r = s.z; //~
    }
}

//# a number has no fields
control c(out bit<8> r, in bit<8> a) {
    apply {
        r = a.x; //~
    }
}

//# only stacks and tuples have elements
control c(out bit<8> r, in s_t s) {
    apply {
        r = s[0]; //~
    }
}

//# a tuple's index is within it
control c(out bit<8> r, in tuple<bit<8>, bit<8>> t) {
    apply {
        r = t[2]; //~
    }
}

//# a tuple's index is a constant
control c(out bit<8> r, in tuple<bit<8>, bit<8>> t, in bit<8> n) {
    apply {
        r = t[n]; //~
    }
}

//# a constant index is within the stack
control c(out bit<8> r, in h_t[2] s) {
    apply {
        r = s[2].x; //~
    }
}

//# next is for parsers
control c(inout h_t[2] s) {
    apply {
        s.next.x = 1; //~
    }
}

//# headers of different types do not compare
control c(out bool r, in h_t a, in g_t b) {
    apply {
        r = a == b; //~
    }
}

//# headers are not ordered
control c(out bool r, in h_t a, in h_t b) {
    apply {
        r = a < b; //~
    }
}

//# an initialiser names each field once
control c(out s_t s) {
    apply {
        s = { x = 1, x = 2 }; //~
    }
}

//# an initialiser names fields that exist
control c(out s_t s) {
    apply {
        s = { x = 1, z = 2 }; //~
    }
}

//# an initialiser names all fields
control c(out s_t s) {
    apply {
        s = { x = 1 }; //~
    }
}

//# ... stands for the fields left out
control c(out s_t s) {
    apply {
        s = { x = 1, ... };
    }
}

//# a list has an element for each field
control c(out s_t s) {
    apply {
        s = { 1, 2, 3 }; //~
    }
}

//# a name that nobody declared
control c(out bit<8> r) {
    apply {
        r = nosuch; //~
    }
}

//# a type is no value
control c(out bit<8> r) {
    apply {
        r = s_t; //~
    }
}

//# a function that nobody declared
control c(out bit<8> r) {
    apply {
        r = nosuch(1); //~
    }
}

//# too few arguments
bit<8> f(in bit<8> a, in bit<8> b) { return a + b; }
control c(out bit<8> r) {
    apply {
        r = f(1); //~
    }
}

//# too many arguments
bit<8> f(in bit<8> a) { return a; }
control c(out bit<8> r) {
    apply {
        r = f(1, 2); //~
    }
}

//# an argument's type is the parameter's
bit<8> f(in bit<8> a) { return a; }
control c(out bit<8> r, in bit<16> x) {
    apply {
        r = f(x); //~
    }
}

//# a named argument names a parameter
bit<8> f(in bit<8> a) { return a; }
control c(out bit<8> r) {
    apply {
        r = f(b = 1); //~
    }
}

//# a named argument is given once
bit<8> f(in bit<8> a, in bit<8> b = 0) { return a + b; }
control c(out bit<8> r) {
    apply {
        r = f(a = 1, a = 2); //~
    }
}

//# all arguments have names or none
bit<8> f(in bit<8> a, in bit<8> b) { return a + b; }
control c(out bit<8> r) {
    apply {
        r = f(1, b = 2); //~
    }
}

//# type arguments that nothing tells
T f<T>() { T x; return x; }
control c(out bit<8> r) {
    apply {
        f(); //~
    }
}

//# type arguments that contradict each other
bool f<T>(in T a, in T b) { return true; }
control c(out bool r, in bit<8> x, in bit<16> y) {
    apply {
        r = f(x, y); //~
    }
}

//# a failed static_assert says its message
const bool checked = static_assert(1 > 2, "one is not more than two"); //~

//# number literals fit their width
const bit<8> x = 8w5;
const bit<4> y = 4w15;
const int<4> z = -4s8;
