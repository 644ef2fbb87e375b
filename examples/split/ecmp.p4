// Equal-cost multipath over a switch and servers: a route leads to a group of next hops, and a hash
// of the flow's five-tuple picks one of them.
//
// The routes are mirrored: a packet goes to a server if the switch does not hold its route. The hash
// is computed before the routes are looked up and read only after that: it is a postponable
// intermediate value (CLIP, section IV-C). It is computed again after the routes and does not travel.
//
// For the hash a switch needs the five-tuple (104 bits) and room for the result (8 bits). If that
// does not fit, servers compute it: `polyplane split show --phv 25B` shows that the switch then
// needs the destination (32 bits) and the result, and that each packet goes to a server.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;
typedef bit<32> Ipv4Address;
typedef bit<16> Group;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_TCP   = 6;
const bit<8>  PROTOCOL_UDP   = 17;

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

// The beginning that TCP and UDP have in common.
header l4_ports_t {
    bit<16> src;
    bit<16> dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    l4_ports_t l4;
}

struct metadata_t {
    bit<16> src_port;
    bit<16> dst_port;
}

parser EcmpParser(packet_in packet,
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
        // A fragmented packet is hashed without its ports, so that all its fragments take one path.
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags,
                          hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (4, 5, 0 &&& 1, 0, PROTOCOL_TCP): parse_l4;
            (4, 5, 0 &&& 1, 0, PROTOCOL_UDP): parse_l4;
            (4, 5, _, _, _):                  accept;
            default:                          reject;
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
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control EcmpIngress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    bit<8>  index = 0;
    Group   group = 0;
    bit<16> group_size = 1;
    bit<16> member = 0;

    action drop() {
        mark_to_drop(standard_metadata);
        exit;
    }

    // `size` is the number of members of the group, at least 1.
    action to_group(Group id, bit<16> size) {
        group = id;
        group_size = size;
    }

    @mirror(4096)
    table routes {
        key = { hdr.ipv4.dst : lpm; }
        actions = { to_group; drop; }
        default_action = drop();
        size = 262144;
    }

    action to_next_hop(Port port, Mac src_mac, Mac dst_mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table members {
        key = {
            group  : exact;
            member : exact;
        }
        actions = { to_next_hop; drop; }
        default_action = drop();
        size = 16384;
    }

    apply {
        if (!hdr.ipv4.isValid() || standard_metadata.parser_error != error.NoError ||
            standard_metadata.checksum_error == 1 || hdr.ipv4.ttl <= 1) {
            drop();
        }
        hash(index, HashAlgorithm.crc16, (bit<8>)0,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.src_port, meta.dst_port },
             (bit<32>)256);
        routes.apply();
        member = (bit<16>)index % group_size;
        members.apply();
    }
}

control EcmpEgress(inout headers_t hdr,
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

control EcmpDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(EcmpParser(),
         VerifyIpv4Checksum(),
         EcmpIngress(),
         EcmpEgress(),
         UpdateIpv4Checksum(),
         EcmpDeparser()) main;
