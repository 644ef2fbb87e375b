//! Helpers: devices, and their programs and entries.

use std::sync::Arc;
use std::sync::mpsc::channel;

use bits::Value;
use interp::Interp;
use ir::{ActionCall, KeyMatch, Program, TableId};
use switch::{Action, Change, Device, DeviceConfig, StorageError, TableEntry};

/// Program with every kind of object.
pub(crate) const ALL: &str = include_str!("../../../p4rt/tests/p4rt/all.p4");

/// Compiles P4 text.
pub(crate) fn compile(text: &str) -> Arc<Program> {
    let options = syntax::ParseOptions {
        builtin: Some(sema::arch::builtin_include),
        ..Default::default()
    };
    let parsed = syntax::parse_str("state.p4", text, &options);
    let checked = sema::check(&parsed.program, &sema::CheckOptions::default());
    let lowered = lower::lower(&checked.program, &parsed.sources, "state");
    Arc::new(lowered.expect("the program is fine"))
}

pub(crate) fn device(program: &Arc<Program>) -> Device {
    let program = Arc::clone(program);
    Device::new(program, &Interp, &DeviceConfig::default()).expect("it runs")
}

pub(crate) fn table(program: &Program, name: &str) -> TableId {
    let mut tables = program.tables.iter();
    let found = tables.find(|(_, table)| table.name.ends_with(name));
    found.expect("it has this table").0
}

/// Returns the position of an action in a table's list.
pub(crate) fn listed(program: &Program, table: TableId, name: &str) -> usize {
    let mut actions = program.tables[table].actions.iter();
    let is_it = |action: &ir::TableAction| program.actions[action.action].name.contains(name);
    actions.position(is_it).expect("the table has this action")
}

/// Returns an entry with one exact key of 48 bits that forwards to a port.
pub(crate) fn forwards(program: &Program, table: TableId, key: u64, port: u64) -> TableEntry {
    TableEntry {
        keys: vec![KeyMatch::Exact(Value::truncated(key.into(), 48))],
        priority: None,
        action: Action::Call(ActionCall {
            action: listed(program, table, "forward"),
            args: vec![Value::truncated(port.into(), 9)],
        }),
        idle_timeout: None,
        meter: None,
        counter: None,
    }
}

/// Ends a batch and waits for its result.
pub(crate) fn commit(device: &mut Device) -> Result<(), StorageError> {
    let (tell, told) = channel();
    device.commit(Box::new(move |kept| {
        // The receiver waits below.
        let _ = tell.send(kept);
    }));
    told.recv().expect("the storage answers")
}

pub(crate) fn apply(device: &mut Device, change: Change) -> Option<switch::EntryId> {
    device.apply(change).expect("it fits the program")
}

/// Seeded random numbers (SplitMix64).
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }
}
