// Calls: arguments, names, defaults, directions, overloads, inference.
#include <core.p4>

extern void f(in bit<32> x, out bit<16> y);
extern void defaults(in bit<8> a, in bit<8> b = 2, in bit<8> c = 3);
extern void baddefault(out bit<8> a = 1);       // error[E0504]
extern void over(in bit<8> a);
extern void over(in bit<8> b, in bit<8> c);
extern void over(in bit<8> d);
extern void over(in bit<8> d);                  // error[E0202]
extern T id<T>(in T x);
extern T make<T>();
extern void two<T>(in T a, in T b);
extern void sizes(bit<8> constant);
extern void opt(in bit<8> a, @optional in bit<8> b);
extern void strings(string s);
extern void dirstring(in string s);             // error[E0504]
extern void dirint(in int i);                   // error[E0504]
extern void withpacket(in packet_in p);         // error[E0504]
extern int retint();                            // error[E0505]
bit<8> noopt(@optional in bit<8> a) { return a; }   // error[E0504]
bit<8> inc(in bit<8> x) { return x + 1; }
void nothing() {}
action directions(bit<8> x, in bit<8> y) {}     // error[E0504]
action withint(int x) {}                        // error[E0504]

control other(inout bit<8> x) { apply {} }

control c(inout bit<32> xa, inout bit<8> b, in bit<8> ro, packet_in pkt) {
    bit<16> ya;
    other() o;
    action act(in bit<8> a, bit<8> d) {}
    apply {
        f(xa, ya);
        f(y = ya, x = xa);
        f(xa, _);
        f(_, ya);                               // error[E0501]
        f(x = xa);                              // error[E0501]
        f(x = xa, x = xa);                      // error[E0202 E0501]
        f(x = xa, ya);                          // error[E0501]
        f(z = xa, y = ya);                      // error[E0501]
        f(xa, ya, 1);                           // error[E0501]
        f(xa, 1);                               // error[E0403]
        f(xa, b);                               // error[E0301]
        f(xa, ya + 1);                          // error[E0403]
        defaults(1);
        defaults(1, c = 2);                     // error[E0501]
        defaults(a = 1, c = 2);
        over(b = 1, c = 2);
        over(1, 2);
        over(1);                                // error[E0502]
        over(1, 2, 3);                          // error[E0501]
        b = id(b);
        b = id(1);                              // error[E0304]
        b = id<bit<8>>(1);
        b = id<bit<8>, bit<8>>(1);              // error[E0303]
        b = make();
        make();                                 // error[E0304]
        two(b, 1);
        two(b, xa);                             // error[E0301]
        two({ b, 1 }, { 8w1, 8w2 });
        sizes(3);
        sizes(b);                               // error[E0404]
        opt(1);
        opt(1, 2);
        strings("hello");
        id("hello");                            // error[E0501]
        id({ a = 1 });                          // error[E0304]
        id(o);                                  // error[E0501]
        b = inc(ro);
        ro = 1;                                 // error[E0403]
        b = nothing();                          // error[E0301]
        id(nothing());                          // error[E0501]
        inc.x = 1;                              // error[E0203]
        act(b, 1);
        act(b);                                 // error[E0501]
        o.apply(b);
        o.apply();                              // error[E0501]
        o.apply(b, b);                          // error[E0501]
        o.apply(1);                             // error[E0403]
        o.run(b);                               // error[E0402]
        b();                                    // error[E0503]
        H();                                    // error[E0201]
        verify(true, error.NoError);            // error[E0408]
        b = pkt.lookahead();
        b = pkt.peek();                         // error[E0402]
    }
}
