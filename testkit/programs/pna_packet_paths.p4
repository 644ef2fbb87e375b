// PNA: send_to_port and drop_packet, the last one of them counts; a packet that is told nothing is dropped.

#include <core.p4>
#include <bmv2/pna.p4>

header in_t {
    bit<8> kind;
}

struct headers_t {
    in_t i;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control TestControl(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
                    inout pna_main_output_metadata_t ostd) {
    apply {
        switch (hdr.i.kind) {
            1: { send_to_port((PortId_t)1); }
            2: { drop_packet(); }
            3: {
                send_to_port((PortId_t)1);
                drop_packet();
            }
            4: {
                drop_packet();
                send_to_port((PortId_t)2);
            }
            5: {
                send_to_port((PortId_t)1);
                mirror_packet((MirrorSlotId_t)0, (MirrorSessionId_t)5);
            }
        }
        hdr.i.kind = hdr.i.kind | 0x80;
    }
}

control TestDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr);
    }
}

PNA_NIC(TestParser(), TestControl(), TestDeparser()) main;
