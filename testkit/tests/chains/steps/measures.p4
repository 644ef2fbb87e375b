// Writes the packet's length into it, in ingress and in egress.

#include "../../../../examples/functions/headers.p4"

control Measures(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.ethernet.src = (bit<48>)standard_metadata.packet_length;
    }
}

control MeasuresEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.ethernet.dst = (bit<48>)standard_metadata.packet_length;
    }
}

V1Switch(FunctionParser(), NoVerification(), Measures(), MeasuresEgress(), UpdateChecksum(), FunctionDeparser()) main;
