// Network address and port translation: flows of hosts inside leave with an address and a port of ours, and what comes back for these goes to the
// host (RFC 3022). A flow that is not known goes to the control plane, which chooses a port for it and adds the flow.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;

const Port CPU_PORT = 255;
const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;

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

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    tcp_t      tcp;
    udp_t      udp;
}

struct metadata_t {
    bit<16> src_port;
    bit<16> dst_port;
    bool    is_translated;
}

// What is not translated: the indices of the counter `drops`.
enum bit<32> Drop {
    Malformed   = 0,
    NotIpv4     = 1,
    BadChecksum = 2,
    LastHop     = 3,
    NoPorts     = 4,
    NoSide      = 5,
    Unasked     = 6,
    NoRoute     = 7
}

// The one's complement checksum `checksum` after 16 bits of its data changed from `old` to `new` (RFC 1624).
bit<16> corrected16(in bit<16> checksum, in bit<16> old, in bit<16> new) {
    bit<18> sum = (bit<18>)(~checksum) + (bit<18>)(~old) + (bit<18>)new;
    sum = (bit<18>)sum[15:0] + (bit<18>)sum[17:16];
    sum = (bit<18>)sum[15:0] + (bit<18>)sum[17:16];
    return ~sum[15:0];
}

// The same for an address and a port.
bit<16> corrected(in bit<16> checksum, in bit<32> old_address, in bit<32> address, in bit<16> old_port, in bit<16> port) {
    bit<16> sum = corrected16(checksum, old_address[31:16], address[31:16]);
    sum = corrected16(sum, old_address[15:0], address[15:0]);
    return corrected16(sum, old_port, port);
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
        // Fragments are for the control plane, which puts them together. (MF is the lowest flag.)
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (4, 5, 0 &&& 1, 0, PROTOCOL_TCP): parse_tcp;
            (4, 5, 0 &&& 1, 0, PROTOCOL_UDP): parse_udp;
            default:                          accept;
        }
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
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control NatIngress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    counter((bit<32>)8, CounterType.packets) drops;
    direct_counter(CounterType.packets_and_bytes) flows_out;
    direct_counter(CounterType.packets_and_bytes) flows_in;

    bool is_inside = false;

    action drop(Drop reason) {
        drops.count((bit<32>)reason);
        mark_to_drop(standard_metadata);
        exit;
    }

    action inside() {
        is_inside = true;
    }

    action outside() { }

    table sides {
        key = { standard_metadata.ingress_port : exact; }
        actions = { inside; outside; @defaultonly drop; }
        const default_action = drop(Drop.NoSide);
        size = 512;
    }

    action to_cpu() {
        flows_out.count();
        standard_metadata.egress_spec = CPU_PORT;
        exit;
    }

    action leave_as(bit<32> address, bit<16> port) {
        flows_out.count();
        meta.is_translated = true;
        if (hdr.tcp.isValid()) {
            hdr.tcp.checksum = corrected(hdr.tcp.checksum, hdr.ipv4.src, address, hdr.tcp.src, port);
            hdr.tcp.src = port;
        } else {
            // Zero says that there is no checksum; one that comes out as zero is sent as all ones.
            if (hdr.udp.checksum != 0) {
                hdr.udp.checksum = corrected(hdr.udp.checksum, hdr.ipv4.src, address, hdr.udp.src, port);
                if (hdr.udp.checksum == 0) {
                    hdr.udp.checksum = 0xffff;
                }
            }
            hdr.udp.src = port;
        }
        hdr.ipv4.src = address;
    }

    table outbound {
        key = {
            hdr.ipv4.src      : exact;
            meta.src_port     : exact;
            hdr.ipv4.protocol : exact;
        }
        actions = { leave_as; @defaultonly to_cpu; }
        const default_action = to_cpu();
        counters = flows_out;
        size = 262144;
    }

    action unasked() {
        flows_in.count();
        drop(Drop.Unasked);
    }

    action deliver_to(bit<32> address, bit<16> port) {
        flows_in.count();
        meta.is_translated = true;
        if (hdr.tcp.isValid()) {
            hdr.tcp.checksum = corrected(hdr.tcp.checksum, hdr.ipv4.dst, address, hdr.tcp.dst, port);
            hdr.tcp.dst = port;
        } else {
            if (hdr.udp.checksum != 0) {
                hdr.udp.checksum = corrected(hdr.udp.checksum, hdr.ipv4.dst, address, hdr.udp.dst, port);
                if (hdr.udp.checksum == 0) {
                    hdr.udp.checksum = 0xffff;
                }
            }
            hdr.udp.dst = port;
        }
        hdr.ipv4.dst = address;
    }

    table inbound {
        key = {
            hdr.ipv4.dst      : exact;
            meta.dst_port     : exact;
            hdr.ipv4.protocol : exact;
        }
        actions = { deliver_to; @defaultonly unasked; }
        const default_action = unasked();
        counters = flows_in;
        size = 262144;
    }

    action forward(Port port, Mac src, Mac dst) {
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        standard_metadata.egress_spec = port;
    }

    table routes {
        key = { hdr.ipv4.dst : lpm; }
        actions = { forward; @defaultonly drop; }
        const default_action = drop(Drop.NoRoute);
        size = 4096;
    }

    apply {
        if (standard_metadata.parser_error != error.NoError) {
            drop(Drop.Malformed);
        }
        if (!hdr.ipv4.isValid()) {
            drop(Drop.NotIpv4);
        }
        if (standard_metadata.checksum_error == 1) {
            drop(Drop.BadChecksum);
        }
        if (hdr.ipv4.ttl <= 1) {
            drop(Drop.LastHop);
        }
        if (!hdr.tcp.isValid() && !hdr.udp.isValid()) {
            drop(Drop.NoPorts);
        }
        sides.apply();
        if (is_inside) {
            outbound.apply();
        } else {
            inbound.apply();
        }
        routes.apply();
    }
}

control NatEgress(inout headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    apply { }
}

control UpdateIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(meta.is_translated,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control NatDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
    }
}

V1Switch(NatParser(),
         VerifyIpv4Checksum(),
         NatIngress(),
         NatEgress(),
         UpdateIpv4Checksum(),
         NatDeparser()) main;
