// A switch of nanoPUs: IPv4 by destination, and the trimming of NDP (Handley et al., SIGCOMM 2017, section 3.1).
//
// A packet of the transport that found a full queue leaves without its bytes: its receiver answers with NACK and asks for it with PULL.
// Packets without bytes (ACK, NACK, PULL) go before those with bytes.

#include <core.p4>
#include <v1model.p4>

typedef bit<9> Port;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_NDP = 0x99;
const bit<8>  NDP_DATA = 1;
const bit<8>  NDP_CHOP = 16;
const bit<19> FULL = 8;             // packets of a queue before this switch trims
const bit<3>  FIRST = 7;            // the priority of packets without bytes
const bit<32> HEADER_BYTES = 14 + 20 + 30;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> total_length;
    bit<16> identification;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ndp_t {
    bit<8>   flags;
    bit<232> rest;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    ndp_t      ndp;
}

struct metadata_t { }

parser SwitchParser(packet_in packet,
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
        transition select(hdr.ipv4.protocol) {
            PROTOCOL_NDP: parse_ndp;
            default:      accept;
        }
    }

    state parse_ndp {
        packet.extract(hdr.ndp);
        transition accept;
    }
}

control NoVerification(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control SwitchIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    action drop() {
        mark_to_drop(standard_metadata);
    }

    action to_port(Port port) {
        standard_metadata.egress_spec = port;
    }

    table ipv4 {
        key = { hdr.ipv4.dst : lpm; }
        actions = { to_port; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            ipv4.apply();
            if (hdr.ndp.isValid() && hdr.ndp.flags & NDP_DATA == 0) {
                standard_metadata.priority = FIRST;
            }
        } else {
            drop();
        }
    }
}

control SwitchEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply {
        bool has_bytes = hdr.ndp.isValid() && hdr.ndp.flags & NDP_DATA != 0;
        if (has_bytes && standard_metadata.enq_qdepth >= FULL) {
            hdr.ndp.flags = hdr.ndp.flags | NDP_CHOP;
            hdr.ipv4.total_length = 20 + 30;
            truncate(HEADER_BYTES);
        }
    }
}

control UpdateChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, hdr.ipv4.identification,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SwitchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ndp);
    }
}

V1Switch(SwitchParser(), NoVerification(), SwitchIngress(), SwitchEgress(), UpdateChecksum(), SwitchDeparser()) main;
