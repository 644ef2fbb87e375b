// A switch for VLANs that also routes between them, and lets through what its access list permits: L2, L3 and ACL.
//
// A packet belongs to the VLAN of its tag or of its port. One to the switch's own MAC address is routed into another VLAN; then, as all others, it
// goes to the port of its station. The access list sees addresses, ports and protocol of IPv4 packets.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;
typedef bit<12> Vid;

const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_IPV4 = 0x0800;
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

// The beginning of TCP and UDP.
header l4_ports_t {
    bit<16> src;
    bit<16> dst;
}

struct headers_t {
    ethernet_t ethernet;
    vlan_t     vlan;
    ipv4_t     ipv4;
    l4_ports_t l4;
}

struct metadata_t {
    Vid     vid;
    bit<16> next_hop;
    bit<16> src_port;
    bit<16> dst_port;
    bool    is_routed;
}

// What is not forwarded: the indices of the counter `drops`.
enum bit<32> Drop {
    Malformed   = 0,
    NoVlan      = 1,
    BadChecksum = 2,
    LastHop     = 3,
    NoRoute     = 4,
    NoStation   = 5
}

parser SwitchParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_VLAN: parse_vlan;
            ETHERTYPE_IPV4: parse_ipv4;
            default:        accept;
        }
    }

    state parse_vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default:        accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_TCP): parse_l4;
            (5, 0, PROTOCOL_UDP): parse_l4;
            default:              accept;
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
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SwitchIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    counter((bit<32>)6, CounterType.packets) drops;
    direct_counter(CounterType.packets_and_bytes) rule_hits;

    action drop(Drop reason) {
        drops.count((bit<32>)reason);
        mark_to_drop(standard_metadata);
        exit;
    }

    // Packets without a tag belong to this VLAN.
    action access(Vid vid) {
        meta.vid = hdr.vlan.isValid() ? hdr.vlan.vid : vid;
    }

    table ports {
        key = { standard_metadata.ingress_port : exact; }
        actions = { access; @defaultonly drop; }
        const default_action = drop(Drop.NoVlan);
        size = 512;
    }

    action to_us() {
        meta.is_routed = true;
    }

    table router_macs {
        key = {
            meta.vid         : exact;
            hdr.ethernet.dst : exact;
        }
        actions = { to_us; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    action via(bit<16> next_hop) {
        meta.next_hop = next_hop;
    }

    table routes {
        key = { hdr.ipv4.dst : lpm; }
        actions = { via; @defaultonly drop; }
        const default_action = drop(Drop.NoRoute);
        size = 16384;
    }

    action forward(Vid vid, Mac src, Mac dst) {
        meta.vid = vid;
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table next_hops {
        key = { meta.next_hop : exact; }
        actions = { forward; @defaultonly drop; }
        const default_action = drop(Drop.NoRoute);
        size = 4096;
    }

    action to_port(Port port) {
        standard_metadata.egress_spec = port;
    }

    table stations {
        key = {
            meta.vid         : exact;
            hdr.ethernet.dst : exact;
        }
        actions = { to_port; @defaultonly drop; }
        const default_action = drop(Drop.NoStation);
        size = 65536;
    }

    action permit() {
        rule_hits.count();
    }

    action deny() {
        rule_hits.count();
        mark_to_drop(standard_metadata);
        exit;
    }

    table access_list {
        key = {
            hdr.ipv4.src      : ternary;
            hdr.ipv4.dst      : ternary;
            meta.src_port     : range;
            meta.dst_port     : range;
            hdr.ipv4.protocol : ternary;
        }
        actions = { permit; deny; }
        const default_action = deny();
        counters = rule_hits;
        size = 16384;
    }

    apply {
        if (standard_metadata.parser_error != error.NoError) {
            drop(Drop.Malformed);
        }
        ports.apply();
        router_macs.apply();
        if (hdr.ipv4.isValid()) {
            if (hdr.ipv4.version != 4 || hdr.ipv4.ihl != 5) {
                drop(Drop.Malformed);
            }
            if (standard_metadata.checksum_error == 1) {
                drop(Drop.BadChecksum);
            }
            access_list.apply();
            if (meta.is_routed) {
                if (hdr.ipv4.ttl <= 1) {
                    drop(Drop.LastHop);
                }
                routes.apply();
                next_hops.apply();
            }
        } else if (meta.is_routed) {
            drop(Drop.NoRoute);
        }
        stations.apply();
    }
}

control SwitchEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    counter((bit<32>)512, CounterType.packets_and_bytes) port_tx;

    action untagged() {
        if (hdr.vlan.isValid()) {
            hdr.ethernet.type = hdr.vlan.type;
            hdr.vlan.setInvalid();
        }
    }

    action tagged() {
        if (!hdr.vlan.isValid()) {
            hdr.vlan.setValid();
            hdr.vlan.priority = 0;
            hdr.vlan.drop_eligible = 0;
            hdr.vlan.type = hdr.ethernet.type;
            hdr.ethernet.type = ETHERTYPE_VLAN;
        }
        hdr.vlan.vid = meta.vid;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    // Which VLANs a port carries, and how.
    table members {
        key = {
            standard_metadata.egress_port : exact;
            meta.vid                      : exact;
        }
        actions = { untagged; tagged; @defaultonly drop; }
        const default_action = drop();
        size = 4096;
    }

    apply {
        if (members.apply().hit) {
            port_tx.count((bit<32>)standard_metadata.egress_port);
        }
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

control SwitchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.l4);
    }
}

V1Switch(SwitchParser(),
         VerifyIpv4Checksum(),
         SwitchIngress(),
         SwitchEgress(),
         UpdateIpv4Checksum(),
         SwitchDeparser()) main;
