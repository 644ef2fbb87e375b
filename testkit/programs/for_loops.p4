// for loops: counting, over ranges with both bounds, over expressions, break and continue, nested.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> n;
    bit<8> m;
}

header out_t {
    bit<8> sum;
    bit<8> range_sum;
    bit<8> odd;
    bit<8> broke;
    bit<8> product;
    bit<8> descending;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        bit<8> sum = 0;
        for (bit<8> i = 0; i < hdr.i.n; i = i + 1) {
            sum = sum + i;
        }
        hdr.o.sum = sum;

        bit<8> range_sum = 0;
        for (bit<8> i in hdr.i.n .. hdr.i.m) {
            range_sum = range_sum + i;
        }
        hdr.o.range_sum = range_sum;

        bit<8> odd = 0;
        for (bit<8> i in 0 .. 9) {
            if (i[0:0] == 0) {
                continue;
            }
            odd = odd + i;
        }
        hdr.o.odd = odd;

        bit<8> broke = 0;
        for (bit<8> i = 0; i < 100; i = i + 1) {
            if (i == hdr.i.n) {
                break;
            }
            broke = broke + 2;
        }
        hdr.o.broke = broke;

        bit<8> product = 0;
        for (bit<8> i = 0; i < hdr.i.n; i = i + 1) {
            for (bit<8> j = 0; j < hdr.i.m; j = j + 1) {
                if (j > i) {
                    break;
                }
                product = product + 1;
            }
        }
        hdr.o.product = product;

        bit<8> descending = 0;
        for (bit<8> i = hdr.i.m, bit<8> k = 1; i > 0; i = i - 1, k = k * 2) {
            descending = descending + k;
        }
        hdr.o.descending = descending;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
