// Loops that end by the work budget alone: tracing them must not take for ever, and every packet must be accounted for.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> n;
}

struct headers_t {
    in_t i;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.i);
        transition select(hdr.i.n) {
            7: around;
            default: accept;
        }
    }
    state around {
        transition around;
    }
}

control NoChecks(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        for (bit<8> i = 0; i != hdr.i.n; i = i + 2) {
            hdr.i.n = hdr.i.n ^ i;
        }
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        clone(CloneType.E2E, 3);
        recirculate_preserving_field_list(0);
    }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(TestParser(), NoChecks(), TestIngress(), TestEgress(), NoChecks(), TestDeparser()) main;
