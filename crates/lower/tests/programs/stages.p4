// Tables become match stages, code between them action stages, branches around them conditions.
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; }
struct headers { h_t h; }
struct meta_t { bit<8> x; bool hit; }

parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control Empty(inout headers hdr, inout meta_t m) { apply {} }

control Inner(inout bit<8> v, in bit<8> w)(bit<8> step) {
    action add(bit<8> n) { v = v + n + step; }
    action none() {}
    table t {
        key = { v: exact; w: ternary @name("width"); }
        actions = { add; none; }
        default_action = none();
        size = 16;
    }
    apply {
        if (v == 0) { return; }
        t.apply();
        v = v + 1;
    }
}

control I(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    Inner(1) once;
    Inner(2) often;
    action set(inout bit<8> field, bit<8> value) { field = value; }
    action put(bit<8> value) { hdr.h.b = value; }
    action stop() { exit; }
    table t {
        key = { hdr.h.a: lpm; }
        actions = { set(m.x); put; stop; @defaultonly NoAction; }
        const default_action = NoAction;
        const entries = {
            0x10 &&& 0xf0: set(m.x, 7);
            _: stop();
        }
    }
    table u { actions = { stop; } }
    apply {
        if (t.apply().hit) { m.x = 1; } else { m.x = 2; }
        once.apply(hdr.h.a, hdr.h.b);
        often.apply(m.x, 3);
        often.apply(hdr.h.a, m.x);
        switch (t.apply().action_run) {
            set: { m.x = 4; }
            stop: {}
            default: { u.apply(); }
        }
        m.hit = u.apply().miss || m.x == 9;
        for (bit<8> i = 0; i < 3; i = i + 1) {
            if (m.hit) { break; }
            u.apply();
        }
    }
}
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), Empty(), I(), E(), Empty(), D()) main;
