//! Crate `switch`: the device. Pipelines of the architectures, traffic manager, packet replication
//! engine, control plane, and the ledger of packets.
//!
//! **In:** a program, an engine, packets with their ports, control-plane changes, the time.
//! **Out:** packets, digests, messages, a [`Ledger`].
//!
//! Invariants:
//! - After every step: received + generated + replicated = sent + dropped (by named reason) + held
//!   ([`Device::check_conservation`]).
//! - A packet finishes on the snapshot (code, state, replication entries) with which it began. A
//!   change is visible to packets received after it.
//! - Workers free no program and no table. Snapshots are owned by the device until nothing refers
//!   to them.
//! - A new program takes over state by the rules of docs/MIGRATION.md, or is refused and changes
//!   nothing.
//! - Every change of the control plane, of a packet or by a time-out is one numbered [`Record`], in
//!   one total order. A refused change changes nothing.
//! - A device never holds more than its [`Limits`], whatever is written to it and whatever program
//!   it adopts.
//! - Time and seeds are inputs: the same inputs give the same outputs.
//!
//! Tests: `tests/`, one file for each architecture; `testkit` runs programs.

mod arch;
mod thread_epoch;
mod budget;
mod contexts;
mod control;
mod core;
mod device;
mod conversion;
mod forward;
mod journal;
mod learned;
mod packet_sink;
mod ledger;
mod limits;
mod migration;
mod object;
mod bounded_queue;
mod pre;
mod profiles;
mod queue;
mod migrate;
mod snapshot_cell;
mod shared_burst;
mod worker;

pub use thread_epoch::{ThreadEpoch, DeviceMask};
pub use contexts::Contexts;
pub use control::{Action, Change, ControlCode, ControlError, Record, TableEntry};
pub use core::{Digest, MOST_WAITING};
pub use device::{AdoptError, MigrationMode, Device, DeviceConfig, Exchange, LoadError, TableHits};
pub use journal::{Batch, Done, KeptCells, Storage, StorageError};
pub use packet_sink::{PacketSink, leave_sent};
pub use ledger::{Ledger, LedgerError};
pub use limits::{Exceeded, Limited, Limits, MOST_METADATA, stages};
pub use migration::{Fate, MigrationLine, MayLose, Migration, StateKind, WouldLose};
pub use object::{CELLS, Object, ObjectPlace, arguments, key_match};
pub use pre::{CloneSession, Replica, ReplicationEngine};
pub use profiles::is_one_shot;
pub use queue::{QueueConfig, QueueTimes, Queues};

pub use table::{ColorCounts, CounterReading, EntryId, Improved, LearnedEntry, MeterConfig};
pub use shared_burst::{WorkerSet, SegmentRun, BurstProgress, forward_shared_burst};
pub use worker::{Ahead, BarrierError, Worker};
