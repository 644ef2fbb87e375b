//! Program of a device without a program.

/// P4 text of a program that drops every packet, with a drop reason. A device runs it until a
/// controller sets another one.
pub const EMPTY_PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
struct none_t { }
parser P(packet_in p, out none_t h, inout none_t m, inout standard_metadata_t s) { state start { transition accept; } }
control C(inout none_t h, inout none_t m) { apply { } }
control I(inout none_t h, inout none_t m, inout standard_metadata_t s) { apply { mark_to_drop(s); } }
control E(inout none_t h, inout none_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in none_t h) { apply { } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
"#;
