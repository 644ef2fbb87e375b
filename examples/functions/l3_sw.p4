// L3_SW: forwards IPv4 by the longest matching prefix, with new MAC addresses and one hop less to live.

#include "headers.p4"

control L3Switch(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action drop() {
        mark_to_drop(standard_metadata);
    }

    action next_hop(Port port, Mac own, Mac neighbour) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src = own;
        hdr.ethernet.dst = neighbour;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table routes {
        key = { hdr.ipv4.dst : lpm; }
        actions = { next_hop; drop; }
        default_action = drop();
        size = 16384;
    }

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            routes.apply();
        } else {
            drop();
        }
    }
}

V1Switch(FunctionParser(), NoVerification(), L3Switch(), NoEgress(), UpdateChecksum(), FunctionDeparser()) main;
