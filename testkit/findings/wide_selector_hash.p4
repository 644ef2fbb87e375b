#include <v1model.p4>
header in_t {
}
header out_t {
}
struct headers_t {
}
struct metadata_t { }
parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
    }
}
control NoChecks(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}
control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}
control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
    }
}
control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set(bit<8> v) {
    }
    action_selector(HashAlgorithm.crc16, 16, 2048) members;
    table t {
        key = {
        }
        actions = { set; }
    }
    apply {
    }
}
V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
