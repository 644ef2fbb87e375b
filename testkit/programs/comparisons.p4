// All six comparisons of unsigned values, and equality of bools.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<8> b;
}

header out_t {
    bit<1> lt;
    bit<1> le;
    bit<1> gt;
    bit<1> ge;
    bit<1> eq;
    bit<1> ne;
    bit<1> same_parity;
    bit<1> differ;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.lt = (bit<1>)(hdr.i.a < hdr.i.b);
        hdr.o.le = (bit<1>)(hdr.i.a <= hdr.i.b);
        hdr.o.gt = (bit<1>)(hdr.i.a > hdr.i.b);
        hdr.o.ge = (bit<1>)(hdr.i.a >= hdr.i.b);
        hdr.o.eq = (bit<1>)(hdr.i.a == hdr.i.b);
        hdr.o.ne = (bit<1>)(hdr.i.a != hdr.i.b);
        bool odd_a = hdr.i.a[0:0] == 1;
        bool odd_b = hdr.i.b[0:0] == 1;
        hdr.o.same_parity = (bit<1>)(odd_a == odd_b);
        hdr.o.differ = (bit<1>)(odd_a != odd_b);
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
