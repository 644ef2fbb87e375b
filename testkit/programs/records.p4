// Tables whose entries are told in few bytes: entries of one action alone, what only a miss has, and entries that refer to members of a profile, beside a default action that does not.
#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> key;
    bit<8> other;
}

header out_t {
    bit<16> one;
    bit<32> missed;
    bit<8>  again;
    bit<8>  run;
    bit<48> apart;
    bit<16> last;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action one(bit<9> number) {
        hdr.o.one = (bit<16>)number;
    }

    action missed(bit<32> reason) {
        hdr.o.missed = reason;
    }

    action again(bit<8> number) {
        hdr.o.again = hdr.o.again + number;
    }

    action apart(bit<48> address) {
        hdr.o.apart = address;
    }

    action last(bit<16> number) {
        hdr.o.last = number;
    }

    // Entries run one action; a miss another, with more to say.
    table of_one {
        key = { hdr.i.key : exact; }
        actions = { one; @defaultonly missed; }
        default_action = missed(0xfeedbeef);
    }

    // Entries and misses run the same one.
    table of_same {
        key = { hdr.i.other : exact; }
        actions = { again; }
        default_action = again(0x40);
    }

    // It is asked which action ran.
    table asked {
        key = { hdr.i.key : ternary; }
        actions = { again; @defaultonly missed; }
        default_action = missed(0xdeadfeed);
    }

    action_profile(8) members;

    // Entries refer to members; a miss has the longest parameters of all.
    table by_member {
        key = { hdr.i.other : exact; }
        actions = { last; again; apart; }
        implementation = members;
        default_action = apart(0x0a0b0c0d0e0f);
    }

    apply {
        sm.egress_spec = 1;
        hdr.o = { 0, 0, 0, 0, 0, 0 };
        of_one.apply();
        of_same.apply();
        switch (asked.apply().action_run) {
            again: { hdr.o.run = 1; }
            missed: { hdr.o.run = 2; }
        }
        by_member.apply();
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
