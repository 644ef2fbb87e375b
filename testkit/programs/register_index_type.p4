// The newer edition of v1model: counters and registers with an index type of the program's.

#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> index;
}

header out_t {
    bit<64> v;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<64>, bit<8>>(8) cells;
    counter<bit<8>>(8, CounterType.packets) hits;

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        cells.read(hdr.o.v, hdr.i.index);
        hdr.o.v = hdr.o.v + 0x100000000;
        cells.write(hdr.i.index, hdr.o.v);
        hits.count(hdr.i.index);
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
