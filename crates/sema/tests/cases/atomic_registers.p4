// Registers that are read and then written, in one body or over several.
#include <v1model.p4>

header H { bit<8> a; bit<8> b; }
struct Hs { H h; }
struct M { }

register<bit<32>>(4) global;

parser P(packet_in p, out Hs hs, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hs.h); transition accept; }
}
control V(inout Hs hs, inout M m) { apply { } }
void store(in bit<32> x) {
    global.write(0, x);                     // warning[W1003]
}
control Reads(out bit<32> x) { apply { global.read(x, 0); } }
control I(inout Hs hs, inout M m, inout standard_metadata_t s) {
    register<bit<32>>(4) one;
    register<bit<32>>(4) two;
    register<bit<32>>(4) three;
    register<bit<32>>(4) four;
    register<bit<32>>(4) five;
    register<bit<32>>(4) six;
    register<bit<32>>(4) seven;
    register<bit<32>>(4) eight;
    register<bit<32>>(4) nine;
    bit<32> v;
    Reads() reads;
    action write_one() { one.write(0, v); }             // warning[W1003]
    action read_two() { two.read(v, 0); }
    action both_three() { three.read(v, 0); three.write(0, v + 1); }    // warning[W1003]
    action write_four() { four.write(0, v); }           // warning[W1003]
    action read_five() { five.read(v, 0); }
    action write_five() { five.write(0, v); }           // warning[W1003]
    action read_six() { six.read(v, 0); }
    action write_six() { six.write(0, v); }
    action write_seven() { seven.write(0, v); }
    action write_eight() { eight.write(0, v); }
    table t4 { key = { hs.h.a : exact; } actions = { write_four; NoAction; } }
    table t5 { key = { hs.h.a : exact; } actions = { read_five; NoAction; } }
    table t5w { key = { hs.h.a : exact; } actions = { write_five; NoAction; } }
    // One of the two runs.
    table t6 { key = { hs.h.a : exact; } actions = { read_six; write_six; NoAction; } }
    apply {
        one.read(v, 0);
        write_one();
        read_two();
        two.write(0, v);                                // warning[W1003]
        both_three();
        four.read(v, 0);
        t4.apply();
        switch (t5.apply().action_run) { default: { if (t5w.apply().hit) { v = 1; } } }
        t6.apply();
        @atomic { seven.read(v, 0); write_seven(); }
        write_eight();
        eight.read(v, 0);
        reads.apply(v);
        store(v);
        nine.read(v, 0);
        @atomic { nine.write(0, v); }                   // warning[W1003]
    }
}
control E(inout Hs hs, inout M m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in Hs hs) { apply { p.emit(hs.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
