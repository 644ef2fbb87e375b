//! Tests of vPDPs that run one program. They share its code and packet contexts, and their packets'
//! keys are looked up in one batch, each in its own vPDP's tables. Each vPDP must behave as on a
//! separate switch.

use std::sync::Arc;

use exec::Engine;
use ir::{ExternId, Program};
use packet::{Frame, Nanos, PortId};
use switch::{
    Change, CloneSession, Device, DeviceConfig, MayLose, MigrationMode, Replica, TableHits,
};
use tenancy::{Connection, Spec, TenantSwitch, VpdpId, Worker};

/// More vPDPs than one shared burst takes.
const VPDPS: usize = 20;
/// Number of ports of each vPDP. Its first port on the switch is its index times this number.
const PORTS: u32 = 10;
const BURSTS: u32 = 24;
/// Before burst `CHANGED`, entries of the second vPDP change. Before burst `UPDATED`, the program
/// of the third vPDP does.
const CHANGED: u32 = 8;
const UPDATED: u32 = 16;
const CELLS: u32 = 4;
/// Number of hosts that send packets. No vPDP has entries for all of them.
const STATIONS: u32 = 600;

/// Counts packets in a register and a counter, and marks them by two tables, the second of which
/// depends on the first. Two more tables have hash indexes, with packed keys of one and two limbs.
/// The entry of a host gives a part of its flows' keys, so flows are looked up after all hosts.
/// Kinds: 1 is resubmitted, 2 is cloned, 3 sends a digest, 4 is dropped. All others stay on the
/// fast path.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> kind; bit<8> key; bit<8> mark; bit<8> trail; bit<32> count;
    bit<48> address; bit<32> from; bit<32> to; bit<32> ports; bit<32> station; bit<32> flow;
}
struct headers_t { h_t h; }
struct told_t { bit<8> key; bit<32> count; }
struct metadata_t { @field_list(0) bit<8> again; bit<8> way; bit<32> station; }

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
    action of_station(bit<32> number) { meta.station = number; hdr.h.station = number; }
    action of_flow(bit<32> number) { hdr.h.flow = number; }
    table stations {
        key = { hdr.h.address : exact; standard.ingress_port : exact; }
        actions = { of_station; NoAction; }
        default_action = NoAction();
    }
    table flows {
        key = { meta.station : exact; hdr.h.from : exact; hdr.h.to : exact; hdr.h.ports : exact; }
        actions = { of_flow; NoAction; }
        default_action = NoAction();
    }
    apply {
        stations.apply();
        flows.apply();
        bit<32> cell = (bit<32>) hdr.h.key[1:0];
        bit<32> count;
        @atomic {
            seen.read(count, cell);
            count = count + 1;
            seen.write(cell, count);
        }
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

/// Compiles the program with this value added to the trail of each packet.
fn program(step: u8) -> Arc<Program> {
    let text = PROGRAM.replace("STEP", &step.to_string());
    testkit::compile_text(&text).expect("it compiles")
}

/// Packets sent, in order: their ports and bytes.
type Sent = Vec<(u32, Vec<u8>)>;

/// Observable results of a device.
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
    apply_entries::apply_file(device, &read).expect("they are taken");
}

/// Key fields of a host's packets.
struct Station {
    address: u64,
    port: u32,
    from: u32,
    to: u32,
    ports: u32,
}

impl Station {
    fn new(number: u32) -> Station {
        let mix = |by: u32| (number + 1).wrapping_mul(by);
        Station {
            address: u64::from(mix(0x9e37_79b1)) << 16 | u64::from(number),
            port: number % PORTS,
            from: mix(0x85eb_ca6b),
            to: mix(0xc2b2_ae35),
            ports: mix(0x27d4_eb2f),
        }
    }

    /// Returns these fields as bytes, in the order in which packets have them.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.address.to_be_bytes()[2..].to_vec();
        let fields = [self.from, self.to, self.ports];
        bytes.extend(fields.iter().flat_map(|field| field.to_be_bytes()));
        bytes
    }
}

/// Returns entries for the hosts that a vPDP knows, and for most of their flows. The number of
/// entries determines how full hash lines are. It differs between vPDPs, so in some of them entries
/// overflow into a second line.
fn stations(vpdp: usize) -> String {
    let vpdp = vpdp as u32;
    let most = STATIONS / 2 + 12 * vpdp;
    let known = (0..most).filter(|number| number % 7 != vpdp % 7);
    let entries = known.map(|number| {
        let Station {
            address,
            port,
            from,
            to,
            ports,
        } = Station::new(number);
        // Other vPDPs use the same numbers for other hosts.
        let said = number + vpdp;
        let station = format!(
            "In.stations {{ hdr.h.address: {address}; standard.ingress_port: {port}; }} -> In.of_station(number: {said})\n"
        );
        let flow = format!(
            "In.flows {{ meta.station: {said}; hdr.h.from: {from}; hdr.h.to: {to}; hdr.h.ports: {ports}; }} -> In.of_flow(number: {})\n",
            1000 * (vpdp + 1) + number
        );
        match number % 5 {
            0 => station,
            _ => station + &flow,
        }
    });
    entries.collect()
}

/// Adds the entries of a vPDP. They differ between vPDPs.
fn configure(device: &mut Device, vpdp: usize) {
    let mut text = stations(vpdp);
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

/// Replaces the entries that [`configure`] added.
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

/// Form of the bursts.
#[derive(Clone, Copy)]
struct Bursts {
    frames: u32,
    /// Number of frames at the start that are grouped by vPDP. The others are in random order.
    by_vpdp: usize,
}

const MIXED: Bursts = Bursts {
    frames: 256,
    by_vpdp: 0,
};
/// `FEW` frames are processed in order of arrival. So are `FEW_OF_EACH`, although they do not fit
/// into one shared burst.
const FEW: Bursts = Bursts {
    frames: 48,
    by_vpdp: 0,
};
const FEW_OF_EACH: Bursts = Bursts {
    frames: 5 * VPDPS as u32,
    by_vpdp: 0,
};
/// More frames than a worker classifies before it starts to process them.
const BY_VPDP: Bursts = Bursts {
    frames: 1280,
    by_vpdp: 900,
};

/// Returns the frames of a burst, and the vPDP of each.
fn burst(number: u32, bursts: Bursts) -> Vec<(usize, Frame)> {
    let first = number * bursts.frames;
    let frame = |at: u32| {
        let mixed = at.wrapping_mul(0x9e37_79b9).rotate_left(11) ^ at;
        let [vpdp, kind, key, port] = mixed.to_le_bytes();
        // A packet that sends a digest stops the fast path. Packets after it continue without those
        // of other vPDPs. In every second burst there is none.
        let kind = match (number % 2, kind) {
            (_, 0..150) => 0,
            (0, kind) => kind % 6,
            (_, kind) => 4 + kind % 2,
        };
        let station = Station::new(mixed.wrapping_mul(0x85eb_ca6b) % STATIONS);
        let mut bytes = vec![kind, key % 12, 0, 0, 0, 0, 0, 0];
        bytes.extend(station.bytes());
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, at as u8]);
        let mut frame = Frame::from_bytes(&bytes).expect("a frame");
        // Some packets arrive at a port other than their host's.
        let moved = u32::from(port < 32);
        frame.ingress = PortId((station.port + moved) % PORTS);
        (usize::from(vpdp) % VPDPS, frame)
    };
    let mut frames: Vec<(usize, Frame)> = (first..first + bursts.frames).map(frame).collect();
    frames[..bursts.by_vpdp].sort_by_key(|(vpdp, _)| *vpdp);
    frames
}

/// Returns the results of one vPDP's packets on a separate device with the reference engine.
fn alone(engine: &dyn Engine, vpdp: usize, bursts: Bursts) -> Vec<Seen> {
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
            let adopted = device.adopt(new, MigrationMode::State(MayLose::Nothing));
            adopted.expect("all has a place");
        }
        let own = burst(number, bursts)
            .into_iter()
            .filter(|(of, _)| *of == vpdp);
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

/// vPDPs with one program, on a switch with one worker.
struct Hosted {
    hypervisor: TenantSwitch,
    worker: Worker,
    vpdps: Vec<VpdpId>,
}

impl Hosted {
    fn new(engine: Arc<dyn Engine>) -> Hosted {
        let mut hypervisor = TenantSwitch::new(engine);
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
            let carry = MigrationMode::State(MayLose::Nothing);
            let updated = self.hypervisor.update(self.vpdps[2], program(5), carry);
            updated.expect("all has a place");
        }
    }

    /// Forwards a burst. Returns the results of each vPDP.
    fn forward(&mut self, number: u32, bursts: Bursts) -> Vec<Seen> {
        let frames = burst(number, bursts).into_iter().map(|(vpdp, mut frame)| {
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

fn check(bursts: Bursts) {
    let engines = testkit::engines();
    let alone: Vec<Vec<Seen>> = (0..VPDPS)
        .map(|vpdp| alone(engines[0].as_ref(), vpdp, bursts))
        .collect();
    for engine in engines {
        let name = engine.name();
        let mut hosted = Hosted::new(engine);
        for number in 0..BURSTS {
            hosted.change_before(number);
            let seen = hosted.forward(number, bursts);
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
fn vpdps_of_one_program_do_in_mixed_bursts_what_each_does_alone() {
    check(MIXED);
}

#[test]
fn vpdps_of_one_program_do_in_bursts_of_few_packets_what_each_does_alone() {
    check(FEW);
}

#[test]
fn vpdps_of_one_program_do_in_bursts_of_few_packets_of_each_what_each_does_alone() {
    check(FEW_OF_EACH);
}

#[test]
fn vpdps_of_one_program_do_in_bursts_that_come_by_vpdp_what_each_does_alone() {
    check(BY_VPDP);
}

/// Returns true for each of the packet's host and flow that was found.
fn found_in(bytes: &[u8]) -> [bool; 2] {
    let found = bytes[26..34].chunks(4);
    let found: Vec<bool> = found.map(|number| number != [0; 4]).collect();
    [found[0], found[1]]
}

#[test]
fn the_packets_of_the_bursts_take_all_ways() {
    let engines = testkit::engines();
    for vpdp in 0..VPDPS {
        let seen = alone(engines[0].as_ref(), vpdp, MIXED);
        let sent: Sent = seen.iter().flat_map(|seen| seen.sent.clone()).collect();
        let session = 7 + vpdp as u32 % 2;
        assert!(sent.iter().any(|(port, _)| *port == session), "no clone");
        let is_resubmitted = |(_, bytes): &(u32, Vec<u8>)| bytes[0] == 1 && bytes[3] > 5;
        assert!(sent.iter().any(is_resubmitted), "none is resubmitted");
        for found in [[false, false], [true, false], [true, true]] {
            let is_it = |(_, bytes): &(u32, Vec<u8>)| found_in(bytes) == found;
            assert!(sent.iter().any(is_it), "none has found {found:?}");
        }
        assert!(seen.iter().any(|seen| !seen.digests.is_empty()));
        assert!(seen.last().is_some_and(|seen| seen.dropped > 0));
    }
}

/// A program in which packets are resubmitted as often as they request.
const AGAIN: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> again; bit<16> number; }
struct headers_t { h_t h; }
struct metadata_t { @field_list(0) bit<8> passes; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.h); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (meta.passes < hdr.h.again) {
            meta.passes = meta.passes + 1;
            resubmit_preserving_field_list(0);
        }
    }
}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#;

#[test]
fn packets_that_start_over_have_the_passes_of_their_whole_burst_wherever_they_are_in_it() {
    const FRAMES: u16 = 2000;
    for engine in testkit::engines() {
        let name = engine.name();
        for busy in [0..300, 1700..2000, 200..500] {
            let mut hypervisor = TenantSwitch::new(Arc::clone(&engine));
            let ports = [0, 1].map(|port| Connection::Physical(PortId(port)));
            let spec = Spec {
                name: "tenant".into(),
                ports: ports.into(),
                ..Spec::default()
            };
            let id = hypervisor.create(spec).expect("there is room");
            let program = testkit::compile_text(AGAIN).expect("it is a program");
            hypervisor.load(id, program).expect("it is taken");
            let mut worker = hypervisor.workers(1).remove(0);
            let frame = |number: u16| {
                let [high, low] = number.to_be_bytes();
                let again = if busy.contains(&number) { 20 } else { 0 };
                Frame::from_bytes(&[again, high, low]).expect("a frame")
            };
            let mut frames: Vec<Frame> = (0..FRAMES).map(frame).collect();
            let mut sent = Vec::new();
            worker.forward(&mut frames, Nanos(1), |_, frame, _| {
                let bytes = frame.bytes();
                sent.push(u16::from_be_bytes([bytes[1], bytes[2]]));
            });
            let all: Vec<u16> = (0..FRAMES).collect();
            assert_eq!(sent, all, "{name}: {busy:?}");
        }
    }
}
