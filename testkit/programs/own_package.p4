// A package of the program's own, without an architecture file: parser, control, deparser in a line, packets leave where they came in. An extern that
// only this program knows does nothing and gives zero.
#include <core.p4>

header mark_t {
    bit<8> value;
    bit<8> sum;
}

struct headers_t {
    mark_t mark;
}

extern Summer {
    Summer();
    bit<8> sum(in bit<8> value);
}

parser OwnParser(packet_in packet, out headers_t hdr) {
    state start {
        packet.extract(hdr.mark);
        transition accept;
    }
}

control OwnControl(inout headers_t hdr) {
    Summer() summer;
    apply {
        hdr.mark.value = hdr.mark.value + 1;
        hdr.mark.sum = summer.sum(hdr.mark.value);
    }
}

control OwnDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.mark);
    }
}

parser P(packet_in packet, out headers_t hdr);
control C(inout headers_t hdr);
control D(packet_out packet, in headers_t hdr);
package Line(P p, C c, D d);

Line(OwnParser(), OwnControl(), OwnDeparser()) main;
