// verify_checksum with and without payload, with varbit fields, under a condition: a wrong one sets checksum_error, nothing
// else. Packets with an error leave at port 2.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8>  kind;
    bit<8>  a;
    bit<16> b;
    bit<16> checksum;
}

header options_t {
    varbit<64> bytes;
}

struct headers_t {
    in_t      i;
    options_t options;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.i);
        packet.extract(hdr.options, (bit<32>)hdr.i.kind[3:0] * 8);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.i.kind[7:4] == 1, { hdr.i.kind, hdr.i.a, hdr.i.b, hdr.options.bytes },
                        hdr.i.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.i.kind[7:4] == 2, { hdr.i.kind, hdr.i.a, hdr.i.b },
                                     hdr.i.checksum, HashAlgorithm.csum16);
        verify_checksum(hdr.i.kind[7:4] >= 4, { hdr.i.kind, hdr.i.a, hdr.i.b }, hdr.i.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.i.kind[7:4] == 5, { hdr.i.a }, 16w0xf8ff, HashAlgorithm.csum16);
    }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = sm.checksum_error == 1 ? 9w2 : 9w1;
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
