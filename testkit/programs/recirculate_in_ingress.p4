// BMv2 keeps a request for recirculation until egress has ended.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
struct H { h_t h; }
struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { p.extract(h.h); transition accept; } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    apply { s.egress_spec = 1; if (h.h.a == 1) { h.h.a = 2; recirculate_preserving_field_list(0); } }
}
control V(inout H h, inout M m) { apply {} }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
