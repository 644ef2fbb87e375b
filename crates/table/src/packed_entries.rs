//! [`PackedEntries`]: array of a table's entries, as packets see it.
//!
//! An entry is a run of limbs of the same length for all entries of a table: its id, its action,
//! its match and priority ([`MatchBits`]), and its parameters. What few entries have is stored
//! beside, in a [`ColdPart`]: an idle timeout, metadata, an owner, a direct meter, parameters that
//! the table's record layout does not foresee. A route to an IPv4 prefix with two parameters takes
//! 40 bytes and no heap object of its own. [`Entry`] is made from it where it is read.

use crate::engine::{Replay, Versions};
use crate::entry::{CallRef, Entry, EntryActionRef, EntryId, EntryIdx, GroupId, MemberId, Owner};
use crate::key::{FieldMatch, KeyShape};
use crate::match_bits::MatchBits;
use crate::meter::MeterCell;
use bits::Id;
use std::sync::Arc;

/// Number of entries in a chunk of memory. Growing copies at most one chunk.
const CHUNK: usize = 1024;

/// Maximum number of limbs for parameters in each entry. More are stored in cold parts, so that a
/// long action that few entries run does not make all of them long.
const MAX_PARAMS: usize = 32;

/// Number of limbs before the match: the id, and the state.
const HEAD: usize = 2;

/// Bits of the limb with the state of an entry. Its low half is the number of the action, member
/// or group.
mod state {
    pub(super) const IN_USE: u64 = 1 << 32;
    pub(super) const IS_CONST: u64 = 1 << 33;
    pub(super) const IS_MEMBER: u64 = 1 << 34;
    pub(super) const IS_GROUP: u64 = 1 << 35;
    /// The parameters are in the cold part.
    pub(super) const IS_LONG: u64 = 1 << 36;
    pub(super) const HAS_COLD: u64 = 1 << 37;
    /// Position of the number of limbs of the parameters.
    pub(super) const PARAMS: u32 = 48;
}

/// Parts of an entry that few entries have.
#[derive(Debug, Clone, Default)]
pub(crate) struct ColdPart {
    pub(crate) idle_timeout_ns: Option<u64>,
    pub(crate) metadata: Box<[u8]>,
    pub(crate) owner: Option<Owner>,
    pub(crate) meter: Option<Arc<MeterCell>>,
    /// Parameters that have no room in the limbs.
    pub(crate) params: Option<Box<[u64]>>,
}

impl ColdPart {
    fn is_empty(&self) -> bool {
        let Self {
            idle_timeout_ns,
            metadata,
            owner,
            meter,
            params,
        } = self;
        let is_timed = idle_timeout_ns.is_some() || meter.is_some();
        !is_timed && metadata.is_empty() && owner.is_none() && params.is_none()
    }
}

/// Positions of the parts of an entry in its limbs.
#[derive(Debug)]
struct PackedLayout {
    matches: Arc<MatchBits>,
    /// Number of limbs for parameters.
    params: usize,
}

impl PackedLayout {
    fn stride(&self) -> usize {
        HEAD + self.matches.limbs() + self.params
    }
}

/// An entry to be stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredEntry<'e> {
    pub(crate) id: EntryId,
    pub(crate) is_const: bool,
    /// Match and priority as [`MatchBits`].
    pub(crate) identity: &'e [u64],
    pub(crate) action: EntryActionRef<'e>,
}

/// Immutable array of entries by entry index.
#[derive(Debug, Clone)]
pub(crate) struct PackedEntries {
    layout: Arc<PackedLayout>,
    /// Number of limbs of an entry.
    stride: usize,
    chunks: Vec<Vec<u64>>,
    /// Cold parts by entry index, up to the last entry that has one.
    cold: Vec<Option<Arc<ColdPart>>>,
    /// Number of cold parts.
    cold_parts: usize,
}

impl PackedEntries {
    fn new(layout: Arc<PackedLayout>) -> Self {
        Self {
            stride: layout.stride(),
            layout,
            chunks: Vec::new(),
            cold: Vec::new(),
            cold_parts: 0,
        }
    }

    /// Returns the entry at an index, if there is one.
    #[inline]
    pub(crate) fn get(&self, idx: EntryIdx) -> Option<PackedEntry<'_>> {
        let (place, stride) = (idx.index(), self.stride);
        let chunk = self.chunks.get(place / CHUNK)?;
        let limbs = chunk.get(place % CHUNK * stride..)?.get(..stride)?;
        let is_used = limbs[1] & state::IN_USE != 0;
        is_used.then(|| PackedEntry {
            layout: &self.layout,
            limbs,
            cold: match limbs[1] & state::HAS_COLD {
                0 => None,
                _ => self.cold.get(place).and_then(Option::as_deref),
            },
        })
    }

    /// Iterates over all entries with their indices, in order of index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (EntryIdx, PackedEntry<'_>)> {
        let places = 0..self.chunks.len() * CHUNK;
        places.filter_map(|place| {
            let idx = EntryIdx::from_index(place);
            Some((idx, self.get(idx)?))
        })
    }

    /// Returns the approximate size in bytes.
    fn memory(&self) -> usize {
        let limbs: usize = self.chunks.iter().map(Vec::capacity).sum();
        let cold = self.cold.iter().flatten().map(|cold| {
            let params = cold.params.as_ref().map_or(0, |params| params.len());
            size_of::<ColdPart>() + cold.metadata.len() + params * size_of::<u64>()
        });
        limbs * size_of::<u64>() + size_of_val(&self.cold[..]) + cold.sum::<usize>()
    }

    /// Returns the limbs of a place, which is allocated if it is not yet.
    fn limbs_mut(&mut self, place: usize) -> &mut [u64] {
        let stride = self.stride;
        let (chunk, first) = (place / CHUNK, place % CHUNK * stride);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, Vec::new);
        }
        let limbs = &mut self.chunks[chunk];
        if limbs.len() < first + stride {
            if chunk > 0 {
                // A table of several chunks is large: the chunk will be full.
                limbs.reserve_exact(CHUNK * stride - limbs.len());
            }
            limbs.resize(first + stride, 0);
        }
        &mut limbs[first..first + stride]
    }
}

/// The control side of [`PackedEntries`].
#[derive(Debug)]
pub(crate) struct PackedEntryStore {
    versions: Versions<PackedEntries>,
    layout: Arc<PackedLayout>,
}

impl PackedEntryStore {
    /// Creates an empty array for entries of which the parameters take at most `params` limbs.
    /// Entries with more are stored in a slower way.
    pub(crate) fn new(shape: Arc<KeyShape>, params: usize) -> Self {
        let layout = Arc::new(PackedLayout {
            matches: Arc::new(MatchBits::new(shape)),
            params: params.min(MAX_PARAMS),
        });
        Self {
            versions: Versions::new(PackedEntries::new(layout.clone())),
            layout,
        }
    }

    /// Returns the coding of match and priority.
    pub(crate) fn match_bits(&self) -> &MatchBits {
        &self.layout.matches
    }

    pub(crate) fn get(&self, idx: EntryIdx) -> Option<PackedEntry<'_>> {
        self.versions.newest().get(idx)
    }

    /// Makes room for parameters of `params` limbs in each entry, if there is not.
    pub(crate) fn widen(&mut self, params: usize) {
        let params = params.min(MAX_PARAMS);
        if params <= self.layout.params {
            return;
        }
        let layout = Arc::new(PackedLayout {
            matches: self.layout.matches.clone(),
            params,
        });
        let newest = self.versions.newest();
        let mut wider = PackedEntries::new(layout.clone());
        for (idx, entry) in newest.iter() {
            let limbs = entry.limbs;
            wider.limbs_mut(idx.index())[..limbs.len()].copy_from_slice(limbs);
        }
        wider.cold.clone_from(&newest.cold);
        wider.cold_parts = newest.cold_parts;
        self.versions.reset(wider);
        self.layout = layout;
    }

    /// Sets the entry at an index.
    pub(crate) fn set(&mut self, idx: EntryIdx, entry: StoredEntry<'_>, mut cold: ColdPart) {
        let layout = &*self.layout;
        let mut limbs = vec![0; layout.stride()];
        let (matches, params) = limbs[HEAD..].split_at_mut(layout.matches.limbs());
        matches.copy_from_slice(entry.identity);
        let (number, kind) = match entry.action {
            EntryActionRef::Direct(call) => {
                let count = call.params.len();
                let kind = match params.get_mut(..count) {
                    Some(room) => {
                        room.copy_from_slice(call.params);
                        (count as u64) << state::PARAMS
                    }
                    None => {
                        cold.params = Some(call.params.into());
                        state::IS_LONG
                    }
                };
                (call.action, kind)
            }
            EntryActionRef::Member(member) => (member.get(), state::IS_MEMBER),
            EntryActionRef::Group(group) => (group.get(), state::IS_GROUP),
        };
        let cold = (!cold.is_empty()).then(|| Arc::new(cold));
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        limbs[0] = entry.id.0;
        limbs[1] = u64::from(number)
            | kind
            | state::IN_USE
            | flag(entry.is_const, state::IS_CONST)
            | flag(cold.is_some(), state::HAS_COLD);
        self.versions.change(Change {
            idx,
            limbs: limbs.into(),
            cold,
        });
    }

    /// Removes the entry at an index.
    pub(crate) fn remove(&mut self, idx: EntryIdx) {
        self.versions.change(Change {
            idx,
            limbs: Box::default(),
            cold: None,
        });
    }

    pub(crate) fn snapshot(&self) -> Arc<PackedEntries> {
        self.versions.snapshot()
    }

    /// Returns the approximate size of all copies in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.versions.memory(PackedEntries::memory)
    }
}

/// Log record: the new content of one index. No limbs remove the entry.
#[derive(Debug)]
pub(crate) struct Change {
    idx: EntryIdx,
    limbs: Box<[u64]>,
    cold: Option<Arc<ColdPart>>,
}

impl Replay for PackedEntries {
    type Op = Change;

    fn apply(&mut self, change: &Change) {
        let place = change.idx.index();
        let limbs = self.limbs_mut(place);
        match change.limbs.is_empty() {
            true => limbs.fill(0),
            false => limbs.copy_from_slice(&change.limbs),
        }
        self.cold_parts += usize::from(change.cold.is_some());
        if let Some(cold) = self.cold.get_mut(place) {
            self.cold_parts -= usize::from(cold.is_some());
            cold.clone_from(&change.cold);
        } else if change.cold.is_some() {
            self.cold.resize(place, None);
            self.cold.push(change.cold.clone());
        }
    }

    fn clone_cost(&self) -> usize {
        // A clone copies limbs in order, while a change waits for random memory. So does a clone
        // at each cold part, of which it counts a reference.
        self.chunks.len() * CHUNK / 16 + self.cold_parts
    }
}

/// An entry, as its limbs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedEntry<'t> {
    layout: &'t PackedLayout,
    limbs: &'t [u64],
    cold: Option<&'t ColdPart>,
}

impl<'t> PackedEntry<'t> {
    #[inline]
    pub(crate) fn id(self) -> EntryId {
        EntryId(self.limbs[0])
    }

    pub(crate) fn is_const(self) -> bool {
        self.limbs[1] & state::IS_CONST != 0
    }

    /// Returns the match and the priority as [`MatchBits`].
    pub(crate) fn identity(self) -> &'t [u64] {
        &self.limbs[HEAD..][..self.layout.matches.limbs()]
    }

    pub(crate) fn matches(self) -> Arc<[FieldMatch]> {
        self.layout.matches.matches(self.identity())
    }

    pub(crate) fn priority(self) -> Option<i32> {
        self.layout.matches.priority(self.identity())
    }

    #[inline]
    pub(crate) fn action(self) -> EntryActionRef<'t> {
        let state = self.limbs[1];
        let number = state as u32;
        if state & state::IS_MEMBER != 0 {
            return EntryActionRef::Member(MemberId::new(number));
        }
        if state & state::IS_GROUP != 0 {
            return EntryActionRef::Group(GroupId::new(number));
        }
        let params = if state & state::IS_LONG != 0 {
            self.cold.and_then(|cold| cold.params.as_deref())
        } else {
            let from = self.limbs.len() - self.layout.params;
            self.limbs[from..].get(..(state >> state::PARAMS) as usize)
        };
        EntryActionRef::Direct(CallRef {
            action: number,
            params: params.unwrap_or_default(),
        })
    }

    pub(crate) fn idle_timeout_ns(self) -> Option<u64> {
        self.cold?.idle_timeout_ns
    }

    pub(crate) fn meter(self) -> Option<&'t MeterCell> {
        self.cold?.meter.as_deref()
    }

    /// Returns the cold part, without parameters; an empty one if there is none.
    pub(crate) fn cold(self) -> ColdPart {
        let params = None;
        self.cold.map_or_else(ColdPart::default, |cold| ColdPart {
            params,
            ..cold.clone()
        })
    }

    /// Returns the entry with all its parts.
    pub(crate) fn to_entry(self) -> Entry {
        let cold = self.cold();
        Entry {
            id: self.id(),
            matches: self.matches(),
            priority: self.priority(),
            action: self.action().to_action(),
            is_const: self.is_const(),
            idle_timeout_ns: cold.idle_timeout_ns,
            owner: cold.owner.unwrap_or(Owner::new(0)),
            metadata: cold.metadata,
            meter: cold.meter,
        }
    }
}
