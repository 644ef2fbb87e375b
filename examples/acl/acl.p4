// A stateless firewall between two ports.
//
// Rules match addresses under masks, ranges of L4 ports, TCP flags and fragments; the rule with the highest priority decides.
// What no rule names is denied. Each rule counts its packets; denied packets that a rule wants logged are reported.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<16> L4Port;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP  = 0x0806;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
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

header ipv4_options_t {
    varbit<320> options;
}

header tcp_t {
    L4Port  src;
    L4Port  dst;
    bit<32> sequence;
    bit<32> acknowledgement;
    bit<4>  data_offset;
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_t {
    L4Port  src;
    L4Port  dst;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t     ethernet;
    ipv4_t         ipv4;
    ipv4_options_t ipv4_options;
    tcp_t          tcp;
    udp_t          udp;
}

// What rules match beside the IPv4 header. Zero where the packet has no such field.
struct metadata_t {
    L4Port src_port;
    L4Port dst_port;
    bit<8> tcp_flags;
    bit<1> later_fragment;
}

struct denied_t {
    Port    port;
    bit<32> src;
    bit<32> dst;
    bit<8>  protocol;
    L4Port  src_port;
    L4Port  dst_port;
}

parser FirewallParser(packet_in packet,
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
        transition select(hdr.ipv4.version, hdr.ipv4.ihl) {
            (4, 5):       parse_l4;
            (4, 6 .. 15): parse_options;
            default:      reject;
        }
    }

    state parse_options {
        packet.extract(hdr.ipv4_options, ((bit<32>)hdr.ipv4.ihl - 5) * 32);
        transition parse_l4;
    }

    state parse_l4 {
        // Later fragments carry no L4 header: what stands there is payload and must not be taken for ports.
        transition select(hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0, PROTOCOL_TCP): parse_tcp;
            (0, PROTOCOL_UDP): parse_udp;
            (0, _):            accept;
            default:           later_fragment;
        }
    }

    state later_fragment {
        meta.later_fragment = 1;
        transition accept;
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        meta.src_port = hdr.tcp.src;
        meta.dst_port = hdr.tcp.dst;
        meta.tcp_flags = hdr.tcp.flags;
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        meta.src_port = hdr.udp.src;
        meta.dst_port = hdr.udp.dst;
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control FirewallIngress(inout headers_t hdr,
                        inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) rule_hits;

    action permit() {
        rule_hits.count();
    }

    action deny() {
        rule_hits.count();
        mark_to_drop(standard_metadata);
        exit;
    }

    action deny_and_log() {
        rule_hits.count();
        digest<denied_t>(1, { standard_metadata.ingress_port, hdr.ipv4.src, hdr.ipv4.dst,
                              hdr.ipv4.protocol, meta.src_port, meta.dst_port });
        mark_to_drop(standard_metadata);
        exit;
    }

    table acl {
        key = {
            standard_metadata.ingress_port : optional;
            hdr.ipv4.src                   : ternary;
            hdr.ipv4.dst                   : ternary;
            hdr.ipv4.protocol              : ternary;
            meta.later_fragment            : ternary;
            meta.src_port                  : range;
            meta.dst_port                  : range;
            meta.tcp_flags                 : ternary;
        }
        actions = { permit; deny; deny_and_log; }
        default_action = deny();
        counters = rule_hits;
        size = 4096;
    }

    action drop() {
        mark_to_drop(standard_metadata);
        exit;
    }

    action to_port(Port port) {
        standard_metadata.egress_spec = port;
    }

    // Which port lies opposite.
    table wire {
        key = { standard_metadata.ingress_port : exact; }
        actions = { to_port; drop; }
        default_action = drop();
        size = 512;
    }

    apply {
        if (standard_metadata.parser_error != error.NoError) {
            drop();
        }
        wire.apply();
        if (hdr.ipv4.isValid()) {
            acl.apply();
        } else if (hdr.ethernet.type != ETHERTYPE_ARP) {
            drop();
        }
    }
}

control FirewallEgress(inout headers_t hdr,
                       inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    apply { }
}

control FirewallDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(FirewallParser(),
         NoChecksum(),
         FirewallIngress(),
         FirewallEgress(),
         NoChecksum(),
         FirewallDeparser()) main;
