// Drops: mark_to_drop in ingress and egress, a later assignment that revives the packet, a multicast group that is taken back, the
// port 511, exit.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> kind;
    bit<8> v;
    bit<8> trace;
    bit<8> kept;
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
    action drop() {
        mark_to_drop(sm);
        exit;
    }

    apply {
        sm.egress_spec = 1;
        switch (hdr.i.kind) {
            1: { mark_to_drop(sm); }
            2: {
                mark_to_drop(sm);
                sm.egress_spec = 2;
            }
            3: {
                sm.mcast_grp = 5;
                mark_to_drop(sm);
            }
            4: { sm.egress_spec = 511; }
            5: { drop(); }
        }
        hdr.i.v = 0xee;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (hdr.i.kind == 6) {
            mark_to_drop(sm);
        }
        if (hdr.i.kind == 7) {
            mark_to_drop(sm);
            sm.egress_spec = 2;
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
