// PSA: resubmission begins again with the packet as it came in, recirculation with the packet as it left; both carry metadata.

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

struct again_t {
    bit<16> carried;
}

parser TestIngressParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                         in psa_ingress_parser_input_metadata_t istd, in again_t resubmit_meta,
                         in again_t recirculate_meta) {
    state start {
        packet.extract(hdr.i);
        transition select(istd.packet_path) {
            PSA_PacketPath_t.RESUBMIT:    resubmitted;
            PSA_PacketPath_t.RECIRCULATE: recirculated;
            default:                      accept;
        }
    }

    state resubmitted {
        meta.carried = resubmit_meta.carried;
        transition accept;
    }

    state recirculated {
        meta.carried = recirculate_meta.carried;
        transition accept;
    }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, in psa_ingress_input_metadata_t istd,
                    inout psa_ingress_output_metadata_t ostd) {
    apply {
        if (istd.packet_path == PSA_PacketPath_t.RESUBMIT) {
            hdr.i.trace = hdr.i.trace << 4 | 5;
        } else if (istd.packet_path == PSA_PacketPath_t.RECIRCULATE) {
            hdr.i.trace = hdr.i.trace << 4 | 6;
        }
        send_to_port(ostd, (PortId_t)2);
        if (hdr.i.kind == 1 && istd.packet_path == PSA_PacketPath_t.NORMAL) {
            ostd.resubmit = true;
            hdr.i.v = 0xeeee;
        } else if (hdr.i.kind == 2 && istd.packet_path == PSA_PacketPath_t.NORMAL) {
            send_to_port(ostd, PSA_PORT_RECIRCULATE);
            hdr.i.v = hdr.i.v + 1;
        } else if (hdr.i.kind == 3 && istd.packet_path == PSA_PacketPath_t.NORMAL) {
            // A dropped packet is not resubmitted.
            ostd.resubmit = true;
            ingress_drop(ostd);
        }
        hdr.i.v = hdr.i.v + meta.carried;
    }
}

control TestIngressDeparser(packet_out packet, out empty_t clone_i2e_meta, out again_t resubmit_meta,
                            out empty_t normal_meta, inout headers_t hdr, in metadata_t meta,
                            in psa_ingress_output_metadata_t istd) {
    apply {
        if (psa_resubmit(istd)) {
            resubmit_meta.carried = 0x10;
        }
        packet.emit(hdr);
    }
}

parser TestEgressParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                        in psa_egress_parser_input_metadata_t istd, in empty_t normal_meta,
                        in empty_t clone_i2e_meta, in empty_t clone_e2e_meta) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, in psa_egress_input_metadata_t istd,
                   inout psa_egress_output_metadata_t ostd) {
    apply { }
}

control TestEgressDeparser(packet_out packet, out empty_t clone_e2e_meta, out again_t recirculate_meta,
                           inout headers_t hdr, in metadata_t meta, in psa_egress_output_metadata_t istd,
                           in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        if (psa_recirculate(istd, edstd)) {
            recirculate_meta.carried = 0x20;
        }
        packet.emit(hdr);
    }
}

IngressPipeline(TestIngressParser(), TestIngress(), TestIngressDeparser()) ingress;

EgressPipeline(TestEgressParser(), TestEgress(), TestEgressDeparser()) egress;

PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
