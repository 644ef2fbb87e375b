// The downlink of a broadband network gateway for the Portable Switch Architecture: an IPv4 packet for a subscriber leaves in the subscriber's PPPoE
// session (RFC 2516) behind a service tag and a customer tag (IEEE 802.1ad). Subscribers count their packets for accounting.

#include <core.p4>
#include <psa.p4>

typedef bit<48> Mac;
typedef bit<12> Vid;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_CUSTOMER_TAG = 0x8100;
const bit<16> ETHERTYPE_SERVICE_TAG = 0x88a8;
const bit<16> ETHERTYPE_PPPOE_SESSION = 0x8864;
const bit<16> PPP_IPV4 = 0x0021;

header ethernet_t {
    Mac     dst;
    Mac     src;
    bit<16> type;
}

header tag_t {
    bit<3>  priority;
    bit<1>  drop_eligible;
    Vid     vid;
    bit<16> type;
}

header pppoe_t {
    bit<4>  version;
    bit<4>  type;
    bit<8>  code;
    bit<16> session;
    bit<16> length;
    bit<16> protocol;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  diffserv;
    bit<16> total_length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragment_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

struct headers_t {
    ethernet_t ethernet;
    tag_t      service;
    tag_t      customer;
    pppoe_t    pppoe;
    ipv4_t     ipv4;
}

struct metadata_t { }

struct empty_t { }

error {
    BadIpv4Header,
    BadIpv4Checksum
}

parser GatewayIngressParser(packet_in packet,
                            out headers_t hdr,
                            inout metadata_t meta,
                            in psa_ingress_parser_input_metadata_t istd,
                            in empty_t resubmit_meta,
                            in empty_t recirculate_meta) {
    InternetChecksum() checksum;

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default:        accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4 && hdr.ipv4.ihl == 5, error.BadIpv4Header);
        checksum.clear();
        checksum.add({ hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
                       hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
                       hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
        verify(checksum.get() == hdr.ipv4.checksum, error.BadIpv4Checksum);
        transition accept;
    }
}

control GatewayIngress(inout headers_t hdr,
                       inout metadata_t meta,
                       in psa_ingress_input_metadata_t istd,
                       inout psa_ingress_output_metadata_t ostd) {
    // 0: malformed or no IPv4; 1: at its last hop.
    Counter<bit<64>, bit<8>>(2, PSA_CounterType_t.PACKETS) drops;
    DirectCounter<bit<64>>(PSA_CounterType_t.PACKETS_AND_BYTES) accounting;

    action to_subscriber(PortId_t port, Mac src, Mac dst, Vid service, Vid customer, bit<16> session) {
        accounting.count();
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
        hdr.ethernet.type = ETHERTYPE_SERVICE_TAG;
        hdr.service.setValid();
        hdr.service = { 0, 0, service, ETHERTYPE_CUSTOMER_TAG };
        hdr.customer.setValid();
        hdr.customer = { 0, 0, customer, ETHERTYPE_PPPOE_SESSION };
        hdr.pppoe.setValid();
        // PPPoE's length counts the two bytes of the PPP protocol.
        hdr.pppoe = { 1, 1, 0, session, hdr.ipv4.total_length + 2, PPP_IPV4 };
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        send_to_port(ostd, port);
    }

    action unknown() {
        accounting.count();
        ingress_drop(ostd);
    }

    table subscribers {
        key = { hdr.ipv4.dst : exact; }
        actions = { to_subscriber; @defaultonly unknown; }
        const default_action = unknown();
        psa_direct_counter = accounting;
        size = 131072;
    }

    apply {
        if (istd.parser_error != error.NoError || !hdr.ipv4.isValid()) {
            drops.count(0);
            ingress_drop(ostd);
        } else if (hdr.ipv4.ttl <= 1) {
            drops.count(1);
            ingress_drop(ostd);
        } else {
            subscribers.apply();
        }
    }
}

control GatewayIngressDeparser(packet_out packet,
                               out empty_t clone_i2e_meta,
                               out empty_t resubmit_meta,
                               out empty_t normal_meta,
                               inout headers_t hdr,
                               in metadata_t meta,
                               in psa_ingress_output_metadata_t istd) {
    InternetChecksum() checksum;

    apply {
        checksum.clear();
        checksum.add({ hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
                       hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
                       hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
        hdr.ipv4.checksum = checksum.get();
        packet.emit(hdr.ethernet);
        packet.emit(hdr.service);
        packet.emit(hdr.customer);
        packet.emit(hdr.pppoe);
        packet.emit(hdr.ipv4);
    }
}

parser GatewayEgressParser(packet_in packet,
                           out headers_t hdr,
                           inout metadata_t meta,
                           in psa_egress_parser_input_metadata_t istd,
                           in empty_t normal_meta,
                           in empty_t clone_i2e_meta,
                           in empty_t clone_e2e_meta) {
    state start {
        transition accept;
    }
}

control GatewayEgress(inout headers_t hdr,
                      inout metadata_t meta,
                      in psa_egress_input_metadata_t istd,
                      inout psa_egress_output_metadata_t ostd) {
    Counter<bit<64>, PortId_t>(64, PSA_CounterType_t.PACKETS_AND_BYTES) port_tx;

    apply {
        port_tx.count(istd.egress_port);
    }
}

control GatewayEgressDeparser(packet_out packet,
                              out empty_t clone_e2e_meta,
                              out empty_t recirculate_meta,
                              inout headers_t hdr,
                              in metadata_t meta,
                              in psa_egress_output_metadata_t istd,
                              in psa_egress_deparser_input_metadata_t edstd) {
    apply { }
}

IngressPipeline(GatewayIngressParser(),
                GatewayIngress(),
                GatewayIngressDeparser()) ingress;

EgressPipeline(GatewayEgressParser(),
               GatewayEgress(),
               GatewayEgressDeparser()) egress;

PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
