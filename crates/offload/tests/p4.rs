//! Flows of P4 programs: the examples and the programs of `testkit`, with random entries that fit
//! the keys of random frames.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bits::Value;
use common::{Rig, Tally};
use exec::{TraceEvent, Tracer};
use ir::{ActionCall, ActionScope, KeyMatch, MatchKind, Program, TableId};
use offload::PortRole;
use packet::{Nanos, PortId};
use support::rng::Rng;
use switch::{Action, Change, Device, DeviceConfig, Replica, TableEntry};

/// The keys that a packet looked up.
#[derive(Default)]
struct Keys(Vec<(TableId, Vec<Value>)>);

impl Tracer for Keys {
    fn event(&mut self, event: TraceEvent) {
        if let TraceEvent::Lookup { table, key, .. } = event {
            self.0.push((table, key));
        }
    }
}

fn random_value(rng: &mut Rng, width: u32) -> Value {
    let limbs: Vec<u64> = (0..width.div_ceil(64)).map(|_| rng.bits()).collect();
    match rng.below(3) {
        0 => Value::from_limbs(&limbs, width),
        _ => Value::truncated((rng.below(5)).into(), width),
    }
}

/// Returns a condition that a key meets, or nearly meets.
fn key_match(rng: &mut Rng, kind: MatchKind, key: &Value, signed: bool) -> KeyMatch {
    let width = key.width();
    match kind {
        MatchKind::Exact => KeyMatch::Exact(key.clone()),
        MatchKind::Lpm => {
            let len = rng.below(u64::from(width) + 1) as u32;
            KeyMatch::Lpm(key.and(&Value::prefix_mask(len, width)), len)
        }
        MatchKind::Ternary => {
            let mask = match rng.below(3) {
                0 => Value::zero(width).not(),
                1 => Value::prefix_mask(rng.below(u64::from(width) + 1) as u32, width),
                _ => random_value(rng, width),
            };
            KeyMatch::Ternary(key.and(&mask), mask)
        }
        MatchKind::Range if signed => KeyMatch::Any,
        MatchKind::Range => {
            let other = random_value(rng, width);
            match other <= *key {
                true => KeyMatch::Range(other, key.clone()),
                false => KeyMatch::Range(key.clone(), other),
            }
        }
        _ => match rng.one_in(2) {
            true => KeyMatch::Any,
            false => KeyMatch::Exact(key.clone()),
        },
    }
}

/// Inserts an entry for a key, if the table takes it.
fn insert(rng: &mut Rng, device: &mut Device, id: TableId, key: &[Value]) {
    let program = Arc::clone(device.program());
    let table = &program.tables[id];
    let matched = table
        .keys
        .iter()
        .filter(|key| key.match_kind != MatchKind::Selector);
    let keys: Vec<KeyMatch> = matched
        .zip(key)
        .map(|(declared, key)| {
            let ty = declared.expr.ty(&program, None);
            let signed = ty.is_some_and(|ty| ty.is_signed());
            key_match(rng, declared.match_kind, key, signed)
        })
        .collect();
    let needs_priority = table.keys.iter().any(|key| {
        use MatchKind::{Optional, Range, Ternary};
        matches!(key.match_kind, Ternary | Range | Optional)
    });
    let actions = table.actions.iter().enumerate();
    let actions: Vec<usize> = actions
        .filter(|(_, action)| action.scope != ActionScope::DefaultOnly)
        .map(|(at, _)| at)
        .collect();
    let Some(&action) = rng.pick(&actions) else {
        return;
    };
    let params = &program.actions[table.actions[action].action].params;
    let call = ActionCall {
        action,
        args: params
            .iter()
            .map(|param| random_value(rng, param.ty.width()))
            .collect(),
    };
    let entry = TableEntry {
        keys,
        priority: needs_priority.then(|| 1 + rng.below(50) as i32),
        action: Action::Call(call),
        idle_timeout: None,
        meter: None,
        counter: None,
    };
    // An entry that the table refuses is left out.
    let _ = device.apply(Change::Insert(id, entry));
}

/// Returns the frames of an STF file.
fn frames_of(path: &Path) -> Vec<(PortId, Vec<u8>)> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("packet "));
    let frame = |line: &str| {
        let (port, bytes) = line.trim().split_once(char::is_whitespace)?;
        let digits: String = bytes.chars().filter(char::is_ascii_hexdigit).collect();
        let pairs = digits.as_bytes().chunks_exact(2);
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
        Some((PortId(port.parse().ok()?), bytes?))
    };
    lines.filter_map(frame).collect()
}

/// Returns a frame that differs from a known one.
fn mutated(rng: &mut Rng, frames: &[(PortId, Vec<u8>)]) -> (PortId, Vec<u8>) {
    let (port, mut frame) = rng
        .pick(frames)
        .cloned()
        .unwrap_or((PortId(1), vec![0; 64]));
    for _ in 0..rng.below(4) {
        if frame.is_empty() {
            break;
        }
        let at = rng.index(frame.len().min(64));
        frame[at] = match rng.below(3) {
            0 => rng.bits() as u8,
            1 => rng.below(4) as u8,
            _ => frame[at] ^ 1 << rng.below(8),
        };
    }
    if rng.one_in(8) {
        frame.truncate(rng.index(frame.len() + 1));
    }
    if rng.one_in(8) {
        frame.extend((0..rng.below(70)).map(|byte| byte as u8));
    }
    if rng.one_in(2) {
        mend_checksum(&mut frame);
    }
    (port, frame)
}

/// Makes the checksum of an IPv4 header right, so that programs that check it go on.
fn mend_checksum(frame: &mut [u8]) {
    let Some(header) = frame.get_mut(14..34).filter(|header| header[0] == 0x45) else {
        return;
    };
    header[10..12].fill(0);
    let sum = support::checksum::internet_checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn set_up(rng: &mut Rng, device: &mut Device) {
    for group in 1..4 {
        let count = rng.below(4);
        let replicas = (0..count).map(|at| Replica {
            port: PortId(at as u32 + 1),
            instance: rng.below(3) as u32,
        });
        device
            .apply(Change::SetMulticast(group, replicas.collect()))
            .expect("a group");
    }
    for session in 1..4 {
        let replicas = vec![Replica {
            port: PortId(session + 2),
            instance: 1,
        }];
        let session = Change::SetCloneSession(
            session,
            switch::CloneSession {
                replicas,
                ..switch::CloneSession::default()
            },
        );
        device.apply(session).expect("a session");
    }
}

fn check_program(program: &Arc<Program>, stf: &Path, seed: u64, tally: &mut Tally) {
    let mut rng = Rng::new(seed);
    let device = Device::new(
        Arc::clone(program),
        &interp::Interp,
        &DeviceConfig::default(),
    );
    let mut device = device.expect("a program of v1model");
    set_up(&mut rng, &mut device);
    if let Ok(text) = std::fs::read_to_string(stf.with_extension("entries")) {
        let schema = entries::Schema::of(program);
        let file = schema.read("entries", &text).expect("an entries file");
        apply_entries::apply_file(&mut device, &file).expect("the example's entries");
    }
    let known = frames_of(stf);
    for now in 0..40 {
        let (port, frame) = mutated(&mut rng, &known);
        let mut keys = Keys::default();
        let traced = device.trace(port, &frame, Nanos(now), &mut keys);
        traced.expect("a short frame");
        for (table, key) in keys.0 {
            if rng.one_in(2) {
                insert(&mut rng, &mut device, table, &key);
            }
        }
    }
    device.drain_sent(|_, _, _| ());
    let Ok(mut rig) = Rig::new(device, |_| PortRole::Data) else {
        return;
    };
    let mut frames = known.clone();
    frames.truncate(10);
    frames.extend((0..14).map(|_| mutated(&mut rng, &known)));
    rig.check(&mut rng, &frames, tally);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Checks all programs in these folders.
fn check_folders(folders: &[PathBuf], seeds: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    let mut programs = 0;
    for folder in folders {
        let files = std::fs::read_dir(folder).expect("a folder");
        let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
        files.sort();
        for file in files
            .iter()
            .filter(|file| file.extension().is_some_and(|e| e == "p4"))
        {
            let source = std::fs::read_to_string(file).expect("a program");
            if !source.contains("v1model.p4") {
                continue;
            }
            let Ok(program) = driver::compile_text("test", &source) else {
                continue;
            };
            if runs_here(&program) {
                programs += 1;
                let program = Arc::new(program);
                for seed in seeds.clone() {
                    println!("{} seed {seed}", file.display());
                    check_program(&program, &file.with_extension("stf"), seed, &mut tally);
                }
            }
        }
    }
    println!("{programs} programs: {tally:#?}");
    tally
}

/// Returns true for a program of v1model without functions of the host.
fn runs_here(program: &Program) -> bool {
    let program = Arc::new(program.clone());
    let device = Device::new(
        Arc::clone(&program),
        &interp::Interp,
        &DeviceConfig::default(),
    );
    program.arch == ir::Arch::V1model && device.is_ok()
}

#[test]
fn flows_of_the_examples_do_what_interp_does() {
    let examples = root().join("examples");
    let folders = [
        "router",
        "acl",
        "ecmp",
        "load_balancer",
        "nat",
        "int",
        "functions",
    ];
    let folders: Vec<PathBuf> = folders.iter().map(|name| examples.join(name)).collect();
    let tally = check_folders(&folders, 0..6);
    assert!(tally.flows > 500 && tally.with_edits > 200, "{tally:#?}");
    assert!(tally.with_checksums > 100, "{tally:#?}");
}

#[test]
fn flows_of_the_test_programs_do_what_interp_does() {
    let tally = check_folders(&[root().join("testkit/programs")], 0..2);
    assert!(tally.flows > 1_000 && tally.with_edits > 700, "{tally:#?}");
}
