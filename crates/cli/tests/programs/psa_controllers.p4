// Every packet goes to controllers, with the port that it came by.
#include <core.p4>
#include <psa.p4>
struct none_t { }
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
@controller_header("packet_in") header packet_in_t { bit<32> ingress_port; }
struct headers_t { packet_in_t packet_in; ethernet_t ethernet; }
struct bridged_t { bit<32> port; }
struct metadata_t { bridged_t bridged; }
parser IngressIn(packet_in packet, out headers_t hdr, inout metadata_t meta, in psa_ingress_parser_input_metadata_t istd, in none_t resubmitted, in none_t recirculated) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control IngressPart(inout headers_t hdr, inout metadata_t meta, in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    apply {
        meta.bridged.port = (bit<32>)istd.ingress_port;
        send_to_port(ostd, PSA_PORT_CPU);
    }
}
control IngressOut(packet_out packet, out none_t cloned, out none_t resubmitted, out bridged_t bridged, inout headers_t hdr, in metadata_t meta, in psa_ingress_output_metadata_t istd) {
    apply { bridged = meta.bridged; packet.emit(hdr.ethernet); }
}
parser EgressIn(packet_in packet, out headers_t hdr, inout metadata_t meta, in psa_egress_parser_input_metadata_t istd, in bridged_t bridged, in none_t cloned_i2e, in none_t cloned_e2e) {
    state start { meta.bridged = bridged; packet.extract(hdr.ethernet); transition accept; }
}
control EgressPart(inout headers_t hdr, inout metadata_t meta, in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = meta.bridged.port;
    }
}
control EgressOut(packet_out packet, out none_t cloned, out none_t recirculated, inout headers_t hdr, in metadata_t meta, in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply { packet.emit(hdr.packet_in); packet.emit(hdr.ethernet); }
}
IngressPipeline(IngressIn(), IngressPart(), IngressOut()) ip;
EgressPipeline(EgressIn(), EgressPart(), EgressOut()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
