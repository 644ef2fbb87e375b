//! `polyplane test`: runs an STF test and says of each mismatch which packet, which byte, what was expected and what came.
//!
//! Commands take effect in file order. Ports that a packet or an expectation names are watched: as many packets as expected must come out there, in
//! order; what comes out elsewhere is not looked at. Packets arrive a microsecond apart on the device's clock; `wait` lets a second pass.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use clap::Args;
use entries::stf::{self, Command, CommandKind, CounterRef, Mismatch, Pattern};
use ir::TableId;
use packet::{Nanos, PortId};
use switch::{Change, CloneSession, Device, EntryId, Replica};

use crate::args::Source;
use crate::{Ended, compile, configure, out};

/// Time between two packets.
const GAP: Nanos = Nanos::from_micros(1);

#[derive(Args)]
#[command(
    after_help = "STF's commands: packet, expect, no_packet, wait, add, setdefault, remove all, mc_*, mirroring_*, register_*, counter_*,\n\
check_counter, meter_*. Exit status: 0 when all came out as expected, 1 otherwise."
)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// The test.
    #[arg(value_name = "TEST.stf")]
    test: PathBuf,
    /// Say nothing when all is as expected.
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    let file = options.test.display().to_string();
    let text = std::fs::read_to_string(&options.test)
        .map_err(|error| format!("cannot read {file}: {error}"))?;
    let Some(program) = compile::compile(&options.source) else {
        return Ok(Ended::WithErrors);
    };
    let commands = match stf::read(&program, &file, &text) {
        Ok(commands) => commands,
        Err(errors) => {
            errors
                .iter()
                .for_each(|error| out::note(&error.to_string()));
            return Ok(Ended::WithErrors);
        }
    };
    let mut test = Test::new(configure::device(program)?, &file);
    commands.iter().for_each(|command| test.command(command));
    test.finish();
    for line in &test.shown {
        out::line(line);
    }
    for failure in &test.failures {
        out::note(failure);
    }
    if !test.failures.is_empty() {
        out::note(&format!(
            "{} of {} checks failed",
            test.failures.len(),
            test.checks
        ));
        return Ok(Ended::WithErrors);
    }
    if !options.quiet {
        out::line(&format!(
            "{} packets in, {} checks: all as expected",
            test.received, test.checks
        ));
    }
    Ok(Ended::Well)
}

/// A packet that came out.
struct Came {
    bytes: Vec<u8>,
}

/// A packet that must come out.
struct Expected {
    line: u32,
    pattern: Option<Pattern>,
}

/// A multicast node.
struct Node {
    rid: u32,
    ports: Vec<u32>,
}

struct Test<'t> {
    device: Device,
    file: &'t str,
    now: Nanos,
    came: BTreeMap<u32, VecDeque<Came>>,
    expected: BTreeMap<u32, VecDeque<Expected>>,
    watched: BTreeSet<u32>,
    nodes: Vec<Option<Node>>,
    groups: BTreeMap<u32, Vec<u32>>,
    labels: BTreeMap<(TableId, String), EntryId>,
    received: usize,
    checks: usize,
    failures: Vec<String>,
    shown: Vec<String>,
}

impl<'t> Test<'t> {
    fn new(device: Device, file: &'t str) -> Self {
        Test {
            device,
            file,
            now: Nanos::ZERO,
            came: BTreeMap::new(),
            expected: BTreeMap::new(),
            watched: BTreeSet::new(),
            nodes: Vec::new(),
            groups: BTreeMap::new(),
            labels: BTreeMap::new(),
            received: 0,
            checks: 0,
            failures: Vec::new(),
            shown: Vec::new(),
        }
    }

    fn fail(&mut self, line: u32, message: impl std::fmt::Display) {
        self.failures
            .push(format!("{}:{line}: {message}", self.file));
    }

    fn show(&mut self, line: u32, text: impl std::fmt::Display) {
        self.shown.push(format!("{}:{line}: {text}", self.file));
    }

    fn command(&mut self, command: &Command) {
        let line = command.line;
        match &command.kind {
            CommandKind::Packet { port, data } => self.packet(line, *port, data),
            CommandKind::Expect { port, pattern } => {
                self.watched.insert(*port);
                let expected = Expected {
                    line,
                    pattern: pattern.clone(),
                };
                self.expected.entry(*port).or_default().push_back(expected);
            }
            CommandKind::NoPacket => self.no_packet(line),
            CommandKind::Wait => self.step(Nanos::from_secs(1)),
            CommandKind::Update(update) => {
                self.apply(line, configure::change(update.clone()));
            }
            CommandKind::Labelled(update, label) => {
                let change = configure::change(update.clone());
                if let Change::Insert(table, _) = change
                    && let Some(entry) = self.apply(line, change)
                {
                    self.labels.insert((table, label.clone()), entry);
                }
            }
            CommandKind::RemoveAll => {
                for table in self.device.program().clone().tables.ids() {
                    self.apply(line, Change::Clear(table));
                }
            }
            _ => self.replication(line, &command.kind),
        }
    }

    fn apply(&mut self, line: u32, change: Change) -> Option<EntryId> {
        match self.device.apply(change) {
            Ok(entry) => entry,
            Err(error) => {
                self.fail(line, error);
                None
            }
        }
    }

    fn packet(&mut self, line: u32, port: u32, data: &[u8]) {
        self.watched.insert(port);
        self.received += 1;
        if let Err(error) = self.device.receive(PortId(port), data) {
            return self.fail(line, error);
        }
        self.step(GAP);
        if let Err(error) = self.device.check_conservation() {
            self.fail(line, format!("packets are not conserved: {error}"));
        }
    }

    /// Lets time pass and takes what came out and what the program said.
    fn step(&mut self, time: Nanos) {
        self.now += time;
        self.device.step(self.now);
        let came = &mut self.came;
        self.device.drain_sent(|port, bytes, _| {
            came.entry(port.0).or_default().push_back(Came {
                bytes: bytes.to_vec(),
            });
        });
        while let Some(message) = self.device.take_message() {
            self.shown.push(message);
        }
        while self.device.take_digest().is_some() {}
    }

    /// Nothing may have come out that was not expected up to here.
    fn no_packet(&mut self, line: u32) {
        self.checks += 1;
        let too_many = self.came.iter().find(|(port, came)| {
            let expected = self.expected.get(port).map_or(0, VecDeque::len);
            came.len() > expected
        });
        if let Some((port, _)) = too_many {
            let message = format!("a packet came out of port {port}, but none was expected");
            self.fail(line, message);
        }
    }

    fn replication(&mut self, line: u32, kind: &CommandKind) {
        match kind {
            CommandKind::GroupCreate(group) => {
                self.groups.entry(*group).or_default();
                self.set_group(line, *group);
            }
            CommandKind::GroupDestroy(group) => {
                self.groups.remove(group);
                self.apply(line, Change::DeleteMulticast(*group));
            }
            CommandKind::NodeCreate { rid, ports } => {
                self.nodes.push(Some(Node {
                    rid: *rid,
                    ports: ports.clone(),
                }));
            }
            CommandKind::NodeUpdate { handle, ports } => {
                match self
                    .nodes
                    .get_mut(*handle as usize)
                    .and_then(Option::as_mut)
                {
                    Some(node) => node.ports = ports.clone(),
                    None => return self.fail(line, format!("there is no node {handle}")),
                }
                self.set_groups_of(line, *handle);
            }
            CommandKind::NodeDestroy(handle) => {
                if let Some(node) = self.nodes.get_mut(*handle as usize) {
                    *node = None;
                }
                self.set_groups_of(line, *handle);
            }
            CommandKind::NodeAssociate { group, handle } => match self.groups.get_mut(group) {
                Some(handles) => {
                    handles.push(*handle);
                    self.set_group(line, *group);
                }
                None => self.fail(
                    line,
                    format!("there is no multicast group {group}; create it first"),
                ),
            },
            CommandKind::NodeDissociate { group, handle } => {
                if let Some(handles) = self.groups.get_mut(group) {
                    handles.retain(|other| other != handle);
                }
                self.set_group(line, *group);
            }
            CommandKind::MirrorToPort { session, port } => {
                let replicas = vec![Replica {
                    port: PortId(*port),
                    instance: 0,
                }];
                let session = (
                    *session,
                    CloneSession {
                        replicas,
                        ..CloneSession::default()
                    },
                );
                self.apply(line, Change::SetCloneSession(session.0, session.1));
            }
            CommandKind::MirrorToGroup { session, group } => {
                let made = CloneSession {
                    group: Some(*group),
                    ..CloneSession::default()
                };
                self.apply(line, Change::SetCloneSession(*session, made));
            }
            CommandKind::MirrorDelete(session) => {
                self.apply(line, Change::DeleteCloneSession(*session));
            }
            CommandKind::MirrorGet(session) => {
                match self.device.replication().session(*session).cloned() {
                    Some(found) => self.show(line, format!("clone session {session}: {found:?}")),
                    None => self.fail(line, format!("there is no clone session {session}")),
                }
            }
            _ => self.state(line, kind),
        }
    }

    fn set_groups_of(&mut self, line: u32, handle: u32) {
        let groups: Vec<u32> = self
            .groups
            .iter()
            .filter(|(_, handles)| handles.contains(&handle))
            .map(|(group, _)| *group)
            .collect();
        groups
            .into_iter()
            .for_each(|group| self.set_group(line, group));
    }

    fn set_group(&mut self, line: u32, group: u32) {
        let handles = self.groups.get(&group).cloned().unwrap_or_default();
        let nodes = handles
            .iter()
            .filter_map(|handle| self.nodes.get(*handle as usize)?.as_ref());
        let replicas = nodes
            .flat_map(|node| {
                node.ports.iter().map(|port| Replica {
                    port: PortId(*port),
                    instance: node.rid,
                })
            })
            .collect();
        self.apply(line, Change::SetMulticast(group, replicas));
    }

    fn state(&mut self, line: u32, kind: &CommandKind) {
        let program = self.device.program().clone();
        match kind {
            CommandKind::RegisterRead(register, index) => {
                let name = &program.externs[*register].name;
                let indices = index.map_or(0..u32::MAX, |index| index..index + 1);
                let cells = indices
                    .map_while(|index| Some((index, self.device.read_register(*register, index)?)));
                for (index, cell) in cells.collect::<Vec<_>>() {
                    let values: Vec<String> = cell.iter().map(ToString::to_string).collect();
                    self.show(line, format!("{name}[{index}] = {}", values.join(", ")));
                }
            }
            CommandKind::CounterRead(counter, index) => {
                let name = &program.externs[*counter].name;
                if let Some(value) = self.device.read_counter(*counter, *index) {
                    self.show(
                        line,
                        format!(
                            "{name}[{index}] = {} packets, {} bytes",
                            value.packets, value.bytes
                        ),
                    );
                }
            }
            CommandKind::CounterReset(counter) => {
                self.apply(
                    line,
                    Change::WriteCounter(*counter, None, switch::CounterReading::default()),
                );
            }
            CommandKind::MeterRead(meter, index) => {
                let name = &program.externs[*meter].name;
                match self.device.read_meter(*meter, *index) {
                    Some(config) => self.show(line, format!("{name}[{index}] = {config:?}")),
                    None => self.show(line, format!("{name}[{index}] has no rates")),
                }
            }
            CommandKind::CheckCounter {
                counter,
                bytes,
                op,
                number,
            } => {
                self.checks += 1;
                let reading = match counter {
                    CounterRef::Cell(counter, index) => self.device.read_counter(*counter, *index),
                    CounterRef::Entry(table, label) => {
                        let entry = self.labels.get(&(*table, label.clone())).copied();
                        entry.and_then(|entry| self.device.read_direct_counter(*table, entry))
                    }
                };
                let Some(reading) = reading else {
                    return self.fail(line, "there is no such counter");
                };
                let (count, unit) = if *bytes {
                    (reading.bytes, "bytes")
                } else {
                    (reading.packets, "packets")
                };
                if !op.holds(count, *number) {
                    let wanted = op.symbol();
                    self.fail(
                        line,
                        format!("the counter has {count} {unit}; {wanted} {number} was expected"),
                    );
                }
            }
            _ => {}
        }
    }

    /// Compares what came out with what was expected.
    fn finish(&mut self) {
        self.step(Nanos::from_secs(1));
        if let Err(error) = self.device.check_conservation() {
            self.failures
                .push(format!("{}: packets are not conserved: {error}", self.file));
        }
        for port in std::mem::take(&mut self.watched) {
            let came = self.came.remove(&port).unwrap_or_default();
            let expected = self.expected.remove(&port).unwrap_or_default();
            self.compare(port, &came, &expected);
        }
    }

    fn compare(&mut self, port: u32, came: &VecDeque<Came>, expected: &VecDeque<Expected>) {
        self.checks += expected.len();
        for (position, wanted) in expected.iter().enumerate() {
            let nth = format!("packet {} out of port {port}", position + 1);
            let Some(packet) = came.get(position) else {
                self.fail(
                    wanted.line,
                    format!("{nth} did not come; {} came", came.len()),
                );
                continue;
            };
            let mismatch = wanted
                .pattern
                .as_ref()
                .and_then(|p| Some((p, p.compare(&packet.bytes)?)));
            if let Some((pattern, mismatch)) = mismatch {
                let text = describe(mismatch);
                let (want, got) = (pattern.text(), hex(&packet.bytes));
                self.fail(
                    wanted.line,
                    format!("{nth}: {text}\n  expected {want}\n  got      {got}"),
                );
            }
        }
        if came.len() > expected.len() {
            self.checks += 1;
            let extra = &came[expected.len()];
            self.failures.push(format!(
                "{}: {} packets came out of port {port}, but {} were expected; the first too many is {}",
                self.file,
                came.len(),
                expected.len(),
                hex(&extra.bytes)
            ));
        }
    }
}

fn describe(mismatch: Mismatch) -> String {
    match mismatch {
        Mismatch::Byte(at, expected, got) => {
            format!("byte {at}: expected {expected:02x}, got {got:02x}")
        }
        Mismatch::Short(expected, got) => format!("expected {expected} bytes or more, got {got}"),
        Mismatch::Long(expected, got) => {
            format!("expected the packet to end after {expected} bytes, got {got}")
        }
    }
}

/// Bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
