//! [`Table`]: the control side of a match-action table, and [`Lookup`], the snapshot that packets read.

use crate::counter::{CounterCell, CounterKind};
use crate::engine::{self, MatchEngine, Matcher, Rule};
use crate::entry::{
    Entry, EntryAction, EntryCells, EntryId, EntryIdx, GroupId, Identity, MemberId, NewEntry, Rank,
    Usage, UsageReading,
};
use crate::key::{FieldMatch, KeyError, KeyShape};
use crate::meter::{MeterCell, MeterUnit};
use crate::paged::Paged;
use bits::Id;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

/// Which priority wins, where several entries match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PriorityOrder {
    /// The largest number, as in P4Runtime and by default in P4_16.
    LargestWins,
    /// The smallest number, as `largest_priority_wins = false` says.
    SmallestWins,
}

/// What a table is made from.
#[derive(Debug, Clone)]
pub struct TableSpec {
    /// The key; without fields, the table has a default action only.
    pub shape: KeyShape,
    /// Which priority wins.
    pub order: PriorityOrder,
    /// The most entries it takes.
    pub capacity: usize,
    /// Whether each entry has a direct counter, and what it counts.
    pub direct_counter: Option<CounterKind>,
    /// Whether each entry has a direct meter, and what it meters.
    pub direct_meter: Option<MeterUnit>,
}

impl TableSpec {
    /// A table where the largest priority wins, without direct resources.
    pub fn new(shape: KeyShape, capacity: usize) -> Self {
        Self {
            shape,
            order: PriorityOrder::LargestWins,
            capacity,
            direct_counter: None,
            direct_meter: None,
        }
    }

    fn new_cells(&self, now_ns: u64) -> EntryCells {
        EntryCells {
            usage: Usage::since(now_ns),
            counter: self.direct_counter.map(CounterCell::new),
            meter: self.direct_meter.map(MeterCell::new),
        }
    }
}

/// Why an update was refused. The table is as it was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableError {
    /// An entry with the same match and priority exists.
    Duplicate(EntryId),
    /// No entry has this match and priority.
    NotFound,
    /// The table has as many entries as it takes.
    Full {
        /// That many.
        capacity: usize,
    },
    /// The match is not well formed.
    BadKey(KeyError),
    /// The table has no key and so no entries.
    NoKey,
    /// The key has ternary, range or optional fields, so the entry needs a priority.
    PriorityMissing,
    /// The key has none of these, so the entry must not have a priority.
    PriorityForbidden,
    /// The entry is const: the program declares it, and it stays.
    ConstEntry(EntryId),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(id) => {
                write!(f, "entry {id} has the same match and priority")
            }
            Self::NotFound => f.write_str("no entry has this match and priority"),
            Self::Full { capacity } => write!(f, "the table is full: it takes {capacity} entries"),
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
    slots: Paged<Option<Arc<Entry>>>,
    free: Vec<EntryIdx>,
    by_identity: HashMap<Identity, EntryIdx>,
    by_id: BTreeMap<EntryId, EntryIdx>,
    uses: Uses,
    next_id: u64,
    /// The last snapshot. Let go of before the engine changes, which writes what nobody holds.
    snapshot: Option<Arc<Lookup>>,
}

/// What an entry refers to in an action profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ProfileTarget {
    Member(MemberId),
    Group(GroupId),
}

/// How many entries refer to each member and group.
#[derive(Debug, Default)]
struct Uses(HashMap<ProfileTarget, usize>);

impl Uses {
    fn of(&self, target: ProfileTarget) -> usize {
        self.0.get(&target).copied().unwrap_or(0)
    }

    fn add(&mut self, action: &EntryAction) {
        if let Some(target) = ProfileTarget::of(action) {
            *self.0.entry(target).or_default() += 1;
        }
    }

    fn remove(&mut self, action: &EntryAction) {
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

/// What a miss does, and how often.
#[derive(Debug)]
struct DefaultEntry {
    action: EntryAction,
    cells: Arc<EntryCells>,
}

impl Table {
    /// An empty table with the engine that its key asks for.
    pub fn new(spec: TableSpec, default: EntryAction) -> Self {
        let engine = engine::choose(&Arc::new(spec.shape.clone()));
        Self::with_engine(spec, default, engine)
    }

    /// An empty table with this engine, which must be empty and serve the key.
    pub fn with_engine(
        spec: TableSpec,
        default: EntryAction,
        engine: Box<dyn MatchEngine>,
    ) -> Self {
        let mut uses = Uses::default();
        uses.add(&default);
        let mut table = Self {
            shape: Arc::new(spec.shape.clone()),
            default: Arc::new(DefaultEntry {
                action: default,
                cells: Arc::new(spec.new_cells(0)),
            }),
            engine,
            slots: Paged::filled(spec.capacity.clamp(1, 16), None),
            free: Vec::new(),
            by_identity: HashMap::new(),
            by_id: BTreeMap::new(),
            uses,
            next_id: 0,
            snapshot: None,
            spec,
        };
        table.free_slots_from(0);
        table
    }

    /// What the table was made from.
    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Inserts an entry at time `now_ns`.
    pub fn insert(&mut self, new: NewEntry, now_ns: u64) -> Result<EntryId, TableError> {
        self.check_identity(&new.matches, new.priority, new.is_const)?;
        let identity = Identity {
            matches: new.matches.into(),
            priority: new.priority,
        };
        if let Some(&idx) = self.by_identity.get(&identity) {
            return Err(TableError::Duplicate(self.at(idx).id));
        }
        let idx = self.allocate()?;
        self.snapshot = None;
        let entry = Arc::new(Entry {
            id: EntryId(self.next_id),
            matches: identity.matches.clone(),
            priority: new.priority,
            action: new.action,
            is_const: new.is_const,
            idle_timeout_ns: new.idle_timeout_ns,
            owner: new.owner,
            metadata: new.metadata,
            cells: Arc::new(self.spec.new_cells(now_ns)),
        });
        self.next_id += 1;
        self.engine.insert(Rule {
            idx,
            matches: &entry.matches,
            rank: self.rank(&entry),
        });
        self.by_identity.insert(identity, idx);
        self.by_id.insert(entry.id, idx);
        self.uses.add(&entry.action);
        let id = entry.id;
        self.put(idx, Some(entry));
        Ok(id)
    }

    /// Changes what the entry does; its id, match, priority, owner and cells stay.
    pub fn modify(
        &mut self,
        id: EntryId,
        action: EntryAction,
        idle_timeout_ns: Option<u64>,
        metadata: Box<[u8]>,
    ) -> Result<(), TableError> {
        let idx = self.changeable(id)?;
        let old = self.at(idx).clone();
        self.uses.remove(&old.action);
        self.uses.add(&action);
        let entry = Entry {
            action,
            idle_timeout_ns,
            metadata,
            ..(*old).clone()
        };
        self.put(idx, Some(Arc::new(entry)));
        Ok(())
    }

    /// Deletes the entry and gives it back, with its last readings.
    pub fn delete(&mut self, id: EntryId) -> Result<Arc<Entry>, TableError> {
        let idx = self.changeable(id)?;
        Ok(self.take(idx))
    }

    /// Deletes all entries but the const ones.
    pub fn clear(&mut self) {
        let entries = std::mem::take(&mut self.by_id);
        let (kept, deleted): (Vec<_>, Vec<_>) = entries
            .into_iter()
            .partition(|(_, idx)| self.at(*idx).is_const);
        self.by_id = kept.into_iter().collect();
        for (_, idx) in deleted {
            self.take(idx);
        }
    }

    /// Sets what a miss does. The cells of the default action stay.
    pub fn set_default(&mut self, action: EntryAction) {
        let old = self.default.clone();
        self.uses.remove(&old.action);
        self.uses.add(&action);
        self.default = Arc::new(DefaultEntry {
            action,
            cells: old.cells.clone(),
        });
        self.snapshot = None;
    }

    /// What a miss does.
    pub fn default_action(&self) -> &EntryAction {
        &self.default.action
    }

    /// The cells of the default action: how many packets missed, and its direct resources.
    pub fn default_cells(&self) -> &Arc<EntryCells> {
        &self.default.cells
    }

    /// The entry with this match and priority.
    pub fn find(&self, matches: &[FieldMatch], priority: Option<i32>) -> Option<&Arc<Entry>> {
        let identity = Identity {
            matches: matches.into(),
            priority,
        };
        self.by_identity.get(&identity).map(|&idx| self.at(idx))
    }

    /// The entry with this id.
    pub fn get(&self, id: EntryId) -> Option<&Arc<Entry>> {
        self.by_id.get(&id).map(|&idx| self.at(idx))
    }

    /// All entries in order of insertion.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Entry>> + ExactSizeIterator {
        self.by_id.values().map(|&idx| self.at(idx))
    }

    /// How much each entry is used, in order of insertion.
    pub fn usage(&self) -> impl Iterator<Item = (EntryId, UsageReading)> {
        self.iter()
            .map(|entry| (entry.id, entry.cells.usage.read()))
    }

    /// The entries that no packet has hit for as long as their idle time-out, or longer.
    pub fn idle(&self, now_ns: u64) -> impl Iterator<Item = &Arc<Entry>> {
        self.iter().filter(move |entry| {
            let idle_ns = now_ns.saturating_sub(entry.cells.usage.read().last_use_ns);
            entry
                .idle_timeout_ns
                .is_some_and(|timeout| idle_ns >= timeout)
        })
    }

    /// How many entries, the default included, run this member directly.
    pub fn uses_of_member(&self, member: MemberId) -> usize {
        self.uses.of(ProfileTarget::Member(member))
    }

    /// How many entries, the default included, run this group.
    pub fn uses_of_group(&self, group: GroupId) -> usize {
        self.uses.of(ProfileTarget::Group(group))
    }

    /// About how many bytes the index takes, all copies of it included; not the entries themselves.
    pub fn index_memory(&self) -> usize {
        self.engine.memory()
    }

    /// The table of this moment, for packets to read. Costs what changed since the last one.
    pub fn snapshot(&mut self) -> Arc<Lookup> {
        let mut lookup = || Lookup {
            matcher: self.engine.snapshot(),
            slots: self.slots.clone(),
            default: self.default.clone(),
        };
        self.snapshot
            .get_or_insert_with(|| Arc::new(lookup()))
            .clone()
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

    /// By priority, where the key needs one; else by prefix length.
    fn rank(&self, entry: &Entry) -> Rank {
        if !self.shape.needs_priority() {
            return Rank::smallest_first(
                -i64::from(KeyShape::prefix_len(&entry.matches)),
                entry.id,
            );
        }
        match (entry.priority, self.spec.order) {
            (None, _) => Rank::declared(entry.id),
            (Some(priority), PriorityOrder::LargestWins) => {
                Rank::smallest_first(-i64::from(priority), entry.id)
            }
            (Some(priority), PriorityOrder::SmallestWins) => {
                Rank::smallest_first(i64::from(priority), entry.id)
            }
        }
    }

    /// The entry in a place that is in use.
    fn at(&self, idx: EntryIdx) -> &Arc<Entry> {
        self.slots
            .get(idx.index())
            .as_ref()
            .expect("an index names a place in use")
    }

    fn put(&mut self, idx: EntryIdx, entry: Option<Arc<Entry>>) {
        *self.slots.get_mut(idx.index()) = entry;
        self.snapshot = None;
    }

    fn changeable(&self, id: EntryId) -> Result<EntryIdx, TableError> {
        let &idx = self.by_id.get(&id).ok_or(TableError::NotFound)?;
        if self.at(idx).is_const {
            Err(TableError::ConstEntry(id))
        } else {
            Ok(idx)
        }
    }

    fn take(&mut self, idx: EntryIdx) -> Arc<Entry> {
        let entry = self.at(idx).clone();
        self.snapshot = None;
        self.engine.remove(Rule {
            idx,
            matches: &entry.matches,
            rank: self.rank(&entry),
        });
        let identity = Identity {
            matches: entry.matches.clone(),
            priority: entry.priority,
        };
        self.by_identity.remove(&identity);
        self.by_id.remove(&entry.id);
        self.uses.remove(&entry.action);
        self.put(idx, None);
        self.free.push(idx);
        entry
    }

    /// A free place. Places double up to the capacity, so that growing costs little an entry.
    fn allocate(&mut self) -> Result<EntryIdx, TableError> {
        if self.len() >= self.spec.capacity {
            return Err(TableError::Full {
                capacity: self.spec.capacity,
            });
        }
        if self.free.is_empty() {
            let len = self.slots.len();
            self.slots = self.slots.grown((len * 2).min(self.spec.capacity), None);
            self.free_slots_from(len);
        }
        self.free.pop().ok_or(TableError::Full {
            capacity: self.spec.capacity,
        })
    }

    fn free_slots_from(&mut self, first: usize) {
        self.free
            .extend((first..self.slots.len()).rev().map(EntryIdx::from_index));
    }
}

impl ProfileTarget {
    fn of(action: &EntryAction) -> Option<Self> {
        match action {
            EntryAction::Direct(_) => None,
            EntryAction::Member(member) => Some(Self::Member(*member)),
            EntryAction::Group(group) => Some(Self::Group(*group)),
        }
    }
}

/// A snapshot of a table. Immutable, but for the cells of its entries.
#[derive(Debug)]
pub struct Lookup {
    matcher: Arc<dyn Matcher>,
    slots: Paged<Option<Arc<Entry>>>,
    default: Arc<DefaultEntry>,
}

impl Lookup {
    /// The entry that `key` hits: each field's limbs in the order of the [`KeyShape`], canonical.
    /// Counts nothing; see [`Usage::record`].
    #[inline]
    pub fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        self.matcher.find(key)
    }

    /// [`find`](Self::find) for `out.len()` keys of equal length, which lie in `keys` one after the
    /// other. A batch of 32 to 64 keys hides best what memory takes.
    #[inline]
    pub fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        self.matcher.find_batch(keys, out);
    }

    /// The entry at `idx`, which [`find`](Self::find) of this same snapshot gave. Panics for others.
    #[inline]
    pub fn entry(&self, idx: EntryIdx) -> &Entry {
        self.slots
            .get(idx.index())
            .as_deref()
            .expect("the index is of this snapshot")
    }

    /// All entries with their places, in order of place.
    pub fn iter(&self) -> impl Iterator<Item = (EntryIdx, &Entry)> {
        let places = (0..self.slots.len()).map(EntryIdx::from_index);
        places.filter_map(|idx| Some((idx, self.slots.get(idx.index()).as_deref()?)))
    }

    /// What a miss does.
    #[inline]
    pub fn default_action(&self) -> &EntryAction {
        &self.default.action
    }

    /// The cells of the default action.
    #[inline]
    pub fn default_cells(&self) -> &EntryCells {
        &self.default.cells
    }
}
