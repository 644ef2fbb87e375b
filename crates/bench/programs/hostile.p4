// A virtual data plane that takes what it can get: each macro is another way to do so.

#include <core.p4>
#include <v1model.p4>

header unit_t {
    bit<8> value;
}

header key_t {
    bit<32> value;
}

struct headers_t {
    key_t       key;
    unit_t[256] units;
}

struct metadata_t { }

parser HostileParser(packet_in packet,
                     out headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.key);
#ifdef PARSE_BOMB
        transition units;
#else
#ifdef ENDLESS_PARSER
        transition around;
#else
        transition accept;
#endif
#endif
    }

    state units {
        packet.extract(hdr.units.next);
        transition select(hdr.units.last.value) {
            0: units;
            default: accept;
        }
    }

    state around {
        transition select(packet.lookahead<bit<8>>()) {
            0: around;
            default: accept;
        }
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Hostile(inout headers_t hdr,
                inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    register<bit<32>>(65536) cells;

    action forward() {
        standard_metadata.egress_spec = 1;
    }

    table keys {
        key = { hdr.key.value: exact; }
        actions = { forward; }
        size = 65536;
        default_action = forward();
    }

    // Cells that are far from each other.
    action count(bit<32> at) {
        bit<32> value;
        cells.read(value, (hdr.key.value + at) & 65535);
        cells.write((hdr.key.value + at) & 65535, value + 1);
    }

    apply {
        standard_metadata.egress_spec = 1;
#ifdef TABLE
        keys.apply();
#endif
#ifdef REGISTERS
        count(0);
        count(8191);
        count(16382);
        count(24573);
        count(32764);
        count(40955);
        count(49146);
        count(57337);
#endif
#ifdef FLOOD
        keys.apply();
        digest<bit<32>>(1, hdr.key.value);
        digest<bit<32>>(1, hdr.key.value);
        log_msg("key {}", { hdr.key.value });
#endif
#ifdef CLONE_STORM
        clone(CloneType.I2E, 1);
#endif
    }
}

control Again(inout headers_t hdr,
              inout metadata_t meta,
              inout standard_metadata_t standard_metadata) {
    apply {
#ifdef RECIRCULATE
        recirculate_preserving_field_list(1);
#endif
    }
}

control HostileDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(HostileParser(), NoChecksum(), Hostile(), Again(), NoChecksum(), HostileDeparser()) main;
