// `exit` ends the block after every caller has copied out; an action of a table says so by a flag where callers have something to copy.
#include <v1model.p4>

struct headers { }
struct meta_t { bit<8> x; bit<8> y; }

parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    state start { transition accept; }
}
control Empty(inout headers hdr, inout meta_t m) { apply {} }

control Deep(inout bit<8> v, inout bit<8> w) {
    action stop(inout bit<8> z) { z = 7; if (v == 1) { exit; } z = 8; }
    action plain() { }
    table t { actions = { stop(w); plain; } default_action = stop(w); }
    apply {
        stop(w);
        if (t.apply().hit) { v = 2; }
        v = 3;
    }
}
control I(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    Deep() d;
    action stop() { exit; }
    apply {
        d.apply(m.x, m.x);
        d.apply(m.y, m.x);
        if (m.x == 0) { stop(); }
        m.y = 1;
    }
}
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) { apply {} }
control D(packet_out p, in headers hdr) { apply { } }
V1Switch(P(), Empty(), I(), E(), Empty(), D()) main;
