// A switch whose packets come from controllers: what they send goes through a table, back to them or into a digest.

#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    @padding bit<7> pad;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    @padding bit<7> pad;
}

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    ethernet_t   ethernet;
}

struct metadata_t { }

struct learned_t {
    bit<48> address;
    bit<9>  port;
}

parser SwitchParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.packet_out);
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets) seen;

    action drop() {
        mark_to_drop(sm);
    }
    action to_controller() {
        sm.egress_spec = 510;
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = sm.ingress_port;
    }
    action learn() {
        mark_to_drop(sm);
        digest<learned_t>(1, { hdr.ethernet.src, sm.ingress_port });
    }

    table stations {
        key = { hdr.ethernet.dst : exact; }
        actions = { drop; to_controller; learn; }
        default_action = drop();
        counters = seen;
        size = 1024;
    }
    table routes {
        key = { hdr.ethernet.src : lpm; }
        actions = { drop; NoAction; }
        default_action = NoAction();
    }
    table rules {
        key = { hdr.ethernet.type : ternary; hdr.ethernet.dst : ternary; }
        actions = { drop; NoAction; }
        default_action = NoAction();
    }

    apply {
        hdr.packet_out.setInvalid();
        stations.apply();
        routes.apply();
        rules.apply();
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control SwitchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(SwitchParser(), NoChecksum(), In(), Out(), NoChecksum(), SwitchDeparser()) main;
