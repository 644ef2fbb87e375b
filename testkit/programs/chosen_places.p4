// Elements chosen at run time: of arrays of structs, of stacks inside them, on both sides of an assignment, as parameters, out of range.
#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> i;
    bit<8> j;
    bit<8> v;
}

header out_t {
    bit<8> a0;
    bit<8> a1;
    bit<8> a2;
    bit<8> swapped;
    bit<8> sum;
    bit<8> tops;
    bit<8> valid;
    bit<8> far;
}

#include "harness.p4"

header tag_t {
    bit<8> id;
}

struct cell_t {
    bit<8> value;
    tag_t[2] tags;
    bit<4> low;
    bit<4> high;
}

control Fill(inout cell_t cell, in bit<8> v) {
    apply {
        cell.value = cell.value + v;
        cell.tags.push_front(1);
        cell.tags[0].setValid();
        cell.tags[0].id = v;
        cell.high = v[7:4];
    }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    cell_t[3] cells;
    Fill() fill;
    bit<8> far;
    apply {
        hdr.o.setValid();
        cells[0].value = 1;
        cells[1].value = 2;
        cells[2].value = 3;
        cells[0].tags[0].setInvalid();
        cells[0].tags[1].setInvalid();
        cells[1].tags[0].setInvalid();
        cells[1].tags[1].setInvalid();
        cells[2].tags[0].setInvalid();
        cells[2].tags[1].setInvalid();
        fill.apply(cells[hdr.i.i], hdr.i.v);
        fill.apply(cells[hdr.i.i], hdr.i.v + 1);
        cells[hdr.i.j].value = cells[hdr.i.i].value + cells[hdr.i.j].value;
        hdr.o.a0 = cells[0].value;
        hdr.o.a1 = cells[1].value;
        hdr.o.a2 = cells[2].value;
        cells[hdr.i.j] = cells[hdr.i.i];
        hdr.o.swapped = cells[hdr.i.j].value;
        hdr.o.tops = cells[hdr.i.j].tags[0].id + cells[hdr.i.j].tags[1].id;
        hdr.o.sum = 0;
        for (cell_t cell in cells) {
            hdr.o.sum = hdr.o.sum + cell.value;
        }
        cells[hdr.i.i].tags.pop_front(1);
        hdr.o.valid = 0;
        hdr.o.valid[0:0] = (bit<1>) cells[hdr.i.i].tags[0].isValid();
        hdr.o.valid[1:1] = (bit<1>) cells[hdr.i.i].tags[1].isValid();
        hdr.o.valid[7:4] = cells[hdr.i.i].high;
        // beyond the end: nothing is written, zero is read
        cells[hdr.i.i + 3].value = 0xff;
        far = cells[hdr.i.i + 3].value;
        hdr.o.far = far + cells[0].value;
        sm.egress_spec = 1;
    }
}

V1Switch(TestParser(), NoChecks(), TestIngress(), NoEgress(), NoChecks(), TestDeparser()) main;
