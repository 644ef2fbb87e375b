// A switch that adds key-value pairs on their way, in the form of the programs of `polyplane aggregate`: IPv4 forwarding, and one
// reduction whose state is in registers alone. The code of a pair is repeated for each pair of a message.
//
// A pair's place in the index comes from one CRC-32. The index names a slot, and the whole key is compared with the slot's. A pair that
// is added leaves the packet; one that finds no slot stays.

#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP = 17;
const bit<16> PORT = 9570;

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
    bit<16> epoch;
    bit<8>  pairs;
    bit<8>  absorbed;
    // Sum of the slots' new values: it shows the registers to whoever compares packets.
    bit<32> seen;
}

header pair_t {
    bit<@KEY_BITS@> key;
    bit<32> value;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    agg_t agg;
    pair_t[@PAIRS@] pairs;
}

struct metadata_t {
    bool is_message;
    bit<8> left;
}

parser KvParser(packet_in packet,
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
            PORT: agg;
            default: accept;
        }
    }

    state agg {
        packet.extract(hdr.agg);
        meta.left = hdr.agg.pairs;
        transition select(hdr.agg.pairs) {
            0 .. @PAIRS@: pairs;
            default: accept;
        }
    }

    state pairs {
        transition select(meta.left) {
            0: message;
            default: pair;
        }
    }

    state pair {
        packet.extract(hdr.pairs.next);
        meta.left = meta.left - 1;
        transition pairs;
    }

    state message {
        meta.is_message = true;
        transition accept;
    }
}

control VerifyIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Reduction(inout headers_t hdr) {
    // Generation of the slots, used slots. A generation is an epoch.
    register<bit<64>>(1) bank;
    // Places of keys: generation, slot. A place of another generation is empty.
    register<bit<64>>(@INDEX@) index;
    register<bit<@KEY_BITS@>>(@SLOTS@) keys;
    // Number of added pairs, sum.
    register<bit<64>>(@SLOTS@) values;

    bit<64> filling;
    bit<40> generation;
    bit<32> used;
    bit<32> place;
    bit<32> step;
    bit<32> position;
    bit<64> entry;
    bit<@KEY_BITS@> key;
    bit<32> slot;
    bit<64> held;
    bit<32> old;
    bit<32> new;
    bit<2> found;
    bool is_taken;
    bit<8> cut;

    apply {
        @atomic {
        cut = 0;
        generation = 24w1 ++ hdr.agg.epoch;
        bank.read(filling, 0);
        used = filling[63:24] == generation ? (bit<32>) filling[23:0] : 0;
@ABSORB@
        bank.write(0, generation ++ used[23:0]);
        hdr.agg.pairs = hdr.agg.pairs - cut;
        hdr.agg.absorbed = hdr.agg.absorbed + cut;
        hdr.ipv4.total_length = hdr.ipv4.total_length - (bit<16>) cut * @PAIR_BYTES@;
        hdr.udp.length = hdr.udp.length - (bit<16>) cut * @PAIR_BYTES@;
        }
    }
}

control KvIngress(inout headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    Reduction() reduction;

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
        size = 1024;
    }

    apply {
        if (!hdr.ipv4.isValid() || standard_metadata.checksum_error == 1 || hdr.ipv4.ttl <= 1) {
            drop();
        } else {
            if (meta.is_message && standard_metadata.parser_error == error.NoError) {
                reduction.apply(hdr);
            }
            routes.apply();
        }
    }
}

control KvEgress(inout headers_t hdr,
                 inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    apply { }
}

control UpdateIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control KvDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.agg);
        packet.emit(hdr.pairs);
    }
}

V1Switch(KvParser(), VerifyIpv4Checksum(), KvIngress(), KvEgress(), UpdateIpv4Checksum(),
         KvDeparser()) main;
