//! Entries: what they match, what they do, and the cells that packets write.

use crate::key::FieldMatch;
use crate::meter::MeterCell;
use bits::define_id;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The place of an entry in one snapshot of its table. Places are used again after a deletion;
/// to name an entry for longer, use its [`EntryId`].
///
/// It is kept with one added, as match engines keep what they find: that nothing was found takes no more room and is
/// asked in the same word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct EntryIdx(NonZeroU32);

impl EntryIdx {
    /// The place with this number.
    ///
    /// # Panics
    /// It is the last number that there is: no table has so many entries.
    #[inline]
    pub const fn new(number: u32) -> EntryIdx {
        match NonZeroU32::new(number.wrapping_add(1)) {
            Some(kept) => EntryIdx(kept),
            None => panic!("more than u32::MAX entries"),
        }
    }

    /// The number of this place.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0.get() - 1
    }

    /// The number of the entry's record, 0 for none: the default action's is the first.
    #[inline]
    pub const fn record_of(found: Option<EntryIdx>) -> u32 {
        match found {
            Some(EntryIdx(kept)) => kept.get(),
            None => 0,
        }
    }
}

impl bits::Id for EntryIdx {
    #[inline]
    fn from_index(index: usize) -> EntryIdx {
        match u32::try_from(index) {
            Ok(number) => EntryIdx::new(number),
            Err(_) => panic!("more than u32::MAX entries"),
        }
    }

    #[inline]
    fn index(self) -> usize {
        self.get() as usize
    }
}

impl fmt::Debug for EntryIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryIdx({})", self.get())
    }
}

impl fmt::Display for EntryIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

define_id! {
    /// Who an entry belongs to: a controller, a tenant, the program itself. Numbers are given out
    /// by the device.
    pub struct Owner;
}

define_id! {
    /// A member of an action profile, as numbered by the controller.
    pub struct MemberId;
}

define_id! {
    /// A group of an action selector, as numbered by the controller.
    pub struct GroupId;
}

/// Names an entry of one table for ever; never used twice, ascending in order of insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u64);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An action with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ActionRef {
    /// Which action; the program's number for it.
    pub action: u32,
    /// The parameters that the control plane gives, each starting on its own limb, in order.
    pub params: Box<[u64]>,
}

/// What an entry does when it is hit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EntryAction {
    /// Runs this action.
    Direct(ActionRef),
    /// Runs the action of a member of the table's action profile.
    Member(MemberId),
    /// Runs the action of one member of a group of the table's action selector.
    Group(GroupId),
}

/// An entry to be inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// One match a field of the key.
    pub matches: Vec<FieldMatch>,
    /// The priority, where the key needs one. Only const entries may go without; they are tried in
    /// order of declaration, before all that have one.
    pub priority: Option<i32>,
    /// What the entry does.
    pub action: EntryAction,
    /// Declared by the program: never modified or deleted.
    pub is_const: bool,
    /// After how long without a packet the entry counts as idle.
    pub idle_timeout_ns: Option<u64>,
    /// Who inserts it.
    pub owner: Owner,
    /// Bytes that the controller keeps with the entry; of no meaning here.
    pub metadata: Box<[u8]>,
}

impl NewEntry {
    /// An entry without priority, time-out and metadata, of owner 0, not const.
    pub fn new(matches: Vec<FieldMatch>, action: EntryAction) -> Self {
        Self {
            matches,
            priority: None,
            action,
            is_const: false,
            idle_timeout_ns: None,
            owner: Owner::new(0),
            metadata: Box::default(),
        }
    }
}

/// An entry of a table, as one snapshot sees it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name, for ever.
    pub id: EntryId,
    /// One match a field of the key, checked.
    pub matches: Arc<[FieldMatch]>,
    /// The priority, as given.
    pub priority: Option<i32>,
    /// What it does.
    pub action: EntryAction,
    /// Declared by the program: never modified or deleted.
    pub is_const: bool,
    /// After how long without a packet it counts as idle.
    pub idle_timeout_ns: Option<u64>,
    /// Who inserted it.
    pub owner: Owner,
    /// Bytes that the controller keeps with it.
    pub metadata: Box<[u8]>,
    /// The direct meter, if the table has one; the same in every snapshot that has the entry.
    pub meter: Option<Arc<MeterCell>>,
}

/// How much an entry is used, and when last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageReading {
    /// How many packets.
    pub hits: u64,
    /// Their lengths together.
    pub bytes: u64,
    /// When the last one arrived, or when the entry was inserted, on the device's clock.
    pub last_use_ns: u64,
}

/// Which of several matching entries is taken: the least rank.
///
/// Ranks of one table are all different.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    /// From the priority or the prefix length.
    class: i64,
    /// Among equals the entry that was inserted first.
    id: EntryId,
}

impl Rank {
    /// The rank of an entry that was declared without priority: before all others.
    pub(crate) fn declared(id: EntryId) -> Self {
        Self {
            class: i64::MIN,
            id,
        }
    }

    /// What decides first, and what decides among equals.
    pub(crate) fn parts(self) -> (i64, u64) {
        (self.class, self.id.0)
    }

    /// The rank of an entry for which the smallest number is best.
    pub(crate) fn smallest_first(number: i64, id: EntryId) -> Self {
        Self { class: number, id }
    }
}

/// The name under which the control side finds an entry (P4Runtime: match and priority).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) matches: Arc<[FieldMatch]>,
    pub(crate) priority: Option<i32>,
}
