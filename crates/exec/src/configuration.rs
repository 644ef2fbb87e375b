//! Control-plane side of a device's state for one program: owned tables and profiles, from which
//! the [`State`] that packets read is made.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use bits::IdVec;
use ir::{ActionCall, ExternId, ExternKind, HashAlgorithm, Program, TableId, ValueSetId};
use support::work::checkpoint;
use table::{
    ActionProfile, ActionRef, CounterArray, EntryAction, Improved, KeyField, KeyShape,
    LearningTable, MeterArray, NewEntry, Table, TableError, Unsearched, ValueSet,
};

use crate::convert::{action_params, counter_kind, field_match, key_shape, meter_unit, table_spec};
use crate::state::ProfileState;
use crate::{
    ExpireProfiles, ExternState, HashParameters, Natives, Registers, State, StateHandlers,
    TableState,
};

/// Tables, profiles and cells of a program. Packets see a change from the next
/// [`Configuration::snapshot`] on. Cells are shared, so their changes are visible at once.
#[derive(Debug)]
pub struct Configuration {
    program: Arc<Program>,
    /// Tables, with the entries of the control plane and of the program.
    pub tables: IdVec<TableId, Table>,
    /// Entries that packets add, for tables that allow it.
    pub learned: IdVec<TableId, Option<Arc<LearningTable>>>,
    /// Action profiles and selectors; `None` for other externs.
    pub profiles: IdVec<ExternId, Option<ActionProfile>>,
    /// Counters, meters and registers.
    pub cells: IdVec<ExternId, ExternState>,
    /// Parser value sets.
    pub value_sets: IdVec<ValueSetId, ValueSet>,
    /// Parameters of the hash algorithms.
    pub hash: Arc<HashParameters>,
    /// PNA: numbers of the host ports, ascending.
    pub host_ports: Arc<[u32]>,
    /// PNA: time-outs of entries that packets add.
    pub expire_profiles: Arc<ExpireProfiles>,
    /// PNA: the next flow id to allocate.
    pub next_flow_id: Arc<AtomicU32>,
    /// Lock for `@atomic` code. It belongs to the device: successive programs of a device share it.
    pub atomic: Arc<crate::AtomicGate>,
    handlers: StateHandlers,
}

/// Lookups in the tables of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Lookups {
    /// Packets search the tables: each has the index that suits its key.
    #[default]
    Indexed,
    /// No packet searches the tables: they have no index, and a lookup finds nothing.
    None,
}

/// Maximum number of bytes of a program's preallocated state: counters, meters, registers, and
/// tables that packets write.
const MAX_STATE_BYTES: u64 = 4 << 30;

/// Error of setting up a program's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigurationError {
    /// An entry of the program does not fit its table.
    Entry {
        /// The table's name.
        table: String,
        /// Index of the entry, from 0.
        entry: usize,
        /// The cause.
        reason: String,
    },
    /// The declared state takes more memory than a device grants.
    TooLarge {
        /// Extern or table that exceeds the limit.
        name: String,
        /// Number of bytes up to and including this extern or table.
        bytes: u64,
    },
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigurationError::Entry {
                table,
                entry,
                reason,
            } => {
                write!(f, "entry {} of table {table}: {reason}", entry + 1)
            }
            ConfigurationError::TooLarge { name, bytes } => write!(
                f,
                "with `{name}` the program's state takes {} MiB, more than the {} MiB that it may; make it smaller",
                bytes >> 20,
                MAX_STATE_BYTES >> 20
            ),
        }
    }
}

impl std::error::Error for ConfigurationError {}

impl Configuration {
    /// Creates the state that the program itself declares: its entries, default actions and initial
    /// register values.
    ///
    /// # Errors
    /// A table cannot hold an entry of the program, or the state takes too much memory.
    pub fn new(program: Arc<Program>) -> Result<Configuration, ConfigurationError> {
        Configuration::with_lookups(program, Lookups::Indexed)
    }

    /// As [`Configuration::new`], for packets that search the tables or for none.
    ///
    /// # Errors
    /// As [`Configuration::new`].
    pub fn with_lookups(
        program: Arc<Program>,
        lookups: Lookups,
    ) -> Result<Configuration, ConfigurationError> {
        check_memory(&program)?;
        let tables = program
            .tables
            .values()
            .map(|table| new_table(&program, table, lookups))
            .collect::<Result<Vec<_>, _>>()?;
        let learned = program.tables.values().map(|table| {
            table
                .is_written_by_packets()
                .then(|| Arc::new(learning(&program, table)))
        });
        Ok(Configuration {
            learned: learned.collect(),
            tables: tables.into(),
            profiles: program.externs.values().map(|e| profile(&e.kind)).collect(),
            cells: program.externs.values().map(|e| cells(&e.kind)).collect(),
            value_sets: program.value_sets.values().map(value_set).collect(),
            hash: Arc::default(),
            host_ports: Arc::default(),
            expire_profiles: Arc::default(),
            next_flow_id: Arc::default(),
            atomic: Arc::default(),
            handlers: StateHandlers::default(),
            program,
        })
    }

    /// Returns the program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Sets the handlers that packets call from the next snapshot on. The others stay those with
    /// which the program was loaded.
    pub fn set_handlers(&mut self, natives: &Natives) {
        self.handlers = StateHandlers::new(&self.program, natives);
    }

    /// Allocates counter shards for `lanes` threads. Existing shards are kept. Packets use the new
    /// ones from the next snapshot on.
    pub fn set_lanes(&mut self, lanes: usize) {
        for (_, table) in self.tables.iter_mut() {
            table.set_lanes(lanes);
        }
        for (_, cells) in self.cells.iter_mut() {
            if let ExternState::Counter(counters) = cells {
                *counters = Arc::new(counters.with_lanes(lanes));
            }
        }
    }

    /// Lets the first table that can improve its index work on it, for about `budget`.
    pub fn improve(&mut self, budget: Duration) -> Improved {
        let mut tables = self.tables.iter_mut();
        let improved = tables.find_map(|(_, table)| match table.improve(budget) {
            Improved::NoMore => None,
            improved => Some(improved),
        });
        improved.unwrap_or(Improved::NoMore)
    }

    /// Returns a snapshot of the current state. The cost is proportional to the changes since the
    /// last one.
    pub fn snapshot(&mut self) -> State {
        let profiles: Vec<_> = self
            .profiles
            .values()
            .map(|profile| profile.as_ref().map(ActionProfile::snapshot))
            .collect();
        let tables = self.program.tables.iter().map(|(id, table)| TableState {
            lookup: self.tables[id].snapshot(),
            learned: self.learned[id].clone(),
            profile: table.implementation.and_then(|profile| {
                let algorithm = selector(&self.program.externs.get(profile)?.kind);
                Some(ProfileState {
                    lookup: profiles.get(profile.get() as usize)?.clone()?,
                    algorithm,
                })
            }),
        });
        let tables = tables.collect();
        let externs = self.cells.values().zip(&profiles);
        let externs = externs.map(|(cells, profile)| match profile {
            Some(profile) => ExternState::Profile(profile.clone()),
            None => cells.clone(),
        });
        State {
            tables,
            externs: externs.collect(),
            value_sets: self.value_sets.values().cloned().collect(),
            hash: self.hash.clone(),
            host_ports: self.host_ports.clone(),
            expire_profiles: self.expire_profiles.clone(),
            next_flow_id: self.next_flow_id.clone(),
            atomic: self.atomic.clone(),
            handlers: self.handlers.clone(),
        }
    }
}

/// Returns the hash algorithm of a selector; CRC-16 for an action profile.
fn selector(kind: &ExternKind) -> HashAlgorithm {
    match kind {
        ExternKind::ActionSelector { algorithm, .. } => *algorithm,
        _ => HashAlgorithm::Crc16,
    }
}

/// Returns the action of a call in `table`'s representation.
fn action_ref(program: &Program, table: &ir::Table, call: &ActionCall) -> Option<ActionRef> {
    let id = table.actions.get(call.action)?.action;
    let params = action_params(program.actions.get(id)?, &call.args)?;
    Some(ActionRef {
        action: id.get(),
        params,
    })
}

fn new_table(
    program: &Program,
    table: &ir::Table,
    lookups: Lookups,
) -> Result<Table, ConfigurationError> {
    checkpoint();
    let error = |entry: usize, reason: String| ConfigurationError::Entry {
        table: table.name.clone(),
        entry,
        reason,
    };
    let bad_args = |entry| error(entry, "its action's arguments do not fit".to_string());
    let default = action_ref(program, table, &table.default).unwrap_or(ActionRef {
        action: u32::MAX,
        params: Box::default(),
    });
    let spec = table_spec(program, table);
    let fields: Vec<KeyField> = spec.shape.fields().to_vec();
    let needs_priority = spec.shape.needs_priority();
    let default = EntryAction::Direct(default);
    let mut made = match lookups {
        Lookups::Indexed => Table::new(spec, default),
        Lookups::None => Table::with_engine(spec, default, Box::new(Unsearched)),
    };
    for (at, entry) in table.entries.iter().enumerate() {
        checkpoint();
        let matches: Option<Vec<_>> = fields
            .iter()
            .zip(&entry.keys)
            .map(|(field, wanted)| field_match(field, wanted))
            .collect();
        let matches = matches
            .filter(|matches| matches.len() == fields.len() && entry.keys.len() == fields.len())
            .ok_or_else(|| error(at, "its match kind cannot say this".to_string()))?;
        let action = action_ref(program, table, &entry.action).ok_or_else(|| bad_args(at))?;
        let declared = declared_priority(table, at);
        let is_const = entry.is_const || table.entries_are_const;
        let new = NewEntry {
            priority: match (needs_priority, entry.priority) {
                (false, _) => None,
                (true, None) if is_const => None,
                (true, priority) => Some(priority.unwrap_or(declared)),
            },
            is_const,
            ..NewEntry::new(matches, EntryAction::Direct(action))
        };
        match made.insert(new, 0) {
            // Of two equal entries the first one wins, as in a list that is searched in order.
            Ok(_) | Err(TableError::Duplicate(_)) => {}
            Err(refused) => return Err(error(at, refused.to_string())),
        }
    }
    Ok(made)
}

/// Returns the priority that makes entries without an explicit one match in the order of
/// declaration.
fn declared_priority(table: &ir::Table, at: usize) -> i32 {
    let order = if table.largest_priority_wins {
        table.entries.len() - at
    } else {
        at + 1
    };
    i32::try_from(order).unwrap_or(i32::MAX)
}

/// Creates the table for entries that packets add. All its keys are exact.
fn learning(program: &Program, table: &ir::Table) -> LearningTable {
    let spec = table_spec(program, table);
    let exact = spec.shape.fields().iter().map(|field| KeyField {
        width: field.width,
        kind: table::MatchKind::Exact,
    });
    let params = spec.records.most_param_limbs();
    let learning = LearningTable::new(KeyShape::new(exact), params, spec.capacity);
    match table.mirror {
        Some(_) => learning.for_handlers(),
        None => learning,
    }
}

fn profile(kind: &ExternKind) -> Option<ActionProfile> {
    checkpoint();
    match kind {
        ExternKind::ActionProfile { size } | ExternKind::ActionSelector { size, .. } => {
            Some(ActionProfile::new(*size as usize, None))
        }
        _ => None,
    }
}

/// Returns a lower bound of the bytes that a program's state allocates in advance: cells, and
/// tables that packets write.
pub fn state_bytes(program: &Program) -> u64 {
    let parts = preallocated(program).map(|(_, bytes)| bytes);
    parts.fold(0, u64::saturating_add)
}

fn check_memory(program: &Program) -> Result<(), ConfigurationError> {
    let mut bytes = 0u64;
    for (name, more) in preallocated(program) {
        checkpoint();
        bytes = bytes.saturating_add(more);
        if bytes > MAX_STATE_BYTES {
            let name = name.clone();
            return Err(ConfigurationError::TooLarge { name, bytes });
        }
    }
    Ok(())
}

/// Returns the name and size of each part that is allocated in advance.
fn preallocated(program: &Program) -> impl Iterator<Item = (&String, u64)> {
    let externs = program
        .externs
        .values()
        .map(|e| (&e.name, cell_bytes(&e.kind)));
    let learning = program
        .tables
        .values()
        .filter(|table| table.is_written_by_packets());
    // Estimate for the key, parameters and cells of an entry that a packet adds.
    let learning = learning.map(|table| (&table.name, u64::from(table.size) * 512));
    externs.chain(learning)
}

/// Returns a lower bound of the bytes of an extern's cells.
fn cell_bytes(kind: &ExternKind) -> u64 {
    match kind {
        // Packet and byte counts, in a shard and in the control-plane copy.
        ExternKind::Counter { size, .. } => u64::from(*size) * 32,
        ExternKind::Meter { size, .. } => u64::from(*size) * 96,
        ExternKind::Register { cell, size, .. } => {
            let limbs: u64 = cell.iter().map(|ty| u64::from(ir::limbs_of(*ty))).sum();
            u64::from(*size).saturating_mul(limbs * 8)
        }
        _ => 0,
    }
}

fn cells(kind: &ExternKind) -> ExternState {
    match kind {
        ExternKind::Counter { unit, size, .. } => ExternState::Counter(Arc::new(
            CounterArray::new(counter_kind(*unit), *size as usize),
        )),
        ExternKind::Meter { unit, size, .. } => {
            ExternState::Meter(Arc::new(MeterArray::new(meter_unit(*unit), *size as usize)))
        }
        ExternKind::Register {
            cell,
            size,
            initial,
            ..
        } => ExternState::Register(Arc::new(Registers::new(
            cell.iter().map(|ty| ty.width()),
            *size,
            initial,
        ))),
        _ => ExternState::None,
    }
}

fn value_set(set: &ir::ValueSet) -> ValueSet {
    let fields = set.fields.iter();
    let shape = key_shape(fields.map(|field| (field.ty, field.match_kind)));
    ValueSet::new(shape, set.size as usize)
}
