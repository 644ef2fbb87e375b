//! vPDPs that run one program share its code and lend each other contexts: each does what it does on a switch of its own.

use std::sync::Arc;

use exec::Engine;
use ir::{ExternId, Program};
use packet::{Frame, Nanos, PortId};
use switch::{Carry, Change, CloneSession, Device, DeviceConfig, MayLose, Replica, TableHits};
use tenancy::{Connection, Hypervisor, Spec, VpdpId, Worker};

/// More than go through their program together.
const VPDPS: usize = 20;
/// Ports of each vPDP: those of the switch from its number times this on.
const PORTS: u32 = 10;
const BURST: usize = 256;
const BURSTS: u32 = 24;
/// The bursts before which entries of the second vPDP change, and before which the program of the third does.
const CHANGED: u32 = 8;
const UPDATED: u32 = 16;
const CELLS: u32 = 4;

/// Counts packets in a register and a counter, and marks them by two tables of which the second depends on the first.
/// Kinds: 1 is resubmitted, 2 is cloned, 3 is told in a digest, 4 is dropped; all others stay in the pass.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<8> key; bit<8> mark; bit<8> trail; bit<32> count; }
struct headers_t { h_t h; }
struct told_t { bit<8> key; bit<32> count; }
struct metadata_t { @field_list(0) bit<8> again; bit<8> way; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.h); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(4) seen;
    counter(4, CounterType.packets_and_bytes) counted;
    action to(bit<9> port, bit<8> way) { standard.egress_spec = port; meta.way = way; }
    action mark(bit<8> value) { hdr.h.mark = value; }
    action discard() { mark_to_drop(standard); }
    table ways {
        key = { hdr.h.key : exact; }
        actions = { to; discard; }
        default_action = to(1, 0);
    }
    table marks {
        key = { meta.way : ternary; hdr.h.kind : ternary; }
        actions = { mark; NoAction; }
        default_action = NoAction();
    }
    apply {
        bit<32> cell = (bit<32>) hdr.h.key[1:0];
        bit<32> count;
        seen.read(count, cell);
        count = count + 1;
        seen.write(cell, count);
        hdr.h.count = count;
        counted.count(cell);
        hdr.h.trail = meta.again + STEP;
        meta.again = hdr.h.key + 1;
        if (hdr.h.kind == 1 && standard.instance_type == 0) { resubmit_preserving_field_list(0); }
        if (hdr.h.kind == 2) { clone_preserving_field_list(CloneType.I2E, 3, 0); }
        if (hdr.h.kind == 3) { digest<told_t>(1, { hdr.h.key, count }); }
        ways.apply();
        marks.apply();
        if (hdr.h.kind == 4) { discard(); }
    }
}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#;

/// The program, which adds this to the trail of each packet.
fn program(step: u8) -> Arc<Program> {
    let text = PROGRAM.replace("STEP", &step.to_string());
    testkit::compile_text(&text).expect("it compiles")
}

/// Packets that left, in order: their ports and bytes.
type Sent = Vec<(u32, Vec<u8>)>;

/// What can be seen of a device.
#[derive(Debug, PartialEq)]
struct Seen {
    sent: Sent,
    digests: Vec<Vec<u64>>,
    registers: Vec<Option<Vec<bits::Value>>>,
    counters: Vec<Option<(u64, u64)>>,
    tables: Vec<TableHits>,
    received: u64,
    dropped: u64,
}

impl Seen {
    fn of(device: &mut Device, sent: &mut Sent) -> Seen {
        let [register, counter] =
            ["In.seen", "In.counted"].map(|name| named(device.program(), name));
        let digests = std::iter::from_fn(|| device.take_digest());
        let counter_of = |device: &Device, cell| {
            let reading = device.read_counter(counter, cell)?;
            Some((reading.packets, reading.bytes))
        };
        Seen {
            sent: std::mem::take(sent),
            digests: digests.map(|digest| digest.limbs).collect(),
            registers: (0..CELLS)
                .map(|cell| device.read_register(register, cell))
                .collect(),
            counters: (0..CELLS).map(|cell| counter_of(device, cell)).collect(),
            tables: device.table_hits(),
            received: device.ledger().received,
            dropped: device.ledger().drops().map(|(_, packets)| packets).sum(),
        }
    }
}

fn named(program: &Program, name: &str) -> ExternId {
    let mut externs = program.externs.iter();
    let found = externs.find(|(_, one)| one.name == name);
    found.expect("the program declares it").0
}

fn apply(device: &mut Device, entries: &str) {
    let program = Arc::clone(device.program());
    let read = entries::read(&program, "entries", entries).expect("they are entries");
    stf::apply_file(device, &read).expect("they are taken");
}

/// Entries of a vPDP: each has others.
fn configure(device: &mut Device, vpdp: usize) {
    let mut text = String::new();
    for key in (0..8).filter(|key| key % VPDPS != vpdp) {
        let (port, way) = (2 + (key + vpdp) % 5, 1 + (key * 7 + vpdp) % 4);
        text += &format!("In.ways {{ hdr.h.key: {key}; }} -> In.to(port: {port}, way: {way})\n");
    }
    text += &format!("In.ways {{ hdr.h.key: {}; }} -> In.discard()\n", 8 + vpdp);
    for way in 1..=3 {
        let value = 10 * (vpdp + 1) + way;
        text += &format!(
            "In.marks {{ meta.way: {way}; hdr.h.kind: 0 &&& {vpdp}; }} -> In.mark(value: {value}) priority {way}\n"
        );
    }
    apply(device, &text);
    let session = CloneSession {
        replicas: vec![Replica {
            port: PortId(7 + vpdp as u32 % 2),
            instance: 0,
        }],
        ..CloneSession::default()
    };
    let set = device.apply(Change::SetCloneSession(3, session));
    set.expect("a session");
    let register = named(device.program(), "In.seen");
    let first = vec![bits::Value::truncated(1000 * vpdp as u128, 32)];
    let written = device.apply(Change::WriteRegister(register, Some(1), first));
    written.expect("a cell");
}

/// Other entries in place of those that [`configure`] made.
fn reconfigure(device: &mut Device) {
    let tables = device.program().tables.ids();
    for table in tables {
        device.apply(Change::Clear(table)).expect("a table");
    }
    apply(
        device,
        "In.ways { hdr.h.key: 3; } -> In.to(port: 6, way: 9)\n\
         In.marks { meta.way: 9; hdr.h.kind: _; } -> In.mark(value: 99) priority 1\n",
    );
}

/// The frames of a burst, and which vPDP each is for: in no order.
fn burst(number: u32) -> Vec<(usize, Frame)> {
    let first = number * BURST as u32;
    let frame = |at: u32| {
        let mixed = at.wrapping_mul(0x9e37_79b9).rotate_left(11) ^ at;
        let [vpdp, kind, key, port] = mixed.to_le_bytes();
        // Most packets stay in the pass.
        let kind = if kind < 150 { 0 } else { kind % 6 };
        let bytes = [kind, key % 12, 0, 0, 0, 0, 0, 0, at as u8];
        let mut frame = Frame::from_bytes(&bytes).expect("a frame");
        frame.ingress = PortId(u32::from(port) % PORTS);
        (usize::from(vpdp) % VPDPS, frame)
    };
    (first..first + BURST as u32).map(frame).collect()
}

/// What the first engine, which defines the meaning, does with the packets of one vPDP on a device of its own.
fn alone(engine: &dyn Engine, vpdp: usize) -> Vec<Seen> {
    let made = |program| Device::new(program, engine, &DeviceConfig::default());
    let mut device = made(program(1)).expect("the engine runs it");
    configure(&mut device, vpdp);
    let mut all = Vec::new();
    for number in 0..BURSTS {
        if number == CHANGED && vpdp == 1 {
            reconfigure(&mut device);
        }
        if number == UPDATED && vpdp == 2 {
            let new = made(program(5)).expect("the engine runs it");
            let adopted = device.adopt(new, Carry::State(MayLose::Nothing));
            adopted.expect("all has a place");
        }
        let own = burst(number).into_iter().filter(|(of, _)| *of == vpdp);
        let mut frames: Vec<Frame> = own.map(|(_, frame)| frame).collect();
        let mut sent = Sent::new();
        let mut take = |port: PortId, frame: &mut Frame, _: Nanos| {
            sent.push((port.0, frame.bytes().to_vec()));
        };
        let now = Nanos(u64::from(number) * 1000);
        device.forward(&mut frames, now, &mut take);
        all.push(Seen::of(&mut device, &mut sent));
    }
    device.check_conservation().expect("none is lost");
    all
}

/// The vPDPs, of one program, on a switch with one worker.
struct Hosted {
    hypervisor: Hypervisor,
    worker: Worker,
    vpdps: Vec<VpdpId>,
}

impl Hosted {
    fn new(engine: Arc<dyn Engine>) -> Hosted {
        let mut hypervisor = Hypervisor::new(engine);
        let vpdps = (0..VPDPS as u32).map(|vpdp| {
            let ports = (0..PORTS).map(|port| PortId(vpdp * PORTS + port));
            let spec = Spec {
                name: format!("tenant {vpdp}"),
                ports: ports.map(Connection::Physical).collect(),
                ..Spec::default()
            };
            let id = hypervisor.create(spec).expect("there is room");
            hypervisor.load(id, program(1)).expect("it is taken");
            let device = hypervisor.device_mut(id).expect("a program is loaded");
            configure(device, vpdp as usize);
            device.publish();
            id
        });
        let vpdps = vpdps.collect();
        Hosted {
            worker: hypervisor.workers(1).remove(0),
            hypervisor,
            vpdps,
        }
    }

    fn change_before(&mut self, number: u32) {
        if number == CHANGED {
            let device = self.hypervisor.device_mut(self.vpdps[1]);
            let device = device.expect("a program is loaded");
            reconfigure(device);
            device.publish();
        }
        if number == UPDATED {
            let carry = Carry::State(MayLose::Nothing);
            let updated = self.hypervisor.update(self.vpdps[2], program(5), carry);
            updated.expect("all has a place");
        }
    }

    /// Forwards a burst; what is seen of each vPDP.
    fn forward(&mut self, number: u32) -> Vec<Seen> {
        let frames = burst(number).into_iter().map(|(vpdp, mut frame)| {
            frame.ingress = PortId(vpdp as u32 * PORTS + frame.ingress.0);
            frame
        });
        let mut sent = vec![Sent::new(); VPDPS];
        let mut take = |port: PortId, frame: &mut Frame, _: Nanos| {
            let (vpdp, port) = (port.0 / PORTS, port.0 % PORTS);
            sent[vpdp as usize].push((port, frame.bytes().to_vec()));
        };
        let now = Nanos(u64::from(number) * 1000);
        let mut frames: Vec<Frame> = frames.collect();
        self.worker.forward(&mut frames, now, &mut take);
        self.worker.forward(&mut [], now, &mut take);
        self.hypervisor.step(now, &mut take);
        let ids = self.vpdps.iter().zip(&mut sent);
        ids.map(|(id, sent)| {
            let device = self.hypervisor.device_mut(*id);
            Seen::of(device.expect("a program is loaded"), sent)
        })
        .collect()
    }
}

#[test]
fn vpdps_of_one_program_do_in_mixed_bursts_what_each_does_alone() {
    let engines = testkit::engines();
    let alone: Vec<Vec<Seen>> = (0..VPDPS)
        .map(|vpdp| alone(engines[0].as_ref(), vpdp))
        .collect();
    for engine in engines {
        let name = engine.name();
        let mut hosted = Hosted::new(engine);
        for number in 0..BURSTS {
            hosted.change_before(number);
            let seen = hosted.forward(number);
            for (vpdp, (seen, alone)) in seen.iter().zip(&alone).enumerate() {
                let expected = &alone[number as usize];
                assert_eq!(seen, expected, "{name}: vPDP {vpdp}, burst {number}");
            }
        }
        let checked = hosted.hypervisor.check_conservation();
        checked.expect("none is lost");
    }
}

#[test]
fn the_packets_of_the_bursts_take_all_ways() {
    let engines = testkit::engines();
    for vpdp in 0..VPDPS {
        let seen = alone(engines[0].as_ref(), vpdp);
        let sent: Sent = seen.iter().flat_map(|seen| seen.sent.clone()).collect();
        let session = 7 + vpdp as u32 % 2;
        assert!(sent.iter().any(|(port, _)| *port == session), "no clone");
        let is_resubmitted = |(_, bytes): &(u32, Vec<u8>)| bytes[0] == 1 && bytes[3] > 5;
        assert!(sent.iter().any(is_resubmitted), "none is resubmitted");
        assert!(seen.iter().any(|seen| !seen.digests.is_empty()));
        assert!(seen.last().is_some_and(|seen| seen.dropped > 0));
    }
}
