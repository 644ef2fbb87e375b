// Varbit fields: extraction by a computed length, emission, assignment; too long for the field is HeaderTooShort.

#include <core.p4>
#include <v1model.p4>

header options_t {
    bit<8>      length;
    varbit<32>  data;
    bit<8>      next;
}

header out_t {
    bit<8> error_code;
    bit<8> extra;
}

struct headers_t {
    out_t     o;
    options_t a;
    options_t b;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.a, (bit<32>)packet.lookahead<bit<8>>() * 8);
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
                           sm.parser_error == error.HeaderTooShort ? 8w1 :
                           sm.parser_error == error.PacketTooShort ? 8w2 : 8w3;
        hdr.o.extra = 0x77;
        if (hdr.a.isValid() && hdr.a.next == 0xcc) {
            hdr.b = hdr.a;
            hdr.b.length = 0xbb;
        }
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
