// select: values, masks, ranges, several keys, cases in order, don't care; NoMatch without a default.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8>  a;
    bit<16> b;
}

header out_t {
    bit<8> state_number;
    bit<8> error_code;
}

struct headers_t {
    in_t  i;
    out_t o;
}

struct metadata_t {
    bit<8> number;
}

const bit<16> LIMIT = 1000;

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.i);
        transition select(hdr.i.a, hdr.i.b) {
            (0, 0):                     first;
            (1, 0x1200 &&& 0xff00):     second;
            (1, 0x1000 .. 0x1fff):      third;
            (2 .. 4, _):                fourth;
            (0x80 &&& 0x80, LIMIT):     fifth;
            (5, 7):                     accept;
            (6, _):                     reject;
        }
    }

    state first  { meta.number = 1; transition accept; }
    state second { meta.number = 2; transition accept; }
    state third  { meta.number = 3; transition accept; }
    state fourth { meta.number = 4; transition accept; }
    state fifth  { meta.number = 5; transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.state_number = meta.number;
        hdr.o.error_code = sm.parser_error == error.NoError ? 8w0 : sm.parser_error == error.NoMatch ? 8w1 : 8w2;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(TestParser(), Verify(), TestIngress(), TestEgress(), Update(), TestDeparser()) main;
