// A line that begins with `#` and is no directive is passed over.
#include <core.p4>
#include <v1model.p4>
struct M { }
header h_t { bit<8> a; bit<8> b; }
struct H { h_t h; }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { p.extract(h.h); transition accept; } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    apply {
        # send everything to port one
        s.egress_spec = 1;
    }
}
control V(inout H h, inout M m) { apply {} }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
