// Names for the control plane: of keys, parameters, actions' lists, generic types and what properties construct.

#include <core.p4>
#include <v1model.p4>

struct pair_t<T> {
    T          first;
    @name("other")
    bit<8>     second;
}

@name("shown_t")
struct hidden_t {
    bit<8> a;
}

header h_t {
    bit<8>  a;
    bit<16> b;
}

struct headers_t {
    @name("outer")
    h_t    h;
    @name(".inner")
    h_t    i;
    h_t[2] s;
}

struct meta_t {
    pair_t<bit<16>> pair;
    hidden_t        hidden;
}

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control Check(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

@name("not_shown")
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    const bit<16> MASK = 0x0ff0;

    action send(@name("to") bit<9> port) {
        sm.egress_spec = port;
    }
    table t {
        key = {
            hdr.h.a            : exact;
            hdr.i.b            : exact;
            hdr.h.isValid()    : exact;
            hdr.s[1].a[0x3:0]  : exact;
            hdr.h.b & 16w0x00f : exact;
            hdr.s[0].b & MASK  : exact;
            meta.pair.first    : selector;
        }
        actions = { send; }
        @name("members") @mode("fair")
        implementation = action_selector(HashAlgorithm.crc16, 16, 8);
    }
    apply {
        t.apply();
        digest<pair_t<bit<16>>>(1, meta.pair);
        digest(1, meta.hidden);
    }
}

control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.h);
    }
}

V1Switch(P(), Check(), I(), E(), Check(), D()) main;
