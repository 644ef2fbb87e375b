// Types: widths, nesting, generics, typedefs, enums.
#include <core.p4>

const int w = 8;
const bit<8> b8 = 7;
typedef bit<(w * 2)> two;
const two t2 = 16w3;
const bit<0> nothing = 0;
const bit<(b8)> seven = 127;
const bit<(-1)> neg = 0;                        // error[E0305]
const int<0> none = 0;                          // error[E0305]
const bit<2000000000> wide = 0;                 // error[E0305]
const bit<(true)> boolw = 0;                    // error[E0404]

header H { bit<8> a; int<8> b; bool c; varbit<32> d; }
header Inner { bit<8> x; }
struct Plain { bit<4> x; bool y; }
header WithStruct { Plain p; }
header BadHeader { Inner h; }                   // error[E0302]
header BadError { error e; }                    // error[E0302]
enum Bare { x }
enum bit<4> Ser { x = 1, y = 2, z = x + 2 }
header WithEnum { Ser s; }
header BadEnum { Bare e; }                      // error[E0302]
header_union U { Inner a; H b; }
header_union BadUnion { bit<8> a; }             // error[E0302]
struct Ok { H h; U u; Inner[3] s; tuple<bit<8>, bool> t; error e; Bare b; bit<8>[4] arr; }
struct BadInt { int x; }                        // error[E0302]
struct BadString { string s; }                  // error[E0302]
struct BadVoid { packet_in p; }                 // error[E0302]
enum bit<2> TooBig { a = 4 }                    // error[E0406]
enum bool NotBits { a = 1 }                     // error[E0302]
type bit<9> Port;
type Port Port2;
type H NewHeader;                               // error[E0302]
typedef string Str;                             // error[E0302]

struct Pair<A, B> { A first; B second; }
const Pair<bit<8>, bool> p1 = { 1, true };
const Pair<bit<8>> p2 = { 1, true };            // error[E0303]
const Pair p3 = { 1, true };                    // error[E0303]
const S_t<bit<8>> p4 = { 1 };                   // error[E0201]
const Plain<bit<8>> p5 = { 1, true };           // error[E0303]
header Gen<T> { T t; }
const Gen<bit<8>> g1 = { 3 };
const Gen<error> g2 = { error.NoError };        // error[E0302]
const Pair<_, bool> open = { 1, true };         // error[E0302]

control vars() {
    apply {
        int i;                                  // error[E0302]
        string s;                               // error[E0302]
        packet_in p;                            // error[E0302]
        void v;                                 // error[E0302]
        Inner[3] stack;
        Inner[(-2)] bad;                        // error[E0305]
        Port q = (Port)9w3;
        bit<9> r = q;                           // error[E0301]
        q = q + q;                              // error[E0401]
        q = (Port)((bit<9>)q + 1);
    }
}
