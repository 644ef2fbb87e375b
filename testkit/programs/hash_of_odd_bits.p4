// v1model pads data of no whole number of bytes with zeros behind it before it is hashed.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<12> x;
    bit<4> pad;
}

header out_t {
    bit<16> crc16;
    bit<32> crc32;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hash(hdr.o.crc16, HashAlgorithm.crc16, 16w0, { hdr.i.x }, 17w0x10000);
        hash(hdr.o.crc32, HashAlgorithm.crc32, 32w0, { hdr.i.x, 5w0x11 }, 33w0x100000000);
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
