// Remote handlers, mirrored tables and blocks of C.
#include <v1model.p4>
#include <clip.p4>

const bit<32> ENTRIES = 16;

header H { bit<8> a; bit<32> x; bit<32> y; }
struct Hs { H h; }
struct M { bit<32> m; }

enum bit<8> Kind { Red = 1, Blue = 2 }
enum Plain { One, Two }

struct Inner { bool flag; int<16> small; }
struct Request {
    @affinity bit<32> x;
    Kind kind;
    Plain plain;
    float32 mean;
    bit<128> wide;
    Inner inner;
}
struct Response { bit<32> y; float64 sum; }
struct Stacked { H[2] stack; }          // error[E0302]
struct Headed { H h; }                  // error[E0302]
struct Failed { error code; }           // error[E0302]

@remote extern void ask(in Request request, out Response response);
@remote extern void no_response(in Request request);                            // error[E0504]
@remote extern void not_out(in Request request, inout Response response);       // error[E0504]
@remote extern void not_structs(in bit<8> request, out bit<8> response);        // error[E0302]
@remote extern bit<8> with_result(in Request request, out Response response);   // error[E0601]
@remote extern void stacked(in Stacked request, out Response response);
@remote extern void headed(in Headed request, out Response response);
@remote extern void failed(in Failed request, out Response response);

extern "C" {
/* } */ // }
int ask(clip_t *c, const struct Request *q, struct Response *r) {
    const char *text = "}\"}"; char brace = '}', quote = '\'';
    if (q->x) { r->y = q->x; }
#define NOT_P4 @@@
    return 0;
}
}

void calls(in Request q, out Response r) {
    ask(q, r);                          // error[E0408]
}

parser P(packet_in p, out Hs hs, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hs.h); transition accept; }
}
control V(inout Hs hs, inout M m) { apply { } }

control Inlined(inout Hs hs) {
    apply {
        Request q = { hs.h.x, Kind.Red, Plain.Two, (float32) hs.h.x, 0, { true, -1 } };
        Response r;
        if (hs.h.a == 1) {
            ask(q, r);
            hs.h.y = r.y;
        }
        bool same = q.mean == q.mean;
    }
}

control I(inout Hs hs, inout M m, inout standard_metadata_t s) {
    Request q;
    Response r;
    action set(bit<32> v) { m.m = v; }
    action asks() {
        ask(q, r);                      // error[E0408]
    }
    @mirror(ENTRIES)
    table exact_one { key = { hs.h.x : exact; } actions = { set; asks; NoAction; } }
    @mirror(1 + 1)
    table prefix { key = { hs.h.a : exact; hs.h.x : lpm; } actions = { set; NoAction; } }
    @mirror(4)                          // error[E0702]
    table masks { key = { hs.h.x : ternary; } actions = { NoAction; } }
    @mirror(4)                          // error[E0701]
    table fixed {
        key = { hs.h.x : exact; }
        actions = { NoAction; }
        const entries = { 1 : NoAction(); }
    }
    @mirror(4)
    table chosen {
        key = { hs.h.x : exact; hs.h.y : selector; }
        actions = { NoAction; }
        implementation = action_selector(HashAlgorithm.crc16, 16, 14);  // error[E0701]
    }
    @mirror(32)                         // warning[W0604]
    table large { key = { hs.h.x : exact; } actions = { NoAction; } size = 16; }
    @mirror(16)
    table full { key = { hs.h.x : exact; } actions = { NoAction; } size = 16; }
    Inlined() inlined;
    apply {
        q = { 0, Kind.Blue, Plain.One, (float32) 32w0, 0, { false, 0 } };
        inlined.apply(hs);
        for (bit<8> i in 8w0 .. 3) {
            ask(q, r);                  // error[E0408]
        }
        exact_one.apply(); prefix.apply(); masks.apply(); fixed.apply(); chosen.apply();
        large.apply(); full.apply();
    }
}
control Late(inout Hs hs) {
    action set(bit<32> v) { hs.h.y = v; }
    @mirror(4)
    table late { key = { hs.h.x : exact; } actions = { set; NoAction; } }
    apply {
        late.apply();                   // error[E0408]
    }
}
control E(inout Hs hs, inout M m, inout standard_metadata_t s) {
    Late() inlined;
    Request q = { 0, Kind.Blue, Plain.One, (float32) 32w0, 0, { false, 0 } };
    Response r;
    apply {
        ask(q, r);                      // error[E0408]
        inlined.apply(hs);
    }
}
control C(inout Hs hs, inout M m) { apply {} }
control D(packet_out p, in Hs hs) { apply { p.emit(hs); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
