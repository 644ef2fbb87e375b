// lookahead reads and stays, advance moves without reading; both can meet the end of the packet; length counts bytes.

#include <core.p4>
#include <v1model.p4>

header peek_t {
    bit<16> v;
}

header rest_t {
    bit<8> v;
}

header out_t {
    bit<16> peeked;
    bit<32> length;
    bit<8>  error_code;
}

struct headers_t {
    out_t  o;
    rest_t rest;
}

struct pair_t {
    bit<4>  high;
    bit<12> low;
}

struct metadata_t {
    bit<16> peeked;
    bit<32> length;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        meta.peeked = packet.lookahead<peek_t>().v;
        pair_t pair = packet.lookahead<pair_t>();
        meta.length = packet.length();
        packet.advance(((bit<32>)pair.high) * 8);
        packet.extract(hdr.rest);
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
        hdr.o.peeked = meta.peeked;
        hdr.o.length = meta.length;
        hdr.o.error_code = sm.parser_error == error.NoError ? 8w0 : sm.parser_error == error.PacketTooShort ? 8w1 : 8w2;
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
