//! `polyplane test`: its output for tests that pass.

mod lab;

use lab::{Directory, said};

/// A program that recirculates packets of 0xff endlessly, and makes copies of those of 1.
const PROGRAM: &str = "#include <v1model.p4>\nheader e_t { bit<8> a; }\nstruct h { e_t e; }\nstruct m {}\n\
    parser P(packet_in p, out h hdr, inout m meta, inout standard_metadata_t s) {\n\
      state start { p.extract(hdr.e); transition accept; }\n}\n\
    control V(inout h hdr, inout m meta) { apply {} }\n\
    control I(inout h hdr, inout m meta, inout standard_metadata_t s) {\n\
      apply { s.egress_spec = 1; if (hdr.e.a == 1) { s.mcast_grp = 1; } }\n}\n\
    control E(inout h hdr, inout m meta, inout standard_metadata_t s) {\n\
      apply { if (hdr.e.a == 0xff) { recirculate_preserving_field_list(0); } }\n}\n\
    control D(packet_out p, in h hdr) { apply { p.emit(hdr); } }\n\
    V1Switch(P(), V(), I(), E(), V(), D()) main;\n";

#[test]
fn limits_that_packets_meet_are_told_in_one_line() {
    let dir = Directory::new("test-limits");
    let program = dir.with("limits.p4", PROGRAM);
    let replicas: Vec<String> = (0..20_000)
        .map(|n| format!("port 1 instance {n}"))
        .collect();
    let group = format!("entry multicast 1 {{ {} }}\n", replicas.join(", "));
    let quiet = dir.with("quiet.stf", "packet 0 00\nexpect 1 00 $\n");
    let told = said(&["test", &program, &quiet]);
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
    let test = format!("{group}packet 0 01\npacket 0 ff\npacket 0 FF\n");
    let loud = dir.with("loud.stf", test);
    let told = said(&["test", &program, &loud]);
    assert_eq!(told.status, Some(0), "{}", told.err);
    let line = told.one_line();
    for part in [
        "loud.stf: warning: ",
        "2 packets used up the work budget (work_budget)",
        "1 packet asked for too many copies (copy_budget)",
        "19999 copies were refused",
    ] {
        assert!(line.contains(part), "\"{part}\" in: {line}");
    }
}
