// MAC Learn: reports each address with the port that it is seen at, once. The packet goes on as it is.

#include "headers.p4"

struct learned_t {
    Mac  address;
    Port port;
}

control MacLearn(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action learn() {
        digest<learned_t>(1, { hdr.ethernet.src, standard_metadata.ingress_port });
    }

    // A station that moves to another port is reported anew; one that is silent for the idle time-out is forgotten.
    table known_source {
        key = {
            hdr.ethernet.src               : exact;
            standard_metadata.ingress_port : exact;
        }
        actions = { @tableonly NoAction; @defaultonly learn; }
        const default_action = learn();
        support_timeout = true;
        size = 16384;
    }

    apply {
        // A group address is never a source.
        if (hdr.ethernet.isValid() && hdr.ethernet.src[40:40] == 0) {
            known_source.apply();
        }
    }
}

V1Switch(FunctionParser(), NoVerification(), MacLearn(), NoEgress(), UpdateChecksum(), FunctionDeparser()) main;
