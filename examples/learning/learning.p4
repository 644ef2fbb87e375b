// A learning Ethernet switch.
//
// A frame from an address that the switch does not know at that port is reported by a digest; the controller that
// receives it adds an entry to `known_source` and one to `forward`. Both age: an address that is silent for the idle
// time-out is reported and removed. Frames to unknown addresses, broadcasts and multicasts are flooded.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;

// The multicast group that holds all ports.
const bit<16> FLOOD_GROUP = 1;

header ethernet_t {
    Mac     dst;
    Mac     src;
    bit<16> type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t { }

// What the controller learns.
struct learned_t {
    Mac  address;
    Port port;
}

parser SwitchParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control SwitchIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    action learn() {
        digest<learned_t>(1, { hdr.ethernet.src, standard_metadata.ingress_port });
    }

    // A hit says that the address was last seen at this very port; a station that moved is learned anew.
    table known_source {
        key = {
            hdr.ethernet.src               : exact;
            standard_metadata.ingress_port : exact;
        }
        actions = { NoAction; learn; }
        const default_action = learn();
        support_timeout = true;
        size = 16384;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action to_port(Port port) {
        standard_metadata.egress_spec = port;
    }

    action flood() {
        standard_metadata.mcast_grp = FLOOD_GROUP;
    }

    table forward {
        key = { hdr.ethernet.dst : exact; }
        actions = { to_port; flood; drop; }
        default_action = flood();
        support_timeout = true;
        size = 16384;
    }

    apply {
        if (!hdr.ethernet.isValid()) {
            drop();
            return;
        }
        // 01:80:c2:00:00:00 to :0f stay on their link: spanning tree, link aggregation, pause frames (IEEE 802.1Q).
        if (hdr.ethernet.dst[47:4] == 0x0180c200000) {
            drop();
            return;
        }
        // A group address is never a source.
        if (hdr.ethernet.src[40:40] == 1) {
            drop();
            return;
        }
        known_source.apply();
        forward.apply();
        // The station is where the frame came from.
        if (standard_metadata.mcast_grp == 0 &&
            standard_metadata.egress_spec == standard_metadata.ingress_port) {
            drop();
        }
    }
}

control SwitchEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply {
        // The group holds all ports; a flooded frame does not return to its own.
        if (standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
    }
}

control SwitchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(SwitchParser(),
         NoChecksum(),
         SwitchIngress(),
         SwitchEgress(),
         NoChecksum(),
         SwitchDeparser()) main;
