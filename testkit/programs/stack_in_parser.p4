// A header stack filled by `next`: `last`, `lastIndex`, and StackOutOfBounds when it is full.

#include <core.p4>
#include <v1model.p4>

header label_t {
    bit<7> value;
    bit<1> bottom;
}

header out_t {
    bit<8> error_code;
    bit<8> last_value;
    bit<32> last_index;
}

struct headers_t {
    out_t      o;
    label_t[3] labels;
}

struct metadata_t {
    bit<8>  last_value;
    bit<32> last_index;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.labels.next);
        meta.last_value = (bit<8>)hdr.labels.last.value;
        meta.last_index = hdr.labels.lastIndex;
        transition select(hdr.labels.last.bottom) {
            0: start;
            1: accept;
        }
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        hdr.o.setValid();
        hdr.o.error_code = sm.parser_error == error.NoError ? 8w0 :
                           sm.parser_error == error.StackOutOfBounds ? 8w1 :
                           sm.parser_error == error.PacketTooShort ? 8w2 : 8w3;
        hdr.o.last_value = meta.last_value;
        hdr.o.last_index = meta.last_index;
        sm.egress_spec = 1;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(TestParser(), Verify(), TestIngress(), TestEgress(), Update(), TestDeparser()) main;
