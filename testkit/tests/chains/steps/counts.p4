// Its egress counts packets by port, and writes the port into them.

#include "../../../../examples/functions/headers.p4"

control Counts(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control CountsEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) seen;

    table ports {
        key = { standard_metadata.egress_port : exact; }
        actions = { NoAction; }
        default_action = NoAction();
        counters = seen;
        size = 16;
    }

    apply {
        ports.apply();
        hdr.ipv4.identification = (bit<16>)standard_metadata.egress_port;
    }
}

V1Switch(FunctionParser(), NoVerification(), Counts(), CountsEgress(), UpdateChecksum(), FunctionDeparser()) main;
