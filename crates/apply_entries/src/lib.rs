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
//!
//! Tests: the fuzz target for entries files of `testkit`, the STF tests, and `runtime`.

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use entries::{EntriesFile, EntryAction, EntryError, StatementPlace, TableEntry, Update};
use ir::TableId;
use packet::{Nanos, PortId};
use support::count::are_of;
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
    let mut applied = AppliedStatements::new(file.name(), file.text());
    for (update, place) in file.placed() {
        applied.apply(device, update, place);
    }
    applied.finish()
}

/// Applies the text of an entries file, in file order. Each statement is applied when it is read,
/// so that a large file needs no memory for its updates. `name` is the name of the file in errors.
///
/// # Errors
/// The errors of the text, or else the statements that the device refuses. The device may have a
/// part of the entries: a caller that wants all or none must discard the device.
pub fn apply_text(device: &mut Device, name: &str, text: &str) -> Result<(), ApplyTextError> {
    let program = Arc::clone(device.program());
    let mut applied = AppliedStatements::new(name, text);
    let read = entries::read_each(&program, name, text, &mut |update, place| {
        applied.apply(device, &update, place);
    });
    read.map_err(ApplyTextError::Text)?;
    applied.finish().map_err(ApplyTextError::Refused)
}

/// Statements of a file that were applied to a device, and the errors of those that were refused.
struct AppliedStatements<'f> {
    name: &'f str,
    text: &'f str,
    statements: usize,
    refused: usize,
    errors: Vec<EntryError>,
    /// By table, the entries that were added, in ascending order of their ids.
    added: BTreeMap<TableId, Vec<(EntryId, StatementPlace)>>,
}

impl<'f> AppliedStatements<'f> {
    fn new(name: &'f str, text: &'f str) -> Self {
        AppliedStatements {
            name,
            text,
            statements: 0,
            refused: 0,
            errors: Vec::new(),
            added: BTreeMap::new(),
        }
    }

    fn apply(&mut self, device: &mut Device, update: &Update, place: StatementPlace) {
        self.statements += 1;
        match (update, apply(device, update)) {
            (Update::Insert(table, _), Ok(Some(entry))) => {
                self.added.entry(*table).or_default().push((entry, place));
            }
            (_, Ok(_)) => {}
            (_, Err(error)) => {
                self.refused += 1;
                if self.errors.len() < MAX_ERRORS {
                    let first = self.first_of(update, &error);
                    self.errors.push(EntryError {
                        hint: first.map(|at| format!("line {} adds it", at.line(self.text))),
                        ..place.error(self.name, self.text, error.message)
                    });
                }
            }
        }
    }

    /// Returns the statement of the same file that added the entry that already exists.
    fn first_of(&self, update: &Update, error: &ControlError) -> Option<StatementPlace> {
        let Update::Insert(table, _) = update else {
            return None;
        };
        let (added, existing) = (self.added.get(table)?, error.existing?);
        let at = added.binary_search_by_key(&existing, |(entry, _)| *entry);
        Some(added[at.ok()?].1)
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

fn change(device: &Device, update: &Update) -> Change {
    match update {
        Update::Insert(table, entry) => Change::Insert(*table, table_entry(entry)),
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

fn table_entry(entry: &TableEntry) -> switch::TableEntry {
    switch::TableEntry {
        keys: entry.keys.clone(),
        priority: entry.priority,
        action: match &entry.action {
            EntryAction::Call(call) => Action::Call(call.clone()),
            EntryAction::Member(member) => Action::Member(*member),
            EntryAction::Group(group) => Action::Group(*group),
            EntryAction::OneShot(actions) => Action::OneShot(actions.clone()),
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
