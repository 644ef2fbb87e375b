// Ingress clones: the copy is the packet as it came in, keeps the fields of its list and nothing else, exists though the
// original is dropped; the last call counts; a session without configuration makes no copy.

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

struct metadata_t {
    @field_list(1)
    bit<8> kept;
    bit<8> lost;
}

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
        meta.kept = 0x44;
        meta.lost = 0x55;
        switch (hdr.i.kind) {
            1: { clone_preserving_field_list(CloneType.I2E, 5, 1); }
            2: { clone(CloneType.I2E, 5); }
            3: {
                clone_preserving_field_list(CloneType.I2E, 5, 1);
                mark_to_drop(sm);
            }
            4: {
                clone(CloneType.I2E, 6);
                clone_preserving_field_list(CloneType.I2E, 5, 1);
            }
            5: { clone(CloneType.I2E, 77); }
            6: { clone(CloneType.I2E, 7); }
        }
        hdr.i.v = 0xee;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        hdr.i.trace = (bit<8>)sm.instance_type;
        hdr.i.kept = meta.kept + meta.lost;
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
