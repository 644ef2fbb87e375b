// ARP proxy: answers who has an address, for the stations that it knows; the answer leaves by the port that the question came from.

#include "headers.p4"

const bit<16> ARP_REQUEST = 1;
const bit<16> ARP_REPLY   = 2;

control ArpProxy(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action answer(Mac mac) {
        Ipv4Address asked = hdr.arp.target_ip;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = mac;
        hdr.arp.operation = ARP_REPLY;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.target_ip = hdr.arp.sender_ip;
        hdr.arp.sender_mac = mac;
        hdr.arp.sender_ip = asked;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    table stations {
        key = { hdr.arp.target_ip : exact; }
        actions = { answer; NoAction; }
        default_action = NoAction();
        size = 16384;
    }

    apply {
        // Ethernet and IPv4 only.
        if (hdr.arp.isValid() && hdr.arp.hardware == 1 && hdr.arp.protocol == ETHERTYPE_IPV4
            && hdr.arp.operation == ARP_REQUEST) {
            stations.apply();
        }
    }
}

V1Switch(FunctionParser(), NoVerification(), ArpProxy(), NoEgress(), UpdateChecksum(), FunctionDeparser()) main;
