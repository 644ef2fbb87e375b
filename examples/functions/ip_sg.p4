// IP_SG, source guard: a station sends from the IPv4 and MAC addresses that are bound to its port, and from no others.

#include "headers.p4"

const L4Port DHCP_SERVER = 67;
const L4Port DHCP_CLIENT = 68;

control SourceGuard(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Ipv4Address source;

    action deny() {
        mark_to_drop(standard_metadata);
    }

    table bindings {
        key = {
            standard_metadata.ingress_port : exact;
            hdr.ethernet.src               : exact;
            source                         : exact;
        }
        actions = { @tableonly NoAction; @defaultonly deny; }
        const default_action = deny();
        size = 16384;
    }

    apply {
        // A station that has no address yet asks for one.
        bool asks_for_address = hdr.ipv4.isValid() && hdr.ipv4.src == 0 && hdr.ipv4.protocol == PROTOCOL_UDP
            && hdr.ports.isValid() && hdr.ports.src == DHCP_CLIENT && hdr.ports.dst == DHCP_SERVER;
        if (hdr.ipv4.isValid() && !asks_for_address) {
            source = hdr.ipv4.src;
            bindings.apply();
        } else if (hdr.arp.isValid()) {
            source = hdr.arp.sender_ip;
            bindings.apply();
        }
    }
}

V1Switch(FunctionParser(), NoVerification(), SourceGuard(), NoEgress(), UpdateChecksum(), FunctionDeparser()) main;
