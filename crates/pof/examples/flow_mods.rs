//! Measurement of what controllers do to a switch, in memory, without a network: entries of known
//! shapes, entries of new shapes, tables, and the memory of an entry.
//!
//! `cargo run --release -p pof --example flow_mods [rates|shapes|tables|memory]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use bits::Value;
use exec::Engine;
use ir::{ActionCall, KeyMatch, TableId};
use packet::{Nanos, PortId};
use pof::model::*;
use pof::session::Session;
use pof::wire::*;
use pof::{ControlledSwitch, Forwarder, ForwarderOptions, SessionId};
use support::quantile::{median, quantile};
use switch::{Action as EntryAction, Change, Device, DeviceConfig, TableEntry};

/// Entries of a run.
const FLOWS: u32 = 100_000;
/// Messages between two barriers.
const BARRIER_EVERY: u32 = 100;

fn jit() -> Arc<dyn Engine> {
    Arc::new(jit::Jit::new(Arc::new(interp::Interp)))
}

fn interp() -> Arc<dyn Engine> {
    Arc::new(interp::Interp)
}

/// A switch with one controller.
struct Bed {
    switch: ControlledSwitch,
    session: Session,
}

impl Bed {
    fn new(engine: Arc<dyn Engine>) -> Bed {
        let forwarder = Forwarder::new(engine, ForwarderOptions::default()).expect("a program");
        let ports = (1..=4).map(|id| pof::port(1, id, "port")).collect();
        let switch = ControlledSwitch::new(forwarder, 1, ports).expect("four ports");
        let session = Session::new(SessionId(0), &switch);
        let mut bed = Bed { switch, session };
        bed.send(&bytes(Body::Hello));
        bed
    }

    /// Gives bytes to the session. All messages are handled, none is refused.
    fn send(&mut self, bytes: &[u8]) {
        self.session.receive(bytes, &mut self.switch);
        let output = self.session.take_output();
        let mut rest = output.as_slice();
        while let Some(length) = message_length(rest) {
            let message = decode(&rest[..length]).expect("a message");
            let is_refused = matches!(message.body, Body::Error(_));
            assert!(!is_refused, "{message:?}");
            rest = &rest[length..];
        }
        assert!(!self.session.has_message());
    }

    /// Sends a frame to port 1 and returns the bytes that leave.
    fn frame(&mut self, bytes: &[u8]) -> Vec<u8> {
        let device = self.switch.forwarder.device();
        device.receive(PortId(1), bytes).expect("a frame");
        device.step(Nanos(1));
        let mut sent = Vec::new();
        self.switch.drain(|_, bytes| sent = bytes.to_vec());
        sent
    }
}

fn bytes(body: Body) -> Vec<u8> {
    encode(&Message { xid: 1, body })
}

/// The destination address of IPv4 after Ethernet.
const DESTINATION: Field = Field {
    id: 3,
    offset: 240,
    length: 32,
};

fn left(bytes: &[u8]) -> FieldValue {
    let mut value = FieldValue::default();
    value[..bytes.len()].copy_from_slice(bytes);
    value
}

fn table(command: Command, id: u8, table_type: TableType) -> Body {
    Body::TableMod(TableMod {
        command,
        id,
        table_type,
        size: 1 << 20,
        key_length: DESTINATION.length,
        slot: 0,
        name: ObjectName::new("flows"),
        fields: vec![DESTINATION],
    })
}

fn set(offset: u16, value: &[u8]) -> Action {
    Action::SetField(Match {
        field: Field::packet(offset, 8 * value.len() as u16),
        value: left(value),
        mask: [0xFF; VALUE_BYTES],
    })
}

fn output(port: u32) -> Action {
    Action::Output {
        port: Argument::Immediate(port),
        metadata_offset: 0,
        metadata_length: 0,
        packet_offset: 0,
    }
}

fn flow(table_type: TableType, index: u32, actions: Vec<Action>) -> FlowMod {
    FlowMod {
        command: FlowCommand::Add,
        counter: 0,
        cookie: index.into(),
        cookie_mask: 0,
        table: 0,
        table_type,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 10,
        index,
        slot: 0,
        matches: vec![Match {
            field: DESTINATION,
            value: left(&(0x0A00_0000 + index).to_be_bytes()),
            mask: left(&[255; 4]),
        }],
        instructions: vec![Instruction::ApplyActions(actions)],
    }
}

/// Returns a list of a known shape.
fn known(index: u32) -> Vec<Action> {
    vec![set(240, &index.to_be_bytes()), output(2)]
}

/// Returns a list of a shape of its own: it sets one or two other fields.
fn new_shape(number: u32) -> Vec<Action> {
    let (one, two) = (number % 28, number / 28);
    let mut actions = vec![set(8 * one as u16, &[number as u8])];
    if two > 0 {
        actions.push(set(8 * (27 + two) as u16, &[number as u8, 7]));
    }
    actions.push(output(2));
    actions
}

fn frame(index: u32) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..64).collect();
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[30..34].copy_from_slice(&(0x0A00_0000 + index).to_be_bytes());
    frame
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Prints the rate of entries of a known shape, added and changed.
fn rates() {
    for table_type in [
        TableType::Masked,
        TableType::LongestPrefix,
        TableType::Exact,
    ] {
        let mut bed = Bed::new(jit());
        bed.send(&bytes(table(Command::Add, 0, table_type)));
        let barrier = bytes(Body::BarrierRequest);
        for command in [FlowCommand::Add, FlowCommand::Modify, FlowCommand::Delete] {
            let mut text = Vec::new();
            let mut chunks = Vec::new();
            for index in 0..FLOWS {
                let flow = flow(table_type, index, known(index + command as u32));
                text.extend(bytes(Body::FlowMod(FlowMod { command, ..flow })));
                if (index + 1).is_multiple_of(BARRIER_EVERY) {
                    text.extend(&barrier);
                    chunks.push(std::mem::take(&mut text));
                }
            }
            let mut times = Vec::new();
            let begin = Instant::now();
            for chunk in &chunks {
                let start = Instant::now();
                bed.send(chunk);
                bed.frame(&frame(0));
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            let rate = f64::from(FLOWS) / begin.elapsed().as_secs_f64();
            println!(
                "{table_type:?} {command:?}: {rate:.0} FlowMods/s; {BARRIER_EVERY} of them and a frame: median {:.3} ms, p99 {:.3} ms",
                median(&mut times).unwrap_or(0.0),
                quantile(&mut times, 0.99).unwrap_or(0.0),
            );
        }
    }
}

/// Prints the time from the bytes of an entry of a new shape to the first packet by it.
fn shapes() {
    for (name, engine) in [("interp", interp()), ("jit", jit())] {
        let mut bed = Bed::new(engine);
        bed.send(&bytes(table(Command::Add, 0, TableType::Masked)));
        let mut times = Vec::new();
        for number in 0..300 {
            let list = new_shape(number);
            let message = bytes(Body::FlowMod(flow(TableType::Masked, number, list)));
            let start = Instant::now();
            bed.send(&message);
            let sent = bed.frame(&frame(number));
            times.push(milliseconds(start.elapsed()));
            assert_eq!(sent.len(), 64, "shape {number}");
            if matches!(number, 9 | 29 | 99 | 299) {
                let mut last = times[times.len().saturating_sub(10)..].to_vec();
                println!(
                    "{name}: with {} shapes {:.1} ms a new one",
                    number + 1,
                    median(&mut last).unwrap_or(0.0)
                );
            }
        }
        println!(
            "{name}: 300 new shapes, one by one: median {:.1} ms, p99 {:.1} ms, {} programs",
            median(&mut times).unwrap_or(0.0),
            quantile(&mut times, 0.99).unwrap_or(0.0),
            bed.switch.forwarder.programs()
        );
        let mut bed = Bed::new(jit());
        bed.send(&bytes(table(Command::Add, 0, TableType::Masked)));
        let text = (0..300).flat_map(|number| {
            let list = new_shape(number);
            bytes(Body::FlowMod(flow(TableType::Masked, number, list)))
        });
        let text: Vec<u8> = text.collect();
        let start = Instant::now();
        bed.send(&text);
        bed.frame(&frame(0));
        println!(
            "{name}: 300 new shapes at once: {:.1} ms, {} programs",
            milliseconds(start.elapsed()),
            bed.switch.forwarder.programs()
        );
    }
}

/// Prints the time of making and deleting tables beside entries.
fn tables() {
    let mut bed = Bed::new(jit());
    bed.send(&bytes(table(Command::Add, 0, TableType::Masked)));
    for number in 0..20 {
        let list = new_shape(number);
        bed.send(&bytes(Body::FlowMod(flow(TableType::Masked, number, list))));
    }
    let mut times = Vec::new();
    for number in 0..200 {
        let id = 1 + number % 9;
        let start = Instant::now();
        for command in [Command::Add, Command::Delete] {
            bed.send(&bytes(table(command, id, TableType::Masked)));
        }
        times.push(milliseconds(start.elapsed()));
        assert_eq!(bed.frame(&frame(0)).len(), 64);
    }
    println!(
        "200 tables made and deleted: median {:.3} ms, p99 {:.3} ms",
        median(&mut times).unwrap_or(0.0),
        quantile(&mut times, 0.99).unwrap_or(0.0),
    );
}

/// Returns the bytes of memory that the process has.
fn resident() -> f64 {
    let own = std::process::id().to_string();
    let ps = std::process::Command::new("ps")
        .args(["-o", "rss=", "-p", &own])
        .output();
    let text = String::from_utf8(ps.expect("ps runs").stdout).expect("text");
    1_024.0 * text.trim().parse::<f64>().expect("a number of KiB")
}

/// The function of [`known`] in P4.
const TWIN: &str = r#"
#include <core.p4>
#include <v1model.p4>
header frame_t { bit<240> before; bit<32> destination; bit<240> after; }
struct headers_t { frame_t frame; }
struct meta_t {}
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { b.extract(h.frame); transition accept; }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets_and_bytes) c;
    action send(bit<32> to, bit<9> port) { c.count(); h.frame.destination = to; s.egress_spec = port; }
    action miss() { c.count(); mark_to_drop(s); }
    table t {
        key = { h.frame.destination : KIND; }
        actions = { send; miss; }
        default_action = miss;
        counters = c;
        size = 1048576;
        support_timeout = true;
    }
    apply { t.apply(); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control V(inout headers_t h, inout meta_t m) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out b, in headers_t h) { apply { b.emit(h.frame); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// Makes the entries of the P4 twin.
fn twin(kind: &str) -> (Device, TableId) {
    let program = driver::compile_text("twin", &TWIN.replace("KIND", kind)).expect("a program");
    let config = DeviceConfig::default();
    let device = Device::new(Arc::new(program), interp().as_ref(), &config);
    (device.expect("a device"), TableId::new(0))
}

fn twin_entry(kind: &str, index: u32) -> TableEntry {
    let value = |number: u32, width| Value::truncated(number.into(), width);
    let key = value(0x0A00_0000 + index, 32);
    TableEntry {
        keys: vec![match kind {
            "ternary" => KeyMatch::Ternary(key, Value::all_ones(32)),
            "lpm" => KeyMatch::Lpm(key, 32),
            _ => KeyMatch::Exact(key),
        }],
        priority: (kind == "ternary").then_some(11),
        action: EntryAction::Call(ActionCall {
            action: 0,
            args: vec![value(index, 32), value(2, 9)],
        }),
        idle_timeout: None,
        meter: None,
        counter: None,
    }
}

/// Returns the bytes of an entry of the P4 twin. A process must measure only once: memory that was
/// given back serves what comes next.
fn bytes_of_twin(kind: &str) -> f64 {
    let (mut device, id) = twin(kind);
    let before = resident();
    for index in 0..FLOWS {
        let inserted = device.apply(Change::Insert(id, twin_entry(kind, index)));
        inserted.expect("room");
    }
    device.publish();
    (resident() - before) / f64::from(FLOWS)
}

/// Returns the bytes of an entry here.
fn bytes_here(table_type: TableType) -> f64 {
    let mut bed = Bed::new(interp());
    bed.send(&bytes(table(Command::Add, 0, table_type)));
    bed.send(&bytes(Body::FlowMod(flow(table_type, 0, known(0)))));
    let before = resident();
    for index in 1..=FLOWS {
        bed.send(&bytes(Body::FlowMod(flow(table_type, index, known(index)))));
        bed.switch.forwarder.take_changed();
    }
    bed.frame(&frame(0));
    (resident() - before) / f64::from(FLOWS)
}

const KINDS: [(&str, TableType); 3] = [
    ("ternary", TableType::Masked),
    ("lpm", TableType::LongestPrefix),
    ("exact", TableType::Exact),
];

/// Prints the memory of an entry, here and in the P4 twin.
fn memory() {
    let own = std::env::current_exe().expect("a program");
    for (kind, _) in KINDS {
        let measured = |side: &str| -> f64 {
            let child = std::process::Command::new(&own).args([side, kind]).output();
            let text = String::from_utf8(child.expect("a process").stdout).expect("text");
            text.trim().parse().expect("a number")
        };
        let (here, of_twin) = (measured("bytes-here"), measured("bytes-of-twin"));
        println!(
            "{kind}: {here:.0} bytes an entry, P4 twin {of_twin:.0}: {:.2} x",
            here / of_twin
        );
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let [side, kind] = &wanted[..]
        && let Some((kind, table_type)) = KINDS.into_iter().find(|(name, _)| name == kind)
    {
        let bytes = match side.as_str() {
            "bytes-here" => bytes_here(table_type),
            _ => bytes_of_twin(kind),
        };
        println!("{bytes}");
        return;
    }
    for (name, part) in [
        ("rates", rates as fn()),
        ("shapes", shapes),
        ("tables", tables),
        ("memory", memory),
    ] {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            part();
        }
    }
}
