//! The room `table`: the state of a device and how keys are matched against it.
//!
//! **In:** checked updates from the control side, keys and indices from packets. **Out:** the entry that a
//! key matches, cells that packets count and store in, and all of it readable in bulk.
//! **May import:** `bits` only: a table stores action numbers and parameter limbs, and engines execute actions.
//!
//! Two sides:
//! - the *control side* owns a [`Table`], an [`ActionProfile`] or a [`ValueSet`] and changes it with
//!   `&mut self`. Wrong updates are refused with a [`TableError`] or a [`ProfileError`] and change
//!   nothing;
//! - the *packet side* reads immutable snapshots ([`Lookup`], [`ProfileLookup`], a clone of a
//!   `ValueSet`) and writes cells, all through `&self`: it never allocates, locks or waits.
//!
//! Invariants:
//! - a snapshot never changes; taking one after a change costs what changed, not the whole table,
//!   because changes go to a copy that no packet holds ([`engine::Versions`]) or snapshots share their pages
//!   (`paged`) or lines (`engine/lpm`); of a large hash table, packets stay with one copy, which knows where it is outdated (`engine/steady.rs`);
//! - an entry's [`EntryId`] is never used twice, and its counts outlive changes of its action: a packet
//!   on an old snapshot counts for the same entry;
//! - counters have a [`Lane`] for each thread that counts, so that none waits for another;
//! - which engine matches a key shape changes speed, never the result: every [`MatchEngine`] equals
//!   [`engine::Linear`];
//! - what packets write ([`LearningTable`], counters, meters, registers) is allocated before.
//!
//! Tests: `tests/`, property tests against naive models; meters by hand-computed tokens.

mod compare;
pub mod counter;
pub mod engine;
pub mod entry;
mod flat_map;
mod identity;
pub mod key;
pub mod learning;
mod limb_map;
pub mod meter;
mod packing;
mod paged;
mod places;
pub mod prefetch;
pub mod profile;
mod records;
pub mod register;
mod slot_set;
mod slots;
mod table;
mod tally;
#[cfg(test)]
mod test_size;
mod timers;
pub mod value_set;
mod word;

pub use counter::{CounterArray, CounterKind, CounterReading};
pub use engine::{
    DirectIndex, Directness, Improved, MatchEngine, Matcher, TrieIndex, VectorIndex, VectorPart,
};
pub use entry::{
    ActionRef, Entry, EntryAction, EntryId, EntryIdx, GroupId, MemberId, NewEntry, Owner, Rank,
    UsageReading,
};
pub use flat_map::HashIndex;
pub use key::{FieldMatch, KeyError, KeyFault, KeyField, KeyShape, MatchKind};
pub use learning::{Learn, LearnError, Learned, LearnedEntry, LearningTable};
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
pub use tally::{Cells, Lane};
pub use value_set::{ValueSet, ValueSetError};
