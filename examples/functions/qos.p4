// QoS: sets the queue of a packet and the differentiated services code point by which the next switch knows its class.

#include "headers.p4"

control Qos(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action class(bit<3> queue, bit<6> dscp) {
        standard_metadata.priority = queue;
        hdr.ipv4.dscp = dscp;
    }

    table classes {
        key = {
            hdr.ipv4.src  : ternary;
            hdr.ipv4.dst  : ternary;
            hdr.ipv4.dscp : ternary;
        }
        actions = { class; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            classes.apply();
        }
    }
}

V1Switch(FunctionParser(), NoVerification(), Qos(), NoEgress(), UpdateChecksum(), FunctionDeparser()) main;
