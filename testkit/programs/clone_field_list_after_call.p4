// A clone keeps the fields of its list as they are at the end of ingress, whether they are set
// before or after the call, and whether a literal or a constant names the list.
#include <core.p4>
#include <v1model.p4>
header tag_t { bit<8> kind; }
header note_t { bit<8> why; bit<8> in_port; }
const int LIST = 3;
struct headers_t { note_t note; tag_t tag; }
struct meta_t { @field_list(LIST, 4) bit<8> why; @field_list(LIST, 4) bit<8> in_port; }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { b.extract(h.tag); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (h.tag.kind == 1) {          // set before the call
            m.why = 7; m.in_port = (bit<8>)s.ingress_port;
            clone_preserving_field_list(CloneType.I2E, 5, LIST);
        } else if (h.tag.kind == 2) {   // set after the call
            clone_preserving_field_list(CloneType.I2E, 5, LIST);
            m.why = 7; m.in_port = (bit<8>)s.ingress_port;
        } else {                        // the same with a literal
            clone_preserving_field_list(CloneType.I2E, 5, 4);
            m.why = 8; m.in_port = (bit<8>)s.ingress_port;
        }
        mark_to_drop(s);
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply { h.note.setValid(); h.note.why = m.why; h.note.in_port = m.in_port; }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
