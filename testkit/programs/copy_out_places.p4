// The place of an out argument is fixed before the call: an index that the call changes does not move it.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
}

header out_t {
    bit<8> at_0;
    bit<8> at_1;
    bit<8> at_2;
    bit<8> index;
}

#include "harness.p4"

header cell_t {
    bit<8> v;
}

void move_on(inout bit<8> index, out bit<8> place) {
    index = index + 1;
    place = 9;
}

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        cell_t[3] cells;
        cells[0] = { 0 };
        cells[1] = { 0 };
        cells[2] = { 0 };
        bit<8> index = hdr.i.a;
        move_on(index, cells[index].v);
        hdr.o.at_0 = cells[0].v;
        hdr.o.at_1 = cells[1].v;
        hdr.o.at_2 = cells[2].v;
        hdr.o.index = index;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
