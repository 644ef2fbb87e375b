// Aggregates are assigned and compared part by part, calls hoisted, evaluation short where P4's is.
#include <v1model.p4>

header h_t { bit<8> a; varbit<16> v; }
header g_t { bit<8> a; }
header_union u_t { g_t g; h_t h; }
struct in_t { bit<8> p; bit<8> q; }
struct headers { h_t h; h_t k; g_t[2] s; u_t u; }
struct meta_t { in_t i; in_t j; bit<8> x; bool b; tuple<bit<8>, bool> t; }
enum color_t { red, green }
enum bit<4> code_t { none = 0, all = 15 }

parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    state start { transition accept; }
}
control Empty(inout headers hdr, inout meta_t m) { apply {} }
bool seen(inout bit<8> v) { v = v |+| 200; return true; }

control I(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    color_t color;
    apply {
        m.i = {m.i.q, m.i.p};
        m.j = m.i;
        m.j = (in_t) {p = 1, q = m.x};
        hdr.h = hdr.k;
        hdr.h = {#};
        hdr.u.g = hdr.s[m.x[0:0]];
        hdr.u.h.setValid();
        m.b = hdr.h == hdr.k;
        m.b = m.i == m.j && hdr.u.isValid();
        m.b = m.x == 0 && seen(m.x);
        m.x = m.b ? m.i.p : m.j.p;
        m.t = {m.x, !m.b};
        m.x = m.t[0];
        hdr.s.push_front(1);
        m.x[3:0] = (bit<4>) code_t.all;
        color = m.x > 3 ? color_t.green : color_t.red;
        m.b = color == color_t.red;
        m.x = (bit<8>) (int<8>) m.x >> 2;
        switch (m.x) {
            1: { m.i.p = 1; }
            2: 
            3: { m.i.p = 2; }
            default: { m.i.p = 3; }
        }
        for (bit<8> n in 1 .. 3) { m.i.q = m.i.q + n; }
        for (g_t g in hdr.s) { if (g.a == 0) { continue; } m.x = g.a; }
    }
}
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), Empty(), I(), E(), Empty(), D()) main;
