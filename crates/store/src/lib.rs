//! Crate `store`: persistent state of devices in a directory, for `--state DIR`, and of the nodes
//! of a replicated log.
//!
//! **In:** batches of changes from a device's journal ([`switch::Storage`]); votes and entries of a
//! node ([`LogWrite`]). **Out:** program and state of a device that restarts; state of a node. Only
//! this crate depends on the database. It is never on the packet path.
//!
//! - `place`: the directory, which one process uses at a time, with one file for each device;
//! - `disk`: a file: batches are written, objects are read;
//! - `storage_writer`: the storage writer thread, which writes all waiting batches with one sync;
//! - `host`: objects of a switch that hosts virtual data planes, and its files;
//! - `codec`, `message`: encoding of objects and keys;
//! - `raft_log`: the file of a node of a replicated log.
//!
//! Invariants:
//! - A batch that was reported as stored survives a power failure. Any other batch is stored
//!   completely or not at all.
//! - A file that cannot be read completely is an error that names it, never an empty state.
//!
//! Tests: `tests/store/`: power failures on a simulated disk, a full disk, damaged files; `cli`
//! kills whole switches. docs/reference/state-directory.md describes the format.

mod codec;
mod disk;
mod host;
mod message;
mod place;
mod raft_log;
mod storage_writer;

pub use codec::{read_object, write_object};
pub use disk::{KeptState, KindName, Medium, Note, OpenError, Summary, keep_new, prepare};
pub use host::{HostFiles, HostObject, StoredPin, StoredVpdp};
pub use place::Directory;
pub use raft_log::{LogOwner, LogWrite, RaftLog};
pub use redb::{Builder, Database, DatabaseError, StorageBackend};
pub use storage_writer::StorageWriter;
