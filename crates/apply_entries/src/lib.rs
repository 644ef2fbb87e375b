//! Crate `apply_entries`: applies checked entries files to a device.
//!
//! **In:** [`entries::Update`]s and [`EntriesFile`]s, which are checked against the program of a
//! [`Device`]. **Out:** the changed device, or an [`ApplyError`] with the refused statements and
//! their positions. **May import:** `switch`, `entries`, `packet`, `ir`, `support`.
//!
//! `entries` does not know devices, and `switch` does not know text files. This crate is above both
//! and below all that need it: STF tests (`stf`), running switches (`runtime`), and tests.
//!
//! Invariants:
//! - Updates are applied in file order, and a refused update changes nothing.
//! - Nothing is printed, and no file is read.
//! - A thread exists only within [`apply_parts`]: it reads the text of a large file while the
//!   device takes entries.
//!
//! Tests: `tests/parts.rs`, the fuzz target for entries files of `testkit`, the STF tests, and
//! `runtime`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use entries::{EntriesFile, EntryAction, EntryError, FilePart, Statement, TableEntry, Update};
use ir::TableId;
use packet::{Nanos, PortId};
use support::count::are_of;
use support::work;
use switch::{
    Action, Change, CloneSession, ControlError, CounterReading, Device, EntryId, MeterConfig,
    PriorityQueueConfig, QueueConfig, Replica, UndoSteps,
};

/// Applies an update to the device. Returns the id of the entry that it adds, if it adds one.
///
/// # Errors
/// The device refuses the change: the table is full, the entry exists, or a member is missing.
pub fn apply(device: &mut Device, update: &Update) -> Result<Option<EntryId>, ControlError> {
    let change = change(device, update);
    device.apply(change)
}

/// Applies settings ([`Update::is_setting`]): all or none. Settings of queues act on packets at
/// once, so they come last.
///
/// # Errors
/// The device refuses a setting. It is as it was.
pub fn apply_settings(device: &mut Device, settings: &[Update]) -> Result<(), ControlError> {
    let is_queue = |update: &&Update| matches!(update, Update::Queue(_));
    let first = settings.iter().filter(|update| !is_queue(update));
    let last = settings.iter().filter(is_queue);
    let mut undo = UndoSteps::default();
    for update in first.chain(last) {
        let change = change(device, update);
        if let Err(error) = device.apply_with_undo(change, &mut undo) {
            device.take_back(undo);
            return Err(error);
        }
    }
    Ok(())
}

/// Maximum number of errors of one file that are reported in full.
const MAX_ERRORS: usize = 20;

/// Error: statements of an entries file that the device refused. The other statements are in
/// force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyError {
    /// The errors of the first refused statements, at most 20.
    pub errors: Vec<EntryError>,
    /// Number of refused statements.
    pub refused: usize,
    /// Number of statements in the file.
    pub statements: usize,
    file: String,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for error in &self.errors {
            writeln!(f, "{error}")?;
        }
        let (file, refused) = (&self.file, self.refused);
        let are = are_of(refused as u64, self.statements as u64, "statement");
        write!(f, "{file}: {are} refused")?;
        match self.errors.len() {
            told if told < refused => write!(f, "; the first {told} are shown"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ApplyError {}

/// Error: a text of entries has errors, or the device refuses some of its statements. The device
/// may have a part of the entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyTextError {
    /// Errors in the text.
    Text(Vec<EntryError>),
    /// The device refused some of the statements.
    Refused(ApplyError),
}

/// Applies all updates of a file, in file order.
///
/// # Errors
/// The statements that the device refuses, each with its position in the file. The other
/// statements are applied: a caller that wants all or none must discard the device.
pub fn apply_file(device: &mut Device, file: &EntriesFile<'_>) -> Result<(), ApplyError> {
    let mut applied = AppliedStatements::new(file.name());
    for (update, statement) in file.statements() {
        let change = change(device, update);
        applied.apply(device, change, statement);
    }
    applied.finish()
}

/// Applies the text of an entries file, in file order. `name` is the name of the file in errors.
///
/// # Errors
/// As [`apply_parts`].
pub fn apply_text(device: &mut Device, name: &str, text: &str) -> Result<(), ApplyTextError> {
    let mut rest = text;
    let mut parts = || {
        let end = rest.floor_char_boundary(PART);
        let line_end = rest[end..].find('\n');
        let end = line_end.map_or(rest.len(), |at| end + at + 1);
        let (part, after) = rest.split_at(end);
        rest = after;
        (!part.is_empty()).then(|| part.to_owned())
    };
    apply_parts(device, name, &mut parts)
}

/// Number of bytes of a text that are read before they are applied.
const PART: usize = 1 << 20;

/// Applies an entries file of which `parts` gives the text: parts of whole lines, and then `None`.
/// Statements are applied while later ones are read, so that neither the text nor the updates of a
/// large file are in memory as a whole. A file of several parts is read by a thread of its own.
/// `name` is the name of the file in errors.
///
/// # Errors
/// The errors of the text, or else the statements that the device refuses. The device may have a
/// part of the entries: a caller that wants all or none must discard the device.
pub fn apply_parts(
    device: &mut Device,
    name: &str,
    parts: &mut (dyn FnMut() -> Option<String> + Send),
) -> Result<(), ApplyTextError> {
    let program = Arc::clone(device.program());
    let mut applied = AppliedStatements::new(name);
    let mut apply = |part: FilePart| {
        part.each(|update, statement| {
            let change = owned_change(device, update);
            applied.apply(device, change, statement);
        });
    };
    let (first, second) = (parts(), parts());
    let is_small = second.is_none();
    let mut begin = first.into_iter().chain(second);
    let mut parts = || begin.next().or_else(&mut *parts);
    let read = match is_small {
        true => entries::read_parts(&program, name, &mut parts, &mut apply),
        false => std::thread::scope(|scope| {
            let (send, receive) = sync_channel(PARTS_AHEAD);
            // A bounded computation bounds this part, too.
            let bounds = work::current();
            let reader = scope.spawn(|| {
                let send = send;
                // The receiver ends early only if the thread that applies parts unwinds.
                let is_over = Cell::new(false);
                let mut parts = || {
                    work::checkpoint();
                    if is_over.get() { None } else { parts() }
                };
                let mut read = || {
                    entries::read_parts(&program, name, &mut parts, &mut |part| {
                        is_over.set(send.send(part).is_err());
                    })
                };
                match bounds {
                    Some(bounds) => bounds.run(read),
                    None => Ok(read()),
                }
            });
            receive.into_iter().for_each(apply);
            let read = reader.join().unwrap_or_else(|panic| resume_unwind(panic));
            // As a checkpoint of this thread does.
            read.unwrap_or_else(|interrupt| resume_unwind(Box::new(interrupt)))
        }),
    };
    read.map_err(ApplyTextError::Text)?;
    applied.finish().map_err(ApplyTextError::Refused)
}

/// Maximum number of parts of a file that were read and not applied yet.
const PARTS_AHEAD: usize = 4;

/// Statements of a file that were applied to a device, and the errors of those that were refused.
struct AppliedStatements<'f> {
    name: &'f str,
    statements: usize,
    refused: usize,
    errors: Vec<EntryError>,
    added: BTreeMap<TableId, AddedEntries>,
}

/// Entries that statements of a file added to a table.
struct AddedEntries {
    first: EntryId,
    /// For each id from the first on, the line of its statement. A table numbers its entries
    /// without gaps, so that a large file needs four bytes for each.
    lines: Vec<u32>,
}

impl AddedEntries {
    fn add(&mut self, id: EntryId, line: u32) {
        if let Some(at) = self.position(id) {
            self.lines.resize(at, line);
            self.lines.push(line);
        }
    }

    fn position(&self, id: EntryId) -> Option<usize> {
        usize::try_from(id.0.checked_sub(self.first.0)?).ok()
    }
}

impl<'f> AppliedStatements<'f> {
    fn new(name: &'f str) -> Self {
        AppliedStatements {
            name,
            statements: 0,
            refused: 0,
            errors: Vec::new(),
            added: BTreeMap::new(),
        }
    }

    fn apply(&mut self, device: &mut Device, change: Change, statement: Statement<'_>) {
        self.statements += 1;
        let table = match change {
            Change::Insert(table, _) => Some(table),
            _ => None,
        };
        match (table, device.apply(change)) {
            (Some(table), Ok(Some(entry))) => {
                let added = self.added.entry(table).or_insert_with(|| AddedEntries {
                    first: entry,
                    lines: Vec::new(),
                });
                added.add(entry, statement.line);
            }
            (_, Ok(_)) => {}
            (_, Err(error)) => {
                self.refused += 1;
                if self.errors.len() < MAX_ERRORS {
                    let first = self.first_of(table, &error);
                    self.errors.push(EntryError {
                        hint: first.map(|line| format!("line {line} adds it")),
                        ..statement.error(self.name, error.message)
                    });
                }
            }
        }
    }

    /// Returns the line of the same file that added the entry that already exists.
    fn first_of(&self, table: Option<TableId>, error: &ControlError) -> Option<u32> {
        let added = self.added.get(&table?)?;
        added.lines.get(added.position(error.existing?)?).copied()
    }

    fn finish(self) -> Result<(), ApplyError> {
        if self.refused == 0 {
            return Ok(());
        }
        Err(ApplyError {
            errors: self.errors,
            refused: self.refused,
            statements: self.statements,
            file: self.name.to_string(),
        })
    }
}

/// Converts an update to a change. The parts of an entry are moved.
fn owned_change(device: &Device, update: Update) -> Change {
    match update {
        Update::Insert(table, entry) => Change::Insert(table, table_entry(entry)),
        other => change(device, &other),
    }
}

fn change(device: &Device, update: &Update) -> Change {
    match update {
        Update::Insert(table, entry) => Change::Insert(*table, table_entry(entry.clone())),
        Update::SetDefault(table, call) => Change::SetDefault(*table, call.clone()),
        Update::Member {
            profile,
            id,
            action,
            args,
        } => Change::SetMember {
            profile: *profile,
            id: *id,
            action: *action,
            args: args.clone(),
        },
        Update::Group {
            profile,
            id,
            members,
            ..
        } => Change::SetGroup {
            profile: *profile,
            id: *id,
            members: members.iter().map(|m| (m.member, m.weight)).collect(),
        },
        Update::Multicast { id, replicas: all } => Change::SetMulticast(*id, replicas(all)),
        Update::Clone(session) => Change::SetCloneSession(
            session.id,
            CloneSession {
                replicas: replicas(&session.replicas),
                group: None,
                truncate: session.truncate,
                class_of_service: session.class_of_service,
            },
        ),
        Update::Register {
            register,
            index,
            values,
        } => Change::WriteRegister(*register, *index, values.clone()),
        Update::Meter {
            meter,
            index,
            config,
        } => Change::SetMeter(*meter, *index, meter_config(config)),
        Update::Counter {
            counter,
            index,
            value,
        } => Change::WriteCounter(*counter, Some(*index), reading(value)),
        Update::ExpireProfile {
            profile,
            timeout_ns,
        } => Change::SetExpireProfile(*profile, timeout_ns.map(Nanos)),
        Update::Queue(queue) => {
            let first = QueueConfig::default();
            let port = PortId(queue.port);
            let mut config = device.queue(port);
            match queue.priority {
                Some(priority) => {
                    if let Some(own) = config.priorities.get_mut(usize::from(priority)) {
                        *own = PriorityQueueConfig {
                            depth: queue.depth.and_then(NonZeroU32::new),
                            bits_per_second: queue.bits_per_second.and_then(NonZeroU64::new),
                            packets_per_second: queue.packets_per_second.and_then(NonZeroU64::new),
                        };
                    }
                }
                None => {
                    config = QueueConfig {
                        depth: queue.depth.map_or(first.depth, |depth| depth as usize),
                        bits_per_second: queue.bits_per_second,
                        packets_per_second: queue.packets_per_second,
                        priorities: config.priorities,
                    }
                }
            }
            Change::SetQueue(port, config)
        }
        Update::HashCrc { bits, crc } => {
            let mut parameters = (*device.configuration().hash).clone();
            let own = match bits {
                16 => &mut parameters.crc16,
                _ => &mut parameters.crc32,
            };
            own.polynomial = crc.polynomial.unwrap_or(own.polynomial);
            own.initial = crc.initial.unwrap_or(own.initial);
            own.final_xor = crc.final_xor.unwrap_or(own.final_xor);
            own.reflect_in = crc.reflect_in.unwrap_or(own.reflect_in);
            own.reflect_out = crc.reflect_out.unwrap_or(own.reflect_out);
            Change::SetHashParameters(parameters)
        }
        Update::HashKey(key) => {
            let mut parameters = (*device.configuration().hash).clone();
            parameters.toeplitz_key.clone_from(key);
            Change::SetHashParameters(parameters)
        }
        Update::HashSeed(seed) => {
            let mut parameters = (*device.configuration().hash).clone();
            parameters.seed = *seed;
            Change::SetHashParameters(parameters)
        }
        Update::HostPorts(ports) => Change::SetHostPorts(ports.clone()),
        Update::ValueSet { value_set, members } => {
            let members = members.iter().map(|member| member.fields.clone());
            Change::SetValueSet(*value_set, members.collect())
        }
    }
}

fn table_entry(entry: TableEntry) -> switch::TableEntry {
    switch::TableEntry {
        keys: entry.keys,
        priority: entry.priority,
        action: match entry.action {
            EntryAction::Call(call) => Action::Call(call),
            EntryAction::Member(member) => Action::Member(member),
            EntryAction::Group(group) => Action::Group(group),
            EntryAction::OneShot(actions) => Action::OneShot(actions),
        },
        idle_timeout: entry.idle_timeout_ns.map(Nanos),
        meter: entry.meter.as_ref().map(meter_config),
        counter: entry.counter.as_ref().map(reading),
    }
}

/// Converts the replicas of a multicast group or clone session.
pub fn replicas(all: &[entries::Replica]) -> Vec<Replica> {
    let copy = |replica: &entries::Replica| Replica {
        port: PortId(replica.port),
        instance: replica.instance,
    };
    all.iter().map(copy).collect()
}

fn meter_config(config: &entries::MeterConfig) -> MeterConfig {
    match config.eburst {
        None => MeterConfig::TwoRate {
            cir: config.cir,
            cburst: config.cburst,
            pir: config.pir,
            pburst: config.pburst,
        },
        Some(eburst) => MeterConfig::SingleRate {
            cir: config.cir,
            cburst: config.cburst,
            eburst,
        },
    }
}

fn reading(value: &entries::CounterValue) -> CounterReading {
    CounterReading {
        packets: value.packets,
        bytes: value.bytes,
    }
}
