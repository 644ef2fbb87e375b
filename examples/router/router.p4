// An IPv4 router.
//
// A port is an interface with a MAC address and an IPv4 address. The router answers ARP requests and pings for its own
// addresses, finds the longest matching prefix for everything else, and hands the packet to the neighbour that the route
// names (or, in a directly connected network, to the destination itself).

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;
typedef bit<32> Ipv4Address;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP  = 0x0806;
const bit<8>  PROTOCOL_ICMP  = 1;
const bit<8>  ICMP_ECHO_REPLY   = 0;
const bit<8>  ICMP_ECHO_REQUEST = 8;
const bit<16> ARP_REQUEST = 1;
const bit<16> ARP_REPLY   = 2;

header ethernet_t {
    Mac     dst;
    Mac     src;
    bit<16> type;
}

header arp_t {
    bit<16>     hardware;
    bit<16>     protocol;
    bit<8>      hardware_length;
    bit<8>      protocol_length;
    bit<16>     operation;
    Mac         sender_mac;
    Ipv4Address sender_ip;
    Mac         target_mac;
    Ipv4Address target_ip;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<8>      diffserv;
    bit<16>     total_length;
    bit<16>     identification;
    bit<3>      flags;
    bit<13>     fragment_offset;
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     checksum;
    Ipv4Address src;
    Ipv4Address dst;
}

header ipv4_options_t {
    varbit<320> options;
}

header icmp_t {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t     ethernet;
    arp_t          arp;
    ipv4_t         ipv4;
    ipv4_options_t ipv4_options;
    icmp_t         icmp;
}

struct metadata_t {
    Ipv4Address next_hop;
}

error {
    NotIpv4,
    NotArpForIpv4
}

// Why the router dropped a packet: the indices of the counter `drops`.
enum bit<32> Drop {
    BadChecksum = 0,
    TtlExpired  = 1,
    NoRoute     = 2,
    NoNeighbour = 3,
    NotForUs    = 4,
    BadHeader   = 5
}

parser RouterParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_ARP:  parse_arp;
            default:        accept;
        }
    }

    state parse_arp {
        packet.extract(hdr.arp);
        verify(hdr.arp.hardware == 1 && hdr.arp.protocol == ETHERTYPE_IPV4, error.NotArpForIpv4);
        transition accept;
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4 && hdr.ipv4.ihl >= 5, error.NotIpv4);
        transition select(hdr.ipv4.ihl) {
            5:       parse_payload;
            default: parse_options;
        }
    }

    state parse_options {
        packet.extract(hdr.ipv4_options, ((bit<32>)hdr.ipv4.ihl - 5) * 32);
        transition parse_payload;
    }

    state parse_payload {
        // Only the first fragment begins with the ICMP header.
        transition select(hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0, PROTOCOL_ICMP): parse_icmp;
            default:            accept;
        }
    }

    state parse_icmp {
        packet.extract(hdr.icmp);
        transition accept;
    }
}

control VerifyIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && !hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst,
              hdr.ipv4_options.options },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    counter((bit<32>)6, CounterType.packets) drops;
    direct_counter(CounterType.packets_and_bytes) route_hits;

    bool is_ours = false;

    action drop(Drop reason) {
        drops.count((bit<32>)reason);
        mark_to_drop(standard_metadata);
    }

    // The packet came in at an interface whose MAC address is `mac`.
    action interface(Mac mac) {
        // A broadcast is for us as well, but only ARP makes use of it.
        is_ours = hdr.ethernet.dst == mac ||
                  (hdr.ethernet.dst == 0xffffffffffff && hdr.arp.isValid());
    }

    table ingress_interface {
        key = { standard_metadata.ingress_port : exact; }
        actions = { interface; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    // `mac` answers for the address asked for.
    action arp_reply(Mac mac) {
        hdr.ethernet.dst = hdr.arp.sender_mac;
        hdr.ethernet.src = mac;
        Ipv4Address asked_for = hdr.arp.target_ip;
        hdr.arp.operation  = ARP_REPLY;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.target_ip  = hdr.arp.sender_ip;
        hdr.arp.sender_mac = mac;
        hdr.arp.sender_ip  = asked_for;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    table arp {
        key = {
            standard_metadata.ingress_port : exact;
            hdr.arp.target_ip              : exact;
        }
        actions = { arp_reply; drop; }
        const default_action = drop(Drop.NotForUs);
        size = 512;
    }

    // The destination is in a network that `port` is connected to.
    action connected(Port port) {
        route_hits.count();
        meta.next_hop = hdr.ipv4.dst;
        standard_metadata.egress_spec = port;
    }

    action via(Ipv4Address next_hop, Port port) {
        route_hits.count();
        meta.next_hop = next_hop;
        standard_metadata.egress_spec = port;
    }

    // One of the router's own addresses: a ping is answered, nothing else is listened for.
    action local() {
        route_hits.count();
        meta.next_hop = 0;
    }

    table ipv4_lpm {
        key = { hdr.ipv4.dst : lpm; }
        actions = { connected; via; local; drop; }
        default_action = drop(Drop.NoRoute);
        counters = route_hits;
        size = 65536;
    }

    action set_destination_mac(Mac mac) {
        hdr.ethernet.dst = mac;
    }

    table neighbour {
        key = { meta.next_hop : exact; }
        actions = { set_destination_mac; drop; }
        default_action = drop(Drop.NoNeighbour);
        size = 65536;
    }

    action echo_reply() {
        hdr.icmp.type = ICMP_ECHO_REPLY;
        // The type went from 8 to 0, so the checksum grows by 0x0800, in one's complement arithmetic.
        bit<17> sum = (bit<17>)hdr.icmp.checksum + 0x0800;
        hdr.icmp.checksum = sum[15:0] + (bit<16>)sum[16:16];
        Ipv4Address us = hdr.ipv4.dst;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = us;
        hdr.ipv4.ttl = 64;
        hdr.ethernet.dst = hdr.ethernet.src;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    apply {
        if (standard_metadata.parser_error != error.NoError || !(hdr.ipv4.isValid() || hdr.arp.isValid())) {
            drop(Drop.BadHeader);
            return;
        }
        ingress_interface.apply();
        if (!is_ours) {
            drop(Drop.NotForUs);
            return;
        }
        if (hdr.arp.isValid()) {
            if (hdr.arp.operation == ARP_REQUEST) {
                arp.apply();
            } else {
                drop(Drop.NotForUs);
            }
            return;
        }
        if (standard_metadata.checksum_error == 1) {
            drop(Drop.BadChecksum);
            return;
        }
        switch (ipv4_lpm.apply().action_run) {
            local: {
                if (hdr.icmp.isValid() && hdr.icmp.type == ICMP_ECHO_REQUEST) {
                    echo_reply();
                } else {
                    drop(Drop.NotForUs);
                }
            }
            drop: { }
            default: {
                if (hdr.ipv4.ttl <= 1) {
                    drop(Drop.TtlExpired);
                } else {
                    hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
                    neighbour.apply();
                }
            }
        }
    }
}

control RouterEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    action set_source_mac(Mac mac) {
        hdr.ethernet.src = mac;
    }

    table egress_interface {
        key = { standard_metadata.egress_port : exact; }
        actions = { set_source_mac; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            egress_interface.apply();
        }
    }
}

control UpdateIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && !hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst,
              hdr.ipv4_options.options },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(RouterParser(),
         VerifyIpv4Checksum(),
         RouterIngress(),
         RouterEgress(),
         UpdateIpv4Checksum(),
         RouterDeparser()) main;
