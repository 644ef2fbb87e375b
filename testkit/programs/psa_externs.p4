// PSA: Counter, Register, Hash, Meter, Digest and Random.

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

struct message_t {
    bit<8>  kind;
    bit<16> v;
}

bit<16> number(in PSA_MeterColor_t colour) {
    if (colour == PSA_MeterColor_t.GREEN) {
        return 1;
    } else if (colour == PSA_MeterColor_t.YELLOW) {
        return 2;
    }
    return 0;
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
    Counter<bit<32>, bit<8>>(4, PSA_CounterType_t.PACKETS_AND_BYTES) by_index;
    Register<bit<16>, bit<8>>(4, 0) runs;
    Hash<bit<16>>(PSA_HashAlgorithm_t.CRC16) crc16;
    Hash<bit<32>>(PSA_HashAlgorithm_t.CRC32) crc32;
    Hash<bit<16>>(PSA_HashAlgorithm_t.IDENTITY) identity;
    Meter<bit<8>>(8, PSA_MeterType_t.PACKETS) by_rate;
    Digest<message_t>() messages;
    Random<bit<16>>(100, 107) random;

    apply {
        send_to_port(ostd, (PortId_t)2);
        PSA_MeterColor_t colour = PSA_MeterColor_t.GREEN;
        switch (hdr.i.kind) {
            1: {
                by_index.count(hdr.i.kind);
                hdr.i.v = runs.read(3) + 1;
                runs.write(3, hdr.i.v);
            }
            2: { hdr.i.v = crc16.get_hash({ hdr.i.v }); }
            9: { hdr.i.v = crc16.get_hash({ hdr.i.v[11:0] }); }
            3: { hdr.i.v = (bit<16>)crc32.get_hash(32w100, { hdr.i.v }, 32w1000); }
            4: { hdr.i.v = identity.get_hash({ hdr.i.v }); }
            5: { colour = by_rate.execute(hdr.i.trace); }
            6: { colour = by_rate.execute(hdr.i.trace, PSA_MeterColor_t.YELLOW); }
            7: { messages.pack({ hdr.i.kind, hdr.i.v }); }
            8: {
                bit<16> r = random.read();
                hdr.i.v = r >= 100 && r <= 107 ? 16w1 : 16w0;
            }
        }
        if (hdr.i.kind == 5 || hdr.i.kind == 6) {
            hdr.i.v = number(colour);
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
