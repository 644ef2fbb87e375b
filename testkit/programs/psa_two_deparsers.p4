// PSA: what the ingress deparser and the egress deparser put in and leave out adds up, wherever the packet begins then.

#include <core.p4>
#include <psa.p4>

header kind_t {
    bit<1> again;
    bit<1> copied;
    bit<1> has_b;
    bit<1> has_a;
    bit<1> in_without_a;
    bit<1> out_with_b;
    bit<1> out_without_a;
    bit<1> in_with_a;
}

header a_t {
    bit<16> v;
}

header b_t {
    bit<24> v;
}

struct headers_t {
    kind_t k;
    a_t    a;
    b_t    b;
}

struct metadata_t { }

struct empty_t { }

parser TestIngressParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                         in psa_ingress_parser_input_metadata_t istd, in empty_t resubmit_meta,
                         in empty_t recirculate_meta) {
    state start {
        kind_t kind = packet.lookahead<kind_t>();
        transition select(kind.has_a, kind.has_b) {
            (0, 0): bare;
            (1, 0): with_a;
            (0, 1): with_b;
            default: with_both;
        }
    }
    state bare {
        packet.extract(hdr.k);
        transition accept;
    }
    state with_a {
        packet.extract(hdr.k);
        packet.extract(hdr.a);
        transition accept;
    }
    state with_b {
        packet.extract(hdr.k);
        packet.extract(hdr.b);
        transition accept;
    }
    state with_both {
        packet.extract(hdr.k);
        packet.extract(hdr.a);
        packet.extract(hdr.b);
        transition accept;
    }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, in psa_ingress_input_metadata_t istd,
                    inout psa_ingress_output_metadata_t ostd) {
    apply {
        if (hdr.k.again == 1) {
            hdr.k.again = 0;
            send_to_port(ostd, PSA_PORT_RECIRCULATE);
        } else {
            send_to_port(ostd, (PortId_t)2);
        }
        if (hdr.k.copied == 1) {
            hdr.k.copied = 0;
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t)1;
        }
        if (hdr.k.in_with_a == 1) {
            hdr.a.setValid();
            hdr.a.v = 0xaaaa;
            hdr.k.has_a = 1;
        }
        if (hdr.k.in_without_a == 1) {
            hdr.a.setInvalid();
            hdr.k.has_a = 0;
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
        kind_t kind = packet.lookahead<kind_t>();
        transition select(kind.has_a, kind.has_b) {
            (0, 0): bare;
            (1, 0): with_a;
            (0, 1): with_b;
            default: with_both;
        }
    }
    state bare {
        packet.extract(hdr.k);
        transition accept;
    }
    state with_a {
        packet.extract(hdr.k);
        packet.extract(hdr.a);
        transition accept;
    }
    state with_b {
        packet.extract(hdr.k);
        packet.extract(hdr.b);
        transition accept;
    }
    state with_both {
        packet.extract(hdr.k);
        packet.extract(hdr.a);
        packet.extract(hdr.b);
        transition accept;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, in psa_egress_input_metadata_t istd,
                   inout psa_egress_output_metadata_t ostd) {
    apply {
        if (hdr.k.out_without_a == 1) {
            hdr.a.setInvalid();
            hdr.k.has_a = 0;
        }
        if (hdr.k.out_with_b == 1) {
            hdr.b.setValid();
            hdr.b.v = 0xbbbbbb;
            hdr.k.has_b = 1;
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
