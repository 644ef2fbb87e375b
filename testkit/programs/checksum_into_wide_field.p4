// v1model: a checksum may go to a field of any width, whose upper bits become zero.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<16>   a;
    bit<16>   b;
    bit<2080> sum;
}

struct headers_t {
    in_t i;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control TestVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control TestUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.i.isValid(), { hdr.i.a, hdr.i.b }, hdr.i.sum, HashAlgorithm.csum16);
    }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.i);
    }
}

V1Switch(TestParser(), TestVerify(), TestIngress(), TestEgress(), TestUpdate(), TestDeparser()) main;
