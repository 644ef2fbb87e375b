// Leaves its ingress early for some packets, which go through its egress all the same.

#include "../../../../examples/functions/headers.p4"

control Leaves(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.ipv4.ttl == 1) {
            exit;
        }
        hdr.ethernet.src = 0x0200000000ee;
    }
}

control LeavesEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.ethernet.dst = hdr.ethernet.dst + 1;
    }
}

V1Switch(FunctionParser(), NoVerification(), Leaves(), LeavesEgress(), UpdateChecksum(), FunctionDeparser()) main;
