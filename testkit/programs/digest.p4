// Digests: a message for each call, with the values at the time of the call, from two sources.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8>  kind;
    bit<48> address;
}

struct headers_t {
    in_t i;
}

struct seen_t {
    bit<48> address;
    bit<9>  port;
}

struct counted_t {
    bit<8> kind;
    bool   large;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (hdr.i.kind != 0) {
            digest<seen_t>(1, { hdr.i.address, sm.ingress_port });
            hdr.i.address = 0;
        }
        if (hdr.i.kind > 1) {
            digest<counted_t>(1, { hdr.i.kind, hdr.i.kind > 9 });
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
