// Sends packets with a wrong checksum to a port of their own.

#include "../../../../examples/functions/headers.p4"

control Verifies(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && !hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        if (hdr.ports.src == 7) {
            exit;
        }
    }
}

control VerifiesIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.checksum_error == 1) {
            standard_metadata.egress_spec = 2;
        }
    }
}

V1Switch(FunctionParser(), Verifies(), VerifiesIngress(), NoEgress(), UpdateChecksum(), FunctionDeparser()) main;
