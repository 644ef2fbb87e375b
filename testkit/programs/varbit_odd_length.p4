// A varbit of no whole number of bytes in a header of whole bytes is ParserInvalidArgument.

#include <core.p4>
#include <v1model.p4>

header options_t {
    bit<8>     bits;
    varbit<64> data;
}

header out_t {
    bit<8> error_code;
}

struct headers_t {
    out_t     o;
    options_t options;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.options, (bit<32>)packet.lookahead<bit<8>>());
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
        hdr.o.error_code = sm.parser_error == error.NoError ? 8w0 :
                           sm.parser_error == error.ParserInvalidArgument ? 8w1 :
                           sm.parser_error == error.HeaderTooShort ? 8w2 : 8w3;
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
