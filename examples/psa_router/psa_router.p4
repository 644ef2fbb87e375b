// An IPv4 router for the Portable Switch Architecture.
//
// It checks the header checksum in the parser and corrects it in the deparser, limits each route's traffic by a meter, counts
// by route and by port, reports the first packets of unknown sources, sends multicast to groups and packets for the router
// itself to the CPU port.

#include <core.p4>
#include <psa.p4>

typedef bit<48> Mac;
typedef bit<32> Ipv4Address;

const bit<16> ETHERTYPE_IPV4 = 0x0800;

header ethernet_t {
    Mac     dst;
    Mac     src;
    bit<16> type;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<8>      diffserv;
    bit<16>     total_length;
    bit<16>     identification;
    bit<3>      flags;
    bit<13>     fragment_offset;
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     checksum;
    Ipv4Address src;
    Ipv4Address dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct metadata_t { }

struct empty_t { }

struct new_source_t {
    Ipv4Address address;
    PortId_t    port;
}

error {
    BadIpv4Header,
    BadIpv4Checksum
}

parser RouterIngressParser(packet_in packet,
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

control RouterIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      in psa_ingress_input_metadata_t istd,
                      inout psa_ingress_output_metadata_t ostd) {
    Counter<bit<64>, bit<8>>(2, PSA_CounterType_t.PACKETS) bad_packets;
    DirectCounter<bit<64>>(PSA_CounterType_t.PACKETS_AND_BYTES) route_hits;
    DirectMeter(PSA_MeterType_t.BYTES) route_rate;
    Digest<new_source_t>() new_sources;

    action drop() {
        ingress_drop(ostd);
    }

    action report_source() {
        new_sources.pack({ hdr.ipv4.src, istd.ingress_port });
    }

    table known_source {
        key = { hdr.ipv4.src : exact; }
        actions = { NoAction; report_source; }
        const default_action = report_source();
        psa_idle_timeout = PSA_IdleTimeout_t.NOTIFY_CONTROL;
        size = 16384;
    }

    // Beyond the peak rate (red) the route drops; between the rates (yellow) the packet goes with a lower class.
    action via(PortId_t port, Mac src_mac, Mac dst_mac) {
        route_hits.count();
        PSA_MeterColor_t colour = route_rate.execute();
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        send_to_port(ostd, port);
        if (colour == PSA_MeterColor_t.YELLOW) {
            ostd.class_of_service = (ClassOfService_t) 1;
        } else if (colour == PSA_MeterColor_t.RED) {
            ingress_drop(ostd);
        }
    }

    action to_group(MulticastGroup_t group) {
        route_hits.count();
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        multicast(ostd, group);
    }

    action to_cpu() {
        route_hits.count();
        send_to_port(ostd, PSA_PORT_CPU);
    }

    action no_route() {
        route_hits.count();
        ingress_drop(ostd);
    }

    table ipv4_lpm {
        key = { hdr.ipv4.dst : lpm; }
        actions = { via; to_group; to_cpu; no_route; }
        default_action = no_route();
        psa_direct_counter = route_hits;
        psa_direct_meter = route_rate;
        size = 65536;
    }

    apply {
        if (istd.parser_error != error.NoError || !hdr.ipv4.isValid()) {
            bad_packets.count(0);
            drop();
        } else if (hdr.ipv4.ttl <= 1) {
            bad_packets.count(1);
            drop();
        } else {
            known_source.apply();
            ipv4_lpm.apply();
        }
    }
}

control RouterIngressDeparser(packet_out packet,
                              out empty_t clone_i2e_meta,
                              out empty_t resubmit_meta,
                              out empty_t normal_meta,
                              inout headers_t hdr,
                              in metadata_t meta,
                              in psa_ingress_output_metadata_t istd) {
    InternetChecksum() checksum;

    apply {
        if (hdr.ipv4.isValid()) {
            checksum.clear();
            checksum.add({ hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_length,
                           hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
                           hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
            hdr.ipv4.checksum = checksum.get();
        }
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

parser RouterEgressParser(packet_in packet,
                          out headers_t hdr,
                          inout metadata_t meta,
                          in psa_egress_parser_input_metadata_t istd,
                          in empty_t normal_meta,
                          in empty_t clone_i2e_meta,
                          in empty_t clone_e2e_meta) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control RouterEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     in psa_egress_input_metadata_t istd,
                     inout psa_egress_output_metadata_t ostd) {
    Counter<bit<64>, PortId_t>(512, PSA_CounterType_t.PACKETS_AND_BYTES) port_tx;

    action set_source_mac(Mac mac) {
        hdr.ethernet.src = mac;
    }

    // For copies of multicast packets, which left ingress without a new source address.
    table egress_interface {
        key = { istd.egress_port : exact; }
        actions = { set_source_mac; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    apply {
        if (istd.packet_path == PSA_PacketPath_t.NORMAL_MULTICAST) {
            egress_interface.apply();
        }
        if (istd.egress_port != PSA_PORT_CPU) {
            port_tx.count(istd.egress_port);
        }
    }
}

control RouterEgressDeparser(packet_out packet,
                             out empty_t clone_e2e_meta,
                             out empty_t recirculate_meta,
                             inout headers_t hdr,
                             in metadata_t meta,
                             in psa_egress_output_metadata_t istd,
                             in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

IngressPipeline(RouterIngressParser(),
                RouterIngress(),
                RouterIngressDeparser()) ingress;

EgressPipeline(RouterEgressParser(),
               RouterEgress(),
               RouterEgressDeparser()) egress;

PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
