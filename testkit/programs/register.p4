// Registers: every cell begins as 0, an index out of range reads 0 and writes nothing, the control plane reads and writes.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> op;
    bit<32> index;
    bit<16> value;
}

header out_t {
    bit<16> v;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<16>>(4) cells;

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        cells.read(hdr.o.v, hdr.i.index);
        if (hdr.i.op == 1) {
            cells.write(hdr.i.index, hdr.o.v + hdr.i.value);
        }
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
