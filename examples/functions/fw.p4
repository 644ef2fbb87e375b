// FW: filters by what layers 3 and 4 say, rule by rule, and counts what each rule decides.

#include "headers.p4"

control Firewall(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) decisions;
    L4Port src_port = 0;
    L4Port dst_port = 0;

    action permit() {
        decisions.count();
    }

    action deny() {
        decisions.count();
        mark_to_drop(standard_metadata);
    }

    table rules {
        key = {
            hdr.ipv4.src      : ternary;
            hdr.ipv4.dst      : ternary;
            hdr.ipv4.protocol : optional;
            src_port          : range;
            dst_port          : range;
        }
        actions = { permit; deny; }
        default_action = deny();
        counters = decisions;
        size = 1024;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            if (hdr.ports.isValid()) {
                src_port = hdr.ports.src;
                dst_port = hdr.ports.dst;
            }
            rules.apply();
        }
    }
}

V1Switch(FunctionParser(), NoVerification(), Firewall(), NoEgress(), UpdateChecksum(), FunctionDeparser()) main;
