// Gateway of an overlay network: routes of many tenants, over a switch and servers.
//
// A packet of a virtual machine arrives in VXLAN (RFC 7348) at the gateway's address. Its VNI and
// its inner destination select a next hop by the longest prefix: the VTEP of the destination's
// host, the VNI there and the inner MAC address of the next router. All tenants together have more
// routes than a switch holds: `fib` is mirrored, servers have all routes and the switch has at most
// 10,000 of them. The gateway is a router in both networks: the inner TTL is decremented, and the
// outer header is a new one. IPv4 packets that are not for the gateway are routed by `underlay`.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;
typedef bit<32> Ipv4Address;
typedef bit<24> Vni;
typedef bit<16> NextHop;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP   = 17;
const bit<16> PORT_VXLAN     = 4789;
const bit<8>  VXLAN_VNI      = 0x08;    // flag: the VNI is valid
const bit<8>  NEW_TTL        = 64;

// The gateway's address in the underlay, and its MAC address as a router of the tenants.
const Ipv4Address GATEWAY_ADDRESS = 0x0aff0001;     // 10.255.0.1
const Mac         GATEWAY_MAC     = 0x02000000fe01;

header ethernet_t {
    Mac     dst;
    Mac     src;
    bit<16> type;
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

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

header vxlan_t {
    bit<8>  flags;
    bit<24> reserved;
    Vni     vni;
    bit<8>  reserved2;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
    vxlan_t    vxlan;
    ethernet_t inner_ethernet;
    ipv4_t     inner_ipv4;
}

struct metadata_t { }

parser FibParser(packet_in packet,
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
        // Options would have to be in the checksum as well: such packets are dropped. A fragment
        // does not have all headers, and is routed as any IPv4 packet. (MF is the lowest flag.)
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags,
                          hdr.ipv4.fragment_offset, hdr.ipv4.protocol, hdr.ipv4.dst) {
            (4, 5, 0 &&& 1, 0, PROTOCOL_UDP, GATEWAY_ADDRESS): parse_udp;
            (4, 5, _, _, _, _):                                accept;
            default:                                           reject;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            PORT_VXLAN: parse_vxlan;
            default:    accept;
        }
    }

    state parse_vxlan {
        packet.extract(hdr.vxlan);
        transition select(hdr.vxlan.flags) {
            VXLAN_VNI &&& VXLAN_VNI: parse_inner_ethernet;
            default:                 reject;
        }
    }

    state parse_inner_ethernet {
        packet.extract(hdr.inner_ethernet);
        transition select(hdr.inner_ethernet.type) {
            ETHERTYPE_IPV4: parse_inner_ipv4;
            default:        reject;
        }
    }

    state parse_inner_ipv4 {
        packet.extract(hdr.inner_ipv4);
        transition select(hdr.inner_ipv4.version, hdr.inner_ipv4.ihl) {
            (4, 5):  accept;
            default: reject;
        }
    }
}

control VerifyIpv4Checksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        verify_checksum(hdr.inner_ipv4.isValid(),
            { hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.diffserv,
              hdr.inner_ipv4.total_length, hdr.inner_ipv4.identification, hdr.inner_ipv4.flags,
              hdr.inner_ipv4.fragment_offset, hdr.inner_ipv4.ttl, hdr.inner_ipv4.protocol,
              hdr.inner_ipv4.src, hdr.inner_ipv4.dst },
            hdr.inner_ipv4.checksum, HashAlgorithm.csum16);
    }
}

control FibIngress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    NextHop next_hop = 0;

    action drop() {
        mark_to_drop(standard_metadata);
        exit;
    }

    action set_next_hop(NextHop id) {
        next_hop = id;
    }

    @mirror(10000)
    table fib {
        key = {
            hdr.vxlan.vni      : exact;
            hdr.inner_ipv4.dst : lpm;
        }
        actions = { set_next_hop; drop; }
        default_action = drop();
        size = 900000;
    }

    // The tenant may differ from the sender's: a route to another tenant's network.
    action to_vtep(Ipv4Address vtep, Vni vni, Mac router_mac) {
        hdr.vxlan.vni = vni;
        hdr.inner_ethernet.src = GATEWAY_MAC;
        hdr.inner_ethernet.dst = router_mac;
        hdr.inner_ipv4.ttl = hdr.inner_ipv4.ttl - 1;
        hdr.ipv4.src = GATEWAY_ADDRESS;
        hdr.ipv4.dst = vtep;
        hdr.ipv4.ttl = NEW_TTL;
        // The addresses under it have changed. RFC 7348: it should be zero, for no checksum.
        hdr.udp.checksum = 0;
    }

    table next_hops {
        key = { next_hop : exact; }
        actions = { to_vtep; drop; }
        default_action = drop();
        size = 65536;
    }

    action to_port(Port port, Mac src_mac, Mac dst_mac) {
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        standard_metadata.egress_spec = port;
    }

    table underlay {
        key = { hdr.ipv4.dst : lpm; }
        actions = { to_port; drop; }
        default_action = drop();
        size = 4096;
    }

    apply {
        if (!hdr.ipv4.isValid() || standard_metadata.parser_error != error.NoError ||
            standard_metadata.checksum_error == 1) {
            drop();
        }
        if (hdr.inner_ipv4.isValid()) {
            // The outer TTL does not matter: the packet has arrived at the outer destination.
            if (hdr.inner_ipv4.ttl <= 1) {
                drop();
            }
            fib.apply();
            next_hops.apply();
        } else {
            if (hdr.ipv4.ttl <= 1) {
                drop();
            }
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        }
        underlay.apply();
    }
}

control FibEgress(inout headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    apply { }
}

control UpdateIpv4Checksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum(hdr.inner_ipv4.isValid(),
            { hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.diffserv,
              hdr.inner_ipv4.total_length, hdr.inner_ipv4.identification, hdr.inner_ipv4.flags,
              hdr.inner_ipv4.fragment_offset, hdr.inner_ipv4.ttl, hdr.inner_ipv4.protocol,
              hdr.inner_ipv4.src, hdr.inner_ipv4.dst },
            hdr.inner_ipv4.checksum, HashAlgorithm.csum16);
    }
}

control FibDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(FibParser(),
         VerifyIpv4Checksums(),
         FibIngress(),
         FibEgress(),
         UpdateIpv4Checksums(),
         FibDeparser()) main;
