// Counters of packets, of bytes and of both, by index and by table entry; the bytes are those of the whole frame.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<32> index;
}

header out_t {
    bit<8> v;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set(bit<8> v) {
        hdr.o.v = v;
    }

    counter(4, CounterType.packets) packets_only;
    counter(4, CounterType.bytes) bytes_only;
    counter(4, CounterType.packets_and_bytes) both;
    direct_counter(CounterType.packets_and_bytes) entry_hits;

    table t {
        key = { hdr.i.a : exact; }
        actions = { set; }
        default_action = set(0);
        counters = entry_hits;
    }

    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        packets_only.count(hdr.i.index);
        bytes_only.count(hdr.i.index);
        both.count(hdr.i.index);
        t.apply();
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
