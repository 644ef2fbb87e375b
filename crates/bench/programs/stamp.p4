// A step of chains: it stamps the EtherType of each packet with a version, so that it can be told which version a packet met and how often, and counts
// those that it stamped.

#include <core.p4>
#include <v1model.p4>

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

parser StampParser(packet_in packet,
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

control Stamp(inout headers_t hdr,
              inout metadata_t meta,
              inout standard_metadata_t standard_metadata) {
    const bit<16> VERSION = 0;
    counter((bit<32>)16, CounterType.packets) stamped;

    apply {
        stamped.count((bit<32>)standard_metadata.ingress_port & 15);
        hdr.ethernet.type = (hdr.ethernet.type << 1) ^ (VERSION + 1);
    }
}

control Nothing(inout headers_t hdr,
                inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    apply { }
}

control StampDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(StampParser(), NoChecksum(), Stamp(), Nothing(), NoChecksum(), StampDeparser()) main;
