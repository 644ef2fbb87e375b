// PNA: a miss adds an entry with the action and arguments that the program names; the next packet hits it; add_entry_if adds
// under a condition; an idle entry goes away after the time of its profile.

#include <core.p4>
#include <bmv2/pna.p4>

header in_t {
    bit<8> key_;
    bit<8> v;
    bit<8> result;
}

struct headers_t {
    in_t i;
}

struct metadata_t { }

struct learned_t {
    bit<8> value;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control TestControl(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
                    inout pna_main_output_metadata_t ostd) {
    action known(bit<8> value) {
        hdr.i.result = value;
        if (hdr.i.v == 0x55) {
            restart_expire_timer();
        }
        if (hdr.i.v == 0x66) {
            set_entry_expire_time((ExpireTimeProfileId_t)1);
        }
    }

    action unknown() {
        AddEntryErrorStatus_t status = add_entry_if(hdr.i.v != 0, "known", (learned_t) { value = hdr.i.v }, (ExpireTimeProfileId_t)0);
        hdr.i.result = status == ADD_ENTRY_SUCCESS ? 8w0xaa : 8w0xbb;
    }

    table t {
        key = { hdr.i.key_ : exact; }
        actions = { @tableonly known; @defaultonly unknown; }
        const default_action = unknown();
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
    }

    apply {
        t.apply();
        send_to_port((PortId_t)1);
    }
}

control TestDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr);
    }
}

PNA_NIC(TestParser(), TestControl(), TestDeparser()) main;
