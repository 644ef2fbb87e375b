// Headers whose fields cross byte boundaries, signed and boolean fields, a field wider than a machine word.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<3>   a;
    int<7>   b;
    bool     c;
    bit<13>  d;
    bit<70>  e;
    bit<2>   f;
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
        hdr.i.a = hdr.i.a + 1;
        hdr.i.b = -hdr.i.b;
        hdr.i.c = !hdr.i.c;
        hdr.i.d = hdr.i.d |+| 2;
        hdr.i.e = hdr.i.e - 1;
        hdr.i.f = ~hdr.i.f;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
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
