//! Crate `table`: state of a device (match-action tables, counters, meters, registers, value sets)
//! and the match engines that search it.
//!
//! - **In:** checked updates from the control plane; keys and indices from packets.
//! - **Out:** the entry that a key matches, and cells that packets count and store in. The control
//!   plane can read all of it in bulk.
//!
//! A table stores action numbers and parameter limbs. It does not know what the actions do; the
//! execution engines run them.
//!
//! There are two sides:
//! - The *control side* owns a [`Table`], an [`ActionProfile`] or a [`ValueSet`] and changes it
//!   with `&mut self`. An invalid update is rejected with a [`TableError`] or a [`ProfileError`]
//!   and changes nothing.
//! - The *packet side* reads immutable snapshots ([`Lookup`], [`ProfileLookup`], a clone of a
//!   `ValueSet`) and writes cells, all through `&self`. It never allocates, locks or waits.
//!
//! Invariants:
//! - A snapshot never changes. Taking one after a change costs time in proportion to the change,
//!   not to the table. Changes are applied to a copy that no packet holds ([`engine::Versions`]),
//!   or snapshots share their unchanged pages (`paged`) or cache lines (`engine/lpm`). For a large
//!   hash table, packets keep one copy, in which outdated positions are marked
//!   (`engine/steady.rs`).
//! - An [`EntryId`] is never reused. An entry's counts survive changes of its action: a packet that
//!   still reads an old snapshot counts for the same entry.
//! - Counters have one shard ([`CounterShard`]) for each counting thread, so that no thread waits
//!   for another.
//! - The choice of match engine affects speed, never the result: every [`MatchEngine`] returns the
//!   same entries as [`engine::Linear`].
//! - Memory that packets write ([`LearningTable`], counters, meters, registers) is allocated in
//!   advance.
//!
//! Tests: `tests/` has property tests against naive models. Meters are checked against token counts
//! computed by hand.

mod compare;
pub mod counter;
pub mod engine;
pub mod entry;
mod flat_map;
mod id_index;
mod identity;
pub mod key;
pub mod learning;
mod limb_map;
mod match_bits;
pub mod meter;
mod packed_entries;
mod packing;
mod paged;
mod places;
pub mod prefetch;
pub mod profile;
mod records;
pub mod register;
mod removal_log;
mod slot_set;
mod table;
mod tally;
#[cfg(test)]
mod test_size;
mod timers;
pub mod value_set;
mod word;

pub use counter::{CounterArray, CounterKind, CounterReading};
pub use engine::{
    DirectIndex, Directness, ExportError, Improved, MatchEngine, Matcher, TrieIndex, Unsearched,
    VectorIndex, VectorPart,
};
pub use entry::{
    ActionRef, CallRef, Entry, EntryAction, EntryActionRef, EntryId, EntryIdx, GroupId, MemberId,
    NewEntry, Owner, Rank, UsageReading,
};
pub use flat_map::HashIndex;
pub use key::{FieldMatch, KeyError, KeyFault, KeyField, KeyShape, MatchKind};
pub use learning::{Learn, LearnError, Learned, LearnedChange, LearnedEntry, LearningTable};
pub use meter::{
    Color, ColorCounts, MeterArray, MeterCell, MeterConfig, MeterConfigError, MeterUnit,
};
pub use packing::{PackStep, PackedKey};
pub use profile::{ActionProfile, GroupMember, ProfileError, ProfileLookup};
pub use records::{RecordField, RecordLayout, Records, RunBy};
pub use register::RegisterArray;
pub use table::{
    COUNTER_WORDS, Lookup, PriorityOrder, Table, TableError, TableSpec, Totals, USAGE_WORDS,
};
pub use tally::{Cells, CounterShard};
pub use value_set::{ValueSet, ValueSetError};
