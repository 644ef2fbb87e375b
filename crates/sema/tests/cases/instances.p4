// Instances: constructors, places, abstract methods, packages.
#include <core.p4>

extern Plain { Plain(); void run(); }
extern Sized { Sized(bit<32> size); Sized(bit<32> size, bool flag); bit<32> get(); }
extern Gen<T> { Gen(T init); T get(); void put(in T x); }
extern NoCtor { void run(); }
extern BadCtor { void BadCtor(); }              // error[E0601]
extern Virtual {
    Virtual();
    abstract bit<8> compute(in bit<8> x);
    abstract void other(in bit<8> x);
    bit<8> total();
}
struct S {}

Plain() top;
Sized(1) two = {};                              // error[E0603]

parser P() { state start { transition accept; } }
control Inner(inout bit<8> x)(bit<32> n) { apply {} }
control Bad()(in bit<8> x) { apply {} }         // error[E0504]
control TakesParser()(P p) { apply {} }         // error[E0504]

Inner(1) toplevel;                              // error[E0602]

control c(inout bit<8> x) {
    Plain() p;
    Plain(1) p1;                                // error[E0501]
    Sized(1) s1;
    Sized(1, true) s2;
    Sized() s3;                                 // error[E0501]
    Sized(size = 5) s4;
    Sized(x) s5;                                // error[E0301]
    Gen(8w1) g1;
    Gen<bit<8>>(1) g2;
    Gen(1) g3;                                  // error[E0304]
    Gen<bit<8>, bit<8>>(1) g4;                  // error[E0303]
    Gen<bit<8>>(2) many[4];
    NoCtor() n;                                 // error[E0602]
    S() s;                                      // error[E0602]
    Missing() m;                                // error[E0201]
    P() parserhere;                             // error[E0602]
    Inner(3) inner;
    Inner(x) notconst;                          // error[E0301]
    Virtual() v0;                               // error[E0603]
    Virtual() v1 = {
        bit<8> compute(in bit<8> y) { return y + 1; }
        void other(in bit<8> y) { bit<8> z = this.compute(y); }
    };
    Virtual() v2 = {                            // error[E0603]
        bit<8> compute(in bit<8> y) { return y; }
    };
    Virtual() v3 = {
        bit<8> compute(in bit<16> y) { return 1; }      // error[E0603]
        void other(in bit<8> y) {}
        void third() {}                                 // error[E0603]
    };
    apply {
        p.run();
        x = g1.get() + g2.get() + many[1].get() + v1.total();
        g1.put(2);
        inner.apply(x);
        Plain() late;                           // error[E0602]
        Plain();                                // error[E0602]
        this.run();                             // error[E0408]
        c0.apply();                             // error[E0201]
    }
}

control Proto<H>(inout H h);
package Pack<H>(Proto<H> p, @optional Proto<H> q);
control Wrong(in bit<8> x) { apply {} }
Pack(c()) good;
Pack(Wrong()) bad;                              // error[E0301]
Pack() none;                                    // error[E0501]
Proto() proto;                                  // error[E0602]
Pack<bit<16>>(c()) mismatch;                    // error[E0301]
Plain() main;                                   // error[E0601]
