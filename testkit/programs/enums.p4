// Enums, and enums with a representation: their values, casts from numbers that name no member, comparison.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
}

header out_t {
    bit<8> suit;
    bit<8> compared;
    bit<8> next;
    bit<8> strange;
}

#include "harness.p4"

enum bit<8> Suit {
    Hearts = 1,
    Diamonds = 2,
    Clubs = 3,
    Spades = 4
}

enum Kind { Small, Large }

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        Suit suit = (Suit)hdr.i.a;
        hdr.o.suit = suit;
        hdr.o.compared = suit == Suit.Hearts ? 8w1 : suit == Suit.Spades ? 8w2 : 8w0;
        hdr.o.next = (bit<8>)Suit.Spades + 1;
        Kind kind = Kind.Small;
        if (hdr.i.a > 10) {
            kind = Kind.Large;
        }
        hdr.o.strange = kind == Kind.Large ? 8w1 : 8w0;
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
