//! The room of state that survives: a directory in which devices' state is kept, for `--state DIR`.
//!
//! **In:** batches of what has changed, from a device's log ([`switch::Storage`]). **Out:** the program and the state of a device that starts again.
//! **May import:** `switch`, `exec`, `table`, `packet`, `ir`, `bits`. No other room knows the store that is used, and no packet meets it.
//!
//! - `place`: the directory, which one process has at a time, and the files in it, one a device;
//! - `disk`: a file: batches in, objects out;
//! - `keeper`: the thread that writes, all batches that wait with one sync;
//! - `codec`, `message`: places and objects as bytes.
//!
//! Invariants:
//! - a batch that was told as kept is there after a power cut; of any other batch all is there, or nothing;
//! - a file that cannot be read, or not in full, is an error that names it: never an empty state.
//!
//! Tests: `tests/store/`: power cuts on a simulated disk, a disk that fills, damaged files; `cli` kills whole switches. docs/STATE.md describes the format.

mod codec;
mod disk;
mod keeper;
mod message;
mod place;

pub use codec::{read_object, write_object};
pub use disk::{Kept, KindName, Medium, OpenError, Summary, prepare};
pub use keeper::Keeper;
pub use place::Directory;
pub use redb::{Builder, Database, DatabaseError, StorageBackend};
