// An IPv4 router: what the data plane of one does for packets in transit (RFC 1812). Packets that its control plane must see, because they are no
// IPv4, have options or have come to their last hop, leave by the CPU port as they came.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;

const Port CPU_PORT = 255;
const bit<16> ETHERTYPE_IPV4 = 0x0800;

header ethernet_t {
    Mac     dst;
    Mac     src;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  diffserv;
    bit<16> total_length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragment_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct metadata_t {
    bit<16> next_hop;
    bool    is_routed;
}

// What is not forwarded: the indices of the counter `exceptions`.
enum bit<32> Exception {
    TooShort    = 0,
    NotForUs    = 1,
    NotIpv4     = 2,
    HasOptions  = 3,
    BadChecksum = 4,
    LastHop     = 5,
    NoRoute     = 6,
    NoNextHop   = 7
}

parser RouterParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default:        accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control VerifyIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    counter((bit<32>)8, CounterType.packets) exceptions;

    Mac our_mac = 0;

    action drop(Exception reason) {
        exceptions.count((bit<32>)reason);
        mark_to_drop(standard_metadata);
    }

    action to_cpu(Exception reason) {
        exceptions.count((bit<32>)reason);
        standard_metadata.egress_spec = CPU_PORT;
    }

    action interface(Mac mac) {
        our_mac = mac;
    }

    table interfaces {
        key = { standard_metadata.ingress_port : exact; }
        actions = { interface; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 512;
    }

    action via(bit<16> next_hop) {
        meta.next_hop = next_hop;
    }

    table routes {
        key = { hdr.ipv4.dst : lpm; }
        actions = { via; @defaultonly drop; }
        const default_action = drop(Exception.NoRoute);
        size = 1048576;
    }

    action forward(Port port, Mac src, Mac dst) {
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        meta.is_routed = true;
        standard_metadata.egress_spec = port;
    }

    table next_hops {
        key = { meta.next_hop : exact; }
        actions = { forward; @defaultonly drop; }
        const default_action = drop(Exception.NoNextHop);
        size = 4096;
    }

    apply {
        if (standard_metadata.parser_error != error.NoError) {
            drop(Exception.TooShort);
            return;
        }
        interfaces.apply();
        if (hdr.ethernet.dst != our_mac) {
            drop(Exception.NotForUs);
        } else if (!hdr.ipv4.isValid()) {
            to_cpu(Exception.NotIpv4);
        } else if (hdr.ipv4.version != 4 || hdr.ipv4.ihl != 5) {
            to_cpu(Exception.HasOptions);
        } else if (standard_metadata.checksum_error == 1) {
            drop(Exception.BadChecksum);
        } else if (hdr.ipv4.ttl <= 1) {
            to_cpu(Exception.LastHop);
        } else if (routes.apply().hit) {
            next_hops.apply();
        }
    }
}

control RouterEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    counter((bit<32>)512, CounterType.packets_and_bytes) port_tx;

    apply {
        port_tx.count((bit<32>)standard_metadata.egress_port);
    }
}

control UpdateIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(meta.is_routed,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(RouterParser(),
         VerifyIpv4Checksum(),
         RouterIngress(),
         RouterEgress(),
         UpdateIpv4Checksum(),
         RouterDeparser()) main;
