// The length that egress has of clones, copies of a group and packets that start over, when headers
// of a stack, of a union and one with a varbit come and go.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header tag_t { bit<32> x; }
header long_t { bit<64> x; }
header options_t { bit<8> bytes; varbit<80> x; }
header seen_t { bit<16> length; }
header_union either_t { tag_t short; long_t long; }
struct headers_t { ethernet_t eth; options_t options; seen_t seen; tag_t[3] tags; either_t either; }
struct meta_t { }

parser Parse(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.eth);
        p.extract(h.options, (bit<32>)p.lookahead<bit<8>>() << 3);
        p.extract(h.seen);
        transition accept;
    }
}
control Verify(inout headers_t h, inout meta_t m) { apply { } }
control InControl(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (h.eth.type == 1) { h.options.setInvalid(); }
        if (h.eth.type == 2) { h.tags.push_front(2); h.tags[0].setValid(); h.tags[1].setValid(); }
        if (h.eth.type == 3) { h.either.long.setValid(); }
        if (h.eth.type == 4) {
            clone(CloneType.I2E, 5);
            h.tags[0].setValid();
        }
        if (h.eth.type == 5) { s.mcast_grp = 1; h.either.short.setValid(); }
        if (h.eth.type == 6) { h.tags[1].setValid(); }
        if (h.eth.type == 7) { h.tags[0].setValid(); }
    }
}
control OutControl(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.seen.length = (bit<16>)s.packet_length;
        if (h.eth.type == 6) { h.eth.type = 8; recirculate_preserving_field_list(0); }
        if (h.eth.type == 7 && s.instance_type == 0) {
            h.either.long.setValid();
            clone(CloneType.E2E, 5);
        }
    }
}
control Update(inout headers_t h, inout meta_t m) { apply { } }
control Deparse(packet_out p, in headers_t h) {
    apply { p.emit(h.eth); p.emit(h.options); p.emit(h.seen); p.emit(h.tags); p.emit(h.either); }
}
V1Switch(Parse(), Verify(), InControl(), OutControl(), Update(), Deparse()) main;
