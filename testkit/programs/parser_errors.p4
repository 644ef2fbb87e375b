// verify and its own error; what was extracted before an error stays valid, and the rest of the packet is payload.

#include <core.p4>
#include <v1model.p4>

header one_t {
    bit<8> v;
}

header two_t {
    bit<16> v;
}

header out_t {
    bit<8> error_code;
    bit<8> valid;
}

struct headers_t {
    out_t o;
    one_t one;
    two_t two;
}

struct metadata_t {
    bit<1> verified;
}

error {
    TooLarge
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.one);
        verify(hdr.one.v < 0x80, error.TooLarge);
        meta.verified = 1;
        packet.extract(hdr.two);
        transition select(hdr.one.v) {
            0x10:    reject;
            default: accept;
        }
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
                           sm.parser_error == error.TooLarge ? 8w1 :
                           sm.parser_error == error.PacketTooShort ? 8w2 : 8w3;
        hdr.o.valid = (hdr.one.isValid() ? 8w1 : 8w0) + (hdr.two.isValid() ? 8w2 : 8w0) + (meta.verified == 1 ? 8w4 : 8w0);
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
