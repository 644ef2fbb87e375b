// What is checked once everything else is right: paths and places of calls.
#include <core.p4>

bit<8> some(in bit<8> x) {                      // error[E0510]
    if (x > 1) { return 1; }
}
bit<8> all(in bit<8> x) {
    if (x > 1) { return 1; } else { return 2; }
}
parser Loops(packet_in p) {                     // error[E0511]
    state start { transition again; }
    state again { transition start; }
}
