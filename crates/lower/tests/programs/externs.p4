// v1model's externs become operations; field lists come from annotations and from calls.
#include <v1model.p4>

header h_t { bit<16> a; bit<16> sum; }
struct headers { h_t h; }
struct note_t { bit<16> a; bit<9> port; }
enum bit<8> Lists { kept = 3 }
struct meta_t { @field_list(1, Lists.kept) bit<8> x; @field_list(1) note_t note; bit<2> color; bit<32> old; }

parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control Verify(inout headers hdr, inout meta_t m) {
    apply { verify_checksum(hdr.h.isValid(), {hdr.h.a}, hdr.h.sum, HashAlgorithm.csum16); }
}
control Compute(inout headers hdr, inout meta_t m) {
    apply { update_checksum_with_payload(true, {hdr.h.a, 8w0, m.x}, hdr.h.sum, HashAlgorithm.csum16); }
}
control I(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    counter(16, CounterType.packets_and_bytes) packets;
    meter(4, MeterType.bytes) rate;
    register<bit<32>>(8) cells;
    direct_counter(CounterType.packets) hits;
    direct_meter<bit<2>>(MeterType.packets) pace;
    action_selector(HashAlgorithm.crc16, 32, 10) choice;
    action paced() { pace.read(m.color); hits.count(); }
    action out_of(bit<9> port) { sm.egress_spec = port; }
    table t {
        key = { hdr.h.a: exact; }
        actions = { paced; NoAction; }
        counters = hits;
        meters = pace;
        support_timeout = true;
    }
    table s {
        key = { hdr.h.a: exact; hdr.h.sum: selector; }
        actions = { out_of; NoAction; }
        implementation = choice;
    }
    table r {
        key = { m.x: range; }
        actions = { NoAction; }
        @name("shared") implementation = action_profile(8);
    }
    apply {
        packets.count((bit<32>) sm.ingress_port);
        rate.execute_meter(2, m.color);
        cells.read(m.old, 1);
        cells.write(1, m.old + 1);
        hash(m.x, HashAlgorithm.crc32, 8w0, {hdr.h.a, m.note}, 8w16);
        random(m.x[3:0], 1, 9);
        digest<note_t>(1, {hdr.h.a, sm.ingress_port});
        clone_preserving_field_list(CloneType.I2E, 5, Lists.kept);
        clone3(CloneType.E2E, 32w6, {m.x, m.note.a});
        resubmit_preserving_field_list(1);
        t.apply();
        s.apply();
        r.apply();
        truncate(32w64);
        log_msg("a {} b {}", {hdr.h.a, m.x});
        assert(m.x != 0);
        mark_to_drop(sm);
    }
}
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), Verify(), I(), E(), Compute(), D()) main;
