// `@priority` takes constants: the smaller one wins.
#include <core.p4>
#include <v1model.p4>
const int P1 = 10; const int P2 = 5;
const bit<32> MYID = 0x02000077;
header tag_t { bit<8> kind; }
struct headers_t { tag_t tag; }
struct meta_t { }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) { state start { b.extract(h.tag); transition accept; } }
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action a() { s.egress_spec = 1; }
    action d() { mark_to_drop(s); }
     table t { key = { h.tag.kind : ternary; } actions = { a; d; }
      const entries = { 1 &&& 1 : a() @priority(P1); 3 &&& 3 : d() @priority(P2); } }
    apply { t.apply(); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
