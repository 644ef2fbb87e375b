//! Background indexing: while the control loop is idle, it builds faster indexes for tables with
//! many rules.

use std::time::Duration;

use packet::Nanos;
use switch::{Device, Improved};

/// Time without changes by controllers before the work starts.
const QUIET: Nanos = Nanos::from_millis(100);

/// Approximate duration of one turn.
const BUDGET: Duration = Duration::from_millis(2);

/// Progress of the background indexing.
#[derive(Default)]
pub(crate) struct BackgroundIndexing {
    /// The device's change count at the last turn, and the time of its last change.
    changes: u64,
    since: Nanos,
    is_done: bool,
}

impl BackgroundIndexing {
    /// Does a part of the work, if there is any and its time has come. Returns true if there is
    /// more to do at once.
    pub(crate) fn turn(&mut self, device: &mut Device, now: Nanos) -> bool {
        let changes = device.changes();
        if changes != self.changes {
            *self = Self {
                changes,
                since: now,
                is_done: false,
            };
        }
        if self.is_done || now.since(self.since) < QUIET {
            return false;
        }
        match device.improve(BUDGET) {
            Improved::NoMore => self.is_done = true,
            Improved::UnderWay => {}
            Improved::Done => device.publish(),
        }
        !self.is_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;
    use std::sync::Arc;

    use switch::DeviceConfig;

    const PROGRAM: &str = include_str!("../../../examples/acl/acl.p4");

    #[test]
    fn tables_are_improved_when_nothing_has_changed_for_a_while() {
        let mut text = String::new();
        for rule in 1..=1500 {
            let keys = format!(
                "hdr.ipv4.src: {} &&& 0xffffff00; meta.dst_port: {rule};",
                rule << 8
            );
            writeln!(text, "acl {{ {keys} }} -> permit() priority {rule}").unwrap();
        }
        let mut device = device(PROGRAM);
        let mut spare = BackgroundIndexing::default();
        // Adds entries as a controller does, without the indexing at the end.
        let program = Arc::clone(device.program());
        let entries = entries::read(&program, "acl.entries", &text).unwrap();
        apply_entries::apply_file(&mut device, &entries).unwrap();
        assert!(!spare.turn(&mut device, Nanos::from_millis(50)));
        assert!(!spare.turn(&mut device, Nanos::from_millis(149)));
        assert_ne!(device.improve(Duration::ZERO), Improved::NoMore);
        while spare.turn(&mut device, Nanos::from_millis(150)) {}
        assert_eq!(device.improve(Duration::ZERO), Improved::NoMore);
    }

    fn device(text: &str) -> Device {
        let program = Arc::new(driver::compile_text("indexed.p4", text).unwrap());
        Device::new(program, &interp::Interp, &DeviceConfig::default()).unwrap()
    }

    /// Program with two tables that have the same key.
    const TWO: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> key; }
struct headers_t { h_t h; }
struct empty_t {}
parser P(packet_in p, out headers_t hdr, inout empty_t m, inout standard_metadata_t s) { state start { p.extract(hdr.h); transition accept; } }
control V(inout headers_t hdr, inout empty_t m) { apply {} }
control I(inout headers_t hdr, inout empty_t m, inout standard_metadata_t s) {
    action to(bit<9> port) { s.egress_spec = port; }
    table one { key = { hdr.h.key : ternary; } actions = { to; } default_action = to(1); size = 4096; }
    table other { key = { hdr.h.key : ternary; } actions = { to; } default_action = to(1); size = 4096; }
    apply { one.apply(); other.apply(); }
}
control E(inout headers_t hdr, inout empty_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in headers_t hdr) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

    #[test]
    fn a_turn_improves_one_table_however_many_a_program_has() {
        let mut device = device(TWO);
        let mut text = String::new();
        for rule in 1..=1500 {
            for table in ["one", "other"] {
                let key = format!("hdr.h.key: {} &&& 0xffffff00", rule << 8);
                writeln!(text, "{table} {{ {key}; }} -> to(port: 2) priority {rule}").unwrap();
            }
        }
        let program = Arc::clone(device.program());
        let entries = entries::read(&program, "two.entries", &text).unwrap();
        apply_entries::apply_file(&mut device, &entries).unwrap();
        let turns = std::iter::repeat_with(|| device.improve(Duration::MAX));
        let done = turns.take_while(|turn| *turn == Improved::Done).count();
        // Each table is built once. A table that is faster with another index is built once more.
        assert!((2..=4).contains(&done), "{done} turns");
    }
}
