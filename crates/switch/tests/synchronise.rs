//! Synchronisation with another device: the state is the other one's, and a refused one changes
//! nothing.

mod common;

use common::{code, entry, ns, packet, ports, send, slow, v1model, value};
use ir::{ActionCall, ActionId, ExternId, KeyMatch, TableId};
use packet::PortId;
use support::rng::Rng;
use switch::{
    Action, Change, CloneSession, CounterReading, Device, DeviceConfig, Limits, MeterConfig,
    Object, ObjectPlace, Replica, UndoSteps,
};

/// Number of entries, members and groups for which the tables and the profile have space.
const SIZE: u32 = 8;

const SPREAD: u32 = 0;
const DIRECT: u32 = 1;

/// A program with a table that uses a selector, a table with a direct counter and meter, and
/// arrays of cells.
fn text() -> String {
    let declarations = format!(
        r#"
extern chosen: action_selector size {SIZE} width 16 crc16
extern limits: meter packets size 4
extern kept: register (bit<8>) size 4 initial (8w0x0) as bit<8>
extern hits: direct_counter packets
action go(port: bit<9>) {{
    sm.egress_spec = %port;
}}
action to(port: bit<9>) {{
    call direct_counter.count on hits ();
    sm.egress_spec = %port;
}}
table spread {{
    key kind: exact as bit<8> = hdr.h.kind;
    key value: selector as bit<32> = hdr.h.value;
    action go table_and_default;
    default go(9w0x1ff);
    size {SIZE};
    implementation chosen;
}}
table direct {{
    key kind: ternary as bit<8> = hdr.h.kind;
    action to table_and_default;
    default to(9w0x1fe);
    size {SIZE};
    direct_counter hits;
}}
"#
    );
    let ingress = "    stage ingress.direct: match direct next ingress.spread;\n    stage ingress.spread: match spread next end;";
    v1model(&declarations, ingress, &code("egress", "")).to_string()
}

fn made(limits: Limits) -> Device {
    let config = DeviceConfig {
        limits,
        ..DeviceConfig::default()
    };
    let program = common::program(&text());
    Device::new(program, &interp::Interp, &config).unwrap()
}

fn call(port: u64) -> ActionCall {
    ActionCall {
        action: 0,
        args: vec![value(port.into(), 9)],
    }
}

/// Returns a random change. Many of them are refused.
fn change(random: &mut Rng) -> Change {
    let mut below = |bound: u64| random.below(bound);
    let chosen = ExternId::new(0);
    let small = |number: u64| number as u32;
    let kind = below(14);
    match kind {
        0..=3 => {
            let action = match below(4) {
                0 => Action::Member(small(below(4))),
                1 => Action::Group(small(below(3))),
                2 => Action::Call(call(below(9))),
                _ => {
                    let shots = (0..1 + below(3)).map(|_| (call(below(9)), small(1 + below(2))));
                    Action::OneShot(shots.collect())
                }
            };
            let keys = vec![KeyMatch::Exact(value(below(6).into(), 8))];
            Change::Insert(TableId::new(SPREAD), entry(keys, action))
        }
        4 | 5 => {
            let mask = value(below(4).into(), 8);
            let keys = vec![KeyMatch::Ternary(value(3, 8).and(&mask), mask)];
            let mut made = entry(keys, Action::Call(call(below(9))));
            made.priority = Some(1 + below(2) as i32);
            made.idle_timeout = (below(2) == 0).then(|| ns(below(3) * 1000 + 1000));
            made.counter = (below(2) == 0).then(|| CounterReading {
                packets: below(9),
                bytes: 0,
            });
            Change::Insert(TableId::new(DIRECT), made)
        }
        6 | 7 => Change::SetMember {
            profile: chosen,
            id: small(below(4)),
            action: ActionId::new(0),
            args: vec![value(below(9).into(), 9)],
        },
        8 => {
            let id = small(below(3));
            let members = (0..below(4)).map(|member| (small(member), small(1 + below(3))));
            Change::SetGroup {
                profile: chosen,
                id,
                members: members.collect(),
            }
        }
        9 => Change::SetMeter(
            ExternId::new(1),
            Some(small(below(4))),
            MeterConfig::TwoRate {
                cir: below(3),
                cburst: 1,
                pir: 3,
                pburst: 1,
            },
        ),
        10 => Change::WriteRegister(
            ExternId::new(2),
            Some(small(below(4))),
            vec![value(below(9).into(), 8)],
        ),
        11 => {
            let replica = |port| Replica {
                port: PortId(port),
                instance: 1,
            };
            let replicas = (0..small(below(3))).map(replica).collect();
            Change::SetMulticast(1 + small(below(3)), replicas)
        }
        12 => Change::SetCloneSession(
            small(below(3)),
            CloneSession {
                replicas: Vec::new(),
                group: None,
                truncate: Some(64 + small(below(2))),
                class_of_service: 0,
            },
        ),
        _ => match below(3) {
            0 => Change::SetQueue(PortId(small(below(3))), slow(100 + below(2), 8)),
            1 => Change::SetDefault(TableId::new(DIRECT), call(below(9))),
            _ => Change::SetHostPorts(vec![small(below(3))]),
        },
    }
}

fn fill(device: &mut Device, random: &mut Rng) {
    for _ in 0..random.below(60) {
        // Refused changes are part of the test: they leave the tables full.
        let _ = device.apply(change(random));
    }
}

/// Returns the state without numbers of entries: objects as text, sorted.
fn state(device: &Device, has_registers: bool) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (place, object) in device.objects() {
        match (&place, &object) {
            (
                ObjectPlace::Program
                | ObjectPlace::NextEntry(_)
                | ObjectPlace::NextFlow
                | ObjectPlace::DirectCounter(..),
                _,
            ) => {}
            (ObjectPlace::Registers(..), _) if !has_registers => {}
            (ObjectPlace::Entry(table, _), Object::Entry(entry, metadata)) => {
                all.push(format!("{table:?} {entry:?} {metadata:?}"));
            }
            (ObjectPlace::Queue(port), Object::Queue(queue)) if *queue == Default::default() => {
                // A queue that is configured as all others is as good as none.
                let _ = port;
            }
            _ => all.push(format!("{place:?} {object:?}")),
        }
    }
    all.sort();
    all
}

#[test]
fn the_state_of_any_device_becomes_that_of_any_other_one() {
    let mut changes = 0;
    for seed in 0..400 {
        let mut random = Rng::new(seed);
        let (mut own, mut wanted) = (made(Limits::default()), made(Limits::default()));
        fill(&mut own, &mut random);
        fill(&mut wanted, &mut random);
        let registers = match seed % 2 {
            0 => &[(ExternId::new(2), None)][..],
            _ => &[],
        };
        changes += own.synchronise(&wanted, registers).unwrap();
        let has_registers = !registers.is_empty();
        assert_eq!(
            state(&own, has_registers),
            state(&wanted, has_registers),
            "seed {seed}"
        );
        assert_eq!(own.synchronise(&wanted, registers), Ok(0), "seed {seed}");
        // It works as the other one does.
        for kind in 0..8 {
            for device in [&mut own, &mut wanted] {
                send(device, &packet(kind, &[]), ns(0));
            }
            assert_eq!(ports(&mut own), ports(&mut wanted), "seed {seed}");
        }
    }
    assert!(changes > 4000, "{changes}");
}

#[test]
fn a_refused_synchronisation_changes_nothing() {
    let mut refused = 0;
    for seed in 0..400 {
        let mut random = Rng::new(seed);
        let limits = Limits {
            entries: Some(3 + random.below(12)),
            ..Limits::default()
        };
        let (mut own, mut wanted) = (made(limits), made(Limits::default()));
        fill(&mut own, &mut random);
        fill(&mut wanted, &mut random);
        let before = own.objects();
        let next = |place: &ObjectPlace| matches!(place, ObjectPlace::NextEntry(_));
        let kept = |objects: Vec<(ObjectPlace, Object)>| {
            let objects = objects.into_iter().filter(|(place, _)| !next(place));
            objects
                .map(|object| format!("{object:?}"))
                .collect::<Vec<_>>()
        };
        let is_default = |text: &String| {
            text.contains("(Queue(")
                && text.contains(&format!("{:?}", switch::QueueConfig::default()))
        };
        if own
            .synchronise(&wanted, &[(ExternId::new(2), None)])
            .is_err()
        {
            refused += 1;
            let mut after = kept(own.objects());
            after.retain(|text| !is_default(text));
            let mut before = kept(before);
            before.retain(|text| !is_default(text));
            assert_eq!(after, before, "seed {seed}");
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn entries_that_stay_keep_their_counts_and_numbers() {
    let (mut own, mut wanted) = (made(Limits::default()), made(Limits::default()));
    let table = TableId::new(DIRECT);
    let insert = |port, kind| {
        let keys = vec![KeyMatch::Ternary(value(kind, 8), value(255, 8))];
        let mut made = entry(keys, Action::Call(call(port)));
        made.priority = Some(1);
        Change::Insert(table, made)
    };
    let kept = own.apply(insert(1, 5)).unwrap().unwrap();
    let changed = own.apply(insert(1, 6)).unwrap().unwrap();
    own.apply(insert(1, 7)).unwrap();
    for kind in [5, 6, 6] {
        send(&mut own, &packet(kind, &[]), ns(0));
    }
    wanted.apply(insert(1, 5)).unwrap();
    wanted.apply(insert(2, 6)).unwrap();
    assert_eq!(own.synchronise(&wanted, &[]), Ok(2));
    let counts = |id| {
        own.read_direct_counter(table, id)
            .map(|reading| reading.packets)
    };
    assert_eq!((counts(kept), counts(changed)), (Some(1), Some(2)));
}

#[test]
fn settings_that_were_made_are_taken_back() {
    let mut device = made(Limits::default());
    let before = device.objects();
    let mut undo = UndoSteps::default();
    let mut seeded = (*device.configuration().hash).clone();
    seeded.seed = 7;
    let mut wrong = seeded.clone();
    wrong.toeplitz_key = vec![1, 2, 3];
    for change in [
        Change::SetHashParameters(seeded),
        Change::SetHostPorts(vec![3, 1]),
    ] {
        device.apply_with_undo(change, &mut undo).unwrap();
    }
    assert_ne!(device.objects(), before);
    let refused = device.apply_with_undo(Change::SetHashParameters(wrong), &mut undo);
    assert!(refused.is_err());
    device.take_back(undo);
    assert_eq!(device.objects(), before);
}

#[test]
fn cells_that_are_read_one_by_one_are_those_of_all_objects() {
    let mut counted = 0;
    for seed in 0..40 {
        let mut random = Rng::new(seed);
        let mut device = made(Limits::default());
        fill(&mut device, &mut random);
        let is_cell = |(place, _): &(ObjectPlace, Object)| {
            matches!(
                place,
                ObjectPlace::Meters(..)
                    | ObjectPlace::Counters(..)
                    | ObjectPlace::DirectCounter(..)
                    | ObjectPlace::Registers(..)
            )
        };
        let all: Vec<_> = device.objects().into_iter().filter(is_cell).collect();
        assert_eq!(device.cell_objects().collect::<Vec<_>>(), all);
        counted += all.len();
    }
    assert!(counted > 200, "{counted}");
}
