// Parameters of all widths and in any order, of entries that say their actions and of entries that refer to a member of a profile.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> direct;
    bit<8> shared;
}

header out_t {
    bit<1>   flag;
    bit<7>   seven;
    int<8>   halved;
    bit<9>   padding;
    bit<9>   nine;
    bit<16>  sixteen;
    bit<32>  word;
    bit<48>  mac;
    bit<64>  limb;
    bit<70>  wide;
    bit<192> wider;
}

#include "harness.p4"

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action all(bool flag, bit<9> nine, bit<64> limb, int<8> signed, bit<70> wide,
               bit<32> word, bit<7> seven, bit<48> mac, bit<16> sixteen) {
        hdr.o.flag = (bit<1>)flag;
        hdr.o.seven = seven;
        hdr.o.halved = signed >> 1;
        hdr.o.nine = nine;
        hdr.o.sixteen = sixteen;
        hdr.o.word = word;
        hdr.o.mac = mac;
        hdr.o.limb = limb;
        hdr.o.wide = wide;
    }

    action long(bit<192> wider) {
        hdr.o.wider = wider;
    }

    action small(bool flag, bit<16> sixteen, bit<7> seven) {
        hdr.o.flag = (bit<1>)flag;
        hdr.o.seven = seven;
        hdr.o.sixteen = sixteen;
    }

    action address(bit<48> mac, bit<9> nine) {
        hdr.o.mac = mac;
        hdr.o.nine = nine;
    }

    action number(bit<32> word) {
        hdr.o.word = word;
    }

    action_profile(16) members;

    table direct {
        key = { hdr.i.direct : exact; }
        actions = { all; small; address; number; long; NoAction; }
        default_action = number(0xdefa);
    }

    table shared {
        key = { hdr.i.shared : exact; }
        actions = { NoAction; long; number; address; small; all; }
        implementation = members;
    }

    table known {
        key = { hdr.i.direct : exact; }
        actions = { NoAction; }
        default_action = NoAction();
    }

    apply {
        sm.egress_spec = 1;
        hdr.o = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
        direct.apply();
        shared.apply();
        if (known.apply().hit) {
            hdr.o.padding = 0x1ff;
        }
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
