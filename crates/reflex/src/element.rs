//! Elements: switches that apply the writes of a reflex plane.

use std::collections::{HashMap, HashSet};
use std::fmt;

use bits::value::Value;
use consensus::{Admission, ElementChange, Fence, Key, LogIndex, Term};
use exec::ExternState;
use ir::{
    ActionCall, CounterUnit, ExternId, ExternKind, KeyMatch, MatchKind, Program, ScalarTy, TableId,
};
use packet::{Nanos, PortId};
use switch::{Action, Change, ControlCode, ControlError, Device, EntryId, QueueConfig, TableEntry};
use table::{FieldMatch, MeterConfig};

use crate::loops::{ChangeSpec, ElementIndex, EntrySpec, KeyPart, Loops, ReflexIndex, ReflexSpec};
use crate::write::{ElementWrite, EntryKey, Setting, WritePlace};

/// Result of a write at an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// The device has it, or had it before.
    Applied,
    /// The device refused it.
    Refused,
    /// It is no write of this element.
    Unknown,
}

/// Answer of an element to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementAnswer {
    /// It has all changes up to this index, and did this with the last one.
    Has(LogIndex, WriteResult),
    /// It saw a leader of this later term, and did nothing.
    OldTerm(Term),
    /// It may have lost changes: it gets all of the store's again.
    Restarted,
}

impl ElementAnswer {
    /// Returns the answer to a change by what the guard decided, and the result of the last change
    /// that it let through.
    pub(crate) fn of(
        admission: Admission,
        change: &ElementChange,
        last: WriteResult,
    ) -> ElementAnswer {
        match admission {
            Admission::Apply => ElementAnswer::Has(change.index, last),
            Admission::Repeat(has) | Admission::Gap(has) => ElementAnswer::Has(has, last),
            Admission::OldTerm(newer) => ElementAnswer::OldTerm(newer),
        }
    }
}

/// A table that a permission of the loop file cannot be used on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindError {
    /// Name of the permission.
    pub reflex: String,
    /// The reason.
    pub reason: BindReason,
}

/// Reason of a [`BindError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindReason {
    /// The program has no such table; its tables, as far as they are known.
    NoTable(String, Vec<String>),
    /// The control plane may add no entries to the table.
    Const(String),
    /// A key of the table is neither exact nor a prefix of the destination.
    NotExact(String),
    /// Prefixes are given, and this key is exact.
    NoPrefix(String),
    /// The program has no meter of bytes with this name.
    NoMeter(String),
    /// The program has no register of this name with one number in a cell.
    NoRegister(String),
    /// The meter or register has only this number of cells.
    NoCell(String, u32),
    /// The table has this number of keys, and the permission another one.
    Keys(String, usize),
    /// A key has this width, and the field of a flow another one.
    Width(String, u32),
    /// A key has a name of one direction of a flow, and gets this field of the other one.
    Order(String, KeyPart),
    /// The table has no such action; its actions, as far as they are known.
    NoAction(String, Vec<String>),
    /// The table has no direct meter of bytes.
    NoDirectMeter(String),
    /// The action has not one parameter, and ports are given.
    Parameters(String),
    /// The action has parameters, and no ports are given.
    NoPorts(String),
    /// A port does not fit the action's parameter.
    Port(u32),
    /// The element is a P4Runtime server, and the change is no plain entry of a table.
    NotByP4Runtime,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reflex \"{}\": ", self.reflex)?;
        match &self.reason {
            BindReason::NoTable(table, known) => {
                write!(
                    f,
                    "the element's program has no table {table}; `polyplane p4info` lists its \
                     tables"
                )?;
                write_known(f, known)
            }
            BindReason::NotByP4Runtime => f.write_str(
                "P4Runtime servers get entries of tables only, without `replace` and meters; \
                 change a table, or a switch of the topology",
            ),
            BindReason::Const(table) => {
                write!(f, "entries of {table} are const; name another table")
            }
            BindReason::NotExact(key) => write!(
                f,
                "key {key} is not exact; loops write exact keys, and prefixes of ip.dst"
            ),
            BindReason::NoPrefix(key) => {
                write!(f, "key {key} is exact; `prefixes` needs a table with lpm")
            }
            BindReason::NoMeter(meter) => write!(
                f,
                "the element's program has no meter of bytes {meter}; `polyplane p4info` lists its \
                 meters"
            ),
            BindReason::NoRegister(register) => write!(
                f,
                "the element's program has no register {register} of numbers; `polyplane p4info` \
                 lists its registers"
            ),
            BindReason::NoCell(name, size) => {
                write!(f, "{name} has {size} cells, from 0; name one of them")
            }
            BindReason::Keys(table, count) => {
                write!(f, "{table} has {count} keys; give `key` one field for each")
            }
            BindReason::Width(key, width) => {
                write!(
                    f,
                    "key {key} has {width} bits, and its field of a flow has not; `key` lists the \
                     fields in the order of the table's keys"
                )
            }
            BindReason::Order(key, part) => {
                write!(
                    f,
                    "key {key} would get {}; list the fields of `key` in the order of the table's \
                     keys",
                    part.name()
                )
            }
            BindReason::NoAction(action, known) => {
                write!(
                    f,
                    "the table has no action {action}; name one of its actions"
                )?;
                write_known(f, known)
            }
            BindReason::NoDirectMeter(table) => {
                write!(
                    f,
                    "{table} has no direct meter of bytes, which `meter_rate` sets"
                )
            }
            BindReason::Parameters(action) => {
                write!(f, "action {action} has not one parameter, the port")
            }
            BindReason::NoPorts(action) => {
                write!(
                    f,
                    "action {action} has a parameter; list its values as `ports`"
                )
            }
            BindReason::Port(port) => {
                write!(f, "port {port} is too large for the action's parameter")
            }
        }
    }
}

impl std::error::Error for BindError {}

/// Object of an element that a permission changes.
#[derive(Clone, Debug)]
enum Managed {
    Table(ManagedTable),
    /// A meter of bytes, with the size of its burst.
    Meter(ExternId, u64),
    /// A register, with the width of its cells.
    Register(ExternId, u32),
    /// The queue of a port.
    Queue(PortId),
}

/// A managed table of an element.
#[derive(Clone, Debug)]
struct ManagedTable {
    table: TableId,
    /// Widths of the keys, and whether they are prefixes.
    keys: Vec<(u32, bool)>,
    /// Keys of the table with the fields that they get, in words.
    pairs: String,
    /// Place of the action in the table's list.
    action: usize,
    /// Width of the action's parameter, if it has one.
    port_width: Option<u32>,
    /// Entries of other owners may be replaced.
    replace: bool,
    /// Rates of the direct meter of its entries.
    meter: Option<MeterConfig>,
    /// Metadata of its entries: the permission's name.
    owner: Box<[u8]>,
}

/// Content of an entry before a loop replaced it. The match finds it when its device was started
/// again, since entries have other numbers then.
#[derive(Clone, Debug)]
struct FormerContent {
    matches: Vec<FieldMatch>,
    action: Action,
    timeout: Option<Nanos>,
    metadata: Box<[u8]>,
    /// Metadata that the loop gave it.
    owner: Box<[u8]>,
}

/// [`FormerContent`] of an entry; few entries have it.
type FormerEntry = Box<FormerContent>;

/// Way to restore a place.
#[derive(Clone, Debug)]
enum Installed {
    /// Removes an entry.
    Entry(TableId, EntryId),
    /// Gives an entry its former action, time-out and metadata.
    Replaced(TableId, EntryId, FormerEntry),
    /// Gives a meter its former rates.
    Meter(ExternId, u32, Option<MeterConfig>),
    /// Gives a cell its former value.
    Register(ExternId, u32, Vec<Value>),
    /// Gives a queue its former depth.
    Queue(PortId, usize),
}

/// Counts of an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ElementCounts {
    /// Writes that the device took.
    pub applied: u64,
    /// Writes that the device refused.
    pub refused: u64,
    /// Commands that were repeated.
    pub repeated: u64,
    /// Commands that came before an earlier one.
    pub early: u64,
    /// Commands of leaders of old terms.
    pub old_term: u64,
    /// Commands that are no write of this element.
    pub unknown: u64,
    /// Entries that the store did not have, and that were removed.
    pub removed: u64,
}

impl ElementCounts {
    /// Counts what the guard did not let through.
    pub(crate) fn count(&mut self, admission: Admission) {
        match admission {
            Admission::Apply => {}
            Admission::Repeat(_) => self.repeated += 1,
            Admission::Gap(_) => self.early += 1,
            Admission::OldTerm(_) => self.old_term += 1,
        }
    }
}

/// Guard and translator in front of a device: takes commands in order, once, from the newest
/// leader.
pub struct ManagedElement {
    fence: Fence,
    /// By permission; `None` for those of other elements.
    managed: Vec<Option<Managed>>,
    /// Keys of tables with the fields that they get, in words, by permission.
    keys: Vec<String>,
    /// Places with what loops wrote, by their names in the store.
    installed: HashMap<Key, Installed>,
    /// Content of entries before loops replaced them, when their device was started again.
    former: HashMap<Key, (TableId, FormerEntry)>,
    counts: ElementCounts,
    /// Result of the last change that was let through.
    last_result: WriteResult,
    last_refusal: Option<ControlError>,
}

impl ManagedElement {
    /// Creates the guard of an element that runs this program.
    ///
    /// # Errors
    /// The program lacks a table or an action of a permission, or has another form of them.
    pub fn new(
        loops: &Loops,
        element: ElementIndex,
        program: &Program,
    ) -> Result<ManagedElement, BindError> {
        let managed = loops.reflexes.iter().map(|reflex| {
            let is_own = reflex.element == element;
            is_own.then(|| bind(reflex, program)).transpose()
        });
        let managed = managed.collect::<Result<Vec<_>, _>>()?;
        let named = loops.reflexes.iter().zip(&managed);
        let keys = named.filter_map(|(reflex, managed)| match managed {
            Some(Managed::Table(table)) => Some(format!("{}: {}", reflex.name, table.pairs)),
            _ => None,
        });
        Ok(ManagedElement {
            fence: Fence::default(),
            keys: keys.collect(),
            managed,
            installed: HashMap::new(),
            former: HashMap::new(),
            counts: ElementCounts::default(),
            last_result: WriteResult::Applied,
            last_refusal: None,
        })
    }

    /// Takes a command of the leader of a term. What the device refuses counts as applied: the
    /// changes after it must not wait.
    pub fn take(
        &mut self,
        device: &mut Device,
        term: Term,
        change: &ElementChange,
    ) -> ElementAnswer {
        let admission = self.fence.admit(term, change.previous, change.index);
        self.counts.count(admission);
        if admission == Admission::Apply {
            self.last_result = match self.apply(device, change) {
                Ok(result) => result,
                Err(error) => {
                    self.counts.refused += 1;
                    self.last_refusal = Some(error);
                    WriteResult::Refused
                }
            };
        }
        ElementAnswer::of(admission, change, self.last_result)
    }

    /// Takes the notice that the device was started again: with its tables if they are kept. It
    /// gets all changes again.
    pub fn restart(&mut self, keeps_tables: bool) {
        self.fence = Fence::default();
        self.last_result = WriteResult::Applied;
        if !keeps_tables {
            self.former.clear();
            self.installed.clear();
            return;
        }
        // Entries have other numbers.
        let entries = self.installed.extract_if(|_, installed| {
            matches!(installed, Installed::Entry(..) | Installed::Replaced(..))
        });
        let former = entries.filter_map(|(key, installed)| match installed {
            Installed::Replaced(table, _, former) => Some((key, (table, former))),
            _ => None,
        });
        // Those of an earlier start that the store did not give again yet stay.
        self.former.extend(former);
    }

    /// Removes the entries of loops that the store does not have, after the device has all of its
    /// changes. Those that loops had replaced get their former content.
    pub fn remove_others(&mut self, device: &mut Device) {
        let entry_of = |installed: &Installed| match installed {
            Installed::Entry(table, entry) | Installed::Replaced(table, entry, _) => {
                Some((*table, *entry))
            }
            _ => None,
        };
        let known: HashSet<(TableId, EntryId)> =
            self.installed.values().filter_map(entry_of).collect();
        let mut others = Vec::new();
        for managed in self.managed.iter().flatten() {
            let Managed::Table(managed) = managed else {
                continue;
            };
            let entries = device.configuration().tables[managed.table].iter();
            let own = entries.filter(|entry| entry.metadata == managed.owner);
            let own = own.map(|entry| (managed.table, entry.id));
            others.extend(own.filter(|entry| !known.contains(entry)));
        }
        let former = std::mem::take(&mut self.former).into_values();
        let mut former: HashMap<(TableId, EntryId), FormerEntry> = former
            .filter_map(|(table, former)| Some(((table, kept(device, table, &former)?), former)))
            .collect();
        for (table, entry) in others {
            let installed = match former.remove(&(table, entry)) {
                Some(former) => Installed::Replaced(table, entry, former),
                None => Installed::Entry(table, entry),
            };
            match restore(device, installed) {
                Ok(()) => self.counts.removed += 1,
                Err(error) => self.last_refusal = Some(error),
            }
        }
        device.publish();
    }

    fn apply(
        &mut self,
        device: &mut Device,
        change: &ElementChange,
    ) -> Result<WriteResult, ControlError> {
        let Some(bytes) = &change.change else {
            if let Some(installed) = self.installed.remove(&change.key) {
                restore(device, installed)?;
                self.counts.applied += 1;
                device.publish();
            } else if let Some((table, former)) = self.former.get(&change.key)
                && let Some(entry) = kept(device, *table, former)
            {
                let installed = Installed::Replaced(*table, entry, former.clone());
                restore(device, installed)?;
                self.former.remove(&change.key);
                self.counts.applied += 1;
                device.publish();
            }
            return Ok(WriteResult::Applied);
        };
        let write = ElementWrite::decode(bytes.get());
        let managed = write.and_then(|write| {
            let ReflexIndex(reflex) = write.reflex;
            Some((write, self.managed.get(reflex)?.as_ref()?))
        });
        let Some((write, managed)) = managed else {
            self.counts.unknown += 1;
            return Ok(WriteResult::Unknown);
        };
        let before = self.installed.get(&change.key);
        let written = match (managed, write.place, write.setting) {
            (Managed::Table(table), WritePlace::Entry(key), Some(Setting::Action(argument))) => {
                let former = self.former.get(&change.key);
                let former = former.map(|(_, former)| former);
                let written = write_entry(device, table, &key, argument, (before, former))?;
                if written.is_some() {
                    self.former.remove(&change.key);
                }
                written
            }
            (Managed::Meter(meter, burst), WritePlace::Cell(cell), Some(Setting::Rate(rate))) => {
                Some(write_meter(device, (*meter, cell), (rate, *burst), before)?)
            }
            (
                Managed::Register(register, width),
                WritePlace::Cell(cell),
                Some(Setting::Value(value)),
            ) => {
                let value = Value::truncated(value.into(), *width);
                Some(write_register(device, (*register, cell), value, before)?)
            }
            (Managed::Queue(port), WritePlace::Cell(_), Some(Setting::Value(depth))) => {
                let former = match before {
                    Some(Installed::Queue(_, former)) => *former,
                    _ => device.queue(*port).depth,
                };
                set_depth(device, *port, usize::try_from(depth).unwrap_or(usize::MAX))?;
                Some(Installed::Queue(*port, former))
            }
            _ => None,
        };
        let Some(installed) = written else {
            self.counts.unknown += 1;
            return Ok(WriteResult::Unknown);
        };
        self.installed.insert(change.key, installed);
        self.counts.applied += 1;
        device.publish();
        Ok(WriteResult::Applied)
    }

    /// Returns the keys of each permission's table with the fields that they get, in words.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Returns the counts.
    pub fn counts(&self) -> ElementCounts {
        self.counts
    }

    /// Returns the device's last refusal.
    pub fn last_refusal(&self) -> Option<&ControlError> {
        self.last_refusal.as_ref()
    }
}

/// Gives a place what it had before loops wrote there.
fn restore(device: &mut Device, installed: Installed) -> Result<(), ControlError> {
    match installed {
        Installed::Entry(table, entry) => {
            device.apply(Change::Delete(table, entry))?;
        }
        Installed::Replaced(table, entry, former) => {
            let FormerContent {
                action,
                timeout,
                metadata,
                ..
            } = *former;
            device.apply(Change::Modify(table, entry, action, timeout))?;
            device.apply(Change::SetMetadata(table, entry, metadata))?;
        }
        Installed::Meter(meter, cell, Some(config)) => {
            device.apply(Change::SetMeter(meter, Some(cell), config))?;
        }
        Installed::Meter(meter, cell, None) => {
            device.apply(Change::ResetMeter(meter, Some(cell)))?;
        }
        Installed::Queue(port, depth) => set_depth(device, port, depth)?,
        Installed::Register(register, cell, values) => {
            device.apply(Change::WriteRegister(register, Some(cell), values))?;
        }
    }
    Ok(())
}

/// Returns the entry that a loop had replaced, of a device that was started again and kept it.
fn kept(device: &Device, table: TableId, former: &FormerContent) -> Option<EntryId> {
    let entry = device.configuration().tables[table].find(&former.matches, None)?;
    (entry.metadata == former.owner).then_some(entry.id)
}

/// Writes an entry. `None` if its keys are not those of the table.
fn write_entry(
    device: &mut Device,
    managed: &ManagedTable,
    key: &EntryKey,
    argument: Option<u32>,
    (before, former): (Option<&Installed>, Option<&FormerEntry>),
) -> Result<Option<Installed>, ControlError> {
    let parts = key.parts();
    let fits = parts.len() == managed.keys.len()
        && parts
            .iter()
            .zip(&managed.keys)
            .all(|(part, (width, is_prefix))| {
                part.get().len() * 8 == *width as usize && (*is_prefix || part.prefix() == *width)
            });
    let args = match (argument, managed.port_width) {
        (Some(argument), Some(width)) => vec![Value::truncated(argument.into(), width)],
        (None, None) => Vec::new(),
        _ => return Ok(None),
    };
    if !fits {
        return Ok(None);
    }
    let action = Action::Call(ActionCall {
        action: managed.action,
        args,
    });
    let known = match before {
        Some(Installed::Entry(table, entry)) => Some((*table, *entry, None)),
        Some(Installed::Replaced(table, entry, former)) => Some((*table, *entry, former.timeout)),
        _ => None,
    };
    if let Some((table, entry, timeout)) = known {
        match device.apply(Change::Modify(table, entry, action.clone(), timeout)) {
            Ok(_) => return Ok(before.cloned()),
            // An operator deleted it: it is written as a new one.
            Err(error) if error.code == ControlCode::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let values = parts
        .iter()
        .zip(&managed.keys)
        .map(|(part, (width, is_prefix))| {
            let number = part.get().iter();
            let number = number.fold(0, |sum: u128, byte| sum << 8 | u128::from(*byte));
            (
                Value::truncated(number, *width),
                is_prefix.then(|| part.prefix()),
            )
        });
    let table = managed.table;
    let matches = values.clone().map(|(value, prefix)| match prefix {
        Some(prefix_len) => FieldMatch::Lpm { value, prefix_len },
        None => FieldMatch::Exact(value),
    });
    let matches: Vec<FieldMatch> = matches.collect();
    let found = device.configuration().tables[table].find(&matches, None);
    if let Some(entry) = found.as_ref().filter(|it| it.metadata == managed.owner) {
        // A device that was started again kept it.
        let timeout = former.and_then(|former| former.timeout);
        device.apply(Change::Modify(table, entry.id, action, timeout))?;
        return Ok(Some(match former {
            Some(former) => Installed::Replaced(table, entry.id, former.clone()),
            None => Installed::Entry(table, entry.id),
        }));
    }
    if let Some(entry) = found.filter(|_| managed.replace)
        && let Some(former) = device.written(table, &entry)
    {
        let former = FormerContent {
            matches,
            action: former.action,
            timeout: former.idle_timeout,
            metadata: entry.metadata.clone(),
            owner: managed.owner.clone(),
        };
        device.apply(Change::Modify(table, entry.id, action, former.timeout))?;
        device.apply(Change::SetMetadata(table, entry.id, managed.owner.clone()))?;
        let former = Box::new(former);
        return Ok(Some(Installed::Replaced(table, entry.id, former)));
    }
    let keys = values.map(|(value, prefix)| match prefix {
        Some(prefix) => KeyMatch::Lpm(value, prefix),
        None => KeyMatch::Exact(value),
    });
    let entry = TableEntry {
        keys: keys.collect(),
        priority: None,
        action,
        idle_timeout: None,
        meter: managed.meter,
        counter: None,
    };
    let added = device.apply(Change::Insert(table, entry))?;
    let Some(entry) = added else {
        return Ok(None);
    };
    device.apply(Change::SetMetadata(table, entry, managed.owner.clone()))?;
    Ok(Some(Installed::Entry(table, entry)))
}

/// Sets a meter's rate and burst: packets above it are red.
fn write_meter(
    device: &mut Device,
    (meter, cell): (ExternId, u32),
    (rate, burst): (u64, u64),
    before: Option<&Installed>,
) -> Result<Installed, ControlError> {
    let former = match before {
        Some(Installed::Meter(_, _, former)) => *former,
        _ => match &device.configuration().cells[meter] {
            ExternState::Meter(meters) => meters.config(cell.into()),
            _ => None,
        },
    };
    let config = meter_config(rate, burst);
    device.apply(Change::SetMeter(meter, Some(cell), config))?;
    Ok(Installed::Meter(meter, cell, former))
}

/// Returns a meter of two colours, green and red.
fn meter_config(rate: u64, burst: u64) -> MeterConfig {
    MeterConfig::SingleRate {
        cir: rate,
        cburst: burst,
        eburst: 0,
    }
}

/// Sets the number of packets that a port's queue has room for.
fn set_depth(device: &mut Device, port: PortId, depth: usize) -> Result<(), ControlError> {
    let queue = QueueConfig {
        depth,
        ..device.queue(port)
    };
    device.apply(Change::SetQueue(port, queue))?;
    Ok(())
}

/// Writes a register's cell.
fn write_register(
    device: &mut Device,
    (register, cell): (ExternId, u32),
    value: Value,
    before: Option<&Installed>,
) -> Result<Installed, ControlError> {
    let former = match before {
        Some(Installed::Register(_, _, former)) => former.clone(),
        _ => match &device.configuration().cells[register] {
            ExternState::Register(registers) => registers.get(cell.into()).unwrap_or_default(),
            _ => Vec::new(),
        },
    };
    device.apply(Change::WriteRegister(register, Some(cell), vec![value]))?;
    Ok(Installed::Register(register, cell, former))
}

fn bind(reflex: &ReflexSpec, program: &Program) -> Result<Managed, BindError> {
    let refuse = |reason| BindError {
        reflex: reflex.name.clone(),
        reason,
    };
    let object = |name: &str| {
        program
            .externs
            .iter()
            .find(|(_, object)| object.name == name)
    };
    let bound = match &reflex.change {
        ChangeSpec::Entry(entry) => {
            let owner = format!("reflex {}", reflex.name).into_bytes().into();
            bind_table(entry, owner, program).map(Managed::Table)
        }
        ChangeSpec::Queue(port) => Ok(Managed::Queue(PortId(*port))),
        ChangeSpec::Meter { name, cell, burst } => match object(name) {
            Some((id, object)) => match &object.kind {
                ExternKind::Meter {
                    unit: CounterUnit::Bytes,
                    size,
                    ..
                } if cell < size => Ok(Managed::Meter(id, *burst)),
                ExternKind::Meter {
                    unit: CounterUnit::Bytes,
                    size,
                    ..
                } => Err(BindReason::NoCell(name.clone(), *size)),
                _ => Err(BindReason::NoMeter(name.clone())),
            },
            None => Err(BindReason::NoMeter(name.clone())),
        },
        ChangeSpec::Register { name, cell } => match object(name).map(|(id, it)| (id, &it.kind)) {
            Some((
                id,
                ExternKind::Register {
                    cell: fields, size, ..
                },
            )) => match &fields[..] {
                [ScalarTy::Bit(width)] if cell < size => Ok(Managed::Register(id, *width)),
                [ScalarTy::Bit(_)] => Err(BindReason::NoCell(name.clone(), *size)),
                _ => Err(BindReason::NoRegister(name.clone())),
            },
            _ => Err(BindReason::NoRegister(name.clone())),
        },
    };
    bound.map_err(refuse)
}

/// Writes the names of what exists, if they are known.
fn write_known(f: &mut fmt::Formatter<'_>, known: &[String]) -> fmt::Result {
    match known.is_empty() {
        true => Ok(()),
        false => write!(f, "; there are {}", known.join(", ")),
    }
}

fn bind_table(
    entry: &EntrySpec,
    owner: Box<[u8]>,
    program: &Program,
) -> Result<ManagedTable, BindReason> {
    let mut tables = program.tables.iter();
    let found = tables.find(|(_, table)| table.name == entry.table);
    let Some((id, table)) = found else {
        let known = program.tables.iter().map(|(_, table)| table.name.clone());
        return Err(BindReason::NoTable(entry.table.clone(), known.collect()));
    };
    if table.entries_are_const {
        return Err(BindReason::Const(table.name.clone()));
    }
    if table.keys.len() != entry.key.len() {
        return Err(BindReason::Keys(table.name.clone(), table.keys.len()));
    }
    let mut keys = Vec::new();
    for (key, part) in table.keys.iter().zip(&entry.key) {
        let is_destination = *part == KeyPart::Destination;
        let is_prefix = match key.match_kind {
            MatchKind::Exact if is_destination && !entry.prefixes.is_empty() => {
                return Err(BindReason::NoPrefix(key.name.clone()));
            }
            MatchKind::Exact => false,
            MatchKind::Lpm if is_destination => true,
            _ => return Err(BindReason::NotExact(key.name.clone())),
        };
        let width = key.expr.ty(program, None).map_or(0, ScalarTy::width);
        if !part.widths().contains(&width) {
            return Err(BindReason::Width(key.name.clone(), width));
        }
        keys.push((width, is_prefix));
    }
    let names = table.keys.iter().map(|key| &key.name[..]);
    if let Some((key, part)) = KeyPart::exchanged(names.zip(entry.key.iter().copied())) {
        return Err(BindReason::Order(key.to_owned(), part));
    }
    if entry.meter.is_some() {
        let meter = table.direct_meter.map(|id| &program.externs[id].kind);
        let of_bytes = CounterUnit::Bytes;
        if !matches!(meter, Some(ExternKind::DirectMeter { unit }) if *unit == of_bytes) {
            return Err(BindReason::NoDirectMeter(table.name.clone()));
        }
    }
    let action = table
        .actions
        .iter()
        .position(|action| program.actions[action.action].control_plane_name == entry.action);
    let Some(action) = action else {
        let known = table.actions.iter();
        let known = known.map(|it| program.actions[it.action].control_plane_name.clone());
        return Err(BindReason::NoAction(entry.action.clone(), known.collect()));
    };
    let params = &program.actions[table.actions[action].action].params[..];
    let port_width = match (params, entry.ports.is_empty()) {
        ([], true) => None,
        ([port], false) => Some(port.ty.width()),
        (_, true) => return Err(BindReason::NoPorts(entry.action.clone())),
        (_, false) => return Err(BindReason::Parameters(entry.action.clone())),
    };
    if let Some(width) = port_width {
        let is_too_large = |port: &&u32| Value::from_u128(u128::from(**port), width).is_err();
        if let Some(port) = entry.ports.iter().find(is_too_large) {
            return Err(BindReason::Port(*port));
        }
    }
    let names = table.keys.iter().map(|key| &key.name[..]);
    Ok(ManagedTable {
        table: id,
        keys,
        pairs: KeyPart::pairs(names.zip(entry.key.iter().copied())),
        action,
        port_width,
        replace: entry.replace,
        meter: entry.meter.map(|(rate, burst)| meter_config(rate, burst)),
        owner,
    })
}
