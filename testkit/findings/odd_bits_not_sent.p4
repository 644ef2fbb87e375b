// Headers of no whole bytes that are parsed and not emitted: a byte of which anything was parsed is gone.

#include <core.p4>
#include <v1model.p4>

header some_t {
    bit<3> a;
    bit<1> has_more;
}

header more_t {
    bit<5> b;
}

struct headers_t {
    some_t some;
    more_t more;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.some);
        transition select(hdr.some.has_more) {
            1: more;
            default: accept;
        }
    }
    state more {
        packet.extract(hdr.more);
        transition accept;
    }
}

control NoChecks(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (hdr.some.a == 7) {
            hdr.some.setInvalid();
            hdr.more.setInvalid();
        }
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control NoneDeparser(packet_out packet, in headers_t hdr) {
    apply { }
}

V1Switch(TestParser(), NoChecks(), TestIngress(), TestEgress(), NoChecks(), NoneDeparser()) main;
