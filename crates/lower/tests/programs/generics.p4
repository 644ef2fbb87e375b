// Functions of any type, actions called directly, constructor arguments, abstract methods' places: everything is inlined.
#include <v1model.p4>

header h_t { bit<8> a; bit<16> b; }
struct headers { h_t h; h_t k; }
struct pair_t<A, B> { A first; B second; }
struct meta_t { pair_t<bit<8>, bit<16>> p; bit<8> x; }

parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    state start { transition accept; }
}
control Empty(inout headers hdr, inout meta_t m) { apply {} }

T larger<T>(in bool left, in T a, in T b) { return left ? a : b; }
void both<T>(inout T a, out T b) { b = a; }
bit<16> total(in h_t h, in bit<16> more = 4) { return (bit<16>) h.a + h.b + more; }

control Add(inout bit<8> v)(bit<8> amount, bool twice) {
    apply {
        v = v + amount * 2;
        if (twice) { v = v + amount; }
    }
}
control step_t(inout bit<8> v);
control Around(inout bit<8> v)(step_t inner) {
    Add(5, false) own;
    apply { inner.apply(v); own.apply(v); }
}
control I(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    Add(3, true) given;
    Around(given) around;
    apply {
        m.x = larger(m.x > 1, m.x, 8w7);
        m.p = larger(true, m.p, m.p);
        both(hdr.h, hdr.k);
        m.p.second = total(hdr.h);
        m.p.second = total(more = 1, h = {1, 2});
        around.apply(m.x);
    }
}
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), Empty(), I(), E(), Empty(), D()) main;
