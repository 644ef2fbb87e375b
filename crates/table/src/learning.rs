//! [`LearningTable`]: exact-match table into which packets insert entries (PNA `add_entry`).
//!
//! All memory is allocated when the table is created. An insert takes a bounded number of steps and
//! never waits. The next packet sees the entry, whichever worker processes it.
//!
//! Structure. The table is an array of buckets of one entry each, used as a ring and at most half
//! full. In the code, `slot` is the index of a bucket. Each bucket has one `meta` word: its state,
//! a version that every change increments, and a tag, which is a part of the key's hash. A key is
//! at most `MAX_REACH` buckets away from its home bucket. `reach` of the home is the largest
//! distance ever used for it, which bounds the search.
//!
//! Insert. A packet claims an empty bucket by compare-and-exchange. Then it checks if another
//! bucket within reach has the same tag. If so, another packet may be inserting the same key, and
//! it gives up. A key is therefore never present twice.
//!
//! Read. A reader copies what it needs and reads `meta` again. If `meta` has changed, the copy may
//! be inconsistent, and the reader retries (seqlock).
//!
//! Expiry. Packets do not expire entries and do not maintain the order of their expiry times. The
//! control side has a heap of buckets ([`Timers`]) with the times at which it checks them. Each
//! time is not later than the expiry of the entry. Restarting a timer does not touch the heap: a
//! bucket that is checked too early is queued again. A packet notifies the control side of a bucket
//! ([`SlotSet`]) only if the bucket's time in the heap (`FILED`) would be too late. That is so when
//! it inserts an entry and when it shortens a timeout.
//!
//! Handlers. Packets of a table for handlers ([`LearningTable::for_handlers`]) also modify and
//! remove entries, see [`changes`].

mod changes;

use crate::entry::{ActionRef, EntryId, UsageReading};
use crate::key::KeyShape;
use crate::limb_map;
use crate::removal_log::RemovalLog;
use crate::slot_set::SlotSet;
use crate::timers::Timers;
use std::fmt;
use std::sync::atomic::{
    AtomicU8, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use changes::LearnedChange;

/// Entry that a packet inserts.
#[derive(Debug, Clone, Copy)]
pub struct Learn<'p> {
    /// The key, in the form of a lookup key.
    pub key: &'p [u64],
    /// The action.
    pub action: u32,
    /// Its parameters.
    pub params: &'p [u64],
    /// Time without [`LearningTable::restart_timer`] after which the entry expires; `None` for
    /// never. In a table for handlers, a hit also restarts the timer.
    pub idle_timeout_ns: Option<u64>,
    /// The time of the packet.
    pub now_ns: u64,
}

/// Error of an insert. The table is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LearnError {
    /// An entry with this key exists.
    Exists,
    /// No free bucket within reach, or the table is at its capacity. Counted in
    /// [`LearningTable::full`].
    Full,
    /// Another packet was inserting the same key at the same time.
    Contended,
    /// The key or the parameters do not have the size that the table was created for.
    WrongSize,
}

impl fmt::Display for LearnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exists => "an entry with this key exists",
            Self::Full => "the table is full",
            Self::Contended => "another packet is inserting the same key",
            Self::WrongSize => "the key or the parameters do not have the size of the table's",
        })
    }
}

impl std::error::Error for LearnError {}

/// Hit of a lookup: the action to run and the entry to count for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learned {
    /// The action. Its parameters are in the buffer given to [`LearningTable::find`].
    pub action: u32,
    /// Id of the entry.
    pub id: EntryId,
    slot: usize,
}

/// Entry as the control side reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedEntry {
    /// Permanent identifier.
    pub id: EntryId,
    /// Its key.
    pub key: Box<[u64]>,
    /// Its action.
    pub action: ActionRef,
    /// Time from the last restart of its timer to its expiry; `None` for never.
    pub idle_timeout_ns: Option<u64>,
    /// Time at which its timer was last restarted.
    pub timer_start_ns: u64,
    /// Its usage.
    pub usage: UsageReading,
}

impl LearnedEntry {
    /// Returns the time at which the entry expires if its timer is not restarted; `u64::MAX` for
    /// never.
    pub fn due_ns(&self) -> u64 {
        let timeout = self.idle_timeout_ns.unwrap_or(NEVER);
        self.timer_start_ns.saturating_add(timeout)
    }
}

/// Exact-match table into which packets insert entries.
#[derive(Debug)]
pub struct LearningTable {
    shape: KeyShape,
    param_limbs: usize,
    capacity: usize,
    /// One word for each bucket: state, version, tag.
    meta: Box<[AtomicU64]>,
    /// Several words for each bucket: those of module `word`, the key, the parameters.
    words: Box<[AtomicU64]>,
    /// For each home bucket, the largest distance at which one of its keys has ever been.
    reach: Box<[AtomicU8]>,
    len: AtomicUsize,
    full: AtomicU64,
    next_id: AtomicU64,
    /// No entry expires before this time.
    next_expiry: AtomicU64,
    /// Buckets into which packets have inserted entries that [`LearningTable::take_changes`] has
    /// not returned yet.
    inserted: SlotSet,
    /// Buckets that must be checked earlier than the timers say.
    retimed: SlotSet,
    /// Entries that packets have removed, in a table for handlers.
    removed: Option<RemovalLog>,
    /// Used by the control side only, never by packets.
    expiry: Mutex<Expiry>,
}

/// Expiry state of the control side.
#[derive(Debug)]
struct Expiry {
    timers: Timers,
    /// Pacing of the checks: the time at which the next bucket would be checked if there were no
    /// bursts. Advances by [`PACE_NS`] for each bucket checked.
    turn_ns: u64,
}

/// Maximum number of due buckets checked at one moment.
const BURST: u64 = 1024;

/// Interval between further checks if more buckets than that are due.
const PACE_NS: u64 = 1000;

/// Word offsets in a bucket, in front of its key.
mod word {
    pub(super) const ID: usize = 0;
    /// The action in the lower half, the number of its parameter limbs in the upper half.
    pub(super) const ACTION: usize = 1;
    pub(super) const IDLE_TIMEOUT: usize = 2;
    pub(super) const TIMER_START: usize = 3;
    pub(super) const HITS: usize = 4;
    pub(super) const BYTES: usize = 5;
    pub(super) const LAST_USE: usize = 6;
    /// Time at which the timers check the bucket. Written by the control side only.
    pub(super) const FILED: usize = 7;
    pub(super) const KEY: usize = 8;
}

/// `IDLE_TIMEOUT` of an entry that never expires. `FILED` of a bucket that is not in the timers.
const NEVER: u64 = u64::MAX;

/// Maximum distance of a key from its home bucket.
const MAX_REACH: usize = 255;

/// Maximum number of reads while the control side rewrites the bucket.
const READ_TRIES: usize = 64;

/// State of a bucket: the lowest two bits of its `meta`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    /// Claimed by a writer that is filling it.
    Claimed,
    Full,
    /// Full; its action is being replaced.
    Rewriting,
}

/// Bit of a full bucket's `meta`: the control side knows the entry, so it must learn of its
/// removal.
const REPORTED: u64 = 0b100;

const VERSION_SHIFT: u32 = 3;
const VERSION_MASK: u64 = 0xffff << VERSION_SHIFT;
const TAG_MASK: u64 = !(VERSION_MASK | 0b111);

fn state(meta: u64) -> State {
    match meta & 0b11 {
        0 => State::Empty,
        1 => State::Claimed,
        2 => State::Full,
        _ => State::Rewriting,
    }
}

/// Returns `meta` with the next version, this state and this tag, without [`REPORTED`].
fn next(meta: u64, state: State, tag: u64) -> u64 {
    (meta.wrapping_add(1 << VERSION_SHIFT) & VERSION_MASK) | tag | state as u64
}

impl LearningTable {
    /// Creates a table for at most `capacity` entries with keys of `shape`, in which all fields are
    /// exact. Entries have at most `param_limbs` limbs of parameters.
    pub fn new(shape: KeyShape, param_limbs: usize, capacity: usize) -> Self {
        let slots = (capacity * 2).next_power_of_two().max(2);
        let stride = word::KEY + shape.limbs() + param_limbs;
        let first = |at: usize| AtomicU64::new(if at % stride == word::FILED { NEVER } else { 0 });
        Self {
            meta: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            words: (0..slots * stride).map(first).collect(),
            reach: (0..slots).map(|_| AtomicU8::new(0)).collect(),
            len: 0.into(),
            full: 0.into(),
            next_id: 0.into(),
            next_expiry: NEVER.into(),
            inserted: SlotSet::new(slots),
            retimed: SlotSet::new(slots),
            removed: None,
            expiry: Mutex::new(Expiry {
                timers: Timers::new(slots),
                turn_ns: 0,
            }),
            shape,
            param_limbs,
            capacity,
        }
    }

    /// Returns the same table, which must be empty, for handlers: packets may modify and remove
    /// entries, and a hit restarts the entry's timer.
    pub fn for_handlers(mut self) -> Self {
        self.removed = Some(RemovalLog::new(self.capacity, self.shape.limbs()));
        self
    }

    /// Returns true if the table is for handlers.
    #[inline]
    pub fn is_for_handlers(&self) -> bool {
        self.removed.is_some()
    }

    /// Returns the shape of the keys.
    pub fn shape(&self) -> &KeyShape {
        &self.shape
    }

    /// Returns the maximum number of entries.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the maximum number of parameter limbs of an entry.
    pub fn param_limbs(&self) -> usize {
        self.param_limbs
    }

    /// Returns the number of entries. Entries that are being inserted may be counted.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of inserts that failed with [`LearnError::Full`] since the table was
    /// created.
    pub fn full(&self) -> u64 {
        self.full.load(Relaxed)
    }

    /// Returns the entry with this key. Copies its parameters to `params`, which must have room for
    /// the longest.
    #[inline]
    pub fn find(&self, key: &[u64], params: &mut [u64]) -> Option<Learned> {
        let (home, tag) = self.place(key);
        self.within_reach(home)
            .find_map(|slot| self.read_hit(slot, tag, key, params))
    }

    /// Counts a packet of `bytes` bytes at `now_ns` for the entry, if it still exists.
    #[inline]
    pub fn record(&self, hit: &Learned, bytes: u64, now_ns: u64) {
        if self.is_current(hit) {
            let words = self.words(hit.slot);
            words[word::HITS].fetch_add(1, Relaxed);
            words[word::BYTES].fetch_add(bytes, Relaxed);
            words[word::LAST_USE].fetch_max(now_ns, Relaxed);
        }
    }

    /// Restarts the entry's timer (PNA `restart_expire_timer`).
    #[inline]
    pub fn restart_timer(&self, hit: &Learned, now_ns: u64) {
        if self.is_current(hit) {
            self.words(hit.slot)[word::TIMER_START].fetch_max(now_ns, Relaxed);
        }
    }

    /// Sets the entry's timeout and restarts its timer (PNA `set_entry_expire_time`).
    #[inline]
    pub fn set_idle_timeout(&self, hit: &Learned, timeout_ns: Option<u64>, now_ns: u64) {
        if self.is_current(hit) {
            self.restart_timer(hit, now_ns);
            self.words(hit.slot)[word::IDLE_TIMEOUT].store(timeout_ns.unwrap_or(NEVER), SeqCst);
            self.note_expiry(hit.slot, timeout_ns, now_ns);
        }
    }

    /// Inserts an entry.
    pub fn insert(&self, new: Learn<'_>) -> Result<EntryId, LearnError> {
        let (slot, tag) = self.claim_for(new.key, new.params.len())?;
        let id = self.next_id.fetch_add(1, Relaxed);
        let usage = UsageReading {
            last_use_ns: new.now_ns,
            ..UsageReading::default()
        };
        self.fill(slot, tag, id, &new, usage, 0);
        self.inserted.insert(slot);
        Ok(EntryId(id))
    }

    /// Inserts an entry that was read from a table before. Its id, timer and usage stay.
    /// [`LearningTable::take_changes`] does not return it.
    pub fn restore(&self, entry: &LearnedEntry) -> Result<(), LearnError> {
        let (slot, tag) = self.claim_for(&entry.key, entry.action.params.len())?;
        self.next_id
            .fetch_max(entry.id.0.saturating_add(1), Relaxed);
        let new = Learn {
            key: &entry.key,
            action: entry.action.action,
            params: &entry.action.params,
            idle_timeout_ns: entry.idle_timeout_ns,
            now_ns: entry.timer_start_ns,
        };
        self.fill(slot, tag, entry.id.0, &new, entry.usage, REPORTED);
        Ok(())
    }

    /// Replaces the action of the entry with this key. Packets see either the old action or the new
    /// one. Returns false if there is no such entry, or if it changes concurrently.
    pub fn modify(&self, key: &[u64], action: &ActionRef) -> Result<bool, LearnError> {
        if action.params.len() > self.param_limbs {
            return Err(LearnError::WrongSize);
        }
        let (home, tag) = self.place(key);
        let found = self.find_slot(home, tag, key);
        Ok(found.is_some_and(|at| self.rewrite(at, tag, action.action, &action.params)))
    }

    /// Replaces the action in a full bucket if its `meta` is unchanged. Returns true if it did.
    fn rewrite(&self, (slot, meta): (usize, u64), tag: u64, action: u32, params: &[u64]) -> bool {
        let reported = meta & REPORTED;
        let rewriting = next(meta, State::Rewriting, tag) | reported;
        let claimed = self.meta[slot].compare_exchange(meta, rewriting, SeqCst, SeqCst);
        if claimed.is_err() {
            return false;
        }
        fence(Release);
        self.fill_action(slot, action, params);
        self.meta[slot].store(next(rewriting, State::Full, tag) | reported, SeqCst);
        true
    }

    /// Deletes the entry with this key. Returns false if there is none.
    pub fn delete(&self, key: &[u64]) -> bool {
        let (home, tag) = self.place(key);
        self.find_slot(home, tag, key)
            .is_some_and(|(slot, meta)| self.empty(slot, meta))
    }

    /// Returns the entry with this key, as the control side reads it.
    pub fn get(&self, key: &[u64]) -> Option<LearnedEntry> {
        let (home, tag) = self.place(key);
        let (slot, _) = self.find_slot(home, tag, key)?;
        self.read_entry(slot).map(|(entry, _)| entry)
    }

    /// Returns true if packets have left notifications that [`LearningTable::take_changes`] has
    /// not processed.
    #[inline]
    pub fn is_told(&self) -> bool {
        let is_removed = |log: &RemovalLog| !log.is_empty();
        !(self.inserted.is_empty() && self.retimed.is_empty())
            || self.removed.as_ref().is_some_and(is_removed)
    }

    /// Returns a time before which no entry expires; `u64::MAX` if none ever does. Entries may
    /// expire later because of restarted timers.
    #[inline]
    pub fn next_expiry(&self) -> u64 {
        self.next_expiry.load(SeqCst)
    }

    /// Deletes and returns the entries that have expired at `now_ns`. `now_ns` must not decrease
    /// from call to call.
    ///
    /// No entry expires early. At most 1024 entries are checked at one moment, plus one each
    /// microsecond. An entry expires late only if more than 1024 entries were due for a check
    /// within about a millisecond. It is late by at most one microsecond for each entry in the
    /// table. The result does not depend on calls in between.
    pub fn expire(&self, now_ns: u64) -> Vec<LearnedEntry> {
        let mut expired = Vec::new();
        if self.next_expiry() > now_ns {
            return expired;
        }
        let mut expiry = self.lock_expiry();
        // Notifications of packets from here on lower it again.
        self.next_expiry.store(NEVER, SeqCst);
        let Expiry { timers, turn_ns } = &mut *expiry;
        self.file_retimed(timers);
        while let Some((at, slot)) = timers.first() {
            let turn = at.max(turn_ns.saturating_sub((BURST - 1) * PACE_NS));
            if turn > now_ns {
                self.next_expiry.fetch_min(turn, SeqCst);
                break;
            }
            *turn_ns = turn.max(*turn_ns).saturating_add(PACE_NS);
            match self.look_at(slot, turn, &mut expired) {
                Some(due) => self.file(timers, slot, due),
                None => self.unfile(timers, slot),
            }
        }
        expired
    }

    /// Deletes the entry in a bucket if it is due by `turn`. Otherwise returns the time of the next
    /// check, if there is one.
    fn look_at(&self, slot: usize, turn: u64, expired: &mut Vec<LearnedEntry>) -> Option<u64> {
        let due = self.due(slot)?;
        if due > turn {
            return Some(due);
        }
        match self.read_entry(slot) {
            Some((entry, meta)) if entry.due_ns() <= turn && self.empty(slot, meta) => {
                expired.push(entry);
                None
            }
            // A packet is changing it.
            _ => Some(turn.saturating_add(PACE_NS)),
        }
    }

    /// Returns the time at which the entry in a bucket expires, if there is one that ever does.
    fn due(&self, slot: usize) -> Option<u64> {
        if matches!(
            state(self.meta[slot].load(SeqCst)),
            State::Empty | State::Claimed
        ) {
            return None;
        }
        let timeout = self.words(slot)[word::IDLE_TIMEOUT].load(SeqCst);
        let start = self.timer_start(slot);
        (timeout != NEVER).then(|| start.saturating_add(timeout))
    }

    /// Returns the time at which the timer of the entry in a bucket was last restarted.
    fn timer_start(&self, slot: usize) -> u64 {
        let words = self.words(slot);
        let start = words[word::TIMER_START].load(SeqCst);
        match self.is_for_handlers() {
            true => start.max(words[word::LAST_USE].load(SeqCst)),
            false => start,
        }
    }

    fn file(&self, timers: &mut Timers, slot: usize, at: u64) {
        timers.file(slot, at);
        self.words(slot)[word::FILED].store(at, SeqCst);
    }

    /// Removes a bucket from the timers, unless a packet sets a timeout at the same time. The
    /// sequentially consistent accesses ensure that at least one of the two sees the other.
    fn unfile(&self, timers: &mut Timers, slot: usize) {
        self.words(slot)[word::FILED].store(NEVER, SeqCst);
        match self.due(slot) {
            Some(due) => self.file(timers, slot, due),
            None => timers.remove(slot),
        }
    }

    fn file_retimed(&self, timers: &mut Timers) {
        self.retimed.take(|slot| {
            let filed = self.words(slot)[word::FILED].load(Relaxed);
            if let Some(due) = self.due(slot).filter(|&due| due < filed) {
                self.file(timers, slot, due);
            }
        });
    }

    /// Schedules a check in time for an entry that got this timeout.
    #[inline]
    fn note_expiry(&self, slot: usize, timeout_ns: Option<u64>, now_ns: u64) {
        let Some(timeout) = timeout_ns else { return };
        let due = now_ns.saturating_add(timeout);
        if due < self.words(slot)[word::FILED].load(SeqCst) {
            self.retimed.insert(slot);
        }
        self.next_expiry.fetch_min(due, SeqCst);
    }

    fn lock_expiry(&self) -> MutexGuard<'_, Expiry> {
        self.expiry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes all entries.
    pub fn clear(&self) {
        for slot in 0..self.meta.len() {
            let meta = self.meta[slot].load(SeqCst);
            if state(meta) == State::Full {
                self.empty(slot, meta);
            }
        }
    }

    /// Returns all entries, in order of insertion. Entries that packets insert concurrently may be
    /// missing.
    pub fn entries(&self) -> Vec<LearnedEntry> {
        let mut entries: Vec<_> = (0..self.meta.len())
            .filter_map(|slot| self.read_entry(slot))
            .map(|(e, _)| e)
            .collect();
        entries.sort_unstable_by_key(|entry| entry.id);
        entries
    }

    /// Claims a bucket for an entry with this key. Returns it with the key's tag.
    fn claim_for(&self, key: &[u64], params: usize) -> Result<(usize, u64), LearnError> {
        if key.len() != self.shape.limbs() || params > self.param_limbs {
            return Err(LearnError::WrongSize);
        }
        let (home, tag) = self.place(key);
        if self.find_slot(home, tag, key).is_some() {
            return Err(LearnError::Exists);
        }
        let slot = self.claim(home, tag).inspect_err(|_| {
            self.full.fetch_add(1, Relaxed);
        })?;
        match self.check_alone(slot, home, tag, key) {
            Ok(()) => Ok((slot, tag)),
            Err(error) => {
                self.release(slot);
                Err(error)
            }
        }
    }

    /// Returns the home bucket and the tag of a key.
    #[inline]
    fn place(&self, key: &[u64]) -> (usize, u64) {
        let hash = limb_map::hash(key.iter().copied());
        (hash as usize & (self.meta.len() - 1), hash & TAG_MASK)
    }

    #[inline]
    fn words(&self, slot: usize) -> &[AtomicU64] {
        let stride = word::KEY + self.shape.limbs() + self.param_limbs;
        &self.words[slot * stride..(slot + 1) * stride]
    }

    /// Iterates over the buckets in which a key of this home can be.
    #[inline]
    fn within_reach(&self, home: usize) -> impl Iterator<Item = usize> + use<> {
        let mask = self.meta.len() - 1;
        let reach = usize::from(self.reach[home].load(SeqCst));
        (0..=reach).map(move |distance| (home + distance) & mask)
    }

    #[inline]
    fn has_key(&self, slot: usize, key: &[u64]) -> bool {
        let stored = &self.words(slot)[word::KEY..word::KEY + self.shape.limbs()];
        stored
            .iter()
            .map(|limb| limb.load(Relaxed))
            .eq(key.iter().copied())
    }

    /// Returns true if no other entry has taken the bucket since the hit.
    #[inline]
    fn is_current(&self, hit: &Learned) -> bool {
        self.words(hit.slot)[word::ID].load(Relaxed) == hit.id.0
    }

    /// Returns true if everything read from the bucket since `meta` was read is consistent.
    #[inline]
    fn is_unchanged(&self, slot: usize, meta: u64) -> bool {
        fence(Acquire);
        self.meta[slot].load(Relaxed) == meta
    }

    #[inline]
    fn read_hit(&self, slot: usize, tag: u64, key: &[u64], params: &mut [u64]) -> Option<Learned> {
        for _ in 0..READ_TRIES {
            let meta = self.meta[slot].load(SeqCst);
            if meta & TAG_MASK != tag {
                return None;
            }
            match state(meta) {
                State::Empty | State::Claimed => return None,
                State::Rewriting => std::hint::spin_loop(),
                State::Full => {
                    let is_hit = self.has_key(slot, key);
                    let id = EntryId(self.words(slot)[word::ID].load(Relaxed));
                    let action = if is_hit {
                        self.read_action(slot, params)
                    } else {
                        0
                    };
                    if self.is_unchanged(slot, meta) {
                        return is_hit.then_some(Learned { action, id, slot });
                    }
                }
            }
        }
        None
    }

    /// Returns the action and copies its parameters to `params`.
    #[inline]
    fn read_action(&self, slot: usize, params: &mut [u64]) -> u32 {
        let words = self.words(slot);
        let action = words[word::ACTION].load(Relaxed);
        let stored = &words[word::KEY + self.shape.limbs()..];
        for (param, stored) in params.iter_mut().zip(&stored[..self.param_count(action)]) {
            *param = stored.load(Relaxed);
        }
        action as u32
    }

    /// Returns the number of parameter limbs in an action word. Bounded, because the word may
    /// belong to another entry than the rest of what was read.
    #[inline]
    fn param_count(&self, action: u64) -> usize {
        ((action >> 32) as usize).min(self.param_limbs)
    }

    fn read_entry(&self, slot: usize) -> Option<(LearnedEntry, u64)> {
        let meta = self.meta[slot].load(SeqCst);
        if state(meta) != State::Full {
            return None;
        }
        let words: Vec<u64> = self
            .words(slot)
            .iter()
            .map(|word| word.load(Relaxed))
            .collect();
        if !self.is_unchanged(slot, meta) {
            return None;
        }
        let (key, params) = words[word::KEY..].split_at(self.shape.limbs());
        let params = &params[..self.param_count(words[word::ACTION])];
        let idle_timeout = words[word::IDLE_TIMEOUT];
        let entry = LearnedEntry {
            id: EntryId(words[word::ID]),
            key: key.into(),
            action: ActionRef {
                action: words[word::ACTION] as u32,
                params: params.into(),
            },
            idle_timeout_ns: (idle_timeout != NEVER).then_some(idle_timeout),
            timer_start_ns: match self.is_for_handlers() {
                true => words[word::TIMER_START].max(words[word::LAST_USE]),
                false => words[word::TIMER_START],
            },
            usage: UsageReading {
                hits: words[word::HITS],
                bytes: words[word::BYTES],
                last_use_ns: words[word::LAST_USE],
            },
        };
        Some((entry, meta))
    }

    /// Returns the full bucket that has this key, and its `meta`.
    fn find_slot(&self, home: usize, tag: u64, key: &[u64]) -> Option<(usize, u64)> {
        self.within_reach(home).find_map(|slot| {
            let mut meta = self.meta[slot].load(SeqCst);
            for _ in 0..READ_TRIES {
                if state(meta) != State::Rewriting || meta & TAG_MASK != tag {
                    break;
                }
                std::hint::spin_loop();
                meta = self.meta[slot].load(SeqCst);
            }
            let is_it = state(meta) == State::Full
                && meta & TAG_MASK == tag
                && self.has_key(slot, key)
                && self.is_unchanged(slot, meta);
            is_it.then_some((slot, meta))
        })
    }

    /// Claims an empty bucket near `home` and extends the reach to it.
    fn claim(&self, home: usize, tag: u64) -> Result<usize, LearnError> {
        if self.len.fetch_add(1, SeqCst) >= self.capacity {
            self.len.fetch_sub(1, SeqCst);
            return Err(LearnError::Full);
        }
        let mask = self.meta.len() - 1;
        for distance in 0..=MAX_REACH.min(mask) {
            let slot = (home + distance) & mask;
            let meta = self.meta[slot].load(SeqCst);
            let claimed = next(meta, State::Claimed, tag);
            if state(meta) == State::Empty
                && self.meta[slot]
                    .compare_exchange(meta, claimed, SeqCst, SeqCst)
                    .is_ok()
            {
                self.reach[home].fetch_max(distance as u8, SeqCst);
                return Ok(slot);
            }
        }
        self.len.fetch_sub(1, SeqCst);
        Err(LearnError::Full)
    }

    /// Checks that no other packet has inserted, or is inserting, the key for which `claimed` was
    /// claimed. Of two packets that claim for the same key, at least one sees the other, because
    /// the claims and the reach are totally ordered.
    fn check_alone(
        &self,
        claimed: usize,
        home: usize,
        tag: u64,
        key: &[u64],
    ) -> Result<(), LearnError> {
        for slot in self.within_reach(home).filter(|&slot| slot != claimed) {
            let meta = self.meta[slot].load(SeqCst);
            if meta & TAG_MASK != tag || state(meta) == State::Empty {
                continue;
            }
            if state(meta) != State::Full {
                return Err(LearnError::Contended);
            }
            if self.has_key(slot, key) {
                return Err(LearnError::Exists);
            }
        }
        Ok(())
    }

    /// Writes an entry to a claimed bucket and makes it visible. `reported` is [`REPORTED`] or 0.
    fn fill(
        &self,
        slot: usize,
        tag: u64,
        id: u64,
        new: &Learn<'_>,
        usage: UsageReading,
        reported: u64,
    ) {
        fence(Release);
        let words = self.words(slot);
        words[word::ID].store(id, Relaxed);
        words[word::IDLE_TIMEOUT].store(new.idle_timeout_ns.unwrap_or(NEVER), Relaxed);
        words[word::TIMER_START].store(new.now_ns, Relaxed);
        words[word::HITS].store(usage.hits, Relaxed);
        words[word::BYTES].store(usage.bytes, Relaxed);
        words[word::LAST_USE].store(usage.last_use_ns, Relaxed);
        for (word, &limb) in words[word::KEY..].iter().zip(new.key) {
            word.store(limb, Relaxed);
        }
        self.fill_action(slot, new.action, new.params);
        let claimed = self.meta[slot].load(Relaxed);
        self.meta[slot].store(next(claimed, State::Full, tag) | reported, SeqCst);
        self.note_expiry(slot, new.idle_timeout_ns, new.now_ns);
    }

    fn fill_action(&self, slot: usize, action: u32, params: &[u64]) {
        let words = self.words(slot);
        let packed = (params.len() as u64) << 32 | u64::from(action);
        words[word::ACTION].store(packed, Relaxed);
        for (word, &limb) in words[word::KEY + self.shape.limbs()..].iter().zip(params) {
            word.store(limb, Relaxed);
        }
    }

    /// Releases a claimed bucket.
    fn release(&self, slot: usize) {
        let claimed = self.meta[slot].load(Relaxed);
        self.meta[slot].store(next(claimed, State::Empty, 0), SeqCst);
        self.len.fetch_sub(1, SeqCst);
    }

    /// Empties a full bucket if its `meta` is unchanged. Returns true if it did.
    fn empty(&self, slot: usize, meta: u64) -> bool {
        let empty = next(meta, State::Empty, 0);
        let emptied = self.meta[slot]
            .compare_exchange(meta, empty, SeqCst, SeqCst)
            .is_ok();
        if emptied {
            self.len.fetch_sub(1, SeqCst);
        }
        emptied
    }
}
