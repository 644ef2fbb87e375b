// typedef is a name for a type; type makes a new one that only casts lead to and from.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
}

header out_t {
    bit<8> renamed;
    bit<8> converted;
    bit<8> compared;
}

#include "harness.p4"

typedef bit<8> Byte;

type bit<8> Id;

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        Byte renamed = hdr.i.a;
        hdr.o.renamed = renamed + 1;
        Id id = (Id)hdr.i.a;
        Id other = (Id)8w7;
        hdr.o.converted = (bit<8>)id;
        hdr.o.compared = id == other ? 8w1 : 8w0;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
