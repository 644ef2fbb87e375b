// Finds the flows that send most, with a count-min sketch.
//
// Three rows of counters, each indexed by another hash of the flow. A flow's count is the smallest of its three
// counters: never too small, and too large only when it shares all three with others. When the count reaches the
// threshold the flow is reported once, and from then on its packets are marked with a lower class. The control plane resets the
// rows when a measuring interval begins.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<32> Count;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;
const bit<6>  DSCP_LOWER_EFFORT = 1; // RFC 8622

const bit<32> CELLS = 4096;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
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

header l4_ports_t {
    bit<16> src;
    bit<16> dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    l4_ports_t l4;
}

struct flow_t {
    bit<32> src;
    bit<32> dst;
    bit<8>  protocol;
    bit<16> src_port;
    bit<16> dst_port;
}

struct metadata_t {
    flow_t flow;
}

struct heavy_hitter_t {
    flow_t flow;
    Count  packets;
}

parser SketchParser(packet_in packet,
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
        meta.flow = { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, 0, 0 };
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_TCP): parse_l4;
            (5, 0, PROTOCOL_UDP): parse_l4;
            default:              accept;
        }
    }

    state parse_l4 {
        packet.extract(hdr.l4);
        meta.flow.src_port = hdr.l4.src;
        meta.flow.dst_port = hdr.l4.dst;
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

// One row of the sketch.
control Row(in flow_t flow, out Count count)(HashAlgorithm algorithm) {
    register<Count>(CELLS) counts;

    apply {
        bit<32> cell;
        hash(cell, algorithm, 32w0, flow, CELLS);
        @atomic {
            counts.read(count, cell);
            count = count |+| 1;
            counts.write(cell, count);
        }
    }
}

control SketchIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    Row(HashAlgorithm.crc32) row_1;
    Row(HashAlgorithm.crc16) row_2;
    Row(HashAlgorithm.csum16) row_3;

    Count threshold = 0;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action to_port(Port port) {
        standard_metadata.egress_spec = port;
    }

    table wire {
        key = { standard_metadata.ingress_port : exact; }
        actions = { to_port; drop; }
        default_action = drop();
        size = 512;
    }

    action watch(Count packets) {
        threshold = packets;
    }

    // Which destinations are watched, and how many packets are too many.
    table watch_list {
        key = { hdr.ipv4.dst : lpm; }
        actions = { watch; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    apply {
        wire.apply();
        if (hdr.ipv4.isValid() && watch_list.apply().hit) {
            Count count_1;
            Count count_2;
            Count count_3;
            row_1.apply(meta.flow, count_1);
            row_2.apply(meta.flow, count_2);
            row_3.apply(meta.flow, count_3);
            Count packets = count_1;
            if (count_2 < packets) {
                packets = count_2;
            }
            if (count_3 < packets) {
                packets = count_3;
            }
            if (packets == threshold) {
                digest<heavy_hitter_t>(1, { meta.flow, packets });
            }
            if (packets >= threshold) {
                hdr.ipv4.dscp = DSCP_LOWER_EFFORT;
            }
        }
    }
}

control SketchEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply { }
}

control UpdateIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SketchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(SketchParser(),
         NoChecksum(),
         SketchIngress(),
         SketchEgress(),
         UpdateIpv4Checksum(),
         SketchDeparser()) main;
