// PSA: ingress clones carry the packet as it came in, egress clones the one that left; each with the metadata that its deparser
// gave it. A clone is made though the packet is dropped.

#include <core.p4>
#include <psa.p4>

header in_t {
    bit<8>  kind;
    bit<8>  trace;
    bit<16> v;
}

struct headers_t {
    in_t i;
}

struct metadata_t {
    bit<16> carried;
}

struct empty_t { }

struct clone_meta_t {
    bit<16> carried;
}

parser TestIngressParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                         in psa_ingress_parser_input_metadata_t istd, in empty_t resubmit_meta,
                         in empty_t recirculate_meta) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, in psa_ingress_input_metadata_t istd,
                    inout psa_ingress_output_metadata_t ostd) {
    apply {
        if (hdr.i.kind != 4) {
            send_to_port(ostd, (PortId_t)2);
        }
        if (hdr.i.kind == 1 || hdr.i.kind == 4) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t)5;
        }
        hdr.i.v = hdr.i.v + 0x100;
    }
}

control TestIngressDeparser(packet_out packet, out clone_meta_t clone_i2e_meta, out empty_t resubmit_meta,
                            out empty_t normal_meta, inout headers_t hdr, in metadata_t meta,
                            in psa_ingress_output_metadata_t istd) {
    apply {
        if (psa_clone_i2e(istd)) {
            clone_i2e_meta.carried = 0x66;
        }
        packet.emit(hdr);
    }
}

parser TestEgressParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                        in psa_egress_parser_input_metadata_t istd, in empty_t normal_meta,
                        in clone_meta_t clone_i2e_meta, in clone_meta_t clone_e2e_meta) {
    state start {
        packet.extract(hdr.i);
        transition select(istd.packet_path) {
            PSA_PacketPath_t.CLONE_I2E: from_ingress;
            PSA_PacketPath_t.CLONE_E2E: from_egress;
            default:                    accept;
        }
    }

    state from_ingress {
        meta.carried = clone_i2e_meta.carried;
        transition accept;
    }

    state from_egress {
        meta.carried = clone_e2e_meta.carried;
        transition accept;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, in psa_egress_input_metadata_t istd,
                   inout psa_egress_output_metadata_t ostd) {
    apply {
        if (istd.packet_path == PSA_PacketPath_t.NORMAL_UNICAST) {
            hdr.i.trace = hdr.i.trace << 4 | 1;
        } else if (istd.packet_path == PSA_PacketPath_t.NORMAL_MULTICAST) {
            hdr.i.trace = hdr.i.trace << 4 | 2;
        } else if (istd.packet_path == PSA_PacketPath_t.CLONE_I2E) {
            hdr.i.trace = hdr.i.trace << 4 | 3;
        } else if (istd.packet_path == PSA_PacketPath_t.CLONE_E2E) {
            hdr.i.trace = hdr.i.trace << 4 | 4;
        }
        if (istd.packet_path == PSA_PacketPath_t.NORMAL_UNICAST && (hdr.i.kind == 2 || hdr.i.kind == 3)) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t)5;
            if (hdr.i.kind == 3) {
                egress_drop(ostd);
            }
        }
        hdr.i.v = hdr.i.v + meta.carried;
    }
}

control TestEgressDeparser(packet_out packet, out clone_meta_t clone_e2e_meta, out empty_t recirculate_meta,
                           inout headers_t hdr, in metadata_t meta, in psa_egress_output_metadata_t istd,
                           in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        if (psa_clone_e2e(istd)) {
            clone_e2e_meta.carried = 0x44;
        }
        packet.emit(hdr);
    }
}

IngressPipeline(TestIngressParser(), TestIngress(), TestIngressDeparser()) ingress;

EgressPipeline(TestEgressParser(), TestEgress(), TestEgressDeparser()) egress;

PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
