// A program with every construct of the grammar once.
#include <core.p4>
#define WIDTH(n) bit<n>
#if defined(WIDTH) && 1
typedef WIDTH(9) port_t;
#endif
error { Bad, Worse }
match_kind { exact, lpm, ternary, range, }
type bit<32> address_t;
const bit<16> TYPE = 16w0x0_800;
const int big = -1 + 2 * (3 |+| 4) << 2;
enum Colour { red, green, }
enum bit<8> Code { ok = 0, bad = 1 + 1 }
@controller_header("packet_in") @size[1, 2] @kv[a = 1, b = "x"]
header h_t { bit<8> a; varbit<(8 * 4)> b; int<4> c; @name("d") bool d; }
header_union u_t { h_t x; h_t y; }
struct pair<T, U> { T first; tuple<U, list<bit<8>>> second; }
struct all_t { h_t h; h_t[4] stack; u_t u; pair<bit<8>, pair<bool, error>> p; }
typedef struct inner_t { bit x; } also_inner_t;
extern packet { packet(); packet(bit<8> n); void get<T>(out T x, in bit<32> n = 5); abstract bit<8> more(in bit<8> x); }
extern void log(string s);
extern T twice<T>(in T x);
parser P<H>(packet p, out H h);
control C<H>(inout H h, @optional in bit<8> x);
package top<H>(P<H> p, C<H> c);
bit<8> larger(in bit<8> a, in bit<8> b) {
    if (a > b) { return a; } else if (a == b) return b;
    else { }
    return a < b ? b : a;
}
parser p(packet p, out all_t h)(bit<8> n) {
    value_set<bit<16>>(4) vs;
    packet(8) local;
    bit<8> v = 0;
    state start {
        p.get(h.h);
        p.get<h_t>(x = h.stack.next, n = 32);
        v = v + 1;
        { bit<8> inner; inner = 3; }
        if (v == 2) v = 3;
        transition select(h.h.a, h.h.c) {
            (1, _): more;
            (2 &&& 3, 4 .. 5): accept;
            (default, default): start;
        }
    }
    @deprecated("x") state more { transition select(h.h.a) { vs: accept; 5: start; _: reject; } }
    state last { transition accept; }
}
control c(inout all_t h, in bit<8> x) {
    action nop() { }
    action set(inout bit<8> d, bit<8> v) { d = v; h.h.a[3:0] = v[7:4]; h.h.a[0 +: 4] = 1; exit; }
    table t {
        key = { h.h.a: exact @name("a"); h.h.a + 1: ternary; }
        actions = { @defaultonly nop; set(h.h.a); .nop; }
        const default_action = nop();
        size = 16;
        @x entries = { const priority = 10: (1, 2 &&& 3): set(h.h.a, 1) @e; (_, default): nop(); }
    }
    packet(5) own = { bit<8> more(in bit<8> x) { return x; } };
    @name("v") bit<8> v = 1;
    apply @hidden {
        switch (t.apply().action_run) { nop: set: { v = 1; } default: { } }
        switch (v) { 1: 2 + 3: { return; } }
        for (bit<8> i = 0, bit<8> j = 1; i < 3; i = i + 1, j += 2) { if (i == 2) continue; break; }
        for (@a bit<8> i in 1 .. 5) { v |+|= i; }
        for (h_t s in h.stack) v = s.a;
        h.h = { 1, 2, 3, true };
        h.h = { a = 1, d = false, ... };
        h.h = {#};
        h = { ... };
        own.more(_);
        inner.apply(h);
        C<bit<8>>.apply(v);
        v = (bit<8>) h.h.c ++ -1 ++ ~v & !v | v ^ v && v || v;
        v <<= 1; v >>= 1; v |-|= 1; v &= 1; v |= 1; v ^= 1; v *= 1; v /= 1; v %= 1; v -= 1;
        v = v >> 2 >= 1 != (v <= 3) ? this.x : error.Bad;
        log("a" ++ "b \"quoted\"");
        @atomic { ; }
    }
}
top(p(8w1), c = c()) main;
@pragma last line of it
const string s = "two
lines";
