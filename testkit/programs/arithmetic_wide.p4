// Values of several machine words: 128 and 256 bits.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<128> a;
    bit<128> b;
    bit<256> c;
}

header out_t {
    bit<128> sum;
    bit<128> product;
    bit<256> twice;
    bit<256> next;
    bit<128> mixed;
    bit<8> less;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.sum = hdr.i.a + hdr.i.b;
        hdr.o.product = hdr.i.a * hdr.i.b;
        hdr.o.twice = hdr.i.c << 1;
        hdr.o.next = hdr.i.c + 1;
        hdr.o.mixed = (hdr.i.a & hdr.i.b) ^ ~(hdr.i.a | hdr.i.b);
        hdr.o.less = hdr.i.a < hdr.i.b ? 8w1 : 8w0;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
