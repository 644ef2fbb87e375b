// Checksums whose data are of headers that are not there: never parsed, or removed by ingress.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header sum_t { bit<16> a; bit<16> sum; }
header option_t { bit<4> x; bit<12> y; bit<16> z; }
struct headers_t { ethernet_t eth; sum_t base; option_t option; sum_t[2] more; }
struct meta_t { }

parser Parse(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.eth);
        p.extract(h.base);
        transition select(h.eth.type) {
            1: option;
            2: option;
            3: more;
            default: accept;
        }
    }
    state option { p.extract(h.option); transition accept; }
    state more { p.extract(h.more.next); transition accept; }
}
control Verify(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum(true, { h.base.a, h.option.x, h.option.y, h.option.z }, h.base.sum, HashAlgorithm.csum16);
        verify_checksum_with_payload(true, { h.more[0].a }, h.more[0].sum, HashAlgorithm.csum16);
        verify_checksum_with_payload(true, { h.more[1].a }, h.more[1].sum[15:0], HashAlgorithm.csum16);
    }
}
control InControl(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1 + (bit<9>)s.checksum_error;
        if (h.eth.type == 2) { h.option.setInvalid(); }
    }
}
control OutControl(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control Update(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(true, { h.base.a, h.option.x, h.option.y, h.option.z }, h.base.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(true, { h.more[0].a }, h.more[0].sum, HashAlgorithm.csum16);
    }
}
control Deparse(packet_out p, in headers_t h) {
    apply { p.emit(h.eth); p.emit(h.base); p.emit(h.option); p.emit(h.more); }
}
V1Switch(Parse(), Verify(), InControl(), OutControl(), Update(), Deparse()) main;
