// Its parser writes into the header that it has extracted.

#include "../../../../examples/functions/headers.p4"

parser Rewrites(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        hdr.ethernet.src = hdr.ethernet.src + 1;
        transition accept;
    }
}

control RewritesIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

V1Switch(Rewrites(), NoVerification(), RewritesIngress(), NoEgress(), UpdateChecksum(), FunctionDeparser()) main;
