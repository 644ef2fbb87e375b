// Statements: return, exit, switch, loops.
#include <core.p4>

header H { bit<8> a; }
enum Bare { x, y }
bit<8> returns(in bit<8> x) {
    if (x > 1) { return true; }                 // error[E0301]
    return;                                     // error[E0505]
}
void empty() { return 1; }                      // error[E0505]
bit<8> exits(in bit<8> x) {
    exit;                                       // error[E0408]
    return x;
}
action act() { return; }
control c(inout bit<8> x, in Bare e, in error err, inout H[4] stack) {
    bit<16> wide;
    apply {
        switch (x) {
            1: { wide = 1; }
            2:
            3: { wide = 2; }
            3: {}                               // error[E0903]
            x: {}                               // error[E0404]
            true: {}                            // error[E0301]
            default: {}
        }
        switch (e) { Bare.x: {} Bare.y: {} }
        switch (err) { error.NoError: {} default: {} }
        switch (stack[0]) { default: {} }       // error[E0401]
        switch (x) { default: {} 1: {} }        // error[E0903]
        for (bit<8> i = 0; i < 10; i = i + 1) {
            if (i == 3) { continue; }
            if (i == 5) { break; }
            x = x + i;
        }
        for (bit<8> i in 1 .. 6) { x = x + i; }
        for (H h in stack) { x = x + h.a; }
        for (bit<8> i in { 1, 2, 3 }) { x = x + i; }
        for (bit<8> i in stack) {}              // error[E0301]
        for (bit<8> i in x) {}                  // error[E0401]
        for (bit<8> i = 0; i; i = i + 1) {}     // error[E0301]
        break;                                  // error[E0408]
        continue;                               // error[E0408]
    }
}
