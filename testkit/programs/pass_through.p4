// A step of a chain that does nothing: it reads nothing of the packet and sends it as it came.

#include <core.p4>
#include <v1model.p4>

struct headers_t { }
struct metadata_t { }

parser PassParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Pass(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control PassDeparser(packet_out packet, in headers_t hdr) {
    apply { }
}

V1Switch(PassParser(), Nothing(), Pass(), Pass(), Nothing(), PassDeparser()) main;
