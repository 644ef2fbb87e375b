//! Tests of random programs with tables of all match kinds and actions with parameters of all
//! widths. Results must not depend on the engine, on the size of bursts, or on the devices that
//! share a burst.

use std::sync::Arc;

use bits::Value;
use exec::{BURST, Engine};
use ir::{ActionCall, ExternId, ExternKind, KeyMatch, Program, TableId};
use packet::{Frame, Nanos, PortId};
use support::rng::Rng;
use switch::{
    Action, Change, Contexts, Device, DeviceConfig, MayLose, MigrationMode, SegmentRun, TableEntry,
    Worker, WorkerSet, forward_shared_burst,
};
use table::EntryId;

/// Pseudo-random number generator (SplitMix64).
#[derive(Clone)]
struct Random(Rng);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 32) as usize % end
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn bits(&mut self, width: u32) -> u128 {
        let wide = u128::from(self.next()) << 64 | u128::from(self.next());
        let chosen = match self.below(6) {
            0 => 0,
            1 => u128::MAX,
            2 => wide & 3,
            3 => 1 << 127 >> (128 - width),
            _ => wide,
        };
        cut(chosen, width)
    }

    fn width(&mut self) -> u32 {
        let most = [1, 4, 8, 9, 16, 17, 33, 48, 63, 64, 65, 80, 127, 128];
        let most = most[self.below(most.len())];
        1 + self.below(most) as u32
    }
}

fn cut(value: u128, width: u32) -> u128 {
    if width == 0 {
        0
    } else {
        value & (u128::MAX >> (128 - width))
    }
}

type Read = Box<dyn Fn(&[u128]) -> u128>;

/// A part of a key: its P4 expression, its width, and a function that reads its value from a
/// packet's fields. It has no function if a table's action wrote the value.
struct Part {
    text: String,
    width: u32,
    read: Option<Read>,
}

/// Match kind of a part of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Kind::Exact => "exact",
            Kind::Lpm => "lpm",
            Kind::Ternary => "ternary",
            Kind::Range => "range",
            Kind::Optional => "optional",
        }
    }

    /// Returns a random match kind for a part of a table with rules.
    fn of_rule(random: &mut Random, part: &Part) -> Kind {
        let is_number = !part.text.contains("== 0") || part.text.contains('?');
        match random.below(6) {
            0 => Kind::Exact,
            1 => Kind::Optional,
            2 | 3 if is_number => Kind::Range,
            _ => Kind::Ternary,
        }
    }

    /// Returns match kinds for the parts of a table: all exact, one prefix, or rules.
    fn choose(random: &mut Random, parts: &[Part]) -> Vec<Kind> {
        let prefix = random.below(parts.len());
        let is_number = !parts[prefix].text.contains("== 0");
        match random.below(5) {
            0 | 1 => vec![Kind::Exact; parts.len()],
            2 if is_number => {
                let mut kinds = vec![Kind::Exact; parts.len()];
                kinds[prefix] = Kind::Lpm;
                kinds
            }
            _ => parts
                .iter()
                .map(|part| Kind::of_rule(random, part))
                .collect(),
        }
    }

    /// Returns a random key that this value matches.
    fn key(self, random: &mut Random, value: u128, width: u32) -> KeyMatch {
        let number = |value| Value::truncated(value, width);
        let open = match random.below(4) {
            0 => 0,
            1 => (1 << random.below(width as usize)) - 1,
            2 => 0xff << random.below(width as usize),
            _ => u128::MAX,
        };
        match self {
            Kind::Exact => KeyMatch::Exact(number(value)),
            _ if open == u128::MAX => KeyMatch::Any,
            Kind::Optional => KeyMatch::Exact(number(value)),
            Kind::Lpm => {
                let len = random.below(width as usize + 1) as u32;
                let open = cut(u128::MAX, width - len);
                KeyMatch::Lpm(number(value & !open), len)
            }
            Kind::Ternary => KeyMatch::Ternary(number(value & !open), number(!open)),
            Kind::Range => KeyMatch::Range(number(value & !open), number(value | open)),
        }
    }
}

const FIELDS: usize = 7;
const METAS: usize = 3;

/// Number of random programs per test.
const SEEDS: u64 = 8;

/// Packets sent by a device.
type Left = Vec<(PortId, Vec<u8>)>;

struct Made {
    /// The program, and a variant with more actions per table, in another order.
    texts: [String; 2],
    widths: Vec<u32>,
    keys: Vec<Vec<(Part, Kind)>>,
}

fn part(random: &mut Random, widths: &[u32], signed: &[bool]) -> Part {
    let f = random.below(FIELDS);
    let w = widths[f];
    let as_bits = |f: usize| match signed[f] {
        true => format!("(bit<{}>)hdr.h.f{f}", widths[f]),
        false => format!("hdr.h.f{f}"),
    };
    let text = as_bits(f);
    match random.below(9) {
        0 => {
            let lo = random.below(w as usize) as u32;
            let hi = lo + random.below((w - lo) as usize) as u32;
            let width = hi + 1 - lo;
            Part {
                text: format!("({text})[{hi}:{lo}]"),
                width,
                read: Some(Box::new(move |fields| cut(fields[f] >> lo, width))),
            }
        }
        1 => Part {
            text: format!("({text}) + 1"),
            width: w,
            read: Some(Box::new(move |fields| cut(fields[f].wrapping_add(1), w))),
        },
        2 => Part {
            text: format!("hdr.h.f{f} == 0"),
            width: 1,
            read: Some(Box::new(move |fields| u128::from(fields[f] == 0))),
        },
        3 => {
            let g = random.below(FIELDS);
            let v = widths[g];
            if w + v > 128 {
                return part(random, widths, signed);
            }
            Part {
                text: format!("({text}) ++ ({})", as_bits(g)),
                width: w + v,
                read: Some(Box::new(move |fields| fields[f] << v | fields[g])),
            }
        }
        4 | 5 => Part {
            text: format!("meta.m{}", random.below(METAS)),
            width: 20,
            read: None,
        },
        6 => {
            let g = random.below(FIELDS);
            let to = random.width();
            Part {
                text: format!("(hdr.h.f{g} == 0 ? (bit<{to}>)5 : (bit<{to}>)({text}))"),
                width: to,
                read: Some(Box::new(move |fields| match fields[g] {
                    0 => cut(5, to),
                    _ => cut(fields[f], to),
                })),
            }
        }
        _ => Part {
            text: format!("hdr.h.f{f}"),
            width: w,
            read: Some(Box::new(move |fields| fields[f])),
        },
    }
}

/// Builder of a program.
struct Maker<'r> {
    random: &'r mut Random,
    widths: Vec<u32>,
    signed: Vec<bool>,
    text: String,
    keys: Vec<Vec<(Part, Kind)>>,
    /// Placeholders for the actions of tables, with their lists in both programs.
    lists: Vec<(String, [String; 2])>,
}

const BEGIN: &str = "#include <core.p4>
#include <v1model.p4>
header o_t { bit<160> x; }
struct headers_t { h_t h; o_t o; }
struct metadata_t { bit<20> m0; bit<20> m1; bit<20> m2; }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
 state start { packet.extract(hdr.h); packet.extract(hdr.o); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
";

const END: &str = "control U(inout headers_t hdr, inout metadata_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), U(), D()) main;
";

impl<'r> Maker<'r> {
    fn new(random: &'r mut Random) -> Maker<'r> {
        let widths: Vec<u32> = (0..FIELDS).map(|_| random.width()).collect();
        let signed = widths.iter().map(|&w| w > 1 && random.one_in(4)).collect();
        let (text, keys, lists) = (String::new(), Vec::new(), Vec::new());
        Maker {
            random,
            widths,
            signed,
            text,
            keys,
            lists,
        }
    }

    fn say(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn make(mut self) -> Made {
        let fields = self.widths.iter().zip(&self.signed).enumerate();
        let fields = fields.map(|(f, (width, &is_signed))| {
            format!(" {}<{width}> f{f};", if is_signed { "int" } else { "bit" })
        });
        let (fields, pad) = (fields.collect::<String>(), pad(&self.widths));
        self.say(&BEGIN.replace(
            "header o_t",
            &format!("header h_t {{{fields} bit<{pad}> pad; }}\nheader o_t"),
        ));
        self.control("I");
        self.control("E");
        self.say(END);
        let texts = [0, 1].map(|which| {
            let put = |text: String, (place, lists): &(String, [String; 2])| {
                text.replace(place, &lists[which])
            };
            self.lists.iter().fold(self.text.clone(), put)
        });
        Made {
            texts,
            widths: self.widths,
            keys: self.keys,
        }
    }

    fn control(&mut self, control: &str) {
        self.say(&format!("control {control}(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{"));
        let mut applies = String::from(" sm.egress_spec = 1;\n");
        for t in 0..1 + self.random.below(3) {
            self.table(control, t);
            applies += &self.apply(t);
        }
        // The egress port was already chosen before the second control.
        let applies = applies.split_off(if control == "I" {
            0
        } else {
            1 + applies.find('\n').unwrap_or(0)
        });
        self.say(&format!(" apply {{\n{applies} }}\n}}"));
    }

    /// Returns the code that applies a table.
    fn apply(&mut self, t: usize) -> String {
        let random = &mut *self.random;
        let (f, from, to) = (
            random.below(FIELDS),
            random.below(METAS),
            random.below(METAS),
        );
        let applies = match random.below(6) {
            0 => format!(" if (hdr.h.f{f} == 0) {{ t{t}.apply(); }}\n"),
            1 => format!(" if (t{t}.apply().hit) {{ hdr.o.x = hdr.o.x ^ 7; }}\n"),
            2 => format!(
                " switch (t{t}.apply().action_run) {{ a{t}_0: {{ hdr.o.x = hdr.o.x ^ 77; }} default: {{ meta.m1 = 2; }} }}\n"
            ),
            3 => format!(
                " if (hdr.h.f{f} == 0) {{ t{t}.apply(); }} else {{ meta.m0 = 1; t{t}.apply(); }}\n"
            ),
            _ => format!(" t{t}.apply();\n"),
        };
        match random.one_in(4) {
            true => format!("{applies} meta.m{to} = meta.m{from} ^ 1;\n"),
            false => applies,
        }
    }

    /// Writes an action that stores its parameters in the packet.
    fn action(&mut self, name: &str, params: usize) {
        let (mut declared, mut body) = (Vec::new(), String::new());
        for p in 0..params {
            let random = &mut *self.random;
            let (width, meta) = (random.width(), random.below(METAS));
            let (ty, bits) = match random.below(5) {
                0 => (String::from("bool"), format!("(bit<1>)p{p}")),
                1 if width > 1 => (
                    format!("int<{width}>"),
                    format!("(bit<{width}>)(p{p} >> 1)"),
                ),
                _ => (format!("bit<{width}>"), format!("p{p}")),
            };
            declared.push(format!("{ty} p{p}"));
            body += &format!(
                " hdr.o.x = (hdr.o.x << 5) ^ (bit<160>)({bits}) ^ 160w{};",
                p + 1
            );
            if random.one_in(2) {
                body += &format!(" meta.m{meta} = (bit<20>)({bits}) & 3;");
            }
        }
        if self.random.one_in(3) {
            body += " hdr.o.x = hdr.o.x + 1000;";
        }
        self.say(&format!(
            " action {name}({}) {{{body} }}",
            declared.join(", ")
        ));
    }

    /// Writes a table's actions. Returns the lists of their names, for both programs.
    fn actions(&mut self, control: &str, t: usize) -> [String; 2] {
        let mut listed = Vec::new();
        for a in 0..1 + self.random.below(6) {
            let (name, params) = (format!("a{t}_{a}"), self.random.below(5));
            self.action(&name, params);
            // If a default-only action has the most parameters, the data in front of the record
            // array is longer than a record.
            let only = match self.random.one_in(4) {
                true => " @defaultonly",
                false => "",
            };
            listed.push(format!("{only} {name};"));
        }
        let more = format!("more{control}_{t}");
        self.action(&more, 2);
        listed.push(String::from(" NoAction;"));
        let first = listed.concat();
        if self.random.one_in(3) {
            listed.rotate_left(1);
        }
        match self.random.below(4) {
            0 => listed.push(format!(" {more};")),
            1 => listed.insert(0, format!(" {more};")),
            _ => {}
        }
        [first, listed.concat()]
    }

    fn table(&mut self, control: &str, t: usize) {
        let lists = self.actions(control, t);
        let random = &mut *self.random;
        let parts = 0..1 + random.below(5);
        let parts: Vec<Part> = parts
            .map(|_| part(random, &self.widths, &self.signed))
            .collect();
        let kinds = Kind::choose(random, &parts);
        let keys = parts.iter().zip(&kinds).enumerate();
        let mut keys: String = keys
            .map(|(k, (part, kind))| format!(" {} : {} @name(\"k{k}\");", part.text, kind.text()))
            .collect();
        let mut more = String::new();
        let mut instances = String::new();
        if random.one_in(3) {
            instances += &format!(" direct_counter(CounterType.packets_and_bytes) c{t};");
            more += &format!(" counters = c{t};");
        }
        match random.below(6) {
            0 => instances += &format!(" action_profile(64) ap{t};"),
            1 => {
                instances += &format!(" action_selector(HashAlgorithm.crc16, 64, 16) ap{t};");
                keys += &format!(" hdr.h.f{} : selector;", random.below(FIELDS));
            }
            _ => {}
        }
        if instances.contains(&format!(" ap{t};")) {
            more += &format!(" implementation = ap{t};");
        }
        if random.one_in(5) {
            more += " support_timeout = true;";
        }
        // For a small table, engines may use another kind of index.
        let size = [64, 1024, 4096][random.below(3)];
        let place = format!("<{control}{t}>");
        self.say(&instances);
        self.say(&format!(
            " table t{t} {{ key = {{{keys} }} actions = {{{place} }} size = {size};{more} }}"
        ));
        self.lists.push((place, lists));
        self.keys.push(parts.into_iter().zip(kinds).collect());
    }
}

/// Returns the number of padding bits after fields of these widths.
fn pad(widths: &[u32]) -> u32 {
    8 - widths.iter().sum::<u32>() % 8
}

impl Made {
    fn fields(&self, random: &mut Random) -> Vec<u128> {
        self.widths
            .iter()
            .map(|&width| random.bits(width))
            .collect()
    }

    fn packet(&self, fields: &[u128]) -> Vec<u8> {
        let mut bits: Vec<bool> = Vec::new();
        for (value, width) in fields.iter().zip(&self.widths) {
            bits.extend((0..*width).rev().map(|bit| value >> bit & 1 == 1));
        }
        bits.resize(bits.len() + pad(&self.widths) as usize, false);
        let byte = |bits: &[bool]| {
            bits.iter()
                .fold(0u8, |byte, &bit| byte << 1 | u8::from(bit))
        };
        let mut bytes: Vec<u8> = bits.chunks(8).map(byte).collect();
        bytes.resize(bytes.len() + 20 + 3, 0);
        bytes
    }
}

fn value(random: &mut Random, width: u32) -> Value {
    Value::truncated(random.bits(width), width)
}

fn device(program: &Arc<Program>, engine: &dyn Engine) -> Device {
    Device::new(program.clone(), engine, &DeviceConfig::default()).unwrap()
}

/// The same device on the reference engine and on another one.
struct Pair {
    meant: Device,
    device: Device,
    worker: Worker,
    /// The ids of entries, by table.
    ids: Vec<Vec<EntryId>>,
}

/// The workers of devices, by index.
struct Crew<'p>(&'p mut [Pair]);

impl WorkerSet for Crew<'_> {
    type Number = usize;

    fn worker(&self, at: usize) -> Option<&Worker> {
        Some(&self.0.get(at)?.worker)
    }

    fn worker_mut(&mut self, at: usize) -> Option<&mut Worker> {
        Some(&mut self.0.get_mut(at)?.worker)
    }

    fn passes(&self, _: usize) -> u32 {
        PASSES
    }
}

/// Maximum number of rounds of a packet: more than any of these programs needs.
const PASSES: u32 = 1000;

/// Forwards frames through their devices, together as far as possible, in any order in memory.
/// `whose` has the index of each frame's device. Returns true if all were processed together.
fn forward_all(
    pairs: &mut [Pair],
    random: &mut Random,
    contexts: &mut Contexts,
    (frames, whose): (&mut [Frame], &[usize]),
    now: Nanos,
    left: &mut [Left],
) -> bool {
    let order = shuffle(random, frames);
    let (mut begin, mut all_together) = (0, true);
    while begin < whose.len() {
        let join = |all, pair: &mut Pair| pair.worker.may_join(now) && all;
        let may_go = pairs.iter_mut().fold(true, join);
        let function = pairs[0].worker.runs();
        if may_go && function.is_some() && pairs.iter().all(|pair| pair.worker.runs() == function) {
            let most = 1 + random.below(BURST);
            let some = &whose[begin..whose.len().min(begin + most)];
            let runs = some.chunk_by(|one, other| one == other);
            let runs: Vec<SegmentRun<usize>> = runs
                .map(|run| SegmentRun {
                    whose: run[0],
                    frames: run.len(),
                })
                .collect();
            let through = forward_shared_burst(
                &mut Crew(pairs),
                &runs,
                contexts,
                (&mut *frames, &order[begin..begin + some.len()]),
                now,
                |which| which,
                |which, port, frame, _| left[which].push((port, frame.bytes().to_vec())),
            );
            assert!(0 < through.frames && through.frames <= some.len());
            begin += through.frames;
        } else {
            let (at, which) = (order[begin] as usize, whose[begin]);
            let one = &mut frames[at..at + 1];
            let worker = &mut pairs[which].worker;
            let leave = |port: PortId, frame: &mut Frame, _: Nanos| {
                left[which].push((port, frame.bytes().to_vec()));
            };
            worker.forward_among(contexts, one, now, PASSES, leave);
            begin += 1;
            all_together = false;
        }
    }
    all_together
}

/// Shuffles frames. Returns the new position of each.
fn shuffle(random: &mut Random, frames: &mut [Frame]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..frames.len() as u32).collect();
    for at in (1..frames.len()).rev() {
        let other = random.below(at + 1);
        frames.swap(at, other);
        let (one, two) = (place_of(&order, at), place_of(&order, other));
        order.swap(one, two);
    }
    order
}

fn place_of(order: &[u32], frame: usize) -> usize {
    let found = order.iter().position(|&at| at as usize == frame);
    found.expect("each frame has a place")
}

impl Pair {
    fn new(program: &Arc<Program>, engines: [&dyn Engine; 2]) -> Pair {
        let [meant, mut device] = engines.map(|engine| device(program, engine));
        let worker = device.workers(1).pop().expect("a worker");
        Pair {
            meant,
            device,
            worker,
            ids: vec![Vec::new(); program.tables.len()],
        }
    }

    /// Checks that both devices have the same counters.
    fn compare_counts(&mut self, told: &str) {
        self.worker.tell();
        assert_eq!(self.meant.table_hits(), self.device.table_hits(), "{told}");
        let ids = self.ids.iter().enumerate();
        for (t, &id) in ids.flat_map(|(t, ids)| ids.iter().map(move |id| (t, id))) {
            let read = |device: &Device| {
                let table = &device.configuration().tables[TableId::new(t as u32)];
                let usage = table
                    .usage_of(Some(id))
                    .map(|usage| (usage.hits, usage.bytes));
                (usage, format!("{:?}", table.counter(Some(id))))
            };
            assert_eq!(read(&self.meant), read(&self.device), "{told}");
        }
    }

    fn adopt(&mut self, program: &Arc<Program>, engines: [&dyn Engine; 2]) {
        let [meant, device] = engines
            .map(|engine| Device::new(program.clone(), engine, &DeviceConfig::default()).unwrap());
        let here = self
            .meant
            .adopt(meant, MigrationMode::State(MayLose::Anything));
        let there = self
            .device
            .adopt(device, MigrationMode::State(MayLose::Anything));
        assert_eq!(format!("{here:?}"), format!("{there:?}"));
        assert!(here.is_ok());
        for (t, ids) in self.ids.iter_mut().enumerate() {
            let table = &self.meant.configuration().tables[TableId::new(t as u32)];
            ids.retain(|&id| table.usage_of(Some(id)).is_some());
        }
    }

    fn change(&mut self, change: Change) -> Option<EntryId> {
        let here = self.meant.apply(change.clone());
        let there = self.device.apply(change.clone());
        assert_eq!(format!("{here:?}"), format!("{there:?}"), "{change:?}");
        here.ok().flatten()
    }

    fn call(&self, random: &mut Random, table: TableId) -> ActionCall {
        let program = self.meant.program();
        let actions = &program.tables.get(table).unwrap().actions;
        let action = random.below(actions.len());
        let params = &program.actions.get(actions[action].action).unwrap().params;
        let args = params
            .iter()
            .map(|param| value(random, param.ty.width()))
            .collect();
        ActionCall { action, args }
    }

    fn profile(&self, table: TableId) -> Option<ExternId> {
        self.meant
            .program()
            .tables
            .get(table)
            .unwrap()
            .implementation
    }

    fn some_action(&mut self, random: &mut Random, table: TableId) -> Action {
        let call = self.call(random, table);
        match self.profile(table) {
            Some(profile) => {
                let id = 1 + random.below(30) as u32;
                let action =
                    self.meant.program().tables.get(table).unwrap().actions[call.action].action;
                self.change(Change::SetMember {
                    profile,
                    id,
                    action,
                    args: call.args,
                });
                let declared = &self.meant.program().externs[profile].kind;
                if !matches!(declared, ExternKind::ActionSelector { .. }) || random.one_in(3) {
                    return Action::Member(id);
                }
                let group = 1 + random.below(5) as u32;
                let members = (0..random.below(4))
                    .map(|_| (1 + random.below(30) as u32, 1 + random.below(3) as u32));
                let members = [(id, 1)].into_iter().chain(members).collect();
                self.change(Change::SetGroup {
                    profile,
                    id: group,
                    members,
                });
                Action::Group(group)
            }
            None => Action::Call(call),
        }
    }

    fn some_change(&mut self, random: &mut Random, made: &Made, pool: &[Vec<u128>]) {
        let t = random.below(made.keys.len());
        let table = TableId::new(t as u32);
        let ids = &self.ids[t];
        match random.below(12) {
            0 if !ids.is_empty() => {
                let at = random.below(ids.len());
                let id = self.ids[t].swap_remove(at);
                self.change(Change::Delete(table, id));
            }
            1 if !ids.is_empty() => {
                let id = ids[random.below(ids.len())];
                let action = self.some_action(random, table);
                self.change(Change::Modify(table, id, action, None));
            }
            2 if self.profile(table).is_none() => {
                let call = self.call(random, table);
                self.change(Change::SetDefault(table, call));
            }
            3 if random.one_in(20) => {
                self.change(Change::Clear(table));
                self.ids[t].clear();
            }
            4 if random.one_in(6) => {
                if let Some(profile) = self.profile(table) {
                    self.change(Change::DeleteMember(profile, 1 + random.below(30) as u32));
                }
            }
            _ => {
                let fields = &pool[random.below(pool.len())];
                let keys = made.keys[t].iter().map(|(part, kind)| {
                    let value = match &part.read {
                        Some(read) => read(fields),
                        None => u128::from(random.next() & 3),
                    };
                    kind.key(random, value, part.width)
                });
                let keys = keys.collect();
                let has_rules = |(_, kind): &(Part, Kind)| {
                    matches!(kind, Kind::Ternary | Kind::Range | Kind::Optional)
                };
                let has_rules = made.keys[t].iter().any(has_rules);
                let priority = has_rules.then(|| 1 + random.below(20) as i32);
                let action = self.some_action(random, table);
                let entry = TableEntry {
                    keys,
                    priority,
                    action,
                    idle_timeout: None,
                    meter: None,
                    counter: None,
                };
                if let Some(id) = self.change(Change::Insert(table, entry)) {
                    self.ids[t].push(id);
                }
            }
        }
    }
}

/// Returns frames, the index of each frame's device, and the packets that each device must send
/// according to the reference engine.
fn arrive(
    pairs: &mut [Pair],
    random: &mut Random,
    made: &Made,
    pool: &[Vec<u128>],
    now: Nanos,
) -> (Vec<Frame>, Vec<usize>, Vec<Left>) {
    let count = random.below(130);
    // Either many consecutive frames for one device, or a random device for each frame.
    let stays = random.one_in(2);
    let (mut frames, mut whose) = (Vec::new(), Vec::new());
    let mut left = vec![Left::new(); pairs.len()];
    for _ in 0..count {
        let fields = match random.one_in(5) {
            true => made.fields(random),
            false => pool[random.below(pool.len())].clone(),
        };
        let mut bytes = made.packet(&fields);
        if random.one_in(30) {
            bytes.truncate(random.below(bytes.len()));
        }
        let which = match whose.last() {
            Some(&last) if stays && !random.one_in(8) => last,
            _ => random.below(pairs.len()),
        };
        let frame = || Frame::from_bytes(&bytes).unwrap();
        let mut alone = [frame()];
        pairs[which]
            .meant
            .forward(&mut alone, now, |port, frame, _| {
                left[which].push((port, frame.bytes().to_vec()))
            });
        frames.push(frame());
        whose.push(which);
    }
    (frames, whose, left)
}

/// Runs `devices` devices with a random program and random entries. Entries and programs change.
fn check(seed: u64, devices: usize) {
    let engines = testkit::engines();
    for engine in &engines[1..] {
        let random = &mut Random(Rng::new(seed.wrapping_mul(0x1234_5678_9abc_def1)));
        let made = Maker::new(random).make();
        let told = format!("{} seed {seed}\n{}", engine.name(), made.texts[0]);
        let programs = made.texts.each_ref().map(|text| {
            testkit::compile_text(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
        });
        let both = [&*engines[0], &**engine];
        let pool = [5, 40, 600][random.below(3)];
        let pool: Vec<Vec<u128>> = (0..pool).map(|_| made.fields(random)).collect();
        let pairs = (0..devices).map(|_| Pair::new(&programs[0], both));
        let mut pairs: Vec<Pair> = pairs.collect();
        let mut contexts = Contexts::default();
        for round in 0..8 {
            let next = random.one_in(3).then(|| &programs[random.below(2)]);
            for pair in &mut pairs {
                next.into_iter().for_each(|next| pair.adopt(next, both));
                for _ in 0..[0, 3, 60, 400][random.below(4)] {
                    pair.some_change(random, &made, &pool);
                }
                pair.device.publish();
            }
            for burst in 0..5 {
                let now = Nanos(1 + round * 10 + burst);
                let (mut frames, whose, expected) = arrive(&mut pairs, random, &made, &pool, now);
                let mut left = vec![Left::new(); devices];
                let frames = (&mut *frames, &*whose);
                let went_together =
                    forward_all(&mut pairs, random, &mut contexts, frames, now, &mut left);
                assert_eq!(left, expected, "{told}");
                // These programs never queue packets, and native code is compiled once for all
                // devices.
                assert!(went_together || engine.name() != "jit", "{told}");
            }
        }
        pairs.iter_mut().for_each(|pair| pair.compare_counts(&told));
    }
}

#[test]
fn packets_of_a_device_become_what_they_become_one_by_one() {
    (1..=SEEDS).for_each(|seed| check(seed, 1));
}

#[test]
fn packets_of_several_devices_together_become_what_each_ones_become_alone() {
    (1..=SEEDS).for_each(|seed| check(seed, 2 + seed as usize % 5));
}
