// PSA: InternetChecksum adds and subtracts, and its state can be kept; Checksum takes data piece by piece.

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
    InternetChecksum() sum;
    Checksum<bit<16>>(PSA_HashAlgorithm_t.CRC16) crc;

    apply {
        send_to_port(ostd, (PortId_t)2);
        if (hdr.i.kind == 1) {
            sum.add({ hdr.i.kind, hdr.i.trace, hdr.i.v });
            hdr.i.v = sum.get();
        } else if (hdr.i.kind == 2) {
            sum.clear();
            sum.add({ hdr.i.kind, hdr.i.trace, hdr.i.v });
            bit<16> state = sum.get_state();
            sum.clear();
            sum.set_state(state);
            sum.subtract(hdr.i.v);
            sum.add(16w0x0102);
            hdr.i.v = sum.get();
        } else {
            crc.clear();
            crc.update({ hdr.i.kind, hdr.i.trace });
            crc.update(hdr.i.v);
            hdr.i.v = crc.get();
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
    apply { }
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
