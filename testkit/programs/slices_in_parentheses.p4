// A slice of a plain name in parentheses is no cast.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers_t { ethernet_t eth; }
struct meta_t { }

parser Parse(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.eth); transition accept; }
}
control Verify(inout headers_t h, inout meta_t m) { apply { } }
control InControl(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action add(bit<16> value) { h.eth.type = (bit<16>)((value[15:8]) + 1); }
    apply {
        bit<16> t = h.eth.type;
        if ((t[7:0]) == 0x34) {
            add(t);
        }
        s.egress_spec = 1;
    }
}
control OutControl(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control Update(inout headers_t h, inout meta_t m) { apply { } }
control Deparse(packet_out p, in headers_t h) { apply { p.emit(h.eth); } }
V1Switch(Parse(), Verify(), InControl(), OutControl(), Update(), Deparse()) main;
