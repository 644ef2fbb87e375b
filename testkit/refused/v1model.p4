// Rules of v1model (the comments of its include file). A case begins at //#; each line that must be refused is marked //~; a case
// without marks must be accepted.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> x; bit<16> checksum; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> m; }

parser P(packet_in b, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out b, in headers_t hdr) { apply { b.emit(hdr); } }

//# a whole program
V1Switch(P(), V(), I(), I(), V(), D()) main;

//# a package has all its blocks
V1Switch(P(), V(), I(), I(), V()) main; //~

//# a block is of the right kind
V1Switch(P(), V(), V(), I(), V(), D()) main; //~

//# the blocks agree about the headers
struct others_t { h_t h; }
control J(inout others_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
V1Switch(P(), V(), I(), J(), V(), D()) main; //~

//# standard metadata has no such field
control J(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.nosuch = 1; //~
    }
}

//# a register's size is a constant
control J(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<8>>(sm.packet_length) r; //~
    apply { }
}

//# a register holds what it is made for
control J(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<8>>(4) r;
    apply {
        bit<16> v;
        r.read(v, 0); //~
    }
}

//# an index is 32 bits wide
control J(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter(4, CounterType.packets) c;
    apply {
        c.count(hdr.h.x); //~
    }
}

//# a counter counts what there is to count
control J(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter(4, CounterType.frames) c; //~
    apply { }
}

//# extern objects are made at compile time
control J(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (hdr.h.x == 1) {
            counter(4, CounterType.packets) c; //~
        }
    }
}
