#include <core.p4>
#include <v1model.p4>
header eth_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers_t { eth_t eth; }
struct meta_t { }
extern flash_t { flash_t(); void on(); }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.eth); transition accept; }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    /* locals */
    apply { /* statements */ mark_to_drop(s); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.eth); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
