// A switch that adds vectors of 64 numbers on their way: the sums are in a register, and leave in the place of the numbers.

#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_VECTOR = 0x88b5;
const bit<32> SUMS = 65536;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header vector_t {
    // Index of the first sum.
    bit<32> first;
}

header numbers_t {
@FIELDS@
}

struct headers_t {
    ethernet_t ethernet;
    vector_t vector;
    numbers_t numbers;
}

struct metadata_t {
}

parser VectorParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_VECTOR: vector;
            default: accept;
        }
    }

    state vector {
        packet.extract(hdr.vector);
        packet.extract(hdr.numbers);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control VectorIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    register<bit<32>>(SUMS) sums;

    bit<32> sum;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action to_port(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    table wire {
        key = { standard_metadata.ingress_port : exact; }
        actions = { to_port; drop; }
        default_action = drop();
        size = 512;
    }

    apply {
        wire.apply();
        if (hdr.numbers.isValid()) {
            @atomic {
@ADD@
            }
        }
    }
}

control VectorEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply { }
}

control VectorDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vector);
        packet.emit(hdr.numbers);
    }
}

V1Switch(VectorParser(), NoChecksum(), VectorIngress(), VectorEgress(), NoChecksum(),
         VectorDeparser()) main;
