// L2_SW: forwards by the destination MAC address; what is unknown, and groups, by a multicast group.

#include "headers.p4"

control L2Switch(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action drop() {
        mark_to_drop(standard_metadata);
    }

    action to_port(Port port) {
        standard_metadata.egress_spec = port;
    }

    action flood(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }

    table forward {
        key = { hdr.ethernet.dst : exact; }
        actions = { to_port; flood; drop; }
        default_action = drop();
        size = 16384;
    }

    apply {
        if (hdr.ethernet.isValid()) {
            forward.apply();
        }
    }
}

// A flooded frame does not return to its own port.
control L2Egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
    }
}

V1Switch(FunctionParser(), NoVerification(), L2Switch(), L2Egress(), UpdateChecksum(), FunctionDeparser()) main;
