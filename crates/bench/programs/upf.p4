// The uplink of a 5G user plane function: what a base station sends in a GTP-U tunnel (3GPP TS 29.281) leaves as it was sent by the user.
//
// The tunnel names the session; a packet must come from the session's own address. Sessions count their packets for charging.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP = 17;
const bit<16> GTP_U = 2152;
const bit<8>  G_PDU = 255;
const bit<8>  PDU_SESSION_CONTAINER = 0x85;

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

header gtp_u_t {
    bit<3>  version;
    bit<1>  protocol_type;
    bit<1>  spare;
    bit<1>  has_extension;
    bit<1>  has_sequence;
    bit<1>  has_n_pdu;
    bit<8>  message;
    bit<16> length;
    bit<32> teid;
}

// There if any of the three flags is set.
header gtp_u_options_t {
    bit<16> sequence;
    bit<8>  n_pdu;
    bit<8>  extension;
}

// 3GPP TS 38.415: which quality of service the user's packet has.
header pdu_session_t {
    bit<8> length;
    bit<4> type;
    bit<4> spare;
    bit<2> spare2;
    bit<6> qfi;
    bit<8> extension;
}

struct headers_t {
    ethernet_t      ethernet;
    ipv4_t          outer;
    udp_t           udp;
    gtp_u_t         gtp;
    gtp_u_options_t options;
    pdu_session_t   session;
    ipv4_t          inner;
}

struct metadata_t {
    bit<32> user;
}

// What is not forwarded: the indices of the counter `drops`.
enum bit<32> Drop {
    Malformed   = 0,
    NotForUs    = 1,
    NotTunnel   = 2,
    BadChecksum = 3,
    NoSession   = 4,
    Spoofed     = 5,
    LastHop     = 6,
    NoRoute     = 7
}

parser UpfParser(packet_in packet,
                 out headers_t hdr,
                 inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_outer;
            default:        accept;
        }
    }

    state parse_outer {
        packet.extract(hdr.outer);
        transition select(hdr.outer.version, hdr.outer.ihl, hdr.outer.flags, hdr.outer.fragment_offset, hdr.outer.protocol) {
            (4, 5, 0 &&& 1, 0, PROTOCOL_UDP): parse_udp;
            default:                          accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            GTP_U:   parse_gtp;
            default: accept;
        }
    }

    state parse_gtp {
        packet.extract(hdr.gtp);
        transition select(hdr.gtp.version, hdr.gtp.protocol_type, hdr.gtp.message,
                          hdr.gtp.has_extension, hdr.gtp.has_sequence, hdr.gtp.has_n_pdu) {
            (1, 1, G_PDU, 0, 0, 0): parse_inner;
            (1, 1, G_PDU, _, _, _): parse_options;
            default:                accept;
        }
    }

    state parse_options {
        packet.extract(hdr.options);
        transition select(hdr.gtp.has_extension, hdr.options.extension) {
            (0, _):                     parse_inner;
            (1, 0):                     parse_inner;
            (1, PDU_SESSION_CONTAINER): parse_session;
            default:                    accept;
        }
    }

    state parse_session {
        packet.extract(hdr.session);
        transition select(hdr.session.length, hdr.session.extension) {
            (1, 0):  parse_inner;
            default: accept;
        }
    }

    state parse_inner {
        packet.extract(hdr.inner);
        transition accept;
    }
}

control VerifyChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.inner.isValid(),
            { hdr.outer.version, hdr.outer.ihl, hdr.outer.diffserv, hdr.outer.total_length,
              hdr.outer.identification, hdr.outer.flags, hdr.outer.fragment_offset,
              hdr.outer.ttl, hdr.outer.protocol, hdr.outer.src, hdr.outer.dst },
            hdr.outer.checksum, HashAlgorithm.csum16);
        verify_checksum(hdr.inner.isValid(),
            { hdr.inner.version, hdr.inner.ihl, hdr.inner.diffserv, hdr.inner.total_length,
              hdr.inner.identification, hdr.inner.flags, hdr.inner.fragment_offset,
              hdr.inner.ttl, hdr.inner.protocol, hdr.inner.src, hdr.inner.dst },
            hdr.inner.checksum, HashAlgorithm.csum16);
    }
}

control UpfIngress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    counter((bit<32>)8, CounterType.packets) drops;
    direct_counter(CounterType.packets_and_bytes) usage;

    action drop(Drop reason) {
        drops.count((bit<32>)reason);
        mark_to_drop(standard_metadata);
        exit;
    }

    action ours() { }

    // Addresses to which base stations send.
    table interfaces {
        key = {
            hdr.ethernet.dst : exact;
            hdr.outer.dst    : exact;
        }
        actions = { ours; @defaultonly drop; }
        const default_action = drop(Drop.NotForUs);
        size = 64;
    }

    action uplink(bit<32> user) {
        usage.count();
        meta.user = user;
    }

    action unknown() {
        usage.count();
        drop(Drop.NoSession);
    }

    table sessions {
        key = { hdr.gtp.teid : exact; }
        actions = { uplink; @defaultonly unknown; }
        const default_action = unknown();
        counters = usage;
        size = 131072;
    }

    action forward(Port port, Mac src, Mac dst) {
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
        hdr.inner.ttl = hdr.inner.ttl - 1;
        standard_metadata.egress_spec = port;
    }

    table routes {
        key = { hdr.inner.dst : lpm; }
        actions = { forward; @defaultonly drop; }
        const default_action = drop(Drop.NoRoute);
        size = 4096;
    }

    apply {
        if (standard_metadata.parser_error != error.NoError || !hdr.outer.isValid()) {
            drop(Drop.Malformed);
        }
        interfaces.apply();
        if (!hdr.inner.isValid()) {
            drop(Drop.NotTunnel);
        }
        if (standard_metadata.checksum_error == 1 || hdr.inner.version != 4 || hdr.inner.ihl != 5) {
            drop(Drop.BadChecksum);
        }
        sessions.apply();
        if (hdr.inner.src != meta.user) {
            drop(Drop.Spoofed);
        }
        if (hdr.inner.ttl <= 1) {
            drop(Drop.LastHop);
        }
        routes.apply();
        hdr.outer.setInvalid();
        hdr.udp.setInvalid();
        hdr.gtp.setInvalid();
        hdr.options.setInvalid();
        hdr.session.setInvalid();
    }
}

control UpfEgress(inout headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    apply { }
}

control UpdateChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.inner.isValid(),
            { hdr.inner.version, hdr.inner.ihl, hdr.inner.diffserv, hdr.inner.total_length,
              hdr.inner.identification, hdr.inner.flags, hdr.inner.fragment_offset,
              hdr.inner.ttl, hdr.inner.protocol, hdr.inner.src, hdr.inner.dst },
            hdr.inner.checksum, HashAlgorithm.csum16);
    }
}

control UpfDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.outer);
        packet.emit(hdr.udp);
        packet.emit(hdr.gtp);
        packet.emit(hdr.options);
        packet.emit(hdr.session);
        packet.emit(hdr.inner);
    }
}

V1Switch(UpfParser(),
         VerifyChecksums(),
         UpfIngress(),
         UpfEgress(),
         UpdateChecksum(),
         UpfDeparser()) main;
