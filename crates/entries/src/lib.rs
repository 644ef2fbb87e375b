//! The room of text that configures a device: entries files and STF tests, read into checked updates.
//!
//! **In:** text, and the [`ir::Program`] whose names it uses. **Out:** [`Update`]s by the program's ids, in file order, or errors that mark the
//! place and suggest a mend; for STF also packets and expectations.
//! **May import:** `ir`, `bits`.
//!
//! Invariants: an update that comes out of this room names things that exist, has values that fit their types, and has exactly one match a key and
//! one value a parameter. Whether there is room for it, the device says. The format of entries files is described in docs/ENTRIES.md, STF's in
//! [`stf`]. Tests: `tests/`.

mod error;
mod file;
mod ports;
mod resolve;
pub mod stf;
mod update;
mod value;

pub use error::EntryError;
pub use file::{EntriesFile, read};
pub use resolve::same_name;
pub use update::{
    CloneSession, CounterValue, EntryAction, GroupMember, MeterConfig, Replica, TableEntry, Update,
    ValueSetMember,
};
