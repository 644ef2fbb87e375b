// PNA: a miss adds an entry for the table that was missed; colours of meters are an enum.
#include <bmv2/pna.p4>

header h_t { bit<32> src; bit<32> dst; }
struct headers { h_t h; }
struct meta_t { bit<1> added; bit<8> x; }
struct learned_t { bit<8> second; bit<32> first; }

parser P(packet_in p, out headers hdr, inout meta_t m, in pna_main_parser_input_metadata_t istd) {
    state start { p.extract(hdr.h); transition accept; }
}
control C(inout headers hdr, inout meta_t m, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd) {
    Meter<bit<8>>(8, PNA_MeterType_t.PACKETS) rate;
    action learn() {
        m.added = add_entry("known", (learned_t) {second = m.x, first = hdr.h.src}, (ExpireTimeProfileId_t) 8w2);
    }
    action known(bit<32> first, bit<8> second) { hdr.h.dst = first; m.x = second; }
    table flows {
        key = { hdr.h.src: exact; }
        actions = { @tableonly known; @defaultonly learn; }
        const default_action = learn;
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
    }
    apply {
        if (istd.parser_error == error.PacketTooShort) { drop_packet(); }
        flows.apply();
        if (rate.execute(m.x, PNA_MeterColor_t.GREEN) == PNA_MeterColor_t.RED) { drop_packet(); }
        send_to_port(SelectByDirection(is_net_port(istd.input_port), (PortId_t) 32w1, (PortId_t) 32w2));
    }
}
control D(packet_out p, inout headers hdr, in meta_t m, in pna_main_output_metadata_t ostd) {
    InternetChecksum() sum;
    apply {
        sum.clear();
        sum.add({hdr.h.src});
        hdr.h.dst[15:0] = sum.get();
        p.emit(hdr);
    }
}
PNA_NIC(P(), C(), D()) main;
