// Externs of all sorts and a long loop: what traces show of them.
#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<16> a;
    bit<16> sum;
}
struct headers_t {
    data_t data;
}
struct meta_t {
    bit<16> value;
    bit<16> count;
    bit<2> color;
}

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.data);
        verify(hdr.data.a != 0xdead, error.NoMatch);
        transition accept;
    }
}

control V(inout headers_t hdr, inout meta_t meta) {
    apply {
        verify_checksum(true, { hdr.data.a }, hdr.data.sum, HashAlgorithm.csum16);
    }
}

control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    register<bit<16>>(16) cells;
    counter(16, CounterType.packets) seen;
    meter(16, MeterType.packets) rate;
    action spin(bit<16> rounds) {
        for (bit<16> i = 0; i < rounds; i = i + 1) {
            meta.count = meta.count + 2;
        }
    }
    apply {
        @atomic { cells.read(meta.value, 3);
        cells.write(3, hdr.data.a); }
        seen.count((bit<32>)hdr.data.a[3:0]);
        rate.execute_meter(2, meta.color);
        hash(meta.value, HashAlgorithm.identity, 16w0, { hdr.data.a }, 32w256);
        random(meta.value, 16w7, 16w7);
        log_msg("value {}", { meta.value });
        spin(hdr.data.sum);
        std.egress_spec = 2;
    }
}

control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply { }
}

control U(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum(true, { hdr.data.a }, hdr.data.sum, HashAlgorithm.csum16);
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), U(), D()) main;
