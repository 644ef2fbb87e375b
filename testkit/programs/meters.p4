// Two-rate three-colour meters: bursts at both rates, the colours in between, and how buckets fill again as time passes.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<8> index;
}

header out_t {
    bit<8> direct;
    bit<8> indirect;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_meter<bit<8>>(MeterType.packets) entry_rate;
    meter(2, MeterType.packets) rate;

    action read_colour() {
        entry_rate.read(hdr.o.direct);
    }

    table t {
        key = { hdr.i.a : exact; }
        actions = { read_colour; NoAction; }
        default_action = NoAction();
        meters = entry_rate;
    }

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.direct = 0xff;
        t.apply();
        rate.execute_meter((bit<32>)hdr.i.index, hdr.o.indirect);
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
