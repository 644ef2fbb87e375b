//! The room of the device: architectures' pipelines, traffic manager, packet replication, the control side and the ledger of packets.
//!
//! **In:** a program, an engine, packets with their ports, changes, the time. **Out:** packets, digests, messages, a [`Ledger`].
//! **May import:** `exec`, `table`, `port`, `packet`, `ir`, `bits`.
//!
//! Invariants:
//! - received + generated + replicated = sent + dropped by named reason + held, after every step ([`Device::check_conservation`]);
//! - a packet finishes on the root (code, state, replication entries) that it began with; changes are visible to packets received after them;
//! - workers free no program and no table: roots live with the device until nothing refers to them;
//! - another program takes state over by the rule of docs/MIGRATION.md, or is refused and changes nothing;
//! - every change, be it of the control side, of a packet or of time, is one numbered [`Record`], in one order; a refused change changes nothing;
//! - a device holds no more than its [`Limits`], whoever writes to it and whatever program it adopts;
//! - time and seeds come from outside: the same inputs give the same outputs.
//!
//! Tests: `tests/`, one file an architecture; `testkit` runs programs.

mod arch;
mod bell;
mod budget;
mod contexts;
mod control;
mod core;
mod device;
mod fit;
mod forward;
mod journal;
mod learned;
mod leave;
mod ledger;
mod limits;
mod migration;
mod object;
mod outbox;
mod pre;
mod profiles;
mod queue;
mod replace;
mod slot;
mod together;
mod worker;

pub use bell::{Bell, Marks};
pub use contexts::Contexts;
pub use control::{Action, Change, ControlCode, ControlError, Record, TableEntry};
pub use core::{Digest, MOST_WAITING};
pub use device::{AdoptError, Carry, Device, DeviceConfig, Exchange, LoadError, TableHits};
pub use journal::{Batch, Done, KeptCells, Storage, StorageError};
pub use leave::{Leave, leave_sent};
pub use ledger::{Ledger, Unbalanced};
pub use limits::{Exceeded, Limited, Limits, MOST_METADATA, stages};
pub use migration::{Fate, Line, MayLose, Migration, StateKind, WouldLose};
pub use object::{CELLS, Object, Place, arguments, key_match};
pub use pre::{CloneSession, Replica, ReplicationEngine};
pub use profiles::is_one_shot;
pub use queue::{QueueConfig, QueueTimes, Queues};

pub use table::{ColorCounts, CounterReading, EntryId, Improved, LearnedEntry, MeterConfig};
pub use together::{Companions, Run, Through, forward_together};
pub use worker::{Ahead, Stuck, Worker};
