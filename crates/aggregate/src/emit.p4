// A switch that forwards IPv4 and reduces key-value pairs on their way.

#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP = 17;

// Version of the messages.
const bit<4> VERSION = @VERSION@;

const bit<4> KIND_DATA = 1;
const bit<4> KIND_ACK = 2;
const bit<4> KIND_COLLECT = 5;
const bit<4> KIND_REPLY = 6;
const bit<4> KIND_CLEAR = 7;

const bit<8> FLAG_ACK = 0x40;
const bit<8> FLAG_OLD = 0x04;

const bit<2> SEARCH_EMPTY = 0;
const bit<2> SEARCH_HIT = 1;
const bit<2> SEARCH_FULL = 2;

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

header agg_t {
    bit<4>  version;
    bit<4>  kind;
    bit<8>  flags;
    bit<8>  operator;
    bit<4>  key_class;
    bit<4>  value_class;
    bit<16> job;
    bit<16> attempt;
    bit<16> flow;
    bit<16> epoch;
    bit<32> sequence;
    bit<32> incarnation;
    bit<8>  pairs;
    bit<8>  absorbed;
    bit<16> credit;
}

// Position and counts of slots in requests and replies.
header bank_t {
    bit<32> first;
    bit<32> used;
    bit<64> counts;
}

@HEADERS@
struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    agg_t agg;
    bank_t bank;
@STACKS@
}

struct metadata_t {
    // Number of the control for the reduction, from 1. 0: none.
    bit<8> reduction;
    // Number of the reduction among those of this control.
    bit<32> member;
    bit<8> left;
    // The UDP datagram differs from the received one.
    bool is_changed;
    // Never assigned: what a right sum with its checksum gives.
    bit<16> zero;
    // Of the reduction's entry.
    bit<16> attempt;
    bit<32> incarnation;
    bit<16> own_flow;
    bit<9> own_port;
    bit<48> own_mac;
    // Of the flow's entry: the next hop on its path, and whether this switch reduces it.
    bool is_on_path;
    bool is_reduced;
    // The message came to this switch's address and goes back to its sender.
    bool goes_back;
    bit<9> port;
    bit<48> mac;
}

parser SwitchParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags[0:0],
                          hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (4, 5, 0, 0, PROTOCOL_UDP): udp;
            default: accept;
        }
    }

    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            9570 .. 9579: agg;
            default: accept;
        }
    }

    state agg {
        packet.extract(hdr.agg);
        transition select(hdr.agg.version, hdr.agg.kind, hdr.agg.job, hdr.agg.operator,
                          hdr.agg.key_class, hdr.agg.value_class) {
@SELECT@
            default: accept;
        }
    }

    // Pairs of any size: they pass as they are.
    state opaque {
        meta.reduction = 0;
        transition accept;
    }

@STATES@
}

control VerifyChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        // Sums of datagrams have the checksum in them: a host sends 0xffff in place of 0 (RFC 768),
        // and both are right then.
        // Messages that pass as they are: a bit damaged on the link before and another one on the
        // link after this switch could make a checksum that fits.
        verify_checksum_with_payload(
            hdr.agg.isValid() && hdr.agg.version == VERSION && meta.reduction == 0
            && !hdr.bank.isValid(), {
            hdr.udp.checksum,
@UDP_FIELDS@
        }, meta.zero, HashAlgorithm.csum16);
        verify_checksum_with_payload(
            hdr.agg.isValid() && hdr.agg.version == VERSION && meta.reduction == 0
            && hdr.bank.isValid(), {
            hdr.udp.checksum,
@UDP_FIELDS@,
            hdr.bank.first, hdr.bank.used, hdr.bank.counts
        }, meta.zero, HashAlgorithm.csum16);
@VERIFY@
    }
}

@CONTROLS@
control SwitchIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
@INSTANCES@

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action forward(bit<9> port, bit<48> mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table routes {
        key = { hdr.ipv4.dst : lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 65536;
    }

    action pass(bit<9> port, bit<48> mac, bit<1> reduces) {
        meta.is_on_path = true;
        meta.is_reduced = reduces == 1;
        meta.port = port;
        meta.mac = mac;
    }

    // The first switch of a mapper beside its reducer.
    action pass_back(bit<9> port, bit<48> mac, bit<1> reduces) {
        pass(port, mac, reduces);
        meta.goes_back = true;
    }

    // The paths of reductions' flows to their reducers. A path may pass a switch twice.
    table flows {
        key = {
            standard_metadata.ingress_port : exact;
            hdr.ipv4.dst : exact;
            hdr.agg.job : exact;
            hdr.agg.flow : exact;
        }
        actions = { pass; pass_back; NoAction; }
        default_action = NoAction();
        size = 65536;
    }

    action take_part(bit<16> attempt, bit<32> incarnation, bit<16> own_flow, bit<9> own_port,
                     bit<48> own_mac) {
        meta.attempt = attempt;
        meta.incarnation = incarnation;
        meta.own_flow = own_flow;
        meta.own_port = own_port;
        meta.own_mac = own_mac;
    }

    // The reductions of this switch. A packet of another attempt passes as it is; one of another
    // incarnation is dropped.
    table reductions {
        key = { hdr.agg.job : exact; }
        actions = { take_part; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    apply {
        if (!hdr.ipv4.isValid() || standard_metadata.checksum_error == 1 || hdr.ipv4.ttl <= 1) {
            drop();
        } else {
            if (hdr.agg.isValid()) {
                flows.apply();
            }
            if (meta.reduction != 0 && standard_metadata.parser_error == error.NoError
                && reductions.apply().hit && hdr.agg.attempt == meta.attempt) {
@APPLIES@
            }
            if (standard_metadata.egress_spec != 511) {
                if (meta.is_on_path) {
                    if (meta.goes_back) {
                        bit<32> address = hdr.ipv4.src;
                        hdr.ipv4.src = hdr.ipv4.dst;
                        hdr.ipv4.dst = address;
                    }
                    forward(meta.port, meta.mac);
                } else {
                    routes.apply();
                }
            }
        }
    }
}

control SwitchEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
@EGRESS@
}

control UpdateChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
@UPDATE@
    }
}

control SwitchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.agg);
        packet.emit(hdr.bank);
@EMIT@
    }
}

V1Switch(SwitchParser(), VerifyChecksums(), SwitchIngress(), SwitchEgress(), UpdateChecksums(),
         SwitchDeparser()) main;
