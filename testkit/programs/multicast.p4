// Multicast groups: a copy for each port and instance, each with its own egress; the group wins over the unicast port; an unknown
// group drops; group 0 is none.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<16> group;
    bit<16> instance;
    bit<8>  port;
    bit<8>  type;
}

struct headers_t {
    in_t i;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        sm.mcast_grp = hdr.i.group;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        hdr.i.instance = sm.egress_rid;
        hdr.i.port = (bit<8>)sm.egress_port;
        hdr.i.type = (bit<8>)sm.instance_type;
        if (hdr.i.group == 8 && sm.egress_rid == 2) {
            mark_to_drop(sm);
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(TestParser(), Verify(), TestIngress(), TestEgress(), Update(), TestDeparser()) main;
