//! `exchange NAME FRAMES`: prints a program of a switch, frames, and what `interp` and `jit` send
//! for them, so that other switches can be compared. `exchange` prints the names of the programs.
//!
//! The program has the entries in its text. After the line `FRAMES` a line `> PORT BYTES` is a
//! frame to the switch, and the lines `< PORT BYTES` after it are what the switch sends. Frames are
//! messages of three mappers with repeats, the reducer's collections and clears, strange and
//! damaged ones. They do not depend on the answers. A frame for which nothing is sent is followed
//! by one of the same port that the switch forwards, so that its end can be waited for.

use std::collections::VecDeque;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use aggregate::datagram::{self, Endpoint};
use aggregate::{
    Bank, Body, Flags, Header, KeyClass, Kind, LANES, LaneBlock, Message, Operator, Pair, Shape,
    SwitchReduction, ValueClass, emit, pairs_per_message,
};
use exec::Engine;
use interp::Interp;
use jit::Jit;
use packet::{Nanos, PortId};
use support::rng::Rng;
use switch::{Device, DeviceConfig};

const MAPPERS: u16 = 3;

/// Flow of the switch.
const SWITCH_FLOW: u16 = MAPPERS;

/// Port of the reducer. Those of mappers are 0 to 2.
const REDUCER_PORT: u32 = 3;

const ATTEMPT: u16 = 1;
const INCARNATION: u32 = 7;

/// Slots of an epoch, and different keys: a third finds no slot.
const SLOTS: u32 = 60;
const KEYS: u64 = 90;

/// Messages of a flow in flight, and those that are repeated: also some before the window.
const WINDOW: u32 = 8;
const REPEATED: usize = 10;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let programs = programs();
    let [wanted, frames] = &words[..] else {
        for program in programs {
            println!("{}", program.name());
        }
        return ExitCode::SUCCESS;
    };
    let seed = programs
        .iter()
        .position(|program| program.name() == *wanted);
    let (Some(seed), Ok(frames)) = (seed, frames.parse()) else {
        eprintln!("usage: exchange NAME FRAMES");
        return ExitCode::from(2);
    };
    match print(programs[seed], frames, seed as u64) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{wanted}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A program of a switch.
#[derive(Clone, Copy)]
struct Program {
    shape: Shape,
    /// Number of reductions of this shape, which share a control. Their jobs are 1 and so on.
    reductions: u16,
}

impl Program {
    fn name(self) -> String {
        let Shape {
            operator,
            keys,
            values,
        } = self.shape;
        let shared = match self.reductions {
            1 => String::new(),
            reductions => format!("-shared{reductions}"),
        };
        let (operator, keys, values) = (operator.name(), keys.bytes(), values.name());
        format!("{operator}-keys{keys}-{values}{shared}")
    }

    fn jobs(self) -> impl Iterator<Item = u16> {
        1..=self.reductions
    }

    /// Returns the text, with entries.
    fn text(self) -> String {
        let reductions: Vec<SwitchReduction> = self.jobs().map(|job| self.reduction(job)).collect();
        let of_jobs = |entries: fn(u16) -> String| self.jobs().map(entries).collect::<String>();
        let tables = [
            ("flows", of_jobs(flows)),
            ("reductions", of_jobs(part)),
            ("routes", (0..=REDUCER_PORT).map(route).collect()),
        ];
        let text = emit(&reductions);
        tables.into_iter().fold(text, |text, (table, entries)| {
            with_entries(&text, table, &entries)
        })
    }

    fn reduction(self, job: u16) -> SwitchReduction {
        SwitchReduction {
            job,
            shape: self.shape,
            slots: SLOTS,
            window: WINDOW,
            flows: u32::from(MAPPERS) + 1,
            pairs_per_message: pairs_per_message(self.shape),
            is_multicast: false,
        }
    }
}

/// Returns a program for each shape, and some with several reductions.
fn programs() -> Vec<Program> {
    let alone = shapes().into_iter().map(|shape| Program {
        shape,
        reductions: 1,
    });
    let shared = shapes().into_iter().step_by(6).map(|shape| Program {
        shape,
        reductions: 3,
    });
    alone.chain(shared).collect()
}

/// Returns each class of keys with each class of values, and vectors, with the operators in turn.
fn shapes() -> Vec<Shape> {
    let keys = [KeyClass::B8, KeyClass::B16, KeyClass::B32, KeyClass::B64];
    let values = [
        ValueClass::I32,
        ValueClass::U32,
        ValueClass::I64,
        ValueClass::U64,
    ];
    let operators = [Operator::Add, Operator::Min, Operator::Max];
    let of_pairs = keys
        .into_iter()
        .enumerate()
        .flat_map(|(row, keys)| {
            let of_row = values.into_iter().enumerate();
            of_row.map(move |(column, values)| Shape {
                operator: operators[(row + column) % 3],
                keys,
                values,
            })
        })
        .collect::<Vec<Shape>>();
    let of_vectors = operators.map(|operator| Shape {
        operator,
        keys: KeyClass::Block,
        values: ValueClass::I32,
    });
    [of_pairs, of_vectors.to_vec()].concat()
}

fn print(program: Program, frames: usize, seed: u64) -> Result<(), String> {
    let text = program.text();
    let device = |engine: &dyn Engine| {
        let program = driver::compile_text("switch.p4", &text).map_err(|error| error.to_string());
        let made = Device::new(Arc::new(program?), engine, &DeviceConfig::default());
        made.map_err(|error| error.to_string())
    };
    let mut devices = [device(&Interp)?, device(&Jit::new(Arc::new(Interp)))?];
    let exchange = |job| Exchange::new(program.shape, job, seed);
    let mut exchanges: Vec<Exchange> = program.jobs().map(exchange).collect();
    let mut lines = String::new();
    for number in 0..frames {
        let (port, frame) = exchanges[number % usize::from(program.reductions)].next();
        for frame in [frame, other_frame(port)] {
            let [sent, native] = devices.each_mut().map(|device| send(device, port, &frame));
            if sent != native {
                return Err(format!("interp and jit differ at frame {number}"));
            }
            add(&mut lines, '>', port, &frame);
            for (port, frame) in &sent {
                add(&mut lines, '<', *port, frame);
            }
            if !sent.is_empty() {
                break;
            }
        }
    }
    print!("{text}FRAMES\n{lines}");
    Ok(())
}

fn add(lines: &mut String, way: char, port: u32, frame: &[u8]) {
    let bytes: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(lines, "{way} {port} {bytes}").expect("writing to a string succeeds");
}

/// Returns a frame from a port that is no message, and goes to the reducer.
fn other_frame(port: u32) -> Vec<u8> {
    let [from, to] = [port, REDUCER_PORT].map(|port| Endpoint {
        port: 9,
        ..endpoint(port)
    });
    datagram::write(from, to, &[])
}

fn send(device: &mut Device, port: u32, frame: &[u8]) -> Vec<(u32, Vec<u8>)> {
    device
        .receive(PortId(port), frame)
        .expect("the frame is shorter than the largest");
    device.step(Nanos::ZERO);
    let mut sent = Vec::new();
    device.drain_sent(|port, bytes, _| sent.push((port.0, bytes.to_vec())));
    sent
}

/// Returns the entries of the flows of a reduction.
fn flows(job: u16) -> String {
    let (reducer, mac) = (number(endpoint(REDUCER_PORT).address), mac(REDUCER_PORT));
    let flow = |mapper| {
        format!("({mapper}, {reducer}, {job}, {mapper}) : pass({REDUCER_PORT}, {mac}, 1);\n")
    };
    (0..MAPPERS).map(flow).collect()
}

/// Returns the entry of a reduction.
fn part(job: u16) -> String {
    let mac = mac(REDUCER_PORT);
    format!("{job} : take_part({ATTEMPT}, {INCARNATION}, {SWITCH_FLOW}, {REDUCER_PORT}, {mac});\n")
}

/// Returns the entry of the route to a port.
fn route(port: u32) -> String {
    let address = number(endpoint(port).address);
    format!(
        "{address} &&& 0xffffffff : forward({port}, {});\n",
        mac(port)
    )
}

/// Adds entries to a table of the text.
fn with_entries(text: &str, table: &str, entries: &str) -> String {
    let (before, rest) = text
        .split_once(&format!("    table {table} {{"))
        .expect("the program has the table");
    let (head, rest) = rest
        .split_once("default_action")
        .expect("the table has a default action");
    // Tables with entries in the text have no size.
    let (default, rest) = rest.split_once('\n').expect("the text goes on");
    let (_, rest) = rest.split_once('\n').expect("the text goes on");
    format!(
        "{before}    table {table} {{{head}const entries = {{ {entries} }}\n\
         default_action{default}\n{rest}"
    )
}

fn number(address: Ipv4Addr) -> u32 {
    address.into()
}

fn mac(port: u32) -> String {
    let bytes = endpoint(port).mac;
    let bytes: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{bytes}")
}

/// Returns the host at a port.
fn endpoint(port: u32) -> Endpoint {
    Endpoint {
        mac: [2, 0, 0, 0, 0, port as u8],
        address: Ipv4Addr::new(10, 0, 0, port as u8 + 1),
        port: 9570,
    }
}

/// Source of frames.
struct Exchange {
    shape: Shape,
    job: u16,
    rng: Rng,
    keys: Vec<Vec<u8>>,
    open: u16,
    sequences: [u32; MAPPERS as usize],
    sent: [VecDeque<Message>; MAPPERS as usize],
}

impl Exchange {
    fn new(shape: Shape, job: u16, seed: u64) -> Exchange {
        let mut rng = Rng::new(seed + (u64::from(job - 1) << 32));
        let longest = shape.keys.longest().max(1) as u64;
        let keys = (0..KEYS).map(|number| {
            // Keys that differ in their length alone, and in their bytes.
            let length = rng.between(1, longest) as usize;
            let mut key = vec![b'a'; length];
            key[0] = b'a' + (number % 26) as u8;
            key
        });
        Exchange {
            shape,
            job,
            keys: keys.collect(),
            rng,
            open: 0,
            sequences: [0; MAPPERS as usize],
            sent: Default::default(),
        }
    }

    /// Returns the next frame and its port.
    fn next(&mut self) -> (u32, Vec<u8>) {
        let (port, mut message) = match self.rng.below(100) {
            0..=59 => self.data(),
            60..=84 => self.repeat(),
            85..=95 => self.collect(),
            _ => self.clear(),
        };
        match self.rng.below(60) {
            0 => message.header.incarnation += 1,
            1 => message.header.attempt += 1,
            2 => message.header.job += 1,
            _ => {}
        }
        let to = match port {
            REDUCER_PORT => Endpoint {
                address: Ipv4Addr::new(198, 18, 0, 0),
                ..endpoint(0)
            },
            _ => endpoint(REDUCER_PORT),
        };
        let mut frame = datagram::write(endpoint(port), to, &message.write());
        if self.rng.one_in(50) {
            let at = self.rng.index(frame.len() - 14) + 14;
            frame[at] ^= 1 << self.rng.below(8);
        }
        (port, frame)
    }

    fn header(&self, kind: Kind, flow: u16, epoch: u16, sequence: u32) -> Header {
        Header {
            kind,
            flags: Flags::VALID,
            shape: self.shape,
            job: self.job,
            attempt: ATTEMPT,
            flow,
            epoch,
            sequence,
            incarnation: INCARNATION,
            pairs: 0,
            absorbed: 0,
            credit: 0,
        }
    }

    /// Returns an open epoch, or now and then the one after them.
    fn epoch(&mut self) -> u16 {
        let ahead = [0, 0, 0, 1, 1, 2][self.rng.index(6)];
        self.open + ahead
    }

    fn data(&mut self) -> (u32, Message) {
        let mapper = self.rng.index(usize::from(MAPPERS));
        let (epoch, sequence) = (self.epoch(), self.sequences[mapper]);
        self.sequences[mapper] += 1;
        let message = Message {
            header: self.header(Kind::Data, mapper as u16, epoch, sequence),
            body: match self.shape.is_vector() {
                true => Body::Blocks(vec![self.block(epoch)]),
                false => Body::Pairs(self.pairs()),
            },
        };
        let sent = &mut self.sent[mapper];
        sent.push_back(message.clone());
        if sent.len() > REPEATED {
            sent.pop_front();
        }
        (mapper as u32, message)
    }

    fn pairs(&mut self) -> Vec<Pair> {
        let most = pairs_per_message(self.shape) as u64;
        let count = match self.rng.one_in(2) {
            true => most,
            false => self.rng.between(1, most),
        };
        let mut keys: Vec<usize> = (0..self.keys.len()).collect();
        let class = self.shape.values;
        let bits = class.bytes() as u32 * 8 - u32::from(class.is_signed());
        let largest = (1i128 << bits) - 1;
        (0..count.min(KEYS))
            .map(|_| {
                let key = keys.swap_remove(self.rng.index(keys.len()));
                // Some sums overflow.
                let value = match self.rng.below(20) {
                    0 => largest,
                    1 if class.is_signed() => -largest - 1,
                    _ => i128::from(self.rng.below(1000)),
                };
                Pair::new(self.keys[key].clone(), value)
            })
            .collect()
    }

    fn block(&mut self, epoch: u16) -> LaneBlock {
        let first = u32::from(epoch) * SLOTS;
        LaneBlock {
            number: first + self.rng.below(SLOTS.into()) as u32,
            lanes: (0..LANES).map(|_| self.rng.bits() as u32).collect(),
        }
    }

    fn repeat(&mut self) -> (u32, Message) {
        let mapper = self.rng.index(usize::from(MAPPERS));
        let count = self.sent[mapper].len();
        if count == 0 {
            return self.data();
        }
        let message = &mut self.sent[mapper][self.rng.index(count)];
        message.header.credit += 1;
        (mapper as u32, message.clone())
    }

    fn collect(&mut self) -> (u32, Message) {
        let epoch = self.epoch();
        let bank = Bank {
            first: self.rng.below(u64::from(SLOTS) + 8) as u32,
            ..Bank::default()
        };
        let body = match self.shape.is_vector() {
            true => Body::BlockBank(bank, Vec::new()),
            false => Body::Bank(bank, Vec::new()),
        };
        let sequence = self.rng.bits() as u32;
        let header = self.header(Kind::Collect, SWITCH_FLOW, epoch, sequence);
        (REDUCER_PORT, Message { header, body })
    }

    fn clear(&mut self) -> (u32, Message) {
        let epoch = match self.rng.one_in(4) {
            true => self.epoch(),
            false => {
                self.open += 1;
                self.open - 1
            }
        };
        let header = self.header(Kind::Clear, SWITCH_FLOW, epoch, 0);
        let body = Body::Nothing;
        (REDUCER_PORT, Message { header, body })
    }
}
