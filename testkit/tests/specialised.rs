//! Tests of specialised code: it has the results of the reference engine, before and after every
//! kind of change that breaks what it was made for.
//!
//! Each case also plants the mistake of a missing guard: code made for the tables before the
//! change runs after it. The case is of use only if that gives another result.

use std::sync::{Arc, Mutex};

use bits::Value;
use exec::{
    CompiledFastPath, ControlVerdict, Engine, Facts, FastPath, Loaded, Natives, PacketContext,
    ParserVerdict, State, Tracer, Unsupported,
};
use ir::{ActionCall, ControlId, KeyMatch, Layout, ParserId, Program, TableId};
use packet::{Frame, Nanos, PortId};
use support::rng::Rng;
use switch::{Action, Change, Device, DeviceConfig, EntryId, TableEntry, Worker};

/// Each table writes a field of its own, so that its result is in the packet.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t { bit<16> a; bit<16> b; bit<64> c; bit<16> of_ports; bit<16> of_rules; bit<16> of_routes; bit<16> of_none; bit<8> way; }
struct headers_t { h_t h; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t s) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t s) {
    direct_counter(CounterType.packets_and_bytes) counts;
    action port_is(bit<16> v) { hdr.h.of_ports = v; }
    action port_and_way(bit<16> v, bit<8> way) { hdr.h.of_ports = v; hdr.h.way = way; }
    action rule_is(bit<16> v) { hdr.h.of_rules = v; }
    action route_is(bit<16> v) { hdr.h.of_routes = v; }
    action stop() { s.egress_spec = 4; exit; }
    action none_is(bit<16> v) { hdr.h.of_none = v; }
    table ports {
        key = { hdr.h.a : exact; }
        actions = { port_is; port_and_way; }
        default_action = port_is(1);
        counters = counts;
    }
    table rules {
        key = { hdr.h.a : ternary; hdr.h.b : range; hdr.h.way : optional; }
        actions = { rule_is; stop; }
        default_action = rule_is(2);
    }
    table routes {
        key = { hdr.h.c : lpm; }
        actions = { route_is; }
        default_action = route_is(3);
    }
    table keyless {
        actions = { none_is; }
        default_action = none_is(4);
    }
    apply {
        s.egress_spec = 1;
        if (!ports.apply().hit) { s.egress_spec = 2; }
        switch (rules.apply().action_run) { stop: { hdr.h.way = 9; } rule_is: { hdr.h.way = hdr.h.way + 1; } }
        routes.apply();
        keyless.apply();
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t s) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

const PORTS: u32 = 0;
const RULES: u32 = 1;
const ROUTES: u32 = 2;
const KEYLESS: u32 = 3;

fn bits(value: u128, width: u32) -> Value {
    Value::truncated(value, width)
}

fn call(action: usize, args: &[u128]) -> ActionCall {
    let widths = [16, 8];
    let args = args.iter().zip(widths);
    ActionCall {
        action,
        args: args.map(|(&value, width)| bits(value, width)).collect(),
    }
}

fn insert(table: u32, keys: Vec<KeyMatch>, priority: Option<i32>, call: ActionCall) -> Change {
    Change::Insert(
        TableId::new(table),
        TableEntry {
            keys,
            priority,
            action: Action::Call(call),
            idle_timeout: None,
            meter: None,
            counter: None,
        },
    )
}

fn port(a: u128, call: ActionCall) -> Change {
    insert(PORTS, vec![KeyMatch::Exact(bits(a, 16))], None, call)
}

fn rule(a: [u128; 2], b: [u128; 2], way: Option<u128>, priority: i32, call: ActionCall) -> Change {
    let keys = vec![
        KeyMatch::Ternary(bits(a[0], 16), bits(a[1], 16)),
        KeyMatch::Range(bits(b[0], 16), bits(b[1], 16)),
        way.map_or(KeyMatch::Any, |way| KeyMatch::Exact(bits(way, 8))),
    ];
    insert(RULES, keys, Some(priority), call)
}

fn route(c: u128, len: u32, call: ActionCall) -> Change {
    let prefix = KeyMatch::Lpm(bits(c, 64), len);
    insert(ROUTES, vec![prefix], None, call)
}

fn modify(table: u32, entry: u64, call: ActionCall) -> Change {
    let (table, entry) = (TableId::new(table), EntryId(entry));
    Change::Modify(table, entry, Action::Call(call), None)
}

fn delete(table: u32, entry: u64) -> Change {
    Change::Delete(TableId::new(table), EntryId(entry))
}

fn default(table: u32, call: ActionCall) -> Change {
    Change::SetDefault(TableId::new(table), call)
}

fn packet(a: u16, b: u16, c: u64, way: u8) -> Vec<u8> {
    let mut bytes = [a.to_be_bytes(), b.to_be_bytes()].concat();
    bytes.extend(c.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.push(way);
    bytes.resize(64, 0x55);
    bytes
}

/// A device, and what its packets became.
struct Side {
    device: Device,
    seen: Vec<String>,
}

impl Side {
    fn new(program: &Arc<Program>, engine: &dyn Engine) -> Side {
        let device = Device::new(Arc::clone(program), engine, &DeviceConfig::default());
        Side {
            device: device.expect("the program loads"),
            seen: Vec::new(),
        }
    }

    fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            let applied = self.device.apply(change.clone());
            self.seen.push(format!("{applied:?}"));
        }
    }

    fn specialise(&mut self) -> bool {
        let job = self.device.specialisation_job().expect("a fast path");
        job.is_some_and(|job| {
            let made = job.run().expect("the engine makes it");
            self.device.adopt_specialised(made)
        })
    }

    fn forward(&mut self, packets: &[Vec<u8>], now: u64) {
        let frames = packets.iter().map(|bytes| {
            let mut frame = Frame::from_bytes(bytes).expect("it is a frame");
            frame.ingress = PortId(1);
            frame
        });
        let mut frames: Vec<Frame> = frames.collect();
        let seen = &mut self.seen;
        self.device
            .forward(&mut frames, Nanos(now), |port, frame, _| {
                seen.push(format!("{port:?} {:?}", frame.bytes()));
            });
    }

    /// Returns what was seen so far, and all counts.
    fn results(&self) -> Vec<String> {
        let tables = self.device.configuration().tables.iter();
        let counts = tables.flat_map(|(_, table)| {
            let entries = table.iter().map(|entry| Some(entry.id));
            let cells = entries.chain([None]);
            let cells = cells.map(|entry| format!("{entry:?} {:?}", table.counter(entry)));
            cells.collect::<Vec<_>>()
        });
        let hits = format!("{:?} {:?}", self.device.table_hits(), self.device.ledger());
        let seen = self.seen.iter().cloned();
        seen.chain(counts).chain([hits]).collect()
    }
}

/// Engine that makes code for the facts of its first specialisation, whatever holds later: a device
/// without guards.
struct Unguarded(jit::Jit);

struct UnguardedProgram {
    loaded: Arc<dyn Loaded>,
    first: Mutex<Option<Facts>>,
}

impl Engine for Unguarded {
    fn name(&self) -> &'static str {
        "unguarded"
    }

    fn load(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        Ok(Arc::new(UnguardedProgram {
            loaded: self.0.load(program, layout, natives)?,
            first: Mutex::default(),
        }))
    }
}

impl Loaded for UnguardedProgram {
    fn scratch_limbs(&self) -> usize {
        self.loaded.scratch_limbs()
    }

    fn prepare(&self, packet: &mut PacketContext) {
        self.loaded.prepare(packet);
    }

    fn run_parser(&self, id: ParserId, packet: &mut PacketContext, state: &State) -> ParserVerdict {
        self.loaded.run_parser(id, packet, state)
    }

    fn run_control(
        &self,
        id: ControlId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ControlVerdict {
        self.loaded.run_control(id, packet, state)
    }

    fn fuse(&self, pass: &FastPath) -> Option<Arc<dyn CompiledFastPath>> {
        self.loaded.fuse(pass)
    }

    fn specialise(
        &self,
        pass: &FastPath,
        facts: &Facts,
    ) -> Result<Arc<dyn CompiledFastPath>, Unsupported> {
        let mut first = self.first.lock().expect("no thread panics");
        let facts = first.get_or_insert_with(|| facts.clone());
        self.loaded.specialise(pass, facts)
    }

    fn trace_parser(
        &self,
        id: ParserId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ParserVerdict {
        self.loaded.trace_parser(id, packet, state, tracer)
    }

    fn trace_control(
        &self,
        id: ControlId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ControlVerdict {
        self.loaded.trace_control(id, packet, state, tracer)
    }
}

fn native() -> jit::Jit {
    jit::Jit::new(Arc::new(interp::Interp))
}

fn program() -> Arc<Program> {
    testkit::compile_text(PROGRAM).expect("the program compiles")
}

/// Changes before code is made, and the changes that break what it was made for.
struct Case {
    name: &'static str,
    before: Vec<Change>,
    after: Vec<Change>,
}

fn cases() -> Vec<Case> {
    let set = |v| call(0, &[v]);
    let many = || (0..20).map(|a| port(a, call(1, &[a + 100, 7])));
    let anything = [0, 0xffff];
    let case = |name, before: Vec<Change>, after: Vec<Change>| Case {
        name,
        before,
        after,
    };
    vec![
        case("an entry in an empty table", vec![], vec![port(1, set(50))]),
        case(
            "a prefix in an empty table",
            vec![],
            vec![route(0, 1, set(50))],
        ),
        case(
            "a rule in an empty table",
            vec![],
            vec![rule([0, 0], anything, None, 1, set(50))],
        ),
        case(
            "the default action's parameter",
            vec![],
            vec![default(ROUTES, set(51))],
        ),
        case(
            "the default action",
            vec![],
            vec![default(RULES, call(1, &[]))],
        ),
        case(
            "the default action of a table without key",
            vec![],
            vec![default(KEYLESS, set(52))],
        ),
        case(
            "a deleted entry",
            vec![port(1, set(50))],
            vec![delete(PORTS, 0)],
        ),
        case(
            "a key in the place of another",
            vec![port(1, set(50))],
            vec![delete(PORTS, 0), port(2, set(50))],
        ),
        case(
            "another parameter of an entry",
            vec![port(1, set(50))],
            vec![modify(PORTS, 0, set(51))],
        ),
        case(
            "another action of an entry",
            vec![rule([1, 1], anything, None, 5, set(50))],
            vec![modify(RULES, 0, call(1, &[]))],
        ),
        case(
            "another parameter in one of many entries",
            many().collect(),
            vec![modify(PORTS, 1, call(1, &[101, 8]))],
        ),
        case(
            "another action in one of many entries",
            many().collect(),
            vec![modify(PORTS, 1, set(60))],
        ),
        case(
            "a rule before others",
            vec![rule([1, 1], anything, None, 5, set(50))],
            vec![rule([0, 0], [0, 1000], None, 6, set(51))],
        ),
        case(
            "another range",
            vec![rule([0, 0], [5, 6], None, 5, set(50))],
            vec![delete(RULES, 0), rule([0, 0], [4, 6], None, 5, set(50))],
        ),
        case(
            "another optional value",
            vec![rule([0, 0], anything, Some(3), 5, set(50))],
            vec![delete(RULES, 0), rule([0, 0], anything, None, 5, set(50))],
        ),
        case(
            "a longer prefix",
            vec![route(0, 1, set(50))],
            vec![route(0, 60, set(51))],
        ),
    ]
}

/// Packets of all small keys.
fn packets() -> Vec<Vec<u8>> {
    let keys = (0..4).flat_map(|a| (3..8).map(move |b| (a, b)));
    let packets = keys.map(|(a, b)| packet(a, b, u64::from(a) << 2, (a + b) as u8 % 4));
    packets.collect()
}

#[test]
fn no_packet_after_a_change_runs_code_made_for_the_tables_before_it() {
    let (program, packets) = (program(), packets());
    for Case {
        name,
        before,
        after,
    } in cases()
    {
        let mut reference = Side::new(&program, &interp::Interp);
        let mut guarded = Side::new(&program, &native());
        let mut planted = Side::new(&program, &Unguarded(native()));
        for side in [&mut reference, &mut guarded, &mut planted] {
            side.apply(&before);
        }
        assert!(guarded.specialise() && planted.specialise(), "{name}");
        for side in [&mut reference, &mut guarded, &mut planted] {
            side.forward(&packets, 1);
        }
        assert_eq!(guarded.results(), reference.results(), "{name}: before");
        assert_eq!(planted.results(), reference.results(), "{name}: planted");
        for side in [&mut reference, &mut guarded, &mut planted] {
            side.apply(&after);
        }
        assert!(planted.specialise(), "{name}: the planted code runs");
        for side in [&mut reference, &mut guarded, &mut planted] {
            side.forward(&packets, 2);
        }
        let report = guarded.device.specialisation();
        assert!(!report.is_running && report.left == 1, "{name}: {report:?}");
        assert_eq!(guarded.results(), reference.results(), "{name}: after");
        assert_ne!(planted.results(), reference.results(), "{name}: no mistake");
        assert!(guarded.specialise(), "{name}: again");
        for side in [&mut reference, &mut guarded] {
            side.forward(&packets, 3);
        }
        assert_eq!(guarded.results(), reference.results(), "{name}: again");
    }
}

/// Returns a random change. Some are refused, by all engines alike.
fn random_change(choices: &mut Rng) -> Change {
    let mut below = |limit: u64| u128::from(choices.below(limit));
    let table = below(4) as u32;
    let entry = below(12) as u64;
    let set = call(0, &[below(3)]);
    match (below(5), table) {
        (0 | 1, PORTS) => port(below(6), set),
        (0 | 1, RULES) => {
            let low = below(6);
            let b = [low, low + below(3)];
            let way = (below(2) == 0).then(|| below(4));
            let mask = [0, 1, 0xffff][below(3) as usize];
            let action = match below(3) {
                0 => call(1, &[]),
                _ => set,
            };
            rule([below(4) & mask, mask], b, way, below(5) as i32 + 1, action)
        }
        (0 | 1, ROUTES) => {
            let len = [0, 1, 60, 62, 64][below(5) as usize];
            let mask = u128::from(u64::MAX) & !((1 << (64 - len)) - 1);
            route(below(16) & mask, len as u32, set)
        }
        (2, PORTS) => modify(PORTS, entry, call(1, &[below(3), below(2)])),
        (2, _) => modify(table, entry, set),
        (3, _) => default(table, set),
        _ => delete(table, entry),
    }
}

#[test]
fn writes_between_any_two_packets_are_seen_by_the_next_packet() {
    let program = program();
    let mut choices = Rng::new(51);
    let mut left = 0;
    for round in 0..6 {
        let mut reference = Side::new(&program, &interp::Interp);
        let mut guarded = Side::new(&program, &native());
        for now in 0..60 {
            let changes: Vec<Change> = (0..choices.below(2))
                .map(|_| random_change(&mut choices))
                .collect();
            if choices.one_in(5) {
                guarded.specialise();
            }
            let mut small = |limit| choices.below(limit);
            let packets = (0..3).map(|_| {
                let (a, b) = (small(6) as u16, small(8) as u16);
                packet(a, b, small(16), small(4) as u8)
            });
            let packets: Vec<Vec<u8>> = packets.collect();
            for side in [&mut reference, &mut guarded] {
                side.apply(&changes);
                side.forward(&packets, now);
            }
            let lines = guarded.results().into_iter().zip(reference.results());
            for (line, (one, other)) in lines.enumerate() {
                assert_eq!(one, other, "round {round}, time {now}, line {line}");
            }
        }
        left += guarded.device.specialisation().left;
    }
    assert!(left > 10, "code was left {left} times");
}

/// Returns the ports to which a worker sends packets.
fn ports_of(worker: &mut Worker, now: u64) -> Vec<u32> {
    let frames = packets().into_iter().map(|bytes| {
        let mut frame = Frame::from_bytes(&bytes).expect("it is a frame");
        frame.ingress = PortId(1);
        frame
    });
    let mut frames: Vec<Frame> = frames.collect();
    let mut ports = Vec::new();
    worker.forward(&mut frames, Nanos(now), |port, _, _| ports.push(port.0));
    ports
}

#[test]
fn workers_leave_specialised_code_with_the_publication_that_breaks_its_facts() {
    let program = program();
    let mut side = Side::new(&program, &native());
    let mut workers = side.device.workers(1);
    assert!(side.specialise());
    let all = packets().len();
    assert_eq!(ports_of(&mut workers[0], 1), vec![2; all]);
    side.apply(&[port(1, call(0, &[50]))]);
    side.device.publish();
    assert!(!side.device.specialisation().is_running);
    let hits = ports_of(&mut workers[0], 2);
    assert_eq!(hits.iter().filter(|&&port| port == 1).count(), 5);
    assert!(side.specialise());
    assert_eq!(ports_of(&mut workers[0], 3), hits);
}

#[test]
fn a_program_change_leaves_specialised_code() {
    let program = program();
    let mut side = Side::new(&program, &native());
    assert!(side.specialise());
    let config = DeviceConfig::default();
    let replaced = side
        .device
        .replace(Arc::clone(&program), &native(), &config);
    replaced.expect("the program loads");
    side.forward(&packets(), 1);
    assert!(!side.device.specialisation().is_running);
    assert!(side.specialise());
}

#[test]
fn code_made_for_tables_that_changed_meanwhile_is_not_published() {
    let program = program();
    let mut side = Side::new(&program, &native());
    let job = side.device.specialisation_job().expect("a fast path");
    let made = job.expect("empty tables").run().expect("it is made");
    side.apply(&[port(1, call(0, &[50]))]);
    assert!(!side.device.adopt_specialised(made));
    assert!(!side.device.specialisation().is_running);
}
