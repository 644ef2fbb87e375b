// The call of a handler is a stage of its own, also inside of branches.
#include <v1model.p4>
#include <clip.p4>

header H { bit<8> a; bit<32> x; bit<32> y; }
struct Hs { H h; }
struct M { bit<32> m; }
struct Inner { bool flag; }
struct Request { bit<32> x; float32 mean; Inner inner; }
struct Response { bit<32> y; bit<8> a; }

@remote extern void ask(in Request request, out Response response);

parser P(packet_in p, out Hs hs, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hs.h); transition accept; }
}
control V(inout Hs hs, inout M m) { apply { } }
control I(inout Hs hs, inout M m, inout standard_metadata_t s) {
    action set(bit<32> v) { m.m = v; }
    @mirror(4)
    table t { key = { hs.h.x : exact; } actions = { set; @defaultonly NoAction; } }
    apply {
        hs.h.a = 1;
        Request q = { hs.h.x, (float32) hs.h.y, { hs.h.a == 1 } };
        Response r;
        ask(q, r);
        hs.h.y = r.y;
        if (!t.apply().hit) {
            if (hs.h.a == 2) {
                hs.h.a = 3;
                ask(q, r);
                m.m = r.y;
            }
        }
        s.egress_spec = 1;
    }
}
control E(inout Hs hs, inout M m, inout standard_metadata_t s) { apply {} }
control C(inout Hs hs, inout M m) { apply {} }
control D(packet_out p, in Hs hs) { apply { p.emit(hs); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
