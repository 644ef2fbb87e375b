//! Tests with constructed events of a small program, and the resulting text and JSON.

mod code;
mod forms;
mod lookups;
mod packets;
mod rounds;

use std::sync::Arc;

use bits::Value;
use exec::{DropDetail, DropReason, TraceEvent};
use ir::{
    ActionCall, ActionId, BlockRole, Call, ControlId, Expr, ExternId, FieldId, HashAlgorithm,
    HeaderId, KeyMatch, Loc, Op, Operand, ParserId, Place, Program, StageId, StateId, TableId,
    Target,
};
use switch::{Action, Change, Device, DeviceConfig, TableEntry};
use table::EntryId;

use super::conversion::Converter;
use super::fold::fold;
use super::step::Step;
use super::text::text;

const SOURCE: &str =
    "one\n    state start {\n  extract(hdr.ethernet);\n\nif (!meta.ok) {\nsix\naction via(\n";

fn program() -> Program {
    let program = ir::read(include_str!("router.ir")).expect("the program is well formed");
    if let Err(errors) = ir::verify(&program) {
        panic!("{}", errors[0]);
    }
    program
}

/// Returns a device with entries that use the action selector in all forms.
fn device() -> Device {
    let config = DeviceConfig::default();
    let mut device =
        Device::new(Arc::new(program()), &interp::Interp, &config).expect("the program can run");
    let profile = ExternId::new(2);
    let via = |port: u128| ActionCall {
        action: 1,
        args: vec![v(port, 9), v(0x0200_0000_0001, 48)],
    };
    let member = |id: u32| Change::SetMember {
        profile,
        id,
        action: ActionId::new(1),
        args: via(1).args,
    };
    let insert = |dst: u128, action: Action| {
        let entry = TableEntry {
            keys: vec![KeyMatch::Exact(v(dst, 32))],
            priority: None,
            action,
            idle_timeout: None,
            meter: None,
            counter: None,
        };
        Change::Insert(TableId::new(2), entry)
    };
    let group = Change::SetGroup {
        profile,
        id: 7,
        members: vec![(2, 1), (3, 1)],
    };
    for change in [
        member(2),
        member(3),
        group,
        insert(5, Action::Group(7)),
        insert(0x0a00_0006, Action::Member(3)),
        insert(6, Action::OneShot(vec![(via(1), 1)])),
        insert(7, Action::OneShot(vec![(via(1), 1), (via(2), 4)])),
    ] {
        device.apply(change).expect("the change is possible");
    }
    device
}

fn steps_of(events: &[TraceEvent]) -> Vec<Step> {
    let read = |file: &str| (file == "lib/router.p4").then(|| SOURCE.to_owned());
    Converter::new(device().configuration(), &read).steps(events)
}

/// Checks the text of events. `before` has events that only prepare and are not compared.
fn check_after(before: &[TraceEvent], events: &[TraceEvent], expect: &str) {
    let all = [before, events].concat();
    let (before, all) = (text(&steps_of(before), false), text(&steps_of(&all), false));
    let got = all
        .strip_prefix(&before)
        .expect("what comes later changes nothing above");
    assert_eq!(got, expect, "\n{got}");
}

fn check(events: &[TraceEvent], expect: &str) {
    check_after(&[], events, expect);
}

fn v(number: u128, width: u32) -> Value {
    Value::truncated(number, width)
}

fn place(field: u32) -> Place {
    Place {
        base: FieldId::new(field),
        dims: vec![],
    }
}

fn read(field: u32) -> Expr {
    Expr::Read(place(field))
}

fn loc(line: u32) -> Option<Loc> {
    Some(Loc {
        file: 0,
        line,
        column: 3,
    })
}

fn state(number: u32) -> TraceEvent {
    TraceEvent::State {
        parser: ParserId::new(0),
        state: StateId::new(number),
    }
}

fn stage(number: u32) -> TraceEvent {
    TraceEvent::Stage {
        control: ControlId::new(0),
        stage: StageId::new(number),
    }
}

fn select(keys: Vec<Value>, case: Option<usize>, target: Target) -> TraceEvent {
    TraceEvent::Select { keys, case, target }
}

fn lookup(table: u32, key: Vec<Value>, entry: Option<u64>) -> TraceEvent {
    TraceEvent::Lookup {
        table: TableId::new(table),
        key,
        hit: entry.is_some(),
        entry: entry.map(EntryId),
        member: None,
        group: None,
    }
}
