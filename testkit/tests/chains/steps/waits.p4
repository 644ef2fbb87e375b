// Writes a depth of the queue in ingress and asks for it in egress.

#include "../../../../examples/functions/headers.p4"

control Waits(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.deq_qdepth = 7;
        standard_metadata.egress_spec = 2;
    }
}

control WaitsEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.ipv4.identification = (bit<16>)standard_metadata.deq_qdepth;
    }
}

V1Switch(FunctionParser(), NoVerification(), Waits(), WaitsEgress(), UpdateChecksum(), FunctionDeparser()) main;
