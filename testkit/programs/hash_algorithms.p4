// Every hash over the same data: CRC-32, CRC-16, the Internet checksum, exclusive or, identity; base and max.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<32> x;
    bit<8> y;
    bit<24> z;
}

header out_t {
    bit<32> crc32;
    bit<16> crc16;
    bit<16> csum16;
    bit<16> xor16;
    bit<64> identity;
    bit<16> in_range;
    bit<16> no_range;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hash(hdr.o.crc32, HashAlgorithm.crc32, 32w0, { hdr.i.x, hdr.i.y, hdr.i.z }, 33w0x100000000);
        hash(hdr.o.crc16, HashAlgorithm.crc16, 16w0, { hdr.i.x, hdr.i.y, hdr.i.z }, 17w0x10000);
        hash(hdr.o.csum16, HashAlgorithm.csum16, 16w0, { hdr.i.x, hdr.i.y, hdr.i.z }, 17w0x10000);
        hash(hdr.o.xor16, HashAlgorithm.xor16, 16w0, { hdr.i.x, hdr.i.y, hdr.i.z }, 17w0x10000);
        hash(hdr.o.identity, HashAlgorithm.identity, 64w0, { hdr.i.x, hdr.i.y }, 64w0xffffffffffffffff);
        hash(hdr.o.in_range, HashAlgorithm.crc32, 16w100, { hdr.i.x, hdr.i.y, hdr.i.z }, 16w1000);
        hash(hdr.o.no_range, HashAlgorithm.crc32, 16w100, { hdr.i.x, hdr.i.y, hdr.i.z }, 16w0);
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
