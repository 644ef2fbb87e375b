// Rules about types and declarations (P4_16 specification, sections 6.1 and 7). A case begins at //#; each line that must be
// refused is marked //~; a case without marks must be accepted.

#include <core.p4>

header h_t { bit<8> x; }
struct s_t { bit<8> x; bit<16> y; }

//# a type that is not declared
struct t { nosuch_t x; } //~

//# a name declared twice
struct t { bit<8> x; }
struct t { bit<8> y; } //~

//# a field declared twice
struct t {
    bit<8> x;
    bit<8> x; //~
}

//# two headers may have fields of the same name
header a_t { bit<8> v; }
header b_t { bit<8> v; }

//# a width that is no constant
control c(in bit<8> n) {
    apply {
        bit<n> x = 0; //~
    }
}

//# a negative width
const bit<(-1)> x = 0; //~

//# int<0> does not exist
struct t { int<0> x; } //~

//# a constant width may be an expression
const int W = 4 * 2;
struct t { bit<(W + 1)> x; }

//# a header must not contain a struct with a header
struct inner_t { h_t h; }
header t {
    inner_t i; //~
}

//# a header may contain a struct of bits
struct inner_t { bit<8> a; bit<8> b; }
header t { inner_t i; bit<8> c; }

//# a header must not contain a string
header t { string s; } //~

//# a header must not contain a table's result or an error
header t { error e; } //~

//# a union contains headers only
header_union u_t {
    h_t    h;
    bit<8> x; //~
}

//# an array of bits is no header stack
struct t { bit<8>[4] x; }
control c(inout t v) {
    apply {
        v.x[1] = v.x[0];
        v.x.push_front(1); //~
    }
}

//# a stack of a size that is no constant
control c(in bit<8> n) {
    apply {
        h_t[n] stack; //~
    }
}

//# a struct that contains itself
struct t { t inner; } //~

//# a struct must not contain a parser
parser p_t(packet_in p);
struct t { p_t p; } //~

//# a tuple of an unknown type
struct t { tuple<bit<8>, nosuch> x; } //~

//# int is no type of a field
struct t { int x; } //~

//# int is no type of a variable
control c() {
    apply {
        int x = 5; //~
    }
}

//# the number of type arguments is that of the parameters
struct pair<A, B> { A a; B b; }
struct t {
    pair<bit<8>> p; //~
}

//# a type without parameters takes no arguments
struct t { s_t<bit<8>> s; } //~

//# enum members are distinct
enum e_t { A, B, A } //~

//# a serializable enum's members fit its type
enum bit<2> e_t {
    A = 1,
    B = 4 //~
}

//# a serializable enum's members have values
enum bit<8> e_t {
    A = 1,
    B
} //~

//# an enum has no such member
enum e_t { A, B }
const bool x = e_t.C == e_t.A; //~

//# an enum without representation has no number
enum e_t { A, B }
const bit<8> x = (bit<8>)e_t.A; //~

//# an error has no such member
control c(out bool b) {
    apply {
        b = error.NoSuchError == error.NoError; //~
    }
}

//# a new type is not its underlying type
type bit<8> id_t;
control c(out bit<8> x, in id_t id) {
    apply {
        x = id; //~
    }
}

//# a new type has no arithmetic
type bit<8> id_t;
control c(out id_t x, in id_t id) {
    apply {
        x = id + id; //~
    }
}

//# a typedef is its type
typedef bit<8> byte_t;
control c(out bit<8> x, in byte_t b) {
    apply {
        x = b + 1;
    }
}

//# a constant's initialiser is constant
control c(in bit<8> n) {
    const bit<8> x = n; //~
    apply { }
}

//# a constant's initialiser has its type
const bit<8> x = 16w5; //~

//# a constant that is not declared
const bit<8> x = NOSUCH + 1; //~

//# a declaration is visible behind itself only
const bit<8> a = b; //~
const bit<8> b = 1;

//# match kinds are declared once
match_kind { exact } //~

//# an extern has no such method
extern e_t { e_t(); void m(); }
control c() {
    e_t() e;
    apply {
        e.n(); //~
    }
}

//# an extern constructor has the extern's name
extern e_t { e_t(); other_t(); } //~

//# a package is instantiated with what it asks for
control c_t();
package p_t(c_t c);
parser q() { state start { transition accept; } }
p_t(q()) main; //~
