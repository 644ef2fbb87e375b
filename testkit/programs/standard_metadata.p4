// What standard metadata says in ingress and egress: ports, length, times that do not run backwards, queue depths; user metadata
// begins as zero for each packet.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
}

header out_t {
    bit<16> ingress_port;
    bit<16> egress_port;
    bit<32> length;
    bit<8>  in_order;
    bit<8>  depths;
    bit<8>  fresh;
}

struct headers_t {
    out_t o;
    in_t  i;
}

struct metadata_t {
    bit<8>  v;
    bool    fresh;
    bit<32> length;
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
        sm.egress_spec = 3;
        meta.fresh = meta.v == 0;
        meta.v = 0xff;
        meta.length = sm.packet_length;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        hdr.o.setValid();
        hdr.o.ingress_port = (bit<16>)sm.ingress_port;
        hdr.o.egress_port = (bit<16>)sm.egress_port;
        hdr.o.length = meta.length;
        hdr.o.in_order = sm.ingress_global_timestamp <= sm.egress_global_timestamp &&
                         (bit<48>)sm.enq_timestamp >= sm.ingress_global_timestamp ? 8w1 : 8w0;
        hdr.o.depths = (bit<8>)(sm.enq_qdepth + sm.deq_qdepth);
        hdr.o.fresh = meta.fresh ? 8w1 : 8w0;
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
