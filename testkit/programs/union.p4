// A header union: at most one member is valid; setValid, extraction and assignment of one make the others invalid.

#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8> kind;
    bit<8> op;
}

header short_t {
    bit<8> v;
}

header long_t {
    bit<16> v;
}

header_union either_t {
    short_t s;
    long_t  l;
}

header out_t {
    bit<8> union_valid;
    bit<8> members_valid;
}

struct headers_t {
    in_t     i;
    out_t    o;
    either_t u;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.i);
        transition select(hdr.i.kind) {
            1:       parse_short;
            2:       parse_long;
            default: accept;
        }
    }

    state parse_short {
        packet.extract(hdr.u.s);
        transition accept;
    }

    state parse_long {
        packet.extract(hdr.u.l);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        switch (hdr.i.op) {
            1: {
                hdr.u.s.setValid();
                hdr.u.s.v = 0x51;
            }
            2: { hdr.u.l = { 0x1111 }; }
            3: { hdr.u.s.setInvalid(); }
            4: {
                short_t invalid;
                invalid.setInvalid();
                hdr.u.s = invalid;
            }
        }
        hdr.o.setValid();
        hdr.o.union_valid = hdr.u.isValid() ? 8w1 : 8w0;
        hdr.o.members_valid = (hdr.u.s.isValid() ? 8w1 : 8w0) + (hdr.u.l.isValid() ? 8w2 : 8w0);
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
