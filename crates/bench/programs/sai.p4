// A switch as the Switch Abstraction Interface (SAI) sees one: thirty tables, from the port that a packet comes in by to the port that it leaves by, each
// a stage that an operator configures by itself. IPv4 and IPv6 are routed with ECMP and link aggregation, all else is bridged.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;
typedef bit<12> Vid;

const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;

header ethernet_t {
    Mac     dst;
    Mac     src;
    bit<16> type;
}

header vlan_t {
    bit<3>  priority;
    bit<1>  drop_eligible;
    Vid     vid;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
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

header ipv6_t {
    bit<4>   version;
    bit<6>   dscp;
    bit<2>   ecn;
    bit<20>  flow_label;
    bit<16>  payload_length;
    bit<8>   next_header;
    bit<8>   hop_limit;
    bit<128> src;
    bit<128> dst;
}

// The beginning of TCP and UDP.
header l4_ports_t {
    bit<16> src;
    bit<16> dst;
}

struct headers_t {
    ethernet_t ethernet;
    vlan_t     vlan;
    ipv4_t     ipv4;
    ipv6_t     ipv6;
    l4_ports_t l4;
}

struct metadata_t {
    // The bridge port: a port, or the link aggregation group that it is a member of.
    bit<16> bridge_port;
    Vid     vid;
    bit<16> vlan_id;
    bit<16> rif;
    bit<16> vrf;
    bit<16> group;
    bit<16> next_hop;
    bit<16> neighbour;
    bit<16> out_rif;
    bit<16> out_bridge_port;
    bit<8>  protocol;
    bit<6>  dscp;
    bit<3>  traffic_class;
    bit<2>  colour;
    bit<8>  hash;
    bit<16> src_port;
    bit<16> dst_port;
    bool    is_ip;
    bool    is_to_us;
    bool    is_routed;
}

// What is not forwarded: the indices of the counter `drops`.
enum bit<32> Drop {
    Malformed     = 0,
    NoPort        = 1,
    NotMember     = 2,
    StpBlocked    = 3,
    BadChecksum   = 4,
    PreAcl        = 5,
    NoVrf         = 6,
    LastHop       = 7,
    NoRoute       = 8,
    NoGroup       = 9,
    NoNextHop     = 10,
    NoNeighbour   = 11,
    NoRif         = 12,
    NoStation     = 13,
    IngressAcl    = 14,
    NoLagMember   = 15,
    SamePort      = 16
}

parser SaiParser(packet_in packet,
                 out headers_t hdr,
                 inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_VLAN: parse_vlan;
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default:        accept;
        }
    }

    state parse_vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default:        accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        meta.is_ip = true;
        meta.protocol = hdr.ipv4.protocol;
        meta.dscp = hdr.ipv4.dscp;
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_TCP): parse_l4;
            (5, 0, PROTOCOL_UDP): parse_l4;
            default:              accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        meta.is_ip = true;
        meta.protocol = hdr.ipv6.next_header;
        meta.dscp = hdr.ipv6.dscp;
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_TCP: parse_l4;
            PROTOCOL_UDP: parse_l4;
            default:      accept;
        }
    }

    state parse_l4 {
        packet.extract(hdr.l4);
        meta.src_port = hdr.l4.src;
        meta.dst_port = hdr.l4.dst;
        transition accept;
    }
}

control VerifyIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SaiIngress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    counter((bit<32>)17, CounterType.packets) drops;
    counter((bit<32>)64, CounterType.packets_and_bytes) rif_counters;
    direct_counter(CounterType.packets_and_bytes) acl_hits;

    action drop(Drop reason) {
        drops.count((bit<32>)reason);
        mark_to_drop(standard_metadata);
        exit;
    }

    // 1. Which bridge port a port belongs to, and the VLAN of packets without a tag.
    action set_port(bit<16> bridge_port, Vid vid) {
        meta.bridge_port = bridge_port;
        meta.vid = hdr.vlan.isValid() ? hdr.vlan.vid : vid;
    }

    table port {
        key = { standard_metadata.ingress_port : exact; }
        actions = { set_port; @defaultonly drop; }
        const default_action = drop(Drop.NoPort);
        size = 512;
    }

    // 2. The VLAN as an object.
    action set_vlan(bit<16> vlan_id) {
        meta.vlan_id = vlan_id;
    }

    table vlan {
        key = { meta.vid : exact; }
        actions = { set_vlan; @defaultonly drop; }
        const default_action = drop(Drop.NotMember);
        size = 4096;
    }

    // 3. Whether the bridge port is a member of the VLAN.
    action member() { }

    table vlan_member {
        key = {
            meta.bridge_port : exact;
            meta.vlan_id     : exact;
        }
        actions = { member; @defaultonly drop; }
        const default_action = drop(Drop.NotMember);
        size = 4096;
    }

    // 4. Whether the spanning tree lets packets in there.
    action forwarding() { }

    table stp_port {
        key = {
            meta.bridge_port : exact;
            meta.vlan_id     : exact;
        }
        actions = { forwarding; @defaultonly drop; }
        const default_action = drop(Drop.StpBlocked);
        size = 4096;
    }

    // 5. How much the sender's mark of quality of service is worth.
    action set_class(bit<3> traffic_class, bit<2> colour) {
        meta.traffic_class = traffic_class;
        meta.colour = colour;
    }

    table dscp_to_class {
        key = { meta.dscp : exact; }
        actions = { set_class; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 64;
    }

    // 6. Access list before routing: it may choose the virtual router.
    action choose_vrf(bit<16> vrf) {
        meta.vrf = vrf;
    }

    table acl_pre_ingress {
        key = {
            meta.bridge_port  : ternary;
            hdr.ethernet.src  : ternary;
            hdr.ethernet.type : ternary;
            meta.dscp         : ternary;
        }
        actions = { choose_vrf; NoAction; drop; }
        const default_action = NoAction();
        size = 256;
    }

    // 7. Stations that send are known, or the control plane hears of them.
    action moved() { }

    table fdb_source {
        key = {
            meta.vlan_id     : exact;
            hdr.ethernet.src : exact;
        }
        actions = { NoAction; @defaultonly moved; }
        const default_action = moved();
        size = 65536;
    }

    // 8. Addresses at which we route.
    action to_us() {
        meta.is_to_us = true;
    }

    table my_mac {
        key = {
            meta.vlan_id     : ternary;
            hdr.ethernet.dst : ternary;
        }
        actions = { to_us; NoAction; }
        const default_action = NoAction();
        size = 256;
    }

    // 9. The router interface of the VLAN.
    action set_rif(bit<16> rif) {
        meta.rif = rif;
    }

    table router_interface {
        key = { meta.vlan_id : exact; }
        actions = { set_rif; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    // 10. The virtual router of the interface, unless the access list chose another.
    action set_vrf(bit<16> vrf) {
        meta.vrf = meta.vrf == 0 ? vrf : meta.vrf;
    }

    table rif_vrf {
        key = { meta.rif : exact; }
        actions = { set_vrf; @defaultonly drop; }
        const default_action = drop(Drop.NoVrf);
        size = 1024;
    }

    // 11. What the virtual router routes.
    action routes_ip() {
        meta.is_routed = true;
    }

    table virtual_router {
        key = { meta.vrf : exact; }
        actions = { routes_ip; @defaultonly drop; }
        const default_action = drop(Drop.NoVrf);
        size = 256;
    }

    // 12 to 15. Routes: hosts first, then prefixes.
    action to_next_hop(bit<16> next_hop) {
        meta.next_hop = next_hop;
    }

    action to_group(bit<16> group) {
        meta.group = group;
    }

    table ipv4_host {
        key = {
            meta.vrf     : exact;
            hdr.ipv4.dst : exact;
        }
        actions = { to_next_hop; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 16384;
    }

    table ipv4_route {
        key = {
            meta.vrf     : exact;
            hdr.ipv4.dst : lpm;
        }
        actions = { to_next_hop; to_group; @defaultonly drop; }
        const default_action = drop(Drop.NoRoute);
        size = 65536;
    }

    table ipv6_host {
        key = {
            meta.vrf     : exact;
            hdr.ipv6.dst : exact;
        }
        actions = { to_next_hop; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 16384;
    }

    table ipv6_route {
        key = {
            meta.vrf     : exact;
            hdr.ipv6.dst : lpm;
        }
        actions = { to_next_hop; to_group; @defaultonly drop; }
        const default_action = drop(Drop.NoRoute);
        size = 65536;
    }

    // 16. Members of the ECMP group.
    table next_hop_group {
        key = {
            meta.group     : exact;
            meta.hash[3:0] : exact;
        }
        actions = { to_next_hop; @defaultonly drop; }
        const default_action = drop(Drop.NoGroup);
        size = 4096;
    }

    // 17. The next hop: which neighbour, at which interface.
    action set_next_hop(bit<16> rif, bit<16> neighbour) {
        meta.out_rif = rif;
        meta.neighbour = neighbour;
    }

    table next_hop {
        key = { meta.next_hop : exact; }
        actions = { set_next_hop; @defaultonly drop; }
        const default_action = drop(Drop.NoNextHop);
        size = 4096;
    }

    // 18. The neighbour's address.
    action set_dst_mac(Mac mac) {
        hdr.ethernet.dst = mac;
    }

    table neighbour {
        key = {
            meta.out_rif   : exact;
            meta.neighbour : exact;
        }
        actions = { set_dst_mac; @defaultonly drop; }
        const default_action = drop(Drop.NoNeighbour);
        size = 4096;
    }

    // 19. The interface by which it leaves.
    action set_out_rif(Mac mac, bit<16> vlan_id) {
        hdr.ethernet.src = mac;
        meta.vlan_id = vlan_id;
    }

    table out_interface {
        key = { meta.out_rif : exact; }
        actions = { set_out_rif; @defaultonly drop; }
        const default_action = drop(Drop.NoRif);
        size = 1024;
    }

    // 20. Where the station is that the packet goes to.
    action to_bridge_port(bit<16> bridge_port) {
        meta.out_bridge_port = bridge_port;
    }

    table fdb {
        key = {
            meta.vlan_id     : exact;
            hdr.ethernet.dst : exact;
        }
        actions = { to_bridge_port; @defaultonly drop; }
        const default_action = drop(Drop.NoStation);
        size = 65536;
    }

    // 21 and 22. The ingress access lists.
    action permit() {
        acl_hits.count();
    }

    action deny() {
        acl_hits.count();
        drop(Drop.IngressAcl);
    }

    table acl_ingress_ipv4 {
        key = {
            hdr.ipv4.src  : ternary;
            hdr.ipv4.dst  : ternary;
            meta.src_port : range;
            meta.dst_port : range;
            meta.protocol : ternary;
        }
        actions = { permit; deny; }
        const default_action = permit();
        counters = acl_hits;
        size = 1024;
    }

    table acl_ingress_mac {
        key = {
            meta.vlan_id      : ternary;
            hdr.ethernet.dst  : ternary;
            hdr.ethernet.type : ternary;
        }
        actions = { NoAction; drop; }
        const default_action = NoAction();
        size = 256;
    }

    // 23. The port of a link aggregation group.
    action to_port(Port port) {
        standard_metadata.egress_spec = port;
    }

    table lag_member {
        key = {
            meta.out_bridge_port : exact;
            meta.hash[6:4]       : exact;
        }
        actions = { to_port; @defaultonly drop; }
        const default_action = drop(Drop.NoLagMember);
        size = 1024;
    }

    // 24. The queue of a class.
    action to_queue(bit<3> queue) {
        meta.traffic_class = queue;
    }

    table class_to_queue {
        key = { meta.traffic_class : exact; }
        actions = { to_queue; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 8;
    }

    // The flow chooses among equal ways.
    action hash_flow() {
        bit<32> folded = hdr.ipv4.isValid() ? hdr.ipv4.src ^ hdr.ipv4.dst : hdr.ipv6.src[31:0] ^ hdr.ipv6.dst[31:0];
        folded = folded ^ (meta.src_port ++ meta.dst_port);
        bit<16> half = folded[31:16] ^ folded[15:0];
        meta.hash = half[15:8] ^ half[7:0];
    }

    apply {
        if (standard_metadata.parser_error != error.NoError) {
            drop(Drop.Malformed);
        }
        port.apply();
        vlan.apply();
        vlan_member.apply();
        stp_port.apply();
        if (meta.is_ip) {
            if (hdr.ipv4.isValid() && (hdr.ipv4.version != 4 || hdr.ipv4.ihl != 5)) {
                drop(Drop.Malformed);
            }
            if (standard_metadata.checksum_error == 1) {
                drop(Drop.BadChecksum);
            }
            dscp_to_class.apply();
            hash_flow();
        }
        acl_pre_ingress.apply();
        fdb_source.apply();
        my_mac.apply();
        if (meta.is_to_us && meta.is_ip) {
            router_interface.apply();
            rif_vrf.apply();
            virtual_router.apply();
            rif_counters.count((bit<32>)meta.rif);
            if (hdr.ipv4.isValid()) {
                if (hdr.ipv4.ttl <= 1) {
                    drop(Drop.LastHop);
                }
                hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
                if (!ipv4_host.apply().hit) {
                    ipv4_route.apply();
                }
            } else {
                if (hdr.ipv6.hop_limit <= 1) {
                    drop(Drop.LastHop);
                }
                hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
                if (!ipv6_host.apply().hit) {
                    ipv6_route.apply();
                }
            }
            if (meta.group != 0) {
                next_hop_group.apply();
            }
            next_hop.apply();
            neighbour.apply();
            out_interface.apply();
        }
        fdb.apply();
        if (hdr.ipv4.isValid()) {
            acl_ingress_ipv4.apply();
        }
        acl_ingress_mac.apply();
        if (!meta.is_routed && meta.out_bridge_port == meta.bridge_port) {
            drop(Drop.SamePort);
        }
        lag_member.apply();
        class_to_queue.apply();
    }
}

control SaiEgress(inout headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    // 0: not a member, 1: access list, 2: too long.
    counter((bit<32>)3, CounterType.packets) egress_drops;
    counter((bit<32>)512, CounterType.packets_and_bytes) port_tx;

    action drop(bit<32> reason) {
        egress_drops.count(reason);
        mark_to_drop(standard_metadata);
        exit;
    }

    // 25. How the port carries the VLAN.
    action untagged() {
        if (hdr.vlan.isValid()) {
            hdr.ethernet.type = hdr.vlan.type;
            hdr.vlan.setInvalid();
        }
    }

    action tagged(Vid vid) {
        if (!hdr.vlan.isValid()) {
            hdr.vlan.setValid();
            hdr.vlan.priority = 0;
            hdr.vlan.drop_eligible = 0;
            hdr.vlan.type = hdr.ethernet.type;
            hdr.ethernet.type = ETHERTYPE_VLAN;
        }
        hdr.vlan.vid = vid;
    }

    table egress_vlan {
        key = {
            meta.out_bridge_port : exact;
            meta.vlan_id         : exact;
        }
        actions = { untagged; tagged; @defaultonly drop; }
        const default_action = drop(0);
        size = 4096;
    }

    // 26. Whether the spanning tree lets packets out there.
    action forwarding() { }

    table egress_stp {
        key = {
            meta.out_bridge_port : exact;
            meta.vlan_id         : exact;
        }
        actions = { forwarding; @defaultonly drop; }
        const default_action = drop(0);
        size = 4096;
    }

    // 27. The class that the next switch is told.
    action set_dscp(bit<6> dscp) {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.dscp = dscp;
        } else {
            hdr.ipv6.dscp = dscp;
        }
    }

    table class_to_dscp {
        key = {
            meta.traffic_class : exact;
            meta.colour        : exact;
        }
        actions = { set_dscp; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 32;
    }

    // 28. How long packets may be at the interface.
    action fits() { }

    table mtu {
        key = {
            meta.out_rif                    : exact;
            standard_metadata.packet_length : range;
        }
        actions = { fits; @defaultonly drop; }
        const default_action = drop(2);
        size = 1024;
    }

    // 29. The egress access list.
    table acl_egress {
        key = {
            standard_metadata.egress_port : ternary;
            meta.protocol                 : ternary;
            meta.dst_port                 : range;
        }
        actions = { NoAction; drop; }
        const default_action = NoAction();
        size = 256;
    }

    // 30. What the port counts.
    action count() {
        port_tx.count((bit<32>)standard_metadata.egress_port);
    }

    table egress_port {
        key = { standard_metadata.egress_port : exact; }
        actions = { count; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        egress_stp.apply();
        egress_vlan.apply();
        if (meta.is_ip) {
            class_to_dscp.apply();
        }
        if (meta.is_routed) {
            mtu.apply();
        }
        acl_egress.apply();
        egress_port.apply();
    }
}

control UpdateIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SaiDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.l4);
    }
}

V1Switch(SaiParser(),
         VerifyIpv4Checksum(),
         SaiIngress(),
         SaiEgress(),
         UpdateIpv4Checksum(),
         SaiDeparser()) main;
