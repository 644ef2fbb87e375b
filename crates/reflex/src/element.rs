//! Elements: switches that apply the writes of a reflex plane.

use std::collections::HashMap;
use std::fmt;

use bits::value::Value;
use consensus::{Admission, ElementChange, Fence, Key, LogIndex, Term};
use ir::{ActionCall, KeyMatch, MatchKind, Program, ScalarTy, TableId};
use switch::{Action, Change, ControlError, Device, EntryId, TableEntry};

use crate::loops::{ElementIndex, Loops, ReflexIndex, ReflexSpec};
use crate::write::TableWrite;

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
    /// The program has no such table.
    NoTable(String),
    /// The control plane may add no entries to the table.
    Const(String),
    /// A key of the table is not exact.
    NotExact(String),
    /// The table has this number of keys, and the permission another one.
    Keys(String, usize),
    /// A key has this width, and the field of a flow another one.
    Width(String, u32),
    /// The table has no such action.
    NoAction(String),
    /// The action has another number of parameters than one.
    Parameters(String),
    /// A port does not fit the action's parameter.
    Port(u32),
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reflex \"{}\": ", self.reflex)?;
        match &self.reason {
            BindReason::NoTable(table) => write!(
                f,
                "the element's program has no table {table}; `polyplane p4info` lists its tables"
            ),
            BindReason::Const(table) => {
                write!(f, "entries of {table} are const; name another table")
            }
            BindReason::NotExact(key) => {
                write!(f, "key {key} is not exact; loops write exact tables only")
            }
            BindReason::Keys(table, count) => {
                write!(f, "{table} has {count} keys; give `key` one field for each")
            }
            BindReason::Width(key, width) => {
                write!(
                    f,
                    "key {key} has {width} bits, and its field of a flow has not"
                )
            }
            BindReason::NoAction(action) => {
                write!(
                    f,
                    "the table has no action {action}; name one of its actions"
                )
            }
            BindReason::Parameters(action) => {
                write!(f, "action {action} has not one parameter, the port")
            }
            BindReason::Port(port) => {
                write!(f, "port {port} is too large for the action's parameter")
            }
        }
    }
}

impl std::error::Error for BindError {}

/// A managed table of an element.
#[derive(Clone, Debug)]
struct ManagedTable {
    table: TableId,
    key_widths: Vec<u32>,
    /// Place of the action in the table's list.
    action: usize,
    port_width: u32,
    /// Metadata of its entries: the permission's name.
    owner: Box<[u8]>,
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
    tables: Vec<Option<ManagedTable>>,
    entries: HashMap<Key, (TableId, EntryId)>,
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
        let tables = loops.reflexes.iter().map(|reflex| {
            let is_own = reflex.element == element;
            is_own.then(|| bind(reflex, program)).transpose()
        });
        Ok(ManagedElement {
            fence: Fence::default(),
            tables: tables.collect::<Result<_, _>>()?,
            entries: HashMap::new(),
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

    fn apply(
        &mut self,
        device: &mut Device,
        change: &ElementChange,
    ) -> Result<WriteResult, ControlError> {
        let Some(bytes) = &change.change else {
            if let Some((table, entry)) = self.entries.remove(&change.key) {
                device.apply(Change::Delete(table, entry))?;
                self.counts.applied += 1;
                device.publish();
            }
            return Ok(WriteResult::Applied);
        };
        let write = TableWrite::decode(bytes.get());
        let table = write.and_then(|write| {
            let ReflexIndex(reflex) = write.reflex;
            Some((write, self.tables.get(reflex)?.as_ref()?))
        });
        let table = table.filter(|(write, managed)| {
            let parts = write.key.parts();
            let mut widths = parts.iter().zip(&managed.key_widths);
            parts.len() == managed.key_widths.len()
                && widths.all(|(part, width)| part.get().len() * 8 == *width as usize)
        });
        let Some((write, managed)) = table else {
            self.counts.unknown += 1;
            return Ok(WriteResult::Unknown);
        };
        let action = Action::Call(ActionCall {
            action: managed.action,
            args: vec![Value::truncated(write.port.into(), managed.port_width)],
        });
        if let Some((table, entry)) = self.entries.get(&change.key) {
            device.apply(Change::Modify(*table, *entry, action, None))?;
        } else {
            let parts = write.key.parts().iter().zip(&managed.key_widths);
            let keys = parts.map(|(part, width)| {
                let number = part.get().iter();
                let number = number.fold(0, |sum: u128, byte| sum << 8 | u128::from(*byte));
                KeyMatch::Exact(Value::truncated(number, *width))
            });
            let entry = TableEntry {
                keys: keys.collect(),
                priority: None,
                action,
                idle_timeout: None,
                meter: None,
                counter: None,
            };
            let added = device.apply(Change::Insert(managed.table, entry))?;
            if let Some(entry) = added {
                self.entries.insert(change.key, (managed.table, entry));
                let owner = managed.owner.clone();
                device.apply(Change::SetMetadata(managed.table, entry, owner))?;
            }
        }
        self.counts.applied += 1;
        device.publish();
        Ok(WriteResult::Applied)
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

fn bind(reflex: &ReflexSpec, program: &Program) -> Result<ManagedTable, BindError> {
    let refuse = |reason| BindError {
        reflex: reflex.name.clone(),
        reason,
    };
    let mut tables = program.tables.iter();
    let found = tables.find(|(_, table)| table.name == reflex.table);
    let Some((id, table)) = found else {
        return Err(refuse(BindReason::NoTable(reflex.table.clone())));
    };
    if table.entries_are_const {
        return Err(refuse(BindReason::Const(table.name.clone())));
    }
    if let Some(key) = table
        .keys
        .iter()
        .find(|key| key.match_kind != MatchKind::Exact)
    {
        return Err(refuse(BindReason::NotExact(key.name.clone())));
    }
    if table.keys.len() != reflex.key.len() {
        let keys = BindReason::Keys(table.name.clone(), table.keys.len());
        return Err(refuse(keys));
    }
    let action = table
        .actions
        .iter()
        .position(|action| program.actions[action.action].control_plane_name == reflex.action);
    let Some(action) = action else {
        return Err(refuse(BindReason::NoAction(reflex.action.clone())));
    };
    let [port] = &program.actions[table.actions[action].action].params[..] else {
        return Err(refuse(BindReason::Parameters(reflex.action.clone())));
    };
    let port_width = port.ty.width();
    let is_too_large = |port: &&u32| Value::from_u128(u128::from(**port), port_width).is_err();
    if let Some(port) = reflex.ports.iter().find(is_too_large) {
        return Err(refuse(BindReason::Port(*port)));
    }
    let mut key_widths = Vec::new();
    for (key, part) in table.keys.iter().zip(&reflex.key) {
        let width = key.expr.ty(program, None).map_or(0, ScalarTy::width);
        if !part.widths().contains(&width) {
            return Err(refuse(BindReason::Width(key.name.clone(), width)));
        }
        key_widths.push(width);
    }
    Ok(ManagedTable {
        table: id,
        key_widths,
        action,
        port_width,
        owner: format!("reflex {}", reflex.name).into_bytes().into(),
    })
}
