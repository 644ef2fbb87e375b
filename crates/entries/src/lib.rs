//! Crate `entries`: reads text that configures a device (entries files and STF tests) into checked
//! updates. Command files of BMv2's `simple_switch_CLI` and runtime JSON of the P4 tutorials are
//! read as well.
//!
//! **In:** text, and the [`ir::Program`] to which its names refer, or a [`Schema`] that a
//! controller built from a P4Info. **Out:** [`Update`]s with the program's ids, in file order, or
//! errors with a position and a suggestion. For STF also packets and expectations. Updates can also
//! be written as statements.
//!
//! Invariants: an update names existing objects, its values fit their types, and it has exactly one
//! match per key and one value per parameter. An update of an entries file keeps the restrictions
//! of its table and actions ([`Restriction`]). The device checks that there is space for it.
//!
//! The format of entries files is described in docs/reference/entries.md, that of STF in [`stf`].
//! Tests: `tests/`.

mod bmv2;
mod cells;
mod error;
mod file;
mod ports;
mod resolve;
mod restriction;
mod schema;
pub mod stf;
mod update;
mod value;
mod write;

pub use error::EntryError;
pub use file::{EntriesFile, FilePart, Statement, StatementPlace, read, read_parts};
pub use resolve::same_name;
pub use restriction::Restriction;
pub use schema::{
    Action, Extern, Format, Key, Object, Param, Schema, SerializableEnum, Table, ValueSet, ValueTy,
};
pub use update::{
    CloneSession, CounterValue, CrcSetting, EntryAction, GroupMember, MeterConfig,
    QUEUE_PRIORITIES, QueueSetting, Replica, TableEntry, Update, UpdateTarget, ValueSetMember,
};
