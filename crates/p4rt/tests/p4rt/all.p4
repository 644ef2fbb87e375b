// Every kind of object that P4Runtime knows, for v1model.

#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("test/port_name", string)
type bit<9> PortName;

typedef bit<48> Mac;

header ethernet_t {
    Mac     dst;
    Mac     src;
    bit<16> type;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9>  egress_port;
    @hidden bit<7>  pad;
}

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    ethernet_t   ethernet;
}

struct metadata_t {
    bit<8> a;
    bit<8> b;
}

struct learned_t {
    Mac     address;
    bit<9>  port;
}

enum colour_t {
    red,
    green
}

enum bit<8> kind_t {
    small = 1,
    large = 7
}

struct rich_t {
    bool               flag;
    colour_t           colour;
    kind_t             kind;
    error              problem;
    ethernet_t         ethernet;
    tuple<bit<8>, int<4>> both;
}

struct pair_t {
    bit<8>  first;
    bit<16> second;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    @id(0x03000001) value_set<bit<16>>(2) special;

    state start {
        transition select(sm.ingress_port) {
            510: from_controller;
            default: from_port;
        }
    }
    state from_controller {
        packet.extract(hdr.packet_out);
        transition from_port;
    }
    state from_port {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            special: mark;
            default: accept;
        }
    }
    state mark {
        meta.b = 1;
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) exact_counter;
    direct_meter<bit<2>>(MeterType.bytes) exact_meter;
    counter(8, CounterType.packets) ports_counter;
    meter(4, MeterType.packets) ports_meter;
    register<bit<32>>(4) numbers;
    register<pair_t>(2) pairs;
    register<int<8>>(2) signed_numbers;
    register<rich_t>(1) rich;
    action_profile(4) profile;
    @max_group_size(4) action_selector(HashAlgorithm.crc16, 16, 14) selector;
    bit<2> colour = 0;

    action drop() {
        mark_to_drop(sm);
    }
    action forward(bit<9> port) {
        sm.egress_spec = port;
    }
    action forward_by_name(PortName port) {
        sm.egress_spec = (bit<9>) port;
    }
    action to_controller() {
        sm.egress_spec = 510;
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = sm.ingress_port;
        hdr.packet_in.reason = 5;
    }
    action learn() {
        digest<learned_t>(1, { hdr.ethernet.src, sm.ingress_port });
    }
    @action_restriction("group != 0; // no group
                         group != 0xffff")
    action flood(bit<16> group) {
        sm.mcast_grp = group;
    }
    action read_meter() {
        exact_meter.read(colour);
    }

    table exact_table {
        key = { hdr.ethernet.dst : exact; }
        actions = { forward; to_controller; learn; flood; forward_by_name; @tableonly drop; @defaultonly NoAction; }
        default_action = NoAction();
        counters = exact_counter;
        size = 16;
    }
    table metered {
        key = { hdr.ethernet.src : exact; }
        actions = { read_meter; NoAction; }
        meters = exact_meter;
        support_timeout = true;
    }
    table lpm_table {
        key = { hdr.ethernet.dst : lpm; }
        actions = { forward; drop; }
        const default_action = drop();
    }
    @entry_restriction("
        // A rule for one type only.
        hdr.ethernet.type::mask != 0 -> hdr.ethernet.type::mask == 0xffff || meta.a::low == 0 || ::priority > 2;
        meta.b != 9;
    ")
    table mixed {
        key = {
            hdr.ethernet.type : ternary;
            meta.a            : range;
            meta.b            : optional;
            sm.ingress_port   : exact;
        }
        actions = { forward; NoAction; }
    }
    table const_table {
        key = { hdr.ethernet.type : ternary; }
        actions = { forward; NoAction; }
        const entries = {
            0x0800 &&& 0xff00 : forward(1);
            0x0806            : forward(2);
        }
    }
    table begun {
        key = { hdr.ethernet.type : exact; }
        actions = { forward; NoAction; }
        entries = {
            const 0x0800 : forward(1);
            0x0806       : forward(2);
        }
    }
    @p4runtime_role("guest")
    table of_guests {
        key = { hdr.ethernet.type : exact; }
        actions = { forward; NoAction; }
    }
    table by_name {
        key = { sm.ingress_port : exact; meta.a : exact; }
        actions = { forward_by_name; NoAction; }
    }
    table keyless {
        actions = { forward; NoAction; }
    }
    table indirect {
        key = { hdr.ethernet.dst : exact; }
        actions = { forward; drop; NoAction; }
        implementation = profile;
    }
    table balanced {
        key = {
            hdr.ethernet.dst : exact;
            hdr.ethernet.src : selector;
        }
        actions = { forward; drop; NoAction; }
        implementation = selector;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            sm.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            sm.egress_spec = 511;
            numbers.write(0, 7);
            rich_t read_back;
            rich.read(read_back, 0);
            if (read_back.flag && read_back.colour == colour_t.green && read_back.ethernet.isValid()) {
                read_back.kind = kind_t.large;
                read_back.problem = error.NoMatch;
                rich.write(0, read_back);
            }
            pairs.write(1, { 1, 2 });
            signed_numbers.write(0, -3);
            ports_counter.count((bit<32>) sm.ingress_port & 7);
            ports_meter.execute_meter((bit<32>) sm.ingress_port & 3, meta.a);
            exact_table.apply();
            metered.apply();
            if (sm.egress_spec == 511 && sm.mcast_grp == 0) {
                if (!indirect.apply().hit) {
                    balanced.apply();
                }
            }
            mixed.apply();
            if (meta.b == 1) {
                forward(9);
            } else if (hdr.ethernet.src == 48w0xfff) {
                lpm_table.apply();
                const_table.apply();
                begun.apply();
                of_guests.apply();
                by_name.apply();
                keyless.apply();
            }
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.packet_out);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(TestParser(), Nothing(), In(), Out(), Nothing(), TestDeparser()) main;
