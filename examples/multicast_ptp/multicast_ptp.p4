// A switch for IP multicast and precise time.
//
// Multicast groups go to the ports that have members. Precision Time Protocol messages (IEEE 1588) pass through as
// through an end-to-end transparent clock: the time that an event message spends in the switch is added to its correction
// field, so that slaves can subtract it. PTP runs directly on Ethernet or over UDP and IPv4.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_PTP  = 0x88f7;
const bit<8>  PROTOCOL_UDP = 17;
const bit<16> UDP_PTP_EVENT = 319;

const bit<32> REPLICATED = 5; // standard_metadata.instance_type of a multicast group's copies

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

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

enum bit<4> PtpMessage {
    Sync             = 0,
    DelayRequest     = 1,
    PeerDelayRequest = 2,
    PeerDelayAnswer  = 3
}

header ptp_t {
    bit<4>  major_sdo_id;
    bit<4>  message_type;
    bit<4>  minor_version;
    bit<4>  version;
    bit<16> message_length;
    bit<8>  domain;
    bit<8>  minor_sdo_id;
    bit<16> flags;
    int<64> correction; // nanoseconds, 16 of the bits behind the point
    bit<32> type_specific;
    bit<80> source_port_identity;
    bit<16> sequence_id;
    bit<8>  control_field;
    int<8>  log_message_interval;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
    ptp_t      ptp;
}

struct metadata_t { }

parser ClockParser(packet_in packet,
                   out headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_PTP:  parse_ptp;
            default:        accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): parse_udp;
            default:              accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            UDP_PTP_EVENT: parse_ptp;
            default:       accept;
        }
    }

    state parse_ptp {
        packet.extract(hdr.ptp);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ClockIngress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    action drop() {
        mark_to_drop(standard_metadata);
    }

    action to_port(Port port) {
        standard_metadata.egress_spec = port;
    }

    action to_group(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }

    // Stations, groups of MAC addresses and PTP's addresses 01:1b:19:00:00:00 and 01:80:c2:00:00:0e.
    table forward {
        key = { hdr.ethernet.dst : exact; }
        actions = { to_port; to_group; drop; }
        default_action = drop();
        size = 16384;
    }

    // IPv4 multicast, with the source or for any source.
    table multicast_route {
        key = {
            hdr.ipv4.dst : exact;
            hdr.ipv4.src : optional;
        }
        actions = { to_group; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    apply {
        if (!hdr.ethernet.isValid()) {
            drop();
        } else if (hdr.ipv4.isValid() && hdr.ipv4.dst[31:28] == 0xe && multicast_route.apply().hit) {
            // The group's ports are set.
        } else {
            forward.apply();
        }
    }
}

// The checksum `checksum` after a word of its data changed from `old` to `new` (RFC 1624).
bit<16> corrected(in bit<16> checksum, in bit<16> old, in bit<16> new) {
    bit<18> sum = (bit<18>)(~checksum) + (bit<18>)(~old) + (bit<18>)new;
    sum = (bit<18>)sum[15:0] + (bit<18>)sum[17:16];
    sum = (bit<18>)sum[15:0] + (bit<18>)sum[17:16];
    return ~sum[15:0];
}

control ClockEgress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    counter(512, CounterType.packets) replicas;

    apply {
        // No packet returns to where it came from.
        if (standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
            return;
        }
        if (standard_metadata.instance_type == REPLICATED) {
            replicas.count((bit<32>)standard_metadata.egress_port);
        }
        // Event messages are those whose times matter.
        if (hdr.ptp.isValid() && hdr.ptp.message_type <= PtpMessage.PeerDelayAnswer) {
            bit<48> residence = standard_metadata.egress_global_timestamp -
                                standard_metadata.ingress_global_timestamp; // microseconds
            bit<64> old = (bit<64>)hdr.ptp.correction;
            bit<64> new = old + (((bit<64>)residence * 1000) << 16);
            hdr.ptp.correction = (int<64>)new;
            if (hdr.udp.isValid() && hdr.udp.checksum != 0) {
                hdr.udp.checksum = corrected(hdr.udp.checksum, old[63:48], new[63:48]);
                hdr.udp.checksum = corrected(hdr.udp.checksum, old[47:32], new[47:32]);
                hdr.udp.checksum = corrected(hdr.udp.checksum, old[31:16], new[31:16]);
                hdr.udp.checksum = corrected(hdr.udp.checksum, old[15:0], new[15:0]);
                if (hdr.udp.checksum == 0) {
                    hdr.udp.checksum = 0xffff;
                }
            }
        }
    }
}

control ClockDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(ClockParser(),
         NoChecksum(),
         ClockIngress(),
         ClockEgress(),
         NoChecksum(),
         ClockDeparser()) main;
