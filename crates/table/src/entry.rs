//! Entries: their matches, their actions, and the cells that packets write.

use crate::key::FieldMatch;
use crate::meter::MeterCell;
use bits::define_id;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Index of an entry in one snapshot of its table. Indices are reused after a deletion. To identify
/// an entry for longer, use its [`EntryId`].
///
/// Stored plus one, like the results inside match engines. `Option<EntryIdx>` therefore takes one
/// word, in which 0 means "not found".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct EntryIdx(NonZeroU32);

impl EntryIdx {
    /// Creates the index with this number.
    ///
    /// # Panics
    /// If `number` is `u32::MAX`. No table has that many entries.
    #[inline]
    pub const fn new(number: u32) -> EntryIdx {
        match NonZeroU32::new(number.wrapping_add(1)) {
            Some(kept) => EntryIdx(kept),
            None => panic!("more than u32::MAX entries"),
        }
    }

    /// Returns the number of this index.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0.get() - 1
    }

    /// Returns the number of the action record of a lookup result. Record 0 is the default
    /// action's, for `None`.
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
    /// Owner of an entry: a controller, a tenant, or the program itself. The device assigns the
    /// numbers.
    pub struct Owner;
}

define_id! {
    /// Member of an action profile. The controller assigns the numbers.
    pub struct MemberId;
}

define_id! {
    /// Group of an action selector. The controller assigns the numbers.
    pub struct GroupId;
}

/// Permanent identifier of an entry of one table. Never reused; ascending in order of insertion.
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
    /// The action's number in the program.
    pub action: u32,
    /// The parameters from the control plane, in order. Each starts on a new limb.
    pub params: Box<[u64]>,
}

/// Action of an entry, direct or through an action profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EntryAction {
    /// Runs this action.
    Direct(ActionRef),
    /// Runs the action of a member of the table's action profile.
    Member(MemberId),
    /// Runs the action of one member of a group of the table's action selector.
    Group(GroupId),
}

/// An action with its parameters, as a reader of a table sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRef<'t> {
    /// [`ActionRef::action`].
    pub action: u32,
    /// [`ActionRef::params`].
    pub params: &'t [u64],
}

impl<'t> From<&'t ActionRef> for CallRef<'t> {
    #[inline]
    fn from(call: &'t ActionRef) -> Self {
        Self {
            action: call.action,
            params: &call.params,
        }
    }
}

/// Action of an entry, as a reader of a table sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryActionRef<'t> {
    /// [`EntryAction::Direct`].
    Direct(CallRef<'t>),
    /// [`EntryAction::Member`].
    Member(MemberId),
    /// [`EntryAction::Group`].
    Group(GroupId),
}

impl<'t> From<&'t EntryAction> for EntryActionRef<'t> {
    #[inline]
    fn from(action: &'t EntryAction) -> Self {
        match action {
            EntryAction::Direct(call) => Self::Direct(call.into()),
            EntryAction::Member(member) => Self::Member(*member),
            EntryAction::Group(group) => Self::Group(*group),
        }
    }
}

impl EntryActionRef<'_> {
    /// Returns the action as a value of its own.
    pub fn to_action(self) -> EntryAction {
        match self {
            Self::Direct(CallRef { action, params }) => EntryAction::Direct(ActionRef {
                action,
                params: params.into(),
            }),
            Self::Member(member) => EntryAction::Member(member),
            Self::Group(group) => EntryAction::Group(group),
        }
    }
}

/// An entry to be inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// One match for each field of the key.
    pub matches: Vec<FieldMatch>,
    /// The priority, if the key needs one. Only const entries may omit it. Those are tried in order
    /// of declaration, before all entries with a priority.
    pub priority: Option<i32>,
    /// The action of the entry.
    pub action: EntryAction,
    /// True if the program declares the entry. It cannot be modified or deleted then.
    pub is_const: bool,
    /// Idle timeout: time without a packet after which the entry is idle.
    pub idle_timeout_ns: Option<u64>,
    /// The owner that inserts it.
    pub owner: Owner,
    /// Opaque bytes that the controller stores with the entry.
    pub metadata: Box<[u8]>,
}

impl NewEntry {
    /// Creates an entry of owner 0 without priority, timeout and metadata. It is not const.
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

/// An entry of a table, as one snapshot sees it. A table stores entries in a shorter form, from
/// which this one is made.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Permanent identifier.
    pub id: EntryId,
    /// One match for each field of the key, checked.
    pub matches: Arc<[FieldMatch]>,
    /// The priority, as given by the owner.
    pub priority: Option<i32>,
    /// The action.
    pub action: EntryAction,
    /// True if the program declares the entry. It cannot be modified or deleted then.
    pub is_const: bool,
    /// Idle timeout: time without a packet after which the entry is idle.
    pub idle_timeout_ns: Option<u64>,
    /// The owner that inserted it.
    pub owner: Owner,
    /// Opaque bytes that the controller stores with the entry.
    pub metadata: Box<[u8]>,
    /// The direct meter, if the table has one. All snapshots that have the entry share it.
    pub meter: Option<Arc<MeterCell>>,
}

/// Usage of an entry: counts and time of last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageReading {
    /// Number of packets.
    pub hits: u64,
    /// Sum of their lengths in bytes.
    pub bytes: u64,
    /// Time when the last packet arrived, or when the entry was inserted, on the device's clock.
    pub last_use_ns: u64,
}

/// Order of matching entries: the entry with the least rank wins.
///
/// All ranks of one table differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    /// Derived from the priority or the prefix length.
    class: i64,
    /// Breaks ties: the entry that was inserted first wins.
    id: EntryId,
}

impl Rank {
    /// Returns the rank of a const entry that was declared without priority. It is less than all
    /// others.
    pub(crate) fn declared(id: EntryId) -> Self {
        Self {
            class: i64::MIN,
            id,
        }
    }

    /// Returns the two numbers that ranks are compared by: class, then id.
    pub(crate) fn parts(self) -> (i64, u64) {
        (self.class, self.id.0)
    }

    /// Returns a rank in which smaller numbers win.
    pub(crate) fn smallest_first(number: i64, id: EntryId) -> Self {
        Self { class: number, id }
    }
}
