// push_front and pop_front move the elements, assignment copies them with their validity, indices may be computed.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> op;
    bit<8> index;
}

header cell_t {
    bit<8> v;
}

struct headers_t {
    in_t      i;
    cell_t[4] cells;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.i);
        packet.extract(hdr.cells.next);
        packet.extract(hdr.cells.next);
        packet.extract(hdr.cells.next);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        switch (hdr.i.op) {
            1: { hdr.cells.push_front(1); }
            2: {
                hdr.cells.push_front(2);
                hdr.cells[0].setValid();
                hdr.cells[0].v = 0xf0;
            }
            3: { hdr.cells.pop_front(1); }
            4: { hdr.cells.pop_front(9); }
            5: { hdr.cells[hdr.i.index].v = 0xee; }
            6: { hdr.cells[3] = hdr.cells[hdr.i.index]; }
            7: { hdr.i.index = (bit<8>)hdr.cells.size; }
            8: {
                cell_t[4] copy = hdr.cells;
                hdr.cells[0].v = 0;
                copy[1].setInvalid();
                hdr.cells = copy;
            }
        }
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(TestParser(), Verify(), TestIngress(), TestEgress(), Update(), TestDeparser()) main;
