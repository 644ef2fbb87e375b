// Source NAT: hosts inside share an outside address.
//
// A flow is known by its protocol, its inside address and its inside port (for pings, their identifier). The first
// packet of an unknown flow is reported by a digest; the controller picks a free outside port and adds an entry for
// each direction, both with an idle time-out. The checksums are corrected by the difference (RFC 1624), so that a packet that
// arrives damaged leaves damaged.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;
typedef bit<32> Ipv4Address;
typedef bit<16> L4Port;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_ICMP = 1;
const bit<8>  PROTOCOL_TCP  = 6;
const bit<8>  PROTOCOL_UDP  = 17;

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

header icmp_echo_t {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
    bit<16> identifier;
    bit<16> sequence;
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
    ethernet_t  ethernet;
    ipv4_t      ipv4;
    icmp_echo_t icmp;
    tcp_t       tcp;
    udp_t       udp;
}

enum bit<2> Side {
    Unknown = 0,
    Inside  = 1,
    Outside = 2
}

struct metadata_t {
    Side   side;
    L4Port src_port;
    L4Port dst_port;
}

struct new_flow_t {
    bit<8>      protocol;
    Ipv4Address address;
    L4Port      l4_port;
}

// The one's complement checksum `checksum` after a 16-bit word of its data changed from `old` to `new`.
bit<16> corrected16(in bit<16> checksum, in bit<16> old, in bit<16> new) {
    bit<18> sum = (bit<18>)(~checksum) + (bit<18>)(~old) + (bit<18>)new;
    sum = (bit<18>)sum[15:0] + (bit<18>)sum[17:16];
    sum = (bit<18>)sum[15:0] + (bit<18>)sum[17:16];
    return ~sum[15:0];
}

// The same for a 32-bit word.
bit<16> corrected32(in bit<16> checksum, in bit<32> old, in bit<32> new) {
    return corrected16(corrected16(checksum, old[31:16], new[31:16]), old[15:0], new[15:0]);
}

parser NatParser(packet_in packet,
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
        // Fragments cannot be translated one by one: only the first has ports. (MF is the lowest flag.)
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (4, 5, 0 &&& 1, 0, PROTOCOL_ICMP): parse_icmp;
            (4, 5, 0 &&& 1, 0, PROTOCOL_TCP):  parse_tcp;
            (4, 5, 0 &&& 1, 0, PROTOCOL_UDP):  parse_udp;
            default:                           accept;
        }
    }

    state parse_icmp {
        // Echo requests (8) and replies (0) have an identifier; other messages are not translated.
        transition select(packet.lookahead<bit<8>>()) {
            8:       parse_echo;
            0:       parse_echo;
            default: accept;
        }
    }

    state parse_echo {
        packet.extract(hdr.icmp);
        meta.src_port = hdr.icmp.identifier;
        meta.dst_port = hdr.icmp.identifier;
        transition accept;
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        meta.src_port = hdr.tcp.src;
        meta.dst_port = hdr.tcp.dst;
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        meta.src_port = hdr.udp.src;
        meta.dst_port = hdr.udp.dst;
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

// Sets one address and one port of a packet and corrects the checksums over them. Exactly one of the L4 headers is valid.
control Rewrite(inout headers_t hdr, in bool source, in Ipv4Address address, in L4Port l4_port) {
    apply {
        Ipv4Address old_address = source ? hdr.ipv4.src : hdr.ipv4.dst;
        if (source) {
            hdr.ipv4.src = address;
        } else {
            hdr.ipv4.dst = address;
        }
        if (hdr.tcp.isValid()) {
            L4Port old_port = source ? hdr.tcp.src : hdr.tcp.dst;
            hdr.tcp.checksum = corrected32(hdr.tcp.checksum, old_address, address);
            hdr.tcp.checksum = corrected16(hdr.tcp.checksum, old_port, l4_port);
            if (source) {
                hdr.tcp.src = l4_port;
            } else {
                hdr.tcp.dst = l4_port;
            }
        } else if (hdr.udp.isValid()) {
            L4Port old_port = source ? hdr.udp.src : hdr.udp.dst;
            // Zero says that there is no checksum; a checksum that comes out as zero is sent as all ones.
            if (hdr.udp.checksum != 0) {
                hdr.udp.checksum = corrected32(hdr.udp.checksum, old_address, address);
                hdr.udp.checksum = corrected16(hdr.udp.checksum, old_port, l4_port);
                if (hdr.udp.checksum == 0) {
                    hdr.udp.checksum = 0xffff;
                }
            }
            if (source) {
                hdr.udp.src = l4_port;
            } else {
                hdr.udp.dst = l4_port;
            }
        } else if (hdr.icmp.isValid()) {
            // ICMP's checksum does not cover the addresses.
            hdr.icmp.checksum = corrected16(hdr.icmp.checksum, hdr.icmp.identifier, l4_port);
            hdr.icmp.identifier = l4_port;
        }
    }
}

control NatIngress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    Rewrite() rewrite;

    Ipv4Address new_address = 0;
    L4Port      new_port = 0;

    action drop() {
        mark_to_drop(standard_metadata);
        exit;
    }

    action set_side(Side side) {
        meta.side = side;
    }

    table port_side {
        key = { standard_metadata.ingress_port : exact; }
        actions = { set_side; drop; }
        default_action = drop();
        size = 512;
    }

    action translate(Ipv4Address address, L4Port l4_port) {
        new_address = address;
        new_port = l4_port;
    }

    action report() {
        digest<new_flow_t>(1, { hdr.ipv4.protocol, hdr.ipv4.src, meta.src_port });
        drop();
    }

    table outbound {
        key = {
            hdr.ipv4.protocol : exact;
            hdr.ipv4.src      : exact;
            meta.src_port     : exact;
        }
        actions = { translate; report; }
        const default_action = report();
        support_timeout = true;
        size = 65536;
    }

    table inbound {
        key = {
            hdr.ipv4.protocol : exact;
            hdr.ipv4.dst      : exact;
            meta.dst_port     : exact;
        }
        actions = { translate; drop; }
        const default_action = drop();
        support_timeout = true;
        size = 65536;
    }

    action to_port(Port port, Mac src_mac, Mac dst_mac) {
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        standard_metadata.egress_spec = port;
    }

    table route {
        key = { hdr.ipv4.dst : lpm; }
        actions = { to_port; drop; }
        default_action = drop();
        size = 4096;
    }

    apply {
        if (!(hdr.tcp.isValid() || hdr.udp.isValid() || hdr.icmp.isValid()) ||
            standard_metadata.checksum_error == 1 || hdr.ipv4.ttl <= 1) {
            drop();
        }
        port_side.apply();
        bool source = meta.side == Side.Inside;
        if (source) {
            outbound.apply();
        } else {
            inbound.apply();
        }
        rewrite.apply(hdr, source, new_address, new_port);
        route.apply();
    }
}

control NatEgress(inout headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    apply { }
}

control UpdateIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control NatDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(NatParser(),
         VerifyIpv4Checksum(),
         NatIngress(),
         NatEgress(),
         UpdateIpv4Checksum(),
         NatDeparser()) main;
