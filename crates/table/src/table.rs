//! [`Table`]: control side of a match-action table.

use crate::counter::{CounterKind, CounterReading};
use crate::engine::{self, Improved, MatchEngine, Rule};
use crate::entry::{
    Entry, EntryAction, EntryActionRef, EntryId, EntryIdx, GroupId, MemberId, NewEntry, Owner,
    Rank, UsageReading,
};
use crate::id_index::IdIndex;
use crate::identity::IdentityIndex;
use crate::key::{FieldMatch, KeyError, KeyShape};
use crate::meter::{MeterCell, MeterUnit};
use crate::packed_entries::{ColdPart, PackedEntry, PackedEntryStore, StoredEntry};
use crate::places::Places;
use crate::records::{RecordLayout, RecordStore};
use crate::tally::{TIME, Tally};
use bits::Id;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

mod contents;
mod credit;
mod export;
mod lookup;
mod refit;

pub use lookup::Lookup;

/// Order of priorities: selects the entry that wins if several match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PriorityOrder {
    /// The largest number wins, as in P4Runtime and by default in P4_16.
    LargestWins,
    /// The smallest number wins (`largest_priority_wins = false`).
    SmallestWins,
}

/// Description from which a table is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSpec {
    /// The key. A table without key fields has only a default action.
    pub shape: KeyShape,
    /// Order of priorities.
    pub order: PriorityOrder,
    /// Maximum number of entries.
    pub capacity: usize,
    /// Layout of the entries' action records. Actions or parameters that a record cannot represent
    /// must be read from the [`Entry`], which is slower. They are not allowed at all if the records
    /// have no heads ([`RecordLayout::entries_run`]).
    pub records: Arc<RecordLayout>,
    /// True if packets update each entry's usage row (packets, bytes, last use) from the start.
    /// Otherwise they do so from the first entry with an idle timeout on. Usage rows cost each
    /// packet a cache line; the totals of a table cost almost nothing.
    pub notes_usage: bool,
    /// Kind of the direct counter of each entry, if there is one.
    pub direct_counter: Option<CounterKind>,
    /// Unit of the direct meter of each entry, if there is one.
    pub direct_meter: Option<MeterUnit>,
}

impl TableSpec {
    /// Creates the description of a table in which the largest priority wins. It has no direct
    /// resources, and its records represent no action.
    pub fn new(shape: KeyShape, capacity: usize) -> Self {
        Self {
            shape,
            order: PriorityOrder::LargestWins,
            capacity,
            records: Arc::new(RecordLayout::new::<[u32; 0]>([])),
            notes_usage: true,
            direct_counter: None,
            direct_meter: None,
        }
    }

    fn new_meter(&self) -> Option<Arc<MeterCell>> {
        self.direct_meter.map(|unit| Arc::new(MeterCell::new(unit)))
    }

    /// Returns the number of usage rows at the start of a table with `rows` rows.
    fn usage_rows(&self, rows: usize) -> usize {
        if self.notes_usage { rows } else { 0 }
    }

    /// Returns the number of rows of direct counters in a table with `rows` rows.
    fn counter_rows(&self, rows: usize) -> usize {
        if self.direct_counter.is_some() {
            rows
        } else {
            0
        }
    }
}

/// Words of a usage row: packets, bytes, and time of the last packet. A power of two.
pub const USAGE_WORDS: usize = 4;

/// Words of a direct counter: packets and bytes. Counters are stored apart from the usage rows,
/// which most tables do not have, so that several share a cache line.
pub const COUNTER_WORDS: usize = 2;

mod word {
    pub(super) const HITS: usize = 0;
    pub(super) const BYTES: usize = 1;
    pub(super) const LAST_USE: usize = super::TIME;
}

/// Word indices of a direct counter.
mod counted {
    pub(super) const PACKETS: usize = 0;
    pub(super) const BYTES: usize = 1;
}

/// Word indices of the row of a table's totals.
mod total {
    pub(super) const HITS: usize = 0;
    pub(super) const MISSES: usize = 1;
    pub(super) const WORDS: usize = 2;
}

/// Hit and miss counts of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Packets that hit an entry, including entries deleted since.
    pub hits: u64,
    /// Packets for which the default action ran.
    pub misses: u64,
}

/// Error of a rejected update. The table is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableError {
    /// An entry with the same match and priority exists.
    Duplicate(EntryId),
    /// No entry has this match and priority.
    NotFound,
    /// The table has its maximum number of entries.
    Full {
        /// The maximum.
        capacity: usize,
    },
    /// The match is not well formed.
    BadKey(KeyError),
    /// The table has no key and thus no entries.
    NoKey,
    /// The key has ternary, range or optional fields, so the entry needs a priority.
    PriorityMissing,
    /// All key fields are exact or lpm, so the entry must not have a priority.
    PriorityForbidden,
    /// The entry is const: the program declares it, and it cannot be modified or deleted.
    ConstEntry(EntryId),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(id) => {
                write!(f, "entry {id} has the same match and priority")
            }
            Self::NotFound => f.write_str("no entry has this match and priority"),
            Self::Full { capacity } => {
                let entries = support::count::count(*capacity as u64, "entry");
                write!(f, "the table is full: it takes {entries}")
            }
            Self::BadKey(error) => error.fmt(f),
            Self::NoKey => f.write_str("the table has no key; only its default action can be set"),
            Self::PriorityMissing => {
                f.write_str("a key with ternary, range or optional fields needs a priority")
            }
            Self::PriorityForbidden => {
                f.write_str("a key of exact and lpm fields takes no priority")
            }
            Self::ConstEntry(id) => {
                write!(f, "entry {id} is const; it cannot be modified or deleted")
            }
        }
    }
}

impl std::error::Error for TableError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::BadKey(error) => Some(error),
            _ => None,
        }
    }
}

impl From<KeyError> for TableError {
    fn from(error: KeyError) -> Self {
        Self::BadKey(error)
    }
}

/// The control side of a table.
#[derive(Debug)]
pub struct Table {
    spec: TableSpec,
    shape: Arc<KeyShape>,
    default: Arc<DefaultEntry>,
    engine: Box<dyn MatchEngine>,
    entries: PackedEntryStore,
    places: Places,
    records: RecordStore,
    /// Usage rows. Row 0 is for the default action, row `idx + 1` for the entry. No rows while
    /// packets write none.
    usage: Tally,
    /// Times of insertion by entry index, while there are no usage rows.
    inserted_ns: Vec<u64>,
    /// True if packets write usage rows.
    notes_usage: bool,
    /// Direct counters, with the same rows; no rows if the table has none.
    counts: Tally,
    /// One row: packets that hit an entry, and packets that missed.
    totals: Tally,
    by_identity: IdentityIndex,
    by_id: IdIndex,
    uses: Uses,
    next_id: u64,
    /// The last snapshot. Dropped before the engine changes, because the engine only writes to
    /// copies that nothing else holds.
    snapshot: Option<Arc<Lookup>>,
}

/// Reference from an entry into an action profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ProfileTarget {
    Member(MemberId),
    Group(GroupId),
}

/// Number of entries that refer to each member and group.
#[derive(Debug, Default)]
struct Uses(HashMap<ProfileTarget, usize>);

impl Uses {
    fn of(&self, target: ProfileTarget) -> usize {
        self.0.get(&target).copied().unwrap_or(0)
    }

    fn add(&mut self, action: EntryActionRef<'_>) {
        if let Some(target) = ProfileTarget::of(action) {
            *self.0.entry(target).or_default() += 1;
        }
    }

    fn remove(&mut self, action: EntryActionRef<'_>) {
        if let Some(target) = ProfileTarget::of(action)
            && let Some(uses) = self.0.get_mut(&target)
        {
            *uses -= 1;
            if *uses == 0 {
                self.0.remove(&target);
            }
        }
    }
}

/// The default action and its direct meter.
#[derive(Debug)]
struct DefaultEntry {
    action: EntryAction,
    meter: Option<Arc<MeterCell>>,
}

impl Table {
    /// Creates an empty table with the engine that suits its key.
    pub fn new(spec: TableSpec, default: EntryAction) -> Self {
        let engine = engine::choose(&Arc::new(spec.shape.clone()));
        Self::with_engine(spec, default, engine)
    }

    /// Creates an empty table with `engine`, which must be empty and support the key.
    pub fn with_engine(
        spec: TableSpec,
        default: EntryAction,
        engine: Box<dyn MatchEngine>,
    ) -> Self {
        let mut uses = Uses::default();
        uses.add((&default).into());
        let mut records = RecordStore::new(spec.records.clone());
        records.set(0, (&default).into());
        let places = spec.capacity.clamp(1, 16);
        let shape = Arc::new(spec.shape.clone());
        Self {
            default: Arc::new(DefaultEntry {
                action: default,
                meter: spec.new_meter(),
            }),
            engine,
            entries: PackedEntryStore::new(shape.clone(), spec.records.entry_param_limbs()),
            places: Places::new(places),
            records,
            usage: Tally::new(spec.usage_rows(places + 1), USAGE_WORDS),
            inserted_ns: vec![0; if spec.notes_usage { 0 } else { places }],
            counts: Tally::new(spec.counter_rows(places + 1), COUNTER_WORDS),
            notes_usage: spec.notes_usage,
            totals: Tally::new(1, total::WORDS),
            by_identity: IdentityIndex::default(),
            by_id: IdIndex::default(),
            uses,
            next_id: 0,
            snapshot: None,
            shape,
            spec,
        }
    }

    /// Returns the id that the next entry gets.
    pub fn next_id(&self) -> EntryId {
        EntryId(self.next_id)
    }

    /// Makes the next entry get the id `id`, or a later one if `id` was already used.
    pub fn number_from(&mut self, id: EntryId) {
        self.next_id = self.next_id.max(id.0);
    }

    /// Makes the next entry get the id `id` even if it was used before. This is for an entry that
    /// is restored. [`Table::number_from`] ends it.
    pub fn number_again(&mut self, id: EntryId) {
        debug_assert!(self.get(id).is_none(), "an entry has the number {id}");
        self.next_id = id.0;
    }

    /// Returns the description of the table.
    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Inserts an entry at time `now_ns`.
    pub fn insert(&mut self, new: NewEntry, now_ns: u64) -> Result<EntryId, TableError> {
        self.check_identity(&new.matches, new.priority, new.is_const)?;
        let identity = self.identity_of(&new.matches, new.priority);
        if let Some(idx) = self.by_identity.find(&self.entries, &identity) {
            return Err(TableError::Duplicate(self.at(idx).id()));
        }
        let idx = self.allocate()?;
        self.snapshot = None;
        let id = EntryId(self.next_id);
        self.next_id += 1;
        if new.idle_timeout_ns.is_some() {
            self.note_usage();
        }
        self.begin_row(idx, now_ns);
        let matches: Arc<[FieldMatch]> = new.matches.into();
        self.engine.insert(Rule {
            idx,
            matches: &matches,
            rank: self.rank(&matches, new.priority, id),
        });
        self.by_identity.insert(&self.entries, idx, &identity);
        self.by_id.insert(id, idx);
        let cold = ColdPart {
            idle_timeout_ns: new.idle_timeout_ns,
            metadata: new.metadata,
            owner: (new.owner != Owner::new(0)).then_some(new.owner),
            meter: self.spec.new_meter(),
            ..ColdPart::default()
        };
        let stored = StoredEntry {
            id,
            is_const: new.is_const,
            identity: &identity,
            action: (&new.action).into(),
        };
        self.uses.add(stored.action);
        self.put(idx, stored, cold);
        Ok(id)
    }

    /// Changes the action, idle timeout and metadata of an entry. Its id, match, priority, owner
    /// and cells stay.
    pub fn modify(
        &mut self,
        id: EntryId,
        action: EntryAction,
        idle_timeout_ns: Option<u64>,
        metadata: Box<[u8]>,
    ) -> Result<(), TableError> {
        let idx = self.changeable(id)?;
        if idle_timeout_ns.is_some() {
            self.note_usage();
        }
        let old = self.entries.get(idx).ok_or(TableError::NotFound)?;
        self.uses.remove(old.action());
        self.uses.add((&action).into());
        let cold = ColdPart {
            idle_timeout_ns,
            metadata,
            ..old.cold()
        };
        let (identity, is_const) = (old.identity().to_vec(), old.is_const());
        let stored = StoredEntry {
            id,
            is_const,
            identity: &identity,
            action: (&action).into(),
        };
        self.put(idx, stored, cold);
        Ok(())
    }

    /// Deletes an entry and returns it. Its cells keep their last readings.
    pub fn delete(&mut self, id: EntryId) -> Result<Arc<Entry>, TableError> {
        let idx = self.changeable(id)?;
        Ok(self.take(idx))
    }

    /// Deletes all entries except const ones.
    pub fn clear(&mut self) {
        let all = self.by_id.indices();
        let deleted: Vec<EntryIdx> = all.filter(|&idx| !self.at(idx).is_const()).collect();
        for idx in deleted {
            self.take(idx);
        }
    }

    /// Sets the default action. Its counts and meter stay.
    pub fn set_default(&mut self, action: EntryAction) {
        let old = self.default.clone();
        self.uses.remove((&old.action).into());
        self.uses.add((&action).into());
        self.default = Arc::new(DefaultEntry {
            action,
            meter: old.meter.clone(),
        });
        self.records.set(0, (&self.default.action).into());
        self.snapshot = None;
    }

    /// Returns the default action.
    pub fn default_action(&self) -> &EntryAction {
        &self.default.action
    }

    /// Returns the direct meter of the default action.
    pub fn default_meter(&self) -> Option<&MeterCell> {
        self.default.meter.as_deref()
    }

    /// Returns the id of the entry with this match and priority.
    pub fn find_id(&self, matches: &[FieldMatch], priority: Option<i32>) -> Option<EntryId> {
        let idx = self.find_idx(matches, priority)?;
        Some(self.at(idx).id())
    }

    /// Returns the entry with this match and priority.
    pub fn find(&self, matches: &[FieldMatch], priority: Option<i32>) -> Option<Arc<Entry>> {
        let idx = self.find_idx(matches, priority)?;
        Some(Arc::new(self.at(idx).to_entry()))
    }

    fn find_idx(&self, matches: &[FieldMatch], priority: Option<i32>) -> Option<EntryIdx> {
        self.shape.check(matches).ok()?;
        if priority.is_some() && !self.shape.needs_priority() {
            return None;
        }
        let identity = self.identity_of(matches, priority);
        self.by_identity.find(&self.entries, &identity)
    }

    /// Returns true if there is an entry with this id.
    pub fn contains(&self, id: EntryId) -> bool {
        self.by_id.get(id).is_some()
    }

    /// Iterates over the ids of all entries in order of insertion.
    pub fn ids(&self) -> impl Iterator<Item = EntryId> {
        self.by_id.iter().map(|(id, _)| id)
    }

    /// Returns the entry with this id.
    pub fn get(&self, id: EntryId) -> Option<Arc<Entry>> {
        let idx = self.by_id.get(id)?;
        Some(Arc::new(self.at(idx).to_entry()))
    }

    /// Iterates over all entries in order of insertion.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Arc<Entry>> + ExactSizeIterator {
        let indices = self.by_id.indices();
        indices.map(|idx| Arc::new(self.at(idx).to_entry()))
    }

    /// Iterates over the entries from this id on, in order of insertion.
    pub fn iter_from(&self, from: EntryId) -> impl Iterator<Item = Arc<Entry>> {
        let indices = self.by_id.iter_from(from);
        indices.map(|(_, idx)| Arc::new(self.at(idx).to_entry()))
    }

    /// Returns the direct meter of an entry, or of the default action for `None`.
    pub fn meter(&self, entry: Option<EntryId>) -> Option<&MeterCell> {
        match entry {
            None => self.default.meter.as_deref(),
            Some(id) => self.at(self.by_id.get(id)?).meter(),
        }
    }

    /// Returns the numbers of hits and misses.
    pub fn totals(&self) -> Totals {
        Totals {
            hits: self.totals.read(0, total::HITS),
            misses: self.totals.read(0, total::MISSES),
        }
    }

    /// Iterates over the usage of each entry, in order of insertion. Counts stay 0 while packets do
    /// not write usage rows.
    pub fn usage(&self) -> impl Iterator<Item = (EntryId, UsageReading)> {
        self.by_id
            .iter()
            .map(|(id, idx)| (id, self.read_usage(Some(idx))))
    }

    /// Returns the usage of an entry, or of the default action for `None`.
    pub fn usage_of(&self, entry: Option<EntryId>) -> Option<UsageReading> {
        match entry {
            None => Some(self.read_usage(None)),
            Some(id) => Some(self.read_usage(Some(self.by_id.get(id)?))),
        }
    }

    /// Returns the direct counter of an entry, or of the default action for `None`.
    pub fn counter(&self, entry: Option<EntryId>) -> Option<CounterReading> {
        self.spec.direct_counter?;
        let row = self.row(entry)?;
        Some(CounterReading {
            packets: self.counts.read(row, counted::PACKETS),
            bytes: self.counts.read(row, counted::BYTES),
        })
    }

    /// Sets the direct counter of an entry, or of the default action for `None`. Returns true if
    /// there is one.
    pub fn write_counter(&mut self, entry: Option<EntryId>, reading: CounterReading) -> bool {
        let (Some(_), Some(row)) = (self.spec.direct_counter, self.row(entry)) else {
            return false;
        };
        self.counts.write(row, counted::PACKETS, reading.packets);
        self.counts.write(row, counted::BYTES, reading.bytes);
        true
    }

    /// Returns the number of counter shards: one for each writer.
    pub fn lanes(&self) -> usize {
        self.usage.lanes()
    }

    /// Sets the number of counter shards to `lanes`, from the next snapshot on.
    pub fn set_lanes(&mut self, lanes: usize) {
        self.usage.resize(self.usage.rows(), lanes);
        self.counts.resize(self.counts.rows(), lanes);
        self.totals.resize(1, lanes);
        self.snapshot = None;
    }

    /// Returns the row of an entry, or of the default action for `None`.
    fn row(&self, entry: Option<EntryId>) -> Option<usize> {
        match entry {
            None => Some(0),
            Some(id) => self.by_id.get(id).map(|idx| idx.index() + 1),
        }
    }

    fn read_usage(&self, entry: Option<EntryIdx>) -> UsageReading {
        if !self.notes_usage {
            let inserted = entry.map(|idx| self.inserted_ns[idx.index()]);
            return UsageReading {
                last_use_ns: inserted.unwrap_or_default(),
                ..UsageReading::default()
            };
        }
        let row = row_of(entry);
        UsageReading {
            hits: self.usage.read(row, word::HITS),
            bytes: self.usage.read(row, word::BYTES),
            last_use_ns: self.usage.read(row, word::LAST_USE),
        }
    }

    /// Makes packets write usage rows from the next snapshot on.
    fn note_usage(&mut self) {
        if self.notes_usage {
            return;
        }
        self.notes_usage = true;
        self.snapshot = None;
        let rows = self.places.len() + 1;
        self.usage.resize(rows, self.usage.lanes());
        for (at, inserted_ns) in std::mem::take(&mut self.inserted_ns)
            .into_iter()
            .enumerate()
        {
            self.usage.write(at + 1, word::LAST_USE, inserted_ns);
        }
    }

    /// Resets the rows of a new entry.
    fn begin_row(&mut self, idx: EntryIdx, now_ns: u64) {
        let row = idx.index() + 1;
        if self.notes_usage {
            for word in [word::HITS, word::BYTES] {
                self.usage.write(row, word, 0);
            }
            self.usage.write(row, word::LAST_USE, now_ns);
        } else {
            self.inserted_ns[idx.index()] = now_ns;
        }
        if self.spec.direct_counter.is_some() {
            self.counts.write(row, counted::PACKETS, 0);
            self.counts.write(row, counted::BYTES, 0);
        }
    }

    /// Iterates over the entries that no packet has hit for at least their idle timeout, with the
    /// time of the last hit.
    pub fn idle(&self, now_ns: u64) -> impl Iterator<Item = (Arc<Entry>, u64)> {
        let timed = self.by_id.indices().filter_map(|idx| {
            let entry = self.at(idx);
            Some((idx, entry, entry.idle_timeout_ns()?))
        });
        timed.filter_map(move |(idx, entry, timeout)| {
            let last = self.read_usage(Some(idx)).last_use_ns;
            let is_idle = now_ns.saturating_sub(last) >= timeout;
            is_idle.then(|| (Arc::new(entry.to_entry()), last))
        })
    }

    /// Iterates over the entries with an idle timeout, in order of insertion, with the timeout in
    /// nanoseconds.
    pub fn timeouts(&self) -> impl Iterator<Item = (EntryId, u64)> {
        self.by_id
            .iter()
            .filter_map(|(id, idx)| Some((id, self.at(idx).idle_timeout_ns()?)))
    }

    /// Returns the number of entries, including the default, that run this member directly.
    pub fn uses_of_member(&self, member: MemberId) -> usize {
        self.uses.of(ProfileTarget::Member(member))
    }

    /// Returns the number of entries, including the default, that run this group.
    pub fn uses_of_group(&self, group: GroupId) -> usize {
        self.uses.of(ProfileTarget::Group(group))
    }

    /// Returns the approximate size of the index in bytes, including all its copies. The entries
    /// themselves are not included.
    pub fn index_memory(&self) -> usize {
        self.engine.memory()
    }

    /// Returns the approximate size of the entries, their records and counts in bytes, including
    /// all copies.
    pub fn record_memory(&self) -> usize {
        let cells = self.usage.memory() + self.counts.memory();
        self.entries.memory() + self.records.memory() + cells
    }

    /// Optimizes the index for faster lookups, for about `budget`. A single step takes up to 0.1 s
    /// with half a million entries. The next snapshot has the result; nothing else changes. Call it
    /// in idle time until there is no more to do.
    pub fn improve(&mut self, budget: Duration) -> Improved {
        let improved = self.engine.improve(budget);
        if improved == Improved::Done {
            self.snapshot = None;
        }
        improved
    }

    /// Returns the current state of the table for packets to read. The cost is in proportion to the
    /// changes since the last snapshot.
    pub fn snapshot(&mut self) -> Arc<Lookup> {
        if let Some(snapshot) = &self.snapshot {
            return snapshot.clone();
        }
        let snapshot = Arc::new(Lookup {
            matcher: self.engine.snapshot(),
            entries: self.entries.snapshot(),
            default: self.default.clone(),
            records: self.records.snapshot(),
            layout: self.spec.records.clone(),
            usage: self.usage.cells().clone(),
            counts: self.counts.cells().clone(),
            totals: self.totals.cells().clone(),
            notes_usage: self.notes_usage,
            counter: self.spec.direct_counter,
        });
        self.places.issued(Arc::downgrade(&snapshot));
        self.snapshot.insert(snapshot).clone()
    }

    fn check_identity(
        &self,
        matches: &[FieldMatch],
        priority: Option<i32>,
        is_const: bool,
    ) -> Result<(), TableError> {
        if self.shape.fields().is_empty() {
            return Err(TableError::NoKey);
        }
        self.shape.check(matches)?;
        match (self.shape.needs_priority(), priority) {
            (true, None) if !is_const => Err(TableError::PriorityMissing),
            (false, Some(_)) => Err(TableError::PriorityForbidden),
            _ => Ok(()),
        }
    }

    /// Computes the rank by priority if the key needs one, otherwise by prefix length.
    fn rank(&self, matches: &[FieldMatch], priority: Option<i32>, id: EntryId) -> Rank {
        if !self.shape.needs_priority() {
            return Rank::smallest_first(-i64::from(KeyShape::prefix_len(matches)), id);
        }
        match (priority, self.spec.order) {
            (None, _) => Rank::declared(id),
            (Some(priority), PriorityOrder::LargestWins) => {
                Rank::smallest_first(-i64::from(priority), id)
            }
            (Some(priority), PriorityOrder::SmallestWins) => {
                Rank::smallest_first(i64::from(priority), id)
            }
        }
    }

    /// Returns checked matches and a priority as the identity of an entry.
    fn identity_of(&self, matches: &[FieldMatch], priority: Option<i32>) -> Vec<u64> {
        let coding = self.entries.match_bits();
        let mut identity = vec![0; coding.limbs()];
        coding.write(matches, priority, &mut identity);
        identity
    }

    /// Returns the entry at an index that is in use.
    fn at(&self, idx: EntryIdx) -> PackedEntry<'_> {
        let entry = self.entries.get(idx);
        entry.expect("an index names a place in use")
    }

    fn put(&mut self, idx: EntryIdx, stored: StoredEntry<'_>, cold: ColdPart) {
        self.snapshot = None;
        self.records.set(idx.index() + 1, stored.action);
        let room = self.spec.records.entry_param_limbs();
        if let EntryActionRef::Direct(call) = stored.action
            && call.params.len() <= room
        {
            // An earlier program may have had actions with fewer parameters.
            self.entries.widen(room);
        }
        self.entries.set(idx, stored, cold);
    }

    fn changeable(&self, id: EntryId) -> Result<EntryIdx, TableError> {
        let idx = self.by_id.get(id).ok_or(TableError::NotFound)?;
        if self.at(idx).is_const() {
            Err(TableError::ConstEntry(id))
        } else {
            Ok(idx)
        }
    }

    fn take(&mut self, idx: EntryIdx) -> Arc<Entry> {
        self.snapshot = None;
        let packed = self.at(idx);
        let entry = Arc::new(packed.to_entry());
        let identity = packed.identity().to_vec();
        self.engine.remove(Rule {
            idx,
            matches: &entry.matches,
            rank: self.rank(&entry.matches, entry.priority, entry.id),
        });
        self.by_identity.remove(idx, &identity);
        self.by_id.remove(entry.id);
        self.uses.remove((&entry.action).into());
        self.entries.remove(idx);
        self.places.give_back(idx);
        entry
    }

    /// Allocates a free entry index. The number of indices doubles up to the capacity, so that
    /// growing costs little per entry. Beyond the capacity it grows a little more, for deleted
    /// entries that packets still see.
    fn allocate(&mut self) -> Result<EntryIdx, TableError> {
        let capacity = self.spec.capacity;
        if self.len() >= capacity {
            return Err(TableError::Full { capacity });
        }
        if let Some(idx) = self.places.take() {
            return Ok(idx);
        }
        let len = self.places.len();
        let most = capacity + capacity.min(MAX_WAITING);
        if len >= most {
            return self
                .places
                .take_waiting()
                .ok_or(TableError::Full { capacity });
        }
        let longer = (len * 2).min(if len < capacity { capacity } else { most });
        let lanes = self.usage.lanes();
        if self.notes_usage {
            self.usage.resize(longer + 1, lanes);
        } else {
            self.inserted_ns.resize(longer, 0);
        }
        self.counts
            .resize(self.spec.counter_rows(longer + 1), lanes);
        self.places.grow(longer);
        self.places.take().ok_or(TableError::Full { capacity })
    }
}

/// Maximum number of indices beyond the capacity, for deleted entries that some packet may still
/// see.
const MAX_WAITING: usize = 1024;

impl ProfileTarget {
    fn of(action: EntryActionRef<'_>) -> Option<Self> {
        match action {
            EntryActionRef::Direct(_) => None,
            EntryActionRef::Member(member) => Some(Self::Member(member)),
            EntryActionRef::Group(group) => Some(Self::Group(group)),
        }
    }
}

/// Returns the row of a lookup result.
#[inline]
fn row_of(found: Option<EntryIdx>) -> usize {
    found.map_or(0, |idx| idx.index() + 1)
}
