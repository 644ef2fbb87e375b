// switch on an expression: labels, labels that fall through, default; nothing when no label fits.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> a;
}

header out_t {
    bit<8> result;
    bit<8> without_default;
    bit<8> by_enum;
}

#include "harness.p4"

enum Colour { Red, Green, Blue }

control Test(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.without_default = 0;
        hdr.o.by_enum = 0;
        switch (hdr.i.a) {
            0: { hdr.o.result = 10; }
            1:
            2: { hdr.o.result = 20; }
            default: { hdr.o.result = 30; }
        }
        switch (hdr.i.a + 1) {
            3: { hdr.o.without_default = 1; }
            4: { }
        }
        Colour colour = hdr.i.a == 7 ? Colour.Red : Colour.Blue;
        switch (colour) {
            Colour.Red: { hdr.o.by_enum = 1; }
            Colour.Green: { hdr.o.by_enum = 2; }
            Colour.Blue: { hdr.o.by_enum = 3; }
        }
    }
}

V1Switch(TestParser(), NoChecks(), Test(), NoEgress(), NoChecks(), TestDeparser()) main;
