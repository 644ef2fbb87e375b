// PSA: a packet is dropped unless the program says where it goes; unicast, multicast with instances, the actions of the include file.

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

struct metadata_t { }

struct empty_t { }

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
    action forward(PortId_t port) {
        send_to_port(ostd, port);
    }

    apply {
        if (hdr.i.kind == 1) {
            forward((PortId_t)2);
        } else if (hdr.i.kind == 2) {
            multicast(ostd, (MulticastGroup_t)9);
        } else if (hdr.i.kind == 3) {
            forward((PortId_t)2);
            ingress_drop(ostd);
        } else if (hdr.i.kind == 4) {
            forward((PortId_t)2);
        } else if (hdr.i.kind == 5) {
            multicast(ostd, (MulticastGroup_t)9);
            forward((PortId_t)2);
        }
    }
}

control TestIngressDeparser(packet_out packet, out empty_t clone_i2e_meta, out empty_t resubmit_meta,
                            out empty_t normal_meta, inout headers_t hdr, in metadata_t meta,
                            in psa_ingress_output_metadata_t istd) {
    apply {
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
        hdr.i.v = (bit<16>)(EgressInstanceUint_t)istd.instance;
        if (hdr.i.kind == 4) {
            egress_drop(ostd);
        }
    }
}

control TestEgressDeparser(packet_out packet, out empty_t clone_e2e_meta, out empty_t recirculate_meta,
                           inout headers_t hdr, in metadata_t meta, in psa_egress_output_metadata_t istd,
                           in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        packet.emit(hdr);
    }
}

IngressPipeline(TestIngressParser(), TestIngress(), TestIngressDeparser()) ingress;

EgressPipeline(TestEgressParser(), TestEgress(), TestEgressDeparser()) egress;

PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
