// An action selector: groups whose member a hash of the selector keys picks (CRC-16 modulo the number of members), groups of
// one, members alone, one-shot groups.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<16> flow;
}

header out_t {
    bit<8> v;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set(bit<8> v) {
        hdr.o.v = v;
    }

    action_selector(HashAlgorithm.crc16, 16, 16) members;

    table t {
        key = {
            hdr.i.a    : exact;
            hdr.i.flow : selector;
        }
        actions = { set; NoAction; }
        implementation = members;
    }

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.v = 0;
        t.apply();
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
