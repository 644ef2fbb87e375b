// A packet is cut in its first round, and starts over by resubmit or by recirculation.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header length_t { bit<16> ingress; bit<16> egress; }
struct headers_t { ethernet_t eth; length_t length; }
struct meta_t { }

parser Parse(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.eth); p.extract(h.length); transition accept; }
}
control Verify(inout headers_t h, inout meta_t m) { apply { } }
control InControl(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        h.length.ingress = (bit<16>)s.packet_length;
        if (h.eth.type == 1 && s.instance_type == 0) {
            truncate(20);
            resubmit_preserving_field_list(0);
        }
        if (h.eth.type == 3 && s.instance_type == 0) { truncate(19); }
        if (h.eth.type == 4) { truncate(20); truncate(19); }
    }
}
control OutControl(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.length.egress = (bit<16>)s.packet_length;
        if (h.eth.type == 2) {
            truncate(20);
            h.eth.type = 5;
            recirculate_preserving_field_list(0);
        }
        if (h.eth.type == 3) {
            h.eth.type = 5;
            recirculate_preserving_field_list(0);
        }
    }
}
control Update(inout headers_t h, inout meta_t m) { apply { } }
control Deparse(packet_out p, in headers_t h) { apply { p.emit(h.eth); p.emit(h.length); } }
V1Switch(Parse(), Verify(), InControl(), OutControl(), Update(), Deparse()) main;
