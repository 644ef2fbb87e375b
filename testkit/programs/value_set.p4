// A parser value set, empty at first and then set by the control plane.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<16> type;
}

header out_t {
    bit<8> known;
}

struct headers_t {
    in_t  i;
    out_t o;
}

struct metadata_t {
    bit<1> known;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    value_set<bit<16>>(4) known_types;

    state start {
        packet.extract(hdr.i);
        transition select(hdr.i.type) {
            known_types: known;
            0x9999:      known;
            default:     accept;
        }
    }

    state known {
        meta.known = 1;
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.known = (bit<8>)meta.known;
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
