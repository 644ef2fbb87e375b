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
//! - A new program takes over state by the rules of docs/reference/program-change.md, or is refused
//!   and changes nothing.
//! - Every change of the control plane, of a packet or by a time-out is one numbered [`Record`], in
//!   one total order. A refused change changes nothing.
//! - A device never holds more than its [`Limits`], whatever is written to it and whatever program
//!   it adopts.
//! - Time and seeds are inputs: the same inputs give the same outputs.
//!
//! Tests: `tests/`, one file for each architecture; `testkit` runs programs.

mod arch;
mod bounded_queue;
mod budget;
mod contexts;
mod control;
mod conversion;
mod core;
mod credit;
mod device;
mod drop_report;
mod forward;
mod frame_filter;
mod journal;
mod learned;
mod ledger;
mod limits;
mod migrate;
mod migration;
mod object;
mod packet_processor;
mod packet_sink;
mod pre;
mod profiles;
mod queue;
mod shared_burst;
mod snapshot_cell;
mod specialise;
mod synchronise;
mod thread_epoch;
mod worker;

pub use contexts::Contexts;
pub use control::{Action, Change, ControlCode, ControlError, Record, TableEntry};
pub use core::{Digest, MAX_WAITING};
pub use credit::fast_path;
pub use device::{AdoptError, Device, DeviceConfig, Exchange, LoadError, MigrationMode, TableHits};
pub use frame_filter::{FrameFilter, forward_after, keep_frames};
pub use journal::{Batch, Done, KeptCells, Storage, StorageError};
pub use ledger::{Ledger, LedgerError};
pub use limits::{Exceeded, Limited, Limits, MAX_METADATA, stages};
pub use migration::{Fate, MayLose, Migration, MigrationLine, StateKind, WouldLose};
pub use object::{CELLS, Object, ObjectPlace, arguments, key_match};
pub use packet_processor::PacketProcessor;
pub use packet_sink::{PacketSink, leave_sent};
pub use pre::{CloneSession, Replica, ReplicationEngine};
pub use profiles::is_one_shot;
pub use queue::{PriorityQueueConfig, QUEUE_PRIORITIES, QueueConfig, QueueTimes, Queues};
pub use specialise::{SpecialisationJob, SpecialisationReport, SpecialisedCode};
pub use thread_epoch::{DeviceMask, ThreadEpoch};

pub use shared_burst::{BurstProgress, SegmentRun, WorkerSet, forward_shared_burst};
pub use synchronise::UndoSteps;
pub use table::{ColorCounts, CounterReading, EntryId, Improved, LearnedEntry, MeterConfig};
pub use worker::{Ahead, BarrierError, Worker};
