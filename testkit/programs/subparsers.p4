// Parsers called from parsers: arguments, several calls, an error inside ends the whole parser.

#include <core.p4>
#include <v1model.p4>

header tlv_t {
    bit<8> tag;
    bit<8> v;
}

header out_t {
    bit<8> tags;
    bit<8> error_code;
}

struct headers_t {
    out_t o;
    tlv_t a;
    tlv_t b;
}

struct metadata_t {
    bit<8> tags;
}

error {
    BadTag
}

parser Item(packet_in packet, out tlv_t item, inout bit<8> tags, in bit<8> factor) {
    state start {
        packet.extract(item);
        verify(item.tag < 16, error.BadTag);
        tags = tags + item.tag * factor;
        transition accept;
    }
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Item() item;

    state start {
        item.apply(packet, hdr.a, meta.tags, 1);
        transition select(hdr.a.v) {
            0:       accept;
            default: second;
        }
    }

    state second {
        item.apply(packet, hdr.b, meta.tags, 2);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.tags = meta.tags;
        hdr.o.error_code = sm.parser_error == error.NoError ? 8w0 : sm.parser_error == error.BadTag ? 8w1 : 8w2;
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
