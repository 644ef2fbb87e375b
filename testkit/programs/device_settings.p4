// Settings of the device: a seed and a polynomial of hashes, meters of a single rate, and the queue of a port.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<32> x;
    bit<8> index;
    bit<8> port;
}

header out_t {
    bit<32> crc32;
    bit<16> crc16;
    bit<16> custom;
    bit<16> csum16;
    bit<8> colour;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    meter(3, MeterType.packets) rate;

    apply {
        sm.egress_spec = (bit<9>)hdr.i.port;
        hdr.o.setValid();
        hash(hdr.o.crc32, HashAlgorithm.crc32, 32w0, { hdr.i.x }, 33w0x100000000);
        hash(hdr.o.crc16, HashAlgorithm.crc16, 16w0, { hdr.i.x }, 17w0x10000);
        hash(hdr.o.custom, HashAlgorithm.crc16_custom, 16w0, { hdr.i.x }, 17w0x10000);
        hash(hdr.o.csum16, HashAlgorithm.csum16, 16w0, { hdr.i.x }, 17w0x10000);
        rate.execute_meter((bit<32>)hdr.i.index, hdr.o.colour);
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
