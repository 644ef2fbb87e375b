// Limits what each customer may send, with two-rate three-colour meters.
//
// A customer's traffic within the committed rate (green) keeps its class. Between the committed and the peak rate
// (yellow) it is marked with a higher drop precedence. Beyond the peak rate (red) it is dropped. A second meter for each uplink does the
// same for the sum, but only drops yellow packets when it is red, never green ones.

#include <core.p4>
#include <v1model.p4>

typedef bit<9> Port;

const bit<16> ETHERTYPE_IPV4 = 0x0800;

const bit<6> DSCP_AF11 = 10; // RFC 2597: assured forwarding, low drop precedence
const bit<6> DSCP_AF12 = 12; // ... medium drop precedence

enum bit<2> Colour {
    Green  = V1MODEL_METER_COLOR_GREEN,
    Yellow = V1MODEL_METER_COLOR_YELLOW,
    Red    = V1MODEL_METER_COLOR_RED
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
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
    ipv4_t     ipv4;
}

struct metadata_t {
    bit<2> colour;
}

parser LimiterParser(packet_in packet,
                     out headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default:        accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control LimiterIngress(inout headers_t hdr,
                       inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    direct_meter<bit<2>>(MeterType.bytes) customer_rate;
    meter(512, MeterType.bytes) uplink_rate;
    counter(3, CounterType.packets_and_bytes) colours;

    action drop() {
        mark_to_drop(standard_metadata);
        exit;
    }

    action to_uplink(Port port) {
        customer_rate.read(meta.colour);
        standard_metadata.egress_spec = port;
    }

    // A customer is known by port and source network. An entry carries the customer's rates.
    table customer {
        key = {
            standard_metadata.ingress_port : exact;
            hdr.ipv4.src                   : lpm;
        }
        actions = { to_uplink; drop; }
        const default_action = drop();
        meters = customer_rate;
        size = 4096;
    }

    apply {
        if (!hdr.ipv4.isValid()) {
            drop();
        }
        customer.apply();
        colours.count((bit<32>)meta.colour);
        if (meta.colour == Colour.Red) {
            drop();
        }
        bit<2> uplink_colour;
        uplink_rate.execute_meter((bit<32>)standard_metadata.egress_spec, uplink_colour);
        if (meta.colour == Colour.Yellow) {
            if (uplink_colour == Colour.Red) {
                drop();
            }
            hdr.ipv4.dscp = DSCP_AF12;
        } else {
            hdr.ipv4.dscp = DSCP_AF11;
        }
    }
}

control LimiterEgress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    apply { }
}

control UpdateIpv4Checksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control LimiterDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(LimiterParser(),
         NoChecksum(),
         LimiterIngress(),
         LimiterEgress(),
         UpdateIpv4Checksum(),
         LimiterDeparser()) main;
