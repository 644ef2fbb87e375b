// Sizes of counters, meters, registers, profiles and selectors.
#include <v1model.p4>

header H { bit<8> a; bit<8> b; }
struct Hs { H h; }
struct M { }

parser P(packet_in p, out Hs hs, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hs.h); transition accept; }
}
control V(inout Hs hs, inout M m) { apply { } }
control Inner(inout Hs hs)(bit<32> size) {
    counter(size, CounterType.packets) given;
    apply { given.count(0); }
}
control I(inout Hs hs, inout M m, inout standard_metadata_t s) {
    Inner(4) inner;
    counter(2147483647, CounterType.packets) largest;
    counter(2147483648, CounterType.packets) larger;    // error[E0406]
    counter(-1, CounterType.bytes) negative;            // error[E0406]
    counter(0, CounterType.bytes) none;                 // error[E0406]
    counter(4294967296, CounterType.bytes) wrapped;     // warning[W0301] // error[E0406]
    meter(-5, MeterType.bytes) m1;                      // error[E0406]
    register<bit<8>>(-1) r1;                            // error[E0406]
    register<bit<8>>(0xffffffff) r2;                    // error[E0406]
    register<bit<8>>(0) r3;                             // error[E0406]
    action_profile(-1) p1;                              // error[E0406]
    action_selector(HashAlgorithm.crc16, -1, 16) s1;    // error[E0406]
    apply { inner.apply(hs); largest.count(0); }
}
control E(inout Hs hs, inout M m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in Hs hs) { apply { p.emit(hs.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
