//! The room of text that configures a device: entries files and STF tests, read into checked updates.
//!
//! **In:** text, and the [`ir::Program`] whose names it uses, or the [`Schema`] that a controller made of a P4Info. **Out:** [`Update`]s by the
//! program's ids, in file order, or errors that mark the place and suggest a mend; for STF also packets and expectations; statements of updates.
//! **May import:** `ir`, `bits`.
//!
//! Invariants: an update that comes out of this room names things that exist, has values that fit their types, and has exactly one match a key and
//! one value a parameter. Whether there is room for it, the device says. The format of entries files is described in docs/ENTRIES.md, STF's in
//! [`stf`]. Tests: `tests/`.

mod cells;
mod error;
mod file;
mod ports;
mod resolve;
mod schema;
pub mod stf;
mod update;
mod value;
mod write;

pub use error::EntryError;
pub use file::{EntriesFile, read};
pub use resolve::same_name;
pub use schema::{
    Action, Extern, Format, Key, Object, Param, Schema, SerializableEnum, Table, ValueSet, ValueTy,
};
pub use update::{
    CloneSession, CounterValue, CrcSetting, EntryAction, GroupMember, MeterConfig, QueueSetting,
    Replica, TableEntry, Target, Update, ValueSetMember,
};
