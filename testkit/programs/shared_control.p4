// One instance of a control applied at several places: it has one table, its parameters are copied in and out each time, and what it leaves by
// `return`, `exit` or a loop's end takes the values along.
#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
    bit<8> b;
    bit<8> rounds;
}

header out_t {
    bit<8> a;
    bit<8> b;
    bit<8> visits;
    bit<8> last;
}

#include "harness.p4"

control Visit(inout bit<8> value, inout bit<8> visits) {
    action add(bit<8> n) {
        value = value + n;
    }
    action stop(bit<8> n) {
        value = n;
        exit;
    }
    action nothing() { }
    table by_value {
        key = { value: exact; }
        actions = { add; stop; nothing; }
        default_action = nothing();
    }
    apply {
        visits = visits + 1;
        if (value == 0) {
            return;
        }
        if (by_value.apply().miss) {
            value = value + 1;
        }
    }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Visit() visit;
    apply {
        hdr.o.setValid();
        hdr.o.a = hdr.i.a;
        hdr.o.b = hdr.i.b;
        hdr.o.visits = 0;
        hdr.o.last = 0xee;
        sm.egress_spec = 1;
        visit.apply(hdr.o.a, hdr.o.visits);
        visit.apply(hdr.o.b, hdr.o.visits);
        for (bit<8> round = 0; round < hdr.i.rounds; round = round + 1) {
            if (round == 1) {
                continue;
            }
            visit.apply(hdr.o.a, hdr.o.visits);
            if (hdr.o.a == 0x40) {
                break;
            }
        }
        hdr.o.last = 0x77;
    }
}

V1Switch(TestParser(), NoChecks(), TestIngress(), NoEgress(), NoChecks(), TestDeparser()) main;
