//! Tests that the data that native code records for a burst is valid for that burst only. It is
//! written by prefetch passes and used by the fast path. Bursts have any length, and belong to one
//! device or to several with one program. The index kinds of the tables change between bursts. The
//! results must equal those of `interp` with one packet at a time.

use std::collections::HashSet;
use std::sync::Arc;

use exec::Engine;
use ir::Program;
use packet::{Frame, Nanos, PortId};
use support::rng::Xorshift;
use switch::{Change, Device, DeviceConfig};
use tenancy::{Connection, Spec, TenantSwitch, VpdpId, Worker};

/// Tables with all kinds of indexes: few or many rules, by slots or hash lines, small or large.
/// From the second table on, keys depend on earlier results.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> kind; bit<16> a; bit<32> b; bit<32> c; bit<16> d;
    bit<32> r0; bit<32> r1; bit<32> r2; bit<32> r3; bit<32> r4; bit<32> r5; bit<32> r6;
}
header o_t { bit<9> e; bit<7> f; bit<16> g; }
struct headers_t { h_t h; o_t o; }
struct metadata_t { bit<32> m; bit<16> n; bit<9> from; bit<9> by; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind[1:0]) { 1 : other; 2 : other; 3 : odd; default : accept; }
    }
    // Prefetch passes do not verify: keys after it, in this state or the next, and the key of
    // the error differ from theirs.
    state other { verify(hdr.h.d != 4, error.NoMatch); meta.by = hdr.h.a[1:0] ++ 7w0; transition behind; }
    state behind { packet.extract(hdr.o); meta.from = hdr.o.e; transition accept; }
    state odd { meta.from = 9w5; transition select(hdr.h.d) { 1 : reject; default : accept; } }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action mark0(bit<32> number, bit<32> m) { hdr.h.r0 = number; meta.m = m; }
    action odd0() { meta.m = 3; }
    action stop() { exit; }
    action miss0(bit<64> reason, bit<32> m) { hdr.h.r0 = reason[47:16]; meta.m = m; }
    action mark1(bit<32> number) { hdr.h.r1 = number; }
    action mark2(bit<16> number, bit<16> n) { hdr.h.r2 = 16w0 ++ number; meta.n = n; }
    action miss2(bit<128> reason, bit<16> n) { hdr.h.r2 = reason[100:69]; meta.n = n; }
    action mark3(bit<32> number) { hdr.h.r3 = number; }
    action mark4(bit<32> number) { hdr.h.r4 = number; }
    action mark5(bit<32> number) { hdr.h.r5 = number; }
    action mark6(bit<16> number) {
        hdr.h.r6 = (16w0 ++ number ^ hdr.h.b) + (hdr.h.c ^ 5);
        if (hdr.h.c[0:0] == 1) { hdr.h.r6 = hdr.h.r6 * 17; hdr.h.r5 = hdr.h.r5 + 0; }
        if (hdr.h.c[1:1] == 1) { hdr.h.r6 = hdr.h.r6 * 17; hdr.h.r5 = hdr.h.r5 + 1; }
        if (hdr.h.c[2:2] == 1) { hdr.h.r6 = hdr.h.r6 * 17; hdr.h.r5 = hdr.h.r5 + 2; }
        if (hdr.h.c[3:3] == 1) { hdr.h.r6 = hdr.h.r6 * 17; hdr.h.r5 = hdr.h.r5 + 3; }
        if (hdr.h.c[4:4] == 1) { hdr.h.r6 = hdr.h.r6 * 17; hdr.h.r5 = hdr.h.r5 + 4; }
    }
    action miss6() { hdr.h.r6 = 7; }
    table few {
        key = { hdr.h.a : ternary; meta.from : ternary; }
        actions = { mark0; odd0; stop; @defaultonly miss0; }
        default_action = miss0(0x1234567890, 2);
    }
    table words { key = { hdr.h.b : exact; (sm.parser_error == error.NoMatch ? 8w1 : 8w0) : exact @name("wrong"); } actions = { mark1; NoAction; } default_action = NoAction(); size = 4096; }
    // Entries run one action, so that their records have no heads. A miss runs another one.
    table pairs {
        key = { meta.m : exact; hdr.h.d : exact; }
        actions = { @defaultonly miss2; mark2; }
        default_action = miss2(0x1234567890abcdef1234567890, 1);
        size = 4096;
    }
    table triples {
        key = { meta.m : exact; hdr.h.b : exact; hdr.h.c : exact; }
        actions = { mark3; NoAction; }
        default_action = NoAction();
        size = 4096;
    }
    table late { key = { meta.n : ternary; hdr.o.g : ternary; } actions = { mark4; NoAction; } default_action = NoAction(); }
    // Their keys are as parsed, but they wait for a result: one excludes the other. The action of
    // the second is too long to be compiled twice, for entries and for misses.
    table left { key = { hdr.h.c : exact; hdr.o.e : exact; } actions = { mark5; NoAction; } default_action = NoAction(); size = 4096; }
    table right { key = { hdr.h.b : exact; meta.by : exact; } actions = { @defaultonly miss6; mark6; } default_action = miss6(); size = 4096; }
    apply {
        sm.egress_spec = sm.ingress_port;
        if (hdr.h.kind[2:2] == 0) { few.apply(); }
        if (hdr.h.kind[3:3] == 0) { words.apply(); }
        if (hdr.h.kind[4:4] == 0) { if (pairs.apply().hit) { left.apply(); } else { right.apply(); } }
        if (hdr.h.kind[5:5] == 0) { triples.apply(); }
        if (hdr.h.kind[6:6] == 0) { late.apply(); }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply {} }
control U(inout headers_t hdr, inout metadata_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

const TABLES: [&str; 7] = ["few", "words", "pairs", "triples", "left", "right", "late"];
const PORTS: u32 = 10;
const BURSTS: usize = 60;
/// Numbers of packets in a burst. With fewer than four, there is no prefetch pass.
const LENGTHS: [usize; 8] = [1, 2, 3, 4, 7, 40, 64, 150];

/// Numbers without an order.
struct Random(Xorshift);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        (self.0.bits().wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % end
    }

    /// Returns a part of a key: usually one of a few small numbers, otherwise one with many bits.
    fn part(&mut self, is_large: bool) -> u64 {
        let number = self.below(9);
        match is_large {
            true => 0x8000 + number,
            false => number,
        }
    }

    fn packet(&mut self) -> Vec<u8> {
        // Most bits select tables that are skipped.
        let kind = self.below(256) & self.below(256) & self.below(256) | self.below(4);
        let mut bytes = vec![kind as u8];
        for width in [2, 4, 4, 2] {
            let is_large = self.below(5) == 0;
            let part = self.part(is_large);
            bytes.extend(&part.to_be_bytes()[8 - width..]);
        }
        bytes.resize(bytes.len() + 28, 0);
        // The second header, which may be cut off.
        let other = (nine_bits(self.below(9)) << 23 | self.below(9)) as u32;
        let rest = self.below(6) as usize;
        bytes.extend(&other.to_be_bytes()[..rest.min(4)]);
        bytes
    }
}

/// Spreads a small number over nine bits.
fn nine_bits(number: u64) -> u64 {
    number % 3 + ((number / 3) << 7)
}

/// A change of a device's tables: entries added to one, or all of its entries removed.
enum Work {
    Clear(usize),
    Add(String),
}

/// The keys in a device's tables, so that none is added twice.
#[derive(Default)]
struct Known {
    keys: HashSet<(usize, Vec<u64>)>,
    priority: u32,
}

impl Known {
    /// Returns a change of a table. It often changes the kind of the table's index.
    fn work(&mut self, random: &mut Random) -> Work {
        let table = random.below(TABLES.len() as u64) as usize;
        if random.below(4) == 0 {
            self.keys.retain(|(of, _)| *of != table);
            return Work::Clear(table);
        }
        if random.below(2) == 0 {
            match TABLES[table] {
                "pairs" => return Work::Add(default_of_pairs(random)),
                "right" => return Work::Add(default_of_right(random)),
                _ => {}
            }
        }
        let is_large = random.below(6) == 0;
        let count = [1, 8, 200][random.below(3) as usize];
        let mut text = String::new();
        for _ in 0..count {
            let mut key: Vec<u64> = (0..3).map(|_| random.part(is_large)).collect();
            if TABLES[table] == "words" {
                key[1] %= 2;
            }
            let parts = [2, 2, 2, 3, 2, 2, 2][table];
            if self.keys.insert((table, key[..parts].to_vec())) {
                self.priority += 1;
                text += &entry(table, &key, self.priority, random);
            }
        }
        Work::Add(text)
    }
}

fn entry(table: usize, key: &[u64], number: u32, random: &mut Random) -> String {
    let (m, n) = (random.part(number.is_multiple_of(5)), random.below(9));
    let [a, b, c] = [key[0], key[1], key[2]];
    let nine = nine_bits(b & 0xff);
    let mask = [0xffff, 0xfffb, 7][number as usize % 3];
    match table {
        0 => {
            let action = match number % 7 {
                0 => String::from("I.odd0()"),
                1 => String::from("I.stop()"),
                _ => format!("I.mark0(number: {number}, m: {m})"),
            };
            let (from, a) = (nine & 0x1fb, a & mask);
            format!(
                "I.few {{ hdr.h.a: {a} &&& {mask}; meta.from: {from} &&& 0x1fb; }} -> {action} priority {number}\n"
            )
        }
        1 => format!("I.words {{ hdr.h.b: {a}; wrong: {b}; }} -> I.mark1(number: {number})\n"),
        2 => format!(
            "I.pairs {{ meta.m: {a}; hdr.h.d: {b}; }} -> I.mark2(number: {number}, n: {n})\n"
        ),
        3 => format!(
            "I.triples {{ meta.m: {a}; hdr.h.b: {b}; hdr.h.c: {c}; }} -> I.mark3(number: {number})\n"
        ),
        4 => format!("I.left {{ hdr.h.c: {a}; hdr.o.e: {nine}; }} -> I.mark5(number: {number})\n"),
        5 => {
            format!("I.right {{ hdr.h.b: {a}; meta.by: {nine}; }} -> I.mark6(number: {number})\n")
        }
        _ => {
            let (a, b) = (a & mask, b & 0xffff);
            format!(
                "I.late {{ meta.n: {a} &&& {mask}; hdr.o.g: {b}; }} -> I.mark4(number: {number}) priority {number}\n"
            )
        }
    }
}

/// Returns a default action. Its parameters have values that are also positions of actions.
fn default_of_pairs(random: &mut Random) -> String {
    let (number, n) = (random.below(3), random.below(9));
    match random.below(3) {
        0 => format!("I.pairs default -> I.miss2(reason: {number}, n: {n})\n"),
        _ => format!("I.pairs default -> I.mark2(number: {number}, n: {n})\n"),
    }
}

fn default_of_right(random: &mut Random) -> String {
    match random.below(2) {
        0 => String::from("I.right default -> I.miss6()\n"),
        _ => format!("I.right default -> I.mark6(number: {})\n", random.below(3)),
    }
}

fn do_work(device: &mut Device, work: &Work) {
    match work {
        Work::Clear(table) => {
            let name = format!("I.{}", TABLES[*table]);
            let program = Arc::clone(device.program());
            let mut tables = program.tables.iter();
            let found = tables.find(|(_, declared)| declared.name == name);
            let table = found.expect("the program declares it").0;
            device.apply(Change::Clear(table)).expect("a table");
        }
        Work::Add(text) => {
            let program = Arc::clone(device.program());
            let read = entries::read(&program, "entries", text).expect("they are entries");
            apply_entries::apply_file(device, &read).expect("they are taken");
        }
    }
}

/// Packets sent, in order: their ports and bytes.
type Sent = Vec<(u32, Vec<u8>)>;

/// Devices that run the program, addressed by index.
trait Devices {
    fn change(&mut self, device: usize, work: &Work);
    /// Forwards frames for several devices. Returns the packets that each sends.
    fn forward(&mut self, frames: &[(usize, Vec<u8>)]) -> Vec<Sent>;
}

/// Returns a frame that arrives at a port of a device.
fn frame(bytes: &[u8], first_port: u32) -> Frame {
    let mut frame = Frame::from_bytes(bytes).expect("a frame");
    frame.ingress = PortId(first_port + u32::from(bytes[0]) % PORTS);
    frame
}

/// Separate devices that process each packet separately.
struct Alone(Vec<Device>);

impl Alone {
    fn new(engine: &dyn Engine, program: &Arc<Program>, devices: usize) -> Alone {
        let config = DeviceConfig::default();
        let device = |_| Device::new(Arc::clone(program), engine, &config).expect("it is run");
        Alone((0..devices).map(device).collect())
    }
}

impl Devices for Alone {
    fn change(&mut self, device: usize, work: &Work) {
        do_work(&mut self.0[device], work);
    }

    fn forward(&mut self, frames: &[(usize, Vec<u8>)]) -> Vec<Sent> {
        let mut sent = vec![Sent::new(); self.0.len()];
        for (device, bytes) in frames {
            let sent = &mut sent[*device];
            let mut frames = [frame(bytes, 0)];
            self.0[*device].forward(&mut frames, Nanos(1), |port, frame, _| {
                sent.push((port.0, frame.bytes().to_vec()));
            });
        }
        sent
    }
}

/// vPDPs of one switch. Their packets share bursts.
struct Hosted {
    hypervisor: TenantSwitch,
    worker: Worker,
    vpdps: Vec<VpdpId>,
}

impl Hosted {
    fn new(engine: Arc<dyn Engine>, program: &Arc<Program>, devices: usize) -> Hosted {
        let mut hypervisor = TenantSwitch::new(engine);
        let vpdps = (0..devices as u32).map(|vpdp| {
            let ports = (0..PORTS).map(|port| PortId(vpdp * PORTS + port));
            let spec = Spec {
                name: format!("tenant {vpdp}"),
                ports: ports.map(Connection::Physical).collect(),
                ..Spec::default()
            };
            let id = hypervisor.create(spec).expect("there is room");
            hypervisor
                .load(id, Arc::clone(program))
                .expect("it is taken");
            id
        });
        let vpdps = vpdps.collect();
        Hosted {
            worker: hypervisor.workers(1).remove(0),
            hypervisor,
            vpdps,
        }
    }
}

impl Devices for Hosted {
    fn change(&mut self, device: usize, work: &Work) {
        let device = self.hypervisor.device_mut(self.vpdps[device]);
        let device = device.expect("a program is loaded");
        do_work(device, work);
        device.publish();
    }

    fn forward(&mut self, frames: &[(usize, Vec<u8>)]) -> Vec<Sent> {
        let mut sent = vec![Sent::new(); self.vpdps.len()];
        let mut take = |port: PortId, frame: &mut Frame, _: Nanos| {
            let (vpdp, port) = (port.0 / PORTS, port.0 % PORTS);
            sent[vpdp as usize].push((port, frame.bytes().to_vec()));
        };
        let frames = frames.iter();
        let mut frames: Vec<Frame> = frames
            .map(|(vpdp, bytes)| frame(bytes, *vpdp as u32 * PORTS))
            .collect();
        self.worker.forward(&mut frames, Nanos(1), &mut take);
        self.worker.forward(&mut [], Nanos(1), &mut take);
        sent
    }
}

#[test]
fn bursts_of_tables_that_change_do_what_each_packet_does_alone() {
    let program = testkit::compile_text(PROGRAM).unwrap_or_else(|errors| panic!("{errors}"));
    let engines = testkit::engines();
    for engine in &engines[1..] {
        for (devices, seed) in [(1, 1), (2, 3), (3, 5), (5, 6)] {
            let mut random = Random(Xorshift::new(0x9e37_79b9_7f4a_7c15 ^ seed));
            let mut alone = Alone::new(engines[0].as_ref(), &program, devices);
            let mut hosted = Hosted::new(Arc::clone(engine), &program, devices);
            let mut known: Vec<Known> = (0..devices).map(|_| Known::default()).collect();
            for number in 0..BURSTS {
                for (device, known) in known.iter_mut().enumerate() {
                    for _ in 0..random.below(3) {
                        let work = known.work(&mut random);
                        alone.change(device, &work);
                        hosted.change(device, &work);
                    }
                }
                let length = LENGTHS[random.below(LENGTHS.len() as u64) as usize];
                let of = |random: &mut Random| random.below(devices as u64) as usize;
                let frames: Vec<(usize, Vec<u8>)> = (0..length)
                    .map(|_| (of(&mut random), random.packet()))
                    .collect();
                let (sent, expected) = (hosted.forward(&frames), alone.forward(&frames));
                assert_eq!(sent, expected, "{}: {devices}, {number}", engine.name());
            }
        }
    }
}
