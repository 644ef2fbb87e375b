// Sub-parsers are merged, stacks are bounded, selects flattened.
#include <v1model.p4>

header l_t { bit<8> kind; bit<8> len; }
header o_t { bit<8> size; varbit<32> data; }
header_union u_t { l_t l; o_t o; }
struct pair_t { bit<8> kind; @match(ternary) bit<8> len; }
struct headers { l_t first; l_t[3] more; u_t u; o_t o; }
struct meta_t { bit<8> x; pair_t pair; }

parser Sub(packet_in p, out l_t l, in bit<8> limit) {
    bit<8> seen = 0;
    state start {
        p.extract(l);
        seen = seen + 1;
        transition select(l.len < limit) { true: accept; false: reject; }
    }
}
parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    Sub() sub;
    value_set<pair_t>(4) pairs;
    value_set<bit<8>>(4) kinds;
    state start {
        m.x = 5;
        sub.apply(p, hdr.first, m.x);
        m.x = 6;
        transition select(hdr.first.kind, hdr.first.len) {
            (1, 2 .. 3): more;
            (0xf0 &&& 0xf0, _): option;
            (kinds, 7): union_;
            default: ahead;
        }
    }
    state more {
        p.extract(hdr.more.next);
        verify(hdr.more.last.len != 0, error.HeaderTooShort);
        transition select(hdr.more.last.kind) { 1: more; default: accept; }
    }
    state option {
        p.extract(hdr.o, (bit<32>)(p.lookahead<bit<8>>() & 3) * 8);
        p.advance(8);
        transition accept;
    }
    state union_ { p.extract(hdr.u.l); transition accept; }
    state ahead {
        m.pair = p.lookahead<pair_t>();
        transition select(m.pair.kind, m.pair.len) { pairs: accept; }
    }
}
control Empty(inout headers hdr, inout meta_t m) { apply {} }
control I(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) { apply {} }
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), Empty(), I(), E(), Empty(), D()) main;
