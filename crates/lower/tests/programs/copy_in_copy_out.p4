// Parameters share storage only where nothing can tell.
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; }
struct headers { h_t h; h_t[2] s; }
struct meta_t { bit<8> x; bit<8> y; }

parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control Empty(inout headers hdr, inout meta_t m) { apply {} }

void swap(inout bit<8> a, inout bit<8> b) { bit<8> t = a; a = b; b = t; }
bit<8> next(inout bit<8> a) { a = a + 1; return a; }
bit<8> twice(in bit<8> a) { return a + a; }
bit<8> early(in bit<8> a) { if (a == 0) { return 1; } return a; }

control I(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    bit<8> x;
    action alias(inout bit<8> v) { v = 1; hdr.h.b = hdr.h.a; }
    apply {
        swap(hdr.h.a, hdr.h.b);
        swap(m.x, m.x);
        m.y = m.x + next(m.x);
        m.y = twice(m.x);
        m.y = early(m.x);
        alias(m.y);
        alias(hdr.h.a);
        next(hdr.s[m.x[0:0]].a);
        next(x[7:0]);
    }
}
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), Empty(), I(), E(), Empty(), D()) main;
