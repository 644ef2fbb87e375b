// Operators and implicit casts.
#include <core.p4>

enum bit<8> E { a = 1, b = 2 }
enum Bare { x, y }
header H { bit<8> f; }
const int i = (1 << 100) / 3 % 7;
const bool cmp = 5 > 3 && 2 != 3;
const bit<8> wrapped = 300;                     // warning[W0301]
const bit<4> sat = 4w14 |+| 4w5;
const int bits = 5 & 3;
const bit<8> slice = 0x1234[11:4];
const bit<12> joined = 4w1 ++ 8w2;
const string text = "a" ++ "b";
const int div0 = 5 / 0;                         // error[E0405]
const int divneg = -8 / 2;                      // error[E0405]
const int shift = 1 << -1;                      // error[E0405]
const bit<8> compl = ~1;                        // error[E0401]
const bool both = Bare.x == Bare.y;
const match_kind mk = exact;
const bool kinds = exact == lpm;

control c(inout bit<8> x, inout bit<16> y, inout int<8> z, inout bool b, inout H h, in Bare e) {
    apply {
        x = x + 1;
        x = E.a;
        x = E.a + E.b;
        E enumerated = E.a;
        enumerated = 1;                         // error[E0301]
        enumerated = E.a + 1;                   // error[E0301]
        enumerated = (E)x;
        y = y << x;
        y = y << 1024;                          // warning[W0301]
        z = z >> 3;
        x = x + y;                              // error[E0401]
        x = x + z;                              // error[E0401]
        x = x << z;                             // error[E0401]
        b = x < z;                              // error[E0401]
        x = 1 << x;                             // error[E0304]
        x = b + 1;                              // error[E0401]
        b = !x;                                 // error[E0401]
        b = b && x;                             // error[E0401]
        b = e < e;                              // error[E0401]
        b = e == Bare.x;
        b = e == 1;                             // error[E0401]
        x = y[7:0];
        x = y[0:7];                             // error[E0406]
        x = y[16:9];                            // error[E0406]
        x = y[(7):(x)];                         // error[E0404]
        x = y[4+:8];
        x = y[x+:8];
        x = y[12+:8];                           // error[E0406]
        x[3:0] = 5;
        x[4+:4] = 5;
        y[x+:4] = 5;
        y[x+:4] = x;                            // error[E0301]
        y[x+:4] += 1;                           // error[E0403]
        x = b ? 1 : x;
        x = b ? 1 : 2;                          // error[E0304]
        x = b ? x : y;                          // error[E0301]
        y = x ++ x;
        y = x ++ 1;                             // error[E0401]
        x = x |+| 1;
        x += 2;
        x += y;                                 // error[E0401]
        x <<= 1;
        z = z / 2;                              // error[E0401]
        x = x / 0;                              // error[E0405]
        x = x % -1;                             // error[E0405]
        if (x) {}                               // error[E0301]
        b = h == { 1 };
        b = h == {#};
        b = h == x;                             // error[E0401]
        b = "a" == "b" || b;
        x = "a" + "b";                          // error[E0401]
        x = (bit<8>)z;
        x = (bit<8>)(int<16>)z;                 // error[E0306]
        b = (bool)1w1;
        b = (bool)2;                            // error[E0306]
        b = (bool)x;                            // error[E0306]
        x = x.f;                                // error[E0402]
        x = h.g;                                // error[E0402]
        x = x[0];                               // error[E0401]
        x = error.NoError;                      // error[E0301]
        b = error.NoError == error.Missing;     // error[E0201]
        x = E.c;                                // error[E0402]
    }
}
