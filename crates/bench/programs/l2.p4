// A switch that learns: it forwards by the destination's MAC address, floods what it does not know, and tells the control plane where a
// station is that it has not seen there.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  Port;
typedef bit<48> Mac;

header ethernet_t {
    Mac     dst;
    Mac     src;
    bit<16> type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t { }

struct station_t {
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
    action report() {
        digest<station_t>(1, { hdr.ethernet.src, standard_metadata.ingress_port });
    }

    table stations {
        key = {
            hdr.ethernet.src               : exact;
            standard_metadata.ingress_port : exact;
        }
        actions = { NoAction; @defaultonly report; }
        const default_action = report();
        size = 131072;
    }

    action to_port(Port port) {
        standard_metadata.egress_spec = port;
    }

    action flood() {
        standard_metadata.mcast_grp = 1;
    }

    table destinations {
        key = { hdr.ethernet.dst : exact; }
        actions = { to_port; @defaultonly flood; }
        const default_action = flood();
        size = 131072;
    }

    apply {
        if (hdr.ethernet.isValid()) {
            stations.apply();
            destinations.apply();
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control SwitchEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply {
        // Nothing goes back to where it came from.
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

V1Switch(SwitchParser(), NoChecksum(), SwitchIngress(), SwitchEgress(), NoChecksum(), SwitchDeparser()) main;
