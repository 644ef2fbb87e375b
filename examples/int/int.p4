// In-band network telemetry: an INT-MD node (INT 2.1) that is source, transit hop and sink, each where its tables say so.
//
// At the source, packets of watched TCP and UDP flows get an INT header after TCP's options or after UDP; every node on the
// way puts its own measurements in front of those of the nodes before it; the sink takes everything out again before the
// packet reaches its host, and sends what the packet had collected, with its own measurements, to a collector (Telemetry
// Report 2.0). A report has the packet from its IP header to the end of the INT stack, however long that is.
//
// A packet with INT is known by its DSCP; the original one travels in the shim header. The checksum of TCP or UDP is changed
// by the difference where words are added and where the sink removes them: a damaged packet stays damaged.
//
// With INT_DROP_REPORTS defined, a node reports packets with INT that it drops, too (examples/reflex/drops).
//
// The clock ticks in microseconds, and so do hop latencies. The sink reports when the packet came; when it leaves is not
// known yet.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;
typedef bit<32> Ipv4Address;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;

const bit<6> DSCP_INT = 0x17;
const bit<4> SHIM_TYPE_MD = 1;
const bit<8> INT_HEADER_WORDS = 3;

// `examples/reflex/edge.p4` has more tables, and nodes that report in transit.
#ifdef REFLEX_EDGE
#define REPORTED_IN_TRANSIT meta.reported_in_transit
#else
#define REPORTED_IN_TRANSIT 0
#endif

// What a drop report adds to others: a word, and a flag.
#ifdef INT_DROP_REPORTS
#define DROP_WORDS drop_words
// The time to live ended: a number that the device does not use.
const bit<8> DROP_TTL = 128;
#else
#define DROP_WORDS 16w0
#endif

const bit<32> INGRESS_CLONE = 1; // standard_metadata.instance_type

// Words of a report behind its first one, but for the packet: two, and the metadata (bits 1 and 4: three words).
const bit<16> REPORT_WORDS = 5;
// Report length of a report that ends with its datagram.
const bit<16> REPORT_TO_THE_END = 255;

header ethernet_t {
    Mac     dst;
    Mac     src;
    bit<16> type;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<6>      dscp;
    bit<2>      ecn;
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

header tcp_t {
    bit<16> src;
    bit<16> dst;
    bit<32> sequence;
    bit<32> acknowledgement;
    bit<4>  data_offset;
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header tcp_options_t {
    varbit<320> bytes;
}

// Between TCP or UDP and INT. `length` counts the words that follow, up to the original payload.
header int_shim_t {
    bit<4> type;
    bit<2> next_protocol;
    bit<2> reserved_1;
    bit<8> length;
    bit<8> reserved_2;
    bit<6> dscp;
    bit<2> reserved_3;
}

header int_header_t {
    bit<4>  version;
    bit<1>  discard;
    bit<1>  hops_exceeded;
    bit<1>  mtu_exceeded;
    bit<12> reserved;
    bit<5>  hop_words;
    bit<8>  remaining_hops;
    bit<16> instructions;
    bit<16> domain;
    bit<16> domain_instructions;
    bit<16> domain_flags;
}

// The measurements of the nodes before this one.
header int_stack_t {
    varbit<8064> words;
}

// This node's own measurements, one header for each bit of the instruction bitmap.
header int_node_t          { bit<32> id; }
header int_ports_t         { bit<16> ingress; bit<16> egress; }
header int_latency_t       { bit<32> nanoseconds; }
header int_queue_t         { bit<8> id; bit<24> occupancy; }
header int_ingress_time_t  { bit<64> nanoseconds; }
header int_egress_time_t   { bit<64> nanoseconds; }
header int_logical_ports_t { bit<32> ingress; bit<32> egress; }
header int_unknown_t       { bit<32> ones; }

header report_group_t {
    bit<4>  version;
    bit<6>  hardware;
    bit<22> sequence;
    bit<32> node;
}

header report_t {
    bit<4>  type;        // 1: INT
    bit<4>  inner_type;  // 4: an IPv4 packet
    bit<8>  length;      // words after this one, or 255: to the end of the datagram
    bit<8>  metadata_length;
    bit<1>  dropped;
    bit<1>  congested;
    bit<1>  tracked;
    bit<1>  intermediate;
    bit<4>  reserved;
    bit<16> metadata_bits;
    bit<16> domain;
    bit<16> domain_bits;
    bit<16> domain_status;
}

header report_drop_t {
    bit<8>  queue;
    bit<8>  reason;
    bit<16> reserved;
}

struct headers_t {
    // In front of a reported packet.
    ethernet_t         report_ethernet;
    ipv4_t             report_ipv4;
    udp_t              report_udp;
    report_group_t     report_group;
    report_t           report;
    int_ports_t        report_ports;
    int_ingress_time_t report_ingress_time;
#ifdef INT_DROP_REPORTS
    report_drop_t      report_drop;
#endif

    ethernet_t         ethernet;
    ipv4_t             ipv4;
    tcp_t              tcp;
    tcp_options_t      tcp_options;
    udp_t              udp;
    int_shim_t         shim;
    int_header_t       int_header;
    // In the order of the instruction bitmap.
    int_node_t          node;
    int_ports_t         ports;
    int_latency_t       latency;
    int_queue_t         queue;
    int_ingress_time_t  ingress_time;
    int_egress_time_t   egress_time;
    int_logical_ports_t logical_ports;
    int_unknown_t       tx_utilisation;
    int_unknown_t       buffer;
    int_unknown_t       checksum_complement;
    int_stack_t         stack;
}

struct metadata_t {
    bool    is_source;
    bool    is_sink;
    // Ports of TCP or UDP.
    bit<16> l4_src;
    bit<16> l4_dst;
    bit<16> instructions;
    bit<5>  hop_words;
    bit<8>  max_hops;
    // What a report tells of the packet that it reports.
    @field_list(1)
    bit<9>  reported_ingress_port;
    @field_list(1)
    bit<9>  reported_egress_port;
    @field_list(1)
    bit<48> reported_ingress_time;
#ifdef REFLEX_EDGE
    // The node is not the sink.
    @field_list(1)
    bit<1>  reported_in_transit;
#endif
#ifdef INT_DROP_REPORTS
    // The clone session that gets a copy of the packet if it is dropped, and in the copy the reason.
    @drop_session
    bit<32> drop_session;
    @drop_reason
    bit<8>  drop_reason;
#endif
}

error {
    BadIntLength,
    BadTcpOffset
}

parser IntParser(packet_in packet,
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
        // Whole packets only; MF is the lowest flag.
        transition select(hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0 &&& 1, 0, PROTOCOL_UDP): parse_udp;
            (5, 0 &&& 1, 0, PROTOCOL_TCP): parse_tcp;
            default:                       accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        meta.l4_src = hdr.udp.src;
        meta.l4_dst = hdr.udp.dst;
        transition look_for_int;
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        meta.l4_src = hdr.tcp.src;
        meta.l4_dst = hdr.tcp.dst;
        verify(hdr.tcp.data_offset >= 5, error.BadTcpOffset);
        packet.extract(hdr.tcp_options, ((bit<32>)(hdr.tcp.data_offset - 5)) * 32);
        transition look_for_int;
    }

    state look_for_int {
        transition select(hdr.ipv4.dscp) {
            DSCP_INT: look_at_shim;
            default:  accept;
        }
    }

    state look_at_shim {
        transition select(packet.lookahead<bit<4>>()) {
            SHIM_TYPE_MD: parse_int;
            default:      accept;
        }
    }

    state parse_int {
        packet.extract(hdr.shim);
        verify(hdr.shim.length >= INT_HEADER_WORDS, error.BadIntLength);
        packet.extract(hdr.int_header);
        packet.extract(hdr.stack, ((bit<32>)(hdr.shim.length - INT_HEADER_WORDS)) * 32);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IntIngress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    action drop() {
        mark_to_drop(standard_metadata);
        exit;
    }

    action to_port(Port port) {
        standard_metadata.egress_spec = port;
    }

    table forward {
        key = { hdr.ethernet.dst : exact; }
        actions = { to_port; drop; }
        default_action = drop();
        size = 16384;
    }

    action via(Port port) {
        standard_metadata.egress_spec = port;
    }

    // Flows that take another way than that of their destination: a reflex plane writes here.
    table detour {
        key = {
            hdr.ipv4.src      : exact;
            hdr.ipv4.dst      : exact;
            hdr.ipv4.protocol : exact;
            meta.l4_src       : exact;
            meta.l4_dst       : exact;
        }
        actions = { via; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

#ifdef REFLEX_EDGE
    // Hosts that may not send.
    table blocked {
        key = { hdr.ipv4.src : exact; }
        actions = { drop; NoAction; }
        default_action = NoAction();
        size = 16384;
    }

    // Rates of tenants at this edge: packets above them are dropped.
    meter(64, MeterType.bytes) tenant_rate;

    action tenant(bit<32> cell) {
        bit<2> color;
        tenant_rate.execute_meter(cell, color);
        if (color == 2) {
            mark_to_drop(standard_metadata);
            exit;
        }
    }

    table tenants {
        key = { hdr.ipv4.src : lpm; }
        actions = { tenant; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    // Flows that may send at a rate of their own only.
    direct_meter<bit<2>>(MeterType.bytes) flow_rate;
    bit<2> flow_color = 0;

    action police() {
        flow_rate.read(flow_color);
    }

    table policed {
        key = {
            hdr.ipv4.src      : exact;
            hdr.ipv4.dst      : exact;
            hdr.ipv4.protocol : exact;
            meta.l4_src       : exact;
            meta.l4_dst       : exact;
        }
        actions = { police; NoAction; }
        default_action = NoAction();
        meters = flow_rate;
        size = 4096;
    }

    action route(Port port) {
        standard_metadata.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        if (hdr.ipv4.ttl == 0) {
#ifdef INT_DROP_REPORTS
            meta.drop_reason = DROP_TTL;
#endif
            mark_to_drop(standard_metadata);
            exit;
        }
    }

    // Destinations that have a way of their own, whatever their Ethernet address is.
    table routes {
        key = { hdr.ipv4.dst : lpm; }
        actions = { route; NoAction; }
        default_action = NoAction();
        size = 16384;
    }

    action in_transit() {
        meta.reported_in_transit = 1;
    }

    // Packets that a node reports before the sink does, by the nodes that may still measure them: one of more nodes
    // than a way has is in a loop.
    table transit_reports {
        key = { hdr.int_header.remaining_hops : exact; }
        actions = { in_transit; NoAction; }
        default_action = NoAction();
        size = 256;
    }
#endif

    // What the nodes on the way shall measure. `hop_words` is the size of one node's answer: one word for each
    // instruction, two for bits 4, 5 and 6.
    action watch(bit<16> instructions, bit<5> hop_words, bit<8> max_hops) {
        meta.is_source = true;
        meta.instructions = instructions;
        meta.hop_words = hop_words;
        meta.max_hops = max_hops;
    }

    table watch_list {
        key = {
            hdr.ipv4.src : ternary;
            hdr.ipv4.dst : ternary;
            hdr.ipv4.protocol : ternary;
            meta.l4_src : range;
            meta.l4_dst : range;
        }
        actions = { watch; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    action sink() {
        meta.is_sink = true;
    }

    // Ports where hosts are: packets that come with INT are forged.
    table host_ingress {
        key = { standard_metadata.ingress_port : exact; }
        actions = { drop; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    // Ports where hosts are: no INT leaves there.
    table host_port {
        key = { standard_metadata.egress_spec : exact; }
        actions = { sink; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    action report(bit<32> session) {
        meta.reported_ingress_port = standard_metadata.ingress_port;
        meta.reported_egress_port = standard_metadata.egress_spec;
        meta.reported_ingress_time = standard_metadata.ingress_global_timestamp;
        clone_preserving_field_list(CloneType.I2E, session, 1);
    }

    // Which clone session leads to the collector.
    table collector {
        actions = { report; NoAction; }
        default_action = NoAction();
    }

#ifdef INT_DROP_REPORTS
    bit<32> session_of_drops = 0;

    action report_drops(bit<32> session) {
        session_of_drops = session;
    }

    // Which clone session leads to the collector of drops.
    table drop_collector {
        actions = { report_drops; NoAction; }
        default_action = NoAction();
    }
#endif

    apply {
        if (standard_metadata.parser_error != error.NoError) {
            drop();
        }
        if (hdr.shim.isValid()) {
            host_ingress.apply();
        }
#ifdef INT_DROP_REPORTS
        drop_collector.apply();
        meta.reported_ingress_port = standard_metadata.ingress_port;
        meta.reported_ingress_time = standard_metadata.ingress_global_timestamp;
        if (hdr.int_header.isValid()) {
            meta.drop_session = session_of_drops;
        }
#endif
#ifdef REFLEX_EDGE
        if (hdr.ipv4.isValid() && !hdr.shim.isValid()) {
            blocked.apply();
            tenants.apply();
            policed.apply();
            if (flow_color == 2) {
                drop();
            }
        }
#endif
        forward.apply();
#ifdef REFLEX_EDGE
        if (hdr.ipv4.isValid()) {
            routes.apply();
        }
#endif
        if (hdr.udp.isValid() || hdr.tcp.isValid()) {
            detour.apply();
        }
        host_port.apply();
        if (meta.is_sink) {
            if (hdr.int_header.isValid()) {
                collector.apply();
            }
        } else if ((hdr.udp.isValid() || hdr.tcp.isValid()) && !hdr.int_header.isValid()) {
            watch_list.apply();
        }
#ifdef REFLEX_EDGE
        if (!meta.is_sink && hdr.int_header.isValid()) {
            transit_reports.apply();
            if (meta.reported_in_transit == 1) {
                collector.apply();
            }
        }
#endif
#ifdef INT_DROP_REPORTS
        meta.reported_egress_port = standard_metadata.egress_spec;
        if (meta.is_source) {
            meta.drop_session = session_of_drops;
        }
#endif
    }
}

// The sum of the 16-bit halves of `word` and `sum`, for one's complement checksums.
bit<32> plus(in bit<32> sum, in bit<32> word) {
    return sum + (bit<32>)word[31:16] + (bit<32>)word[15:0];
}

// The checksum of data that `added` was added to.
bit<16> corrected(in bit<16> checksum, in bit<32> added) {
    bit<32> sum = added + (bit<32>)(~checksum);
    sum = (bit<32>)sum[15:0] + (bit<32>)sum[31:16];
    sum = (bit<32>)sum[15:0] + (bit<32>)sum[31:16];
    return ~sum[15:0];
}

// Corrects UDP's checksum for data that `added` was added to. Zero says that there is no checksum: one that comes out as zero
// is sent as all ones.
void correct_udp(inout udp_t udp, in bit<32> added) {
    if (udp.checksum != 0) {
        udp.checksum = corrected(udp.checksum, added);
        if (udp.checksum == 0) {
            udp.checksum = 0xffff;
        }
    }
}

// Puts this node's measurements in front of the stack. `added` is what the packet's checksum has to learn of them.
control Measure(inout headers_t hdr,
                in standard_metadata_t standard_metadata,
                in bit<32> node,
                inout bit<32> added) {
    bit<64> ingress_time = (bit<64>)standard_metadata.ingress_global_timestamp * 1000;
    bit<64> egress_time = (bit<64>)standard_metadata.egress_global_timestamp * 1000;

    apply {
        bit<16> instructions = hdr.int_header.instructions;
        if (instructions[15:15] == 1) {
            hdr.node.setValid();
            hdr.node.id = node;
            added = plus(added, node);
        }
        if (instructions[14:14] == 1) {
            hdr.ports.setValid();
            hdr.ports.ingress = (bit<16>)standard_metadata.ingress_port;
            hdr.ports.egress = (bit<16>)standard_metadata.egress_port;
            added = plus(added, hdr.ports.ingress ++ hdr.ports.egress);
        }
        if (instructions[13:13] == 1) {
            hdr.latency.setValid();
            hdr.latency.nanoseconds = (bit<32>)(egress_time - ingress_time);
            added = plus(added, hdr.latency.nanoseconds);
        }
        if (instructions[12:12] == 1) {
            hdr.queue.setValid();
            hdr.queue.id = (bit<8>)standard_metadata.priority;
            hdr.queue.occupancy = (bit<24>)standard_metadata.deq_qdepth;
            added = plus(added, hdr.queue.id ++ hdr.queue.occupancy);
        }
        if (instructions[11:11] == 1) {
            hdr.ingress_time.setValid();
            hdr.ingress_time.nanoseconds = ingress_time;
            added = plus(plus(added, ingress_time[63:32]), ingress_time[31:0]);
        }
        if (instructions[10:10] == 1) {
            hdr.egress_time.setValid();
            hdr.egress_time.nanoseconds = egress_time;
            added = plus(plus(added, egress_time[63:32]), egress_time[31:0]);
        }
        if (instructions[9:9] == 1) {
            hdr.logical_ports.setValid();
            hdr.logical_ports.ingress = (bit<32>)standard_metadata.ingress_port;
            hdr.logical_ports.egress = (bit<32>)standard_metadata.egress_port;
            added = plus(plus(added, hdr.logical_ports.ingress), hdr.logical_ports.egress);
        }
        // What this node cannot measure is all ones, which add nothing to a one's complement sum.
        if (instructions[8:8] == 1) {
            hdr.tx_utilisation.setValid();
            hdr.tx_utilisation.ones = 0xffffffff;
        }
        if (instructions[7:7] == 1) {
            hdr.buffer.setValid();
            hdr.buffer.ones = 0xffffffff;
        }
        if (instructions[0:0] == 1) {
            hdr.checksum_complement.setValid();
            hdr.checksum_complement.ones = 0xffffffff;
        }
    }
}

control IntEgress(inout headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    Measure() measure;
    register<bit<32>>(1) report_sequence;

    bit<32> node = 0;
    bit<32> mtu = 1500;

    action set_node(bit<32> id, bit<32> packet_limit) {
        node = id;
        mtu = packet_limit;
    }

    // Who this node is, and the longest IP packet that its links carry.
    table this_node {
        actions = { set_node; }
        default_action = set_node(0, 1500);
    }

    action send_to(Mac src_mac, Mac dst_mac, Ipv4Address src, Ipv4Address dst, bit<16> udp_port) {
        bit<32> sequence;
        @atomic {
            report_sequence.read(sequence, 0);
            report_sequence.write(0, sequence + 1);
        }

        // From the IP header to the end of the stack: whole words.
        bit<16> l4_words = 2;
        if (hdr.tcp.isValid()) {
            l4_words = (bit<16>)hdr.tcp.data_offset;
        }
#ifdef INT_DROP_REPORTS
        bit<16> words = 5 + l4_words;
        bit<16> domain = 0;
        if (hdr.shim.isValid()) {
            words = words + 1 + (bit<16>)hdr.shim.length;
            domain = hdr.int_header.domain;
        }
        bit<16> drop_words = 0;
        if (meta.drop_reason != 0) {
            drop_words = 1;
            hdr.report_drop = { 0, meta.drop_reason, 0 };
        }
#else
        bit<16> words = 5 + l4_words + 1 + (bit<16>)hdr.shim.length;
        bit<16> domain = hdr.int_header.domain;
#endif
        bit<16> inner = words << 2;
        bit<16> report_bytes = 12 + 12 + (DROP_WORDS << 2) + inner;
        bit<16> report_words = REPORT_WORDS + DROP_WORDS + words;
        if (report_words > REPORT_TO_THE_END) {
            report_words = REPORT_TO_THE_END;
        }
        hdr.ethernet.setInvalid();
        hdr.report_ethernet = { dst_mac, src_mac, ETHERTYPE_IPV4 };
        hdr.report_ipv4 = { 4, 5, 0, 0, 20 + 8 + 8 + report_bytes, 0, 0, 0, 64, PROTOCOL_UDP, 0, src, dst };
        hdr.report_udp = { udp_port, udp_port, 8 + 8 + report_bytes, 0 };
        hdr.report_group = { 2, 0, sequence[21:0], node };
        bit<8> metadata_words = (bit<8>)(3 + DROP_WORDS);
        bit<1> is_drop = (bit<1>)DROP_WORDS;
        hdr.report = { 1, 4, report_words[7:0], metadata_words, is_drop, 0, 1, REPORTED_IN_TRANSIT, 0,
                       0x4800 | DROP_WORDS, domain, 0, 0 };
        hdr.report_ports = { (bit<16>)meta.reported_ingress_port, (bit<16>)meta.reported_egress_port };
        hdr.report_ingress_time = { (bit<64>)meta.reported_ingress_time * 1000 };
        truncate(14 + 20 + 8 + 8 + (bit<32>)report_bytes);
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table report_to {
        actions = { send_to; drop; }
        default_action = drop();
    }

    apply {
        this_node.apply();

        if (standard_metadata.instance_type == INGRESS_CLONE) {
            report_to.apply();
            return;
        }

        if (meta.is_sink) {
            if (hdr.int_header.isValid()) {
                bit<16> removed = ((bit<16>)hdr.shim.length + 1) << 2;
                // The complement of the sum of the removed words: to add it is to take them away.
                bit<16> less;
                hash(less, HashAlgorithm.csum16, 16w0,
                     { hdr.shim.type, hdr.shim.next_protocol, hdr.shim.reserved_1, hdr.shim.length,
                       hdr.shim.reserved_2, hdr.shim.dscp, hdr.shim.reserved_3,
                       hdr.int_header.version, hdr.int_header.discard, hdr.int_header.hops_exceeded,
                       hdr.int_header.mtu_exceeded, hdr.int_header.reserved, hdr.int_header.hop_words,
                       hdr.int_header.remaining_hops, hdr.int_header.instructions, hdr.int_header.domain,
                       hdr.int_header.domain_instructions, hdr.int_header.domain_flags, hdr.stack.words },
                     32w65536);
                bit<32> difference = (bit<32>)less + (bit<32>)(~removed);
                hdr.ipv4.dscp = hdr.shim.dscp;
                hdr.ipv4.total_length = hdr.ipv4.total_length - removed;
                if (hdr.tcp.isValid()) {
                    hdr.tcp.checksum = corrected(hdr.tcp.checksum, difference);
                } else {
                    hdr.udp.length = hdr.udp.length - removed;
                    correct_udp(hdr.udp, difference + (bit<32>)(~removed));
                }
                hdr.shim.setInvalid();
                hdr.int_header.setInvalid();
                hdr.stack.setInvalid();
            }
            return;
        }

        bit<32> added = 0;
        bit<16> new_words = 0;

        if (meta.is_source) {
            bit<16> words = 4 + (bit<16>)meta.hop_words;
            if ((bit<32>)hdr.ipv4.total_length + ((bit<32>)words << 2) > mtu) {
                return;
            }
            hdr.shim = { SHIM_TYPE_MD, 0, 0, INT_HEADER_WORDS, 0, hdr.ipv4.dscp, 0 };
            hdr.int_header = { 2, 0, 0, 0, 0, meta.hop_words, meta.max_hops, meta.instructions, 0, 0, 0 };
            hdr.ipv4.dscp = DSCP_INT;
            added = plus(added, SHIM_TYPE_MD ++ 4w0 ++ INT_HEADER_WORDS ++ 8w0 ++ hdr.shim.dscp ++ 2w0);
            added = plus(added, 4w2 ++ 15w0 ++ meta.hop_words ++ meta.max_hops);
            added = plus(added, meta.instructions ++ 16w0);
            new_words = 4;
        }

        if (!hdr.int_header.isValid()) {
            return;
        }

        // Bits 9 to 14 and domains are unknown here, so the size of their answer would have to be guessed.
        bool can_answer = hdr.int_header.version == 2 && hdr.int_header.domain_instructions == 0 &&
                          (hdr.int_header.instructions & 0x007e) == 0;
        bit<32> grown = (bit<32>)hdr.ipv4.total_length + ((bit<32>)new_words << 2) +
                        ((bit<32>)hdr.int_header.hop_words << 2);
        if (hdr.int_header.remaining_hops == 0) {
            if (hdr.int_header.hops_exceeded == 0) {
                hdr.int_header.hops_exceeded = 1;
                added = added + 0x0400;
            }
        } else if (grown > mtu || (bit<16>)hdr.shim.length + (bit<16>)hdr.int_header.hop_words > 255) {
            if (hdr.int_header.mtu_exceeded == 0) {
                hdr.int_header.mtu_exceeded = 1;
                added = added + 0x0200;
            }
        } else if (can_answer) {
            measure.apply(hdr, standard_metadata, node, added);
            hdr.int_header.remaining_hops = hdr.int_header.remaining_hops - 1;
            added = added + 0xfffe; // minus 1
            hdr.shim.length = hdr.shim.length + (bit<8>)hdr.int_header.hop_words;
            added = added + (bit<32>)hdr.int_header.hop_words;
            new_words = new_words + (bit<16>)hdr.int_header.hop_words;
        }

        bit<16> new_bytes = new_words << 2;
        hdr.ipv4.total_length = hdr.ipv4.total_length + new_bytes;
        if (hdr.tcp.isValid()) {
            // The length counts in the pseudo-header.
            hdr.tcp.checksum = corrected(hdr.tcp.checksum, added + (bit<32>)new_bytes);
            return;
        }
        hdr.udp.length = hdr.udp.length + new_bytes;
        // The length counts twice: in UDP's header and in the pseudo-header.
        correct_udp(hdr.udp, added + ((bit<32>)new_bytes << 1));
    }
}

control UpdateChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5 && !hdr.report.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum(hdr.report_ipv4.isValid(),
            { hdr.report_ipv4.version, hdr.report_ipv4.ihl, hdr.report_ipv4.dscp, hdr.report_ipv4.ecn,
              hdr.report_ipv4.total_length, hdr.report_ipv4.identification, hdr.report_ipv4.flags,
              hdr.report_ipv4.fragment_offset, hdr.report_ipv4.ttl, hdr.report_ipv4.protocol,
              hdr.report_ipv4.src, hdr.report_ipv4.dst },
            hdr.report_ipv4.checksum, HashAlgorithm.csum16);
    }
}

control IntDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

#ifdef INT_DROP_REPORTS
@drop_reports(100000)
#endif
V1Switch(IntParser(),
         NoChecksum(),
         IntIngress(),
         IntEgress(),
         UpdateChecksums(),
         IntDeparser()) main;
