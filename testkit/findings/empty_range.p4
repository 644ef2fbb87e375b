// A range that ends before it begins is refused, with a message.

#include <core.p4>
#include <v1model.p4>

header label_t {
    bit<32> value;
}

struct headers_t {
    label_t[2] labels;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.labels.next);
        transition accept;
    }
}

control NoChecks(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Nothing(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    table ranges {
        key = {
            hdr.labels[0].value: range;
        }
        actions = {
            NoAction;
        }
        entries = {
            9 .. 4: NoAction();
        }
    }
    apply {
        ranges.apply();
    }
}

V1Switch(TestParser(), NoChecks(), TestIngress(), Nothing(), NoChecks(), TestDeparser()) main;
