// Actions that are called and that no table lists, in instances of two controls with the same names in them; an extern without implementation.
#include <core.p4>
#include <v1model.p4>
extern lamp {
    lamp(bit<8> colour);
    void flash(in bit<8> times);
}
struct metadata_t { }
header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control First(inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    apply { drop(); }
}
control Second(inout headers_t hdr, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    table t { key = { hdr.h.a : exact; } actions = { drop; } }
    apply { t.apply(); }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    First() c1;
    Second() c2;
    lamp(3) signal;
    action helper(bit<9> port) { sm.egress_spec = port; signal.flash(2); }
    apply {
        helper(1);
        if (hdr.h.b == 1) { c1.apply(sm); }
        c2.apply(hdr, sm);
    }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
