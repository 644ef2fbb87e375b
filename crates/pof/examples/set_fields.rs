//! Measurement of forwarding, in memory, on one core: lists of one to six SET_FIELD actions or of
//! one to five ADD_FIELD actions with an OUTPUT, beside the same function in P4.
//!
//! `cargo run --release -p pof --example set_fields [ROUNDS]`

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use bits::Value;
use ir::{ActionCall, KeyMatch, TableId};
use packet::{Frame, Nanos, PortId};
use pof::model::*;
use pof::wire::*;
use pof::{Forwarder, ForwarderOptions};
use support::quantile::median;
use switch::{Action as EntryAction, Change, Device, DeviceConfig, TableEntry};

/// Fields that are set, in this order: name in P4, offset and width in bits.
const FIELDS: [(&str, u16, u16); 6] = [
    ("h.ethernet.destination", 0, 48),
    ("h.ethernet.source", 48, 48),
    ("h.ipv4.source", 208, 32),
    ("h.ipv4.destination", 240, 32),
    ("h.udp.source", 272, 16),
    ("h.udp.destination", 288, 16),
];

/// Bit at which fields of 32 bits are added, the last one first.
const ADDED_AT: u16 = 112;
const ADDED_BITS: u16 = 32;

/// Actions of a list before its OUTPUT.
#[derive(Clone, Copy)]
enum Kind {
    /// Sets the first N of [`FIELDS`].
    Set(usize),
    /// Adds N fields.
    Add(usize),
}

/// Entries of a table.
const ENTRIES: u32 = 1_000;
/// Frames of a burst, and of a run.
const BURST: usize = 32;
const FRAMES: usize = 1_024;

fn engine() -> jit::Jit {
    jit::Jit::new(Arc::new(interp::Interp))
}

/// Returns the value that an entry sets a field to.
fn value(entry: u32, field: usize, width: u16) -> u128 {
    let number = u128::from(entry) * 0x0101_0101 + field as u128 + 1;
    number & ((1 << width) - 1)
}

impl Kind {
    /// Returns the widths of the values of an entry.
    fn widths(self) -> Vec<u16> {
        match self {
            Kind::Set(count) => FIELDS[..count].iter().map(|(.., width)| *width).collect(),
            Kind::Add(count) => vec![ADDED_BITS; count],
        }
    }
}

fn twin(kind: Kind) -> Device {
    let (mut params, mut body) = (String::new(), String::new());
    let (mut headers, mut emits) = (String::new(), String::new());
    for (at, width) in kind.widths().into_iter().enumerate() {
        let _ = write!(params, "bit<{width}> v{at}, ");
        match kind {
            Kind::Set(_) => {
                let _ = write!(body, "{} = v{at}; ", FIELDS[at].0);
            }
            Kind::Add(_) => {
                let _ = write!(body, "h.added{at}.setValid(); h.added{at}.value = v{at}; ");
                let _ = write!(headers, "added_t added{at}; ");
                emits = format!("b.emit(h.added{at}); {emits}");
            }
        }
    }
    let text = format!(
        r#"
#include <core.p4>
#include <v1model.p4>
header ethernet_t {{ bit<48> destination; bit<48> source; bit<16> kind; }}
header ipv4_t {{ bit<96> before; bit<32> source; bit<32> destination; }}
header udp_t {{ bit<16> source; bit<16> destination; bit<32> after; }}
header added_t {{ bit<32> value; }}
struct headers_t {{ ethernet_t ethernet; {headers}ipv4_t ipv4; udp_t udp; }}
struct meta_t {{}}
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {{
    state start {{ b.extract(h.ethernet); b.extract(h.ipv4); b.extract(h.udp); transition accept; }}
}}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{
    direct_counter(CounterType.packets_and_bytes) c;
    action send({params}bit<9> port) {{ c.count(); {body}s.egress_spec = port; }}
    action miss() {{ c.count(); mark_to_drop(s); }}
    table t {{
        key = {{ h.ipv4.destination : ternary; }}
        actions = {{ send; miss; }}
        default_action = miss;
        counters = c;
        size = 4096;
        support_timeout = true;
    }}
    apply {{ t.apply(); }}
}}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ apply {{}} }}
control V(inout headers_t h, inout meta_t m) {{ apply {{}} }}
control C(inout headers_t h, inout meta_t m) {{ apply {{}} }}
control D(packet_out b, in headers_t h) {{ apply {{ b.emit(h.ethernet); {emits}b.emit(h.ipv4); b.emit(h.udp); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#
    );
    let program = driver::compile_text("twin", &text).expect("a program");
    let device = Device::new(Arc::new(program), &engine(), &DeviceConfig::default());
    let mut device = device.expect("a device");
    for entry in 0..ENTRIES {
        let values = kind.widths().into_iter().enumerate();
        let values =
            values.map(|(at, width)| Value::truncated(value(entry, at, width), u32::from(width)));
        let address = Value::truncated((0x0A00_0000 + entry).into(), 32);
        let inserted = TableEntry {
            keys: vec![KeyMatch::Ternary(address, Value::all_ones(32))],
            priority: Some(2),
            action: EntryAction::Call(ActionCall {
                action: 0,
                args: values.chain([Value::truncated(2, 9)]).collect(),
            }),
            idle_timeout: None,
            meter: None,
            counter: None,
        };
        let made = device.apply(Change::Insert(TableId::new(0), inserted));
        made.expect("room");
    }
    device
}

fn left(number: u128, width: u16) -> FieldValue {
    (number << (128 - width)).to_be_bytes()
}

fn pof_switch(kind: Kind) -> Forwarder {
    let switch = Forwarder::new(Arc::new(engine()), ForwarderOptions::default());
    let mut switch = switch.expect("a program");
    switch
        .set_ports(&[(1, true), (2, true)])
        .expect("two ports");
    let key = Field::packet(240, 32);
    let table = TableMod {
        command: Command::Add,
        id: 0,
        table_type: TableType::Masked,
        size: 4_096,
        key_length: 32,
        slot: 0,
        name: ObjectName::new("flows"),
        fields: vec![key],
    };
    switch.table_mod(&table).expect("a table");
    for entry in 0..ENTRIES {
        let widths = kind.widths().into_iter().enumerate();
        let actions = widths.map(|(at, width)| {
            let value = left(value(entry, at, width), width);
            match kind {
                Kind::Set(_) => Action::SetField(Match {
                    field: Field::packet(FIELDS[at].1, width),
                    value,
                    mask: [0xFF; VALUE_BYTES],
                }),
                Kind::Add(_) => Action::AddField {
                    id: 1,
                    offset: ADDED_AT,
                    length: width.into(),
                    value,
                },
            }
        });
        let output = Action::Output {
            port: Argument::Immediate(2),
            metadata_offset: 0,
            metadata_length: 0,
            packet_offset: 0,
        };
        let matches = vec![Match {
            field: key,
            value: left((0x0A00_0000 + entry).into(), 32),
            mask: [0xFF; VALUE_BYTES],
        }];
        let list = Instruction::ApplyActions(actions.chain([output]).collect());
        let flow = FlowMod {
            command: FlowCommand::Add,
            counter: 0,
            cookie: 0,
            cookie_mask: 0,
            table: 0,
            table_type: TableType::Masked,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: 1,
            index: entry,
            slot: 0,
            matches,
            instructions: vec![list],
        };
        switch.flow_mod(&flow).expect("an entry");
    }
    switch
}

/// Writes the frames again.
fn refill(frames: &mut [Frame]) {
    for (at, frame) in frames.iter_mut().enumerate() {
        let mut bytes: [u8; 64] = std::array::from_fn(|byte| byte as u8);
        let address = 0x0A00_0000 + (at as u32 * 7_919) % ENTRIES;
        bytes[30..34].copy_from_slice(&address.to_be_bytes());
        frame.assign(&bytes).expect("64 bytes");
        frame.ingress = PortId(1);
    }
}

/// Runs all frames. Returns nanoseconds a frame. What leaves is given to `take`.
fn run(device: &mut Device, frames: &mut [Frame], mut take: impl FnMut(&[u8])) -> f64 {
    refill(frames);
    let begin = Instant::now();
    for burst in frames.chunks_mut(BURST) {
        device.forward(burst, Nanos(1), |port, frame, _| {
            assert_eq!(port, PortId(2));
            take(frame.bytes());
        });
    }
    begin.elapsed().as_secs_f64() * 1e9 / FRAMES as f64
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let rounds: usize = rounds.unwrap_or(2_000);
    let mut frames: Vec<Frame> = (0..FRAMES).map(|_| Frame::new()).collect();
    let sets = (1..=FIELDS.len()).map(Kind::Set);
    // A list has at most six actions.
    let adds = (1..FIELDS.len()).map(Kind::Add);
    for kind in sets.chain(adds) {
        let (mut twin, mut switch) = (twin(kind), pof_switch(kind));
        let mut sent = [Vec::new(), Vec::new()];
        run(&mut twin, &mut frames, |bytes| sent[0].push(bytes.to_vec()));
        run(switch.device(), &mut frames, |bytes| {
            sent[1].push(bytes.to_vec())
        });
        assert_eq!(sent[0].len(), FRAMES);
        assert_eq!(sent[0], sent[1], "both do the same");
        let (mut of_twin, mut here) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            of_twin.push(run(&mut twin, &mut frames, |_| {}));
            here.push(run(switch.device(), &mut frames, |_| {}));
        }
        let of_twin = median(&mut of_twin).unwrap_or(0.0);
        let here = median(&mut here).unwrap_or(0.0);
        let (count, done) = match kind {
            Kind::Set(count) => (count, "set"),
            Kind::Add(count) => (count, "added"),
        };
        println!(
            "{count} fields {done}: POF {:.2} Mpps, P4 {:.2} Mpps: {:.2}",
            1e3 / here,
            1e3 / of_twin,
            of_twin / here
        );
    }
}
