// Puts a header in front of what it has parsed.

#include "../../../../examples/functions/headers.p4"

control Lengthens(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.arp.setValid();
        hdr.arp.hardware = 1;
        hdr.ethernet.type = ETHERTYPE_ARP;
    }
}

V1Switch(FunctionParser(), NoVerification(), Lengthens(), NoEgress(), UpdateChecksum(), FunctionDeparser()) main;
