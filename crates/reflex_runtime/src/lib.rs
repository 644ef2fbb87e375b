//! Crate `reflex_runtime`: the process of a reflex plane, or of one member of its store.
//!
//! **In:** checked loops ([`reflex::Loops`]), datagrams at sockets, interfaces and captures,
//! messages of other members, a key for them, requests at a control socket, a descriptor that ends
//! the run.
//! **Out:** P4Runtime writes to switches, files of votes and entries, messages to other members,
//! events and answers.
//!
//! - [`PlaneProcess`] opens all and runs the plane on the calling thread.
//! - `source` receives reports; [`P4RuntimeElement`] is a switch at a P4Runtime server, with a
//!   thread for its connection; [`LogThread`] keeps a node's log with a thread for its disk.
//! - [`ControlClient`] asks a running process by its control socket.
//!
//! It may not import `runtime` or `cli`.
//!
//! Invariants:
//! - The plane's thread waits for nothing but its descriptors: connections and disks have threads.
//! - A write to a switch has the election ID of the store's term, so a server refuses an older
//!   leader.
//! - An entry of a switch is changed only if its metadata names a permission of the file.
//!
//! Tests: `tests/`; `cli` runs whole processes (`tests/reflex_process.rs`).

mod control;
mod error;
mod log_thread;
mod members;
mod message_tag;
mod output;
mod p4runtime_element;
mod process;
mod source;

pub use control::{ControlClient, KeyOperation};
pub use error::ProcessError;
pub use log_thread::LogThread;
pub use p4runtime_element::P4RuntimeElement;
pub use process::{PlaneEvent, PlaneObserver, PlaneProcess, ProcessCounts, ProcessOptions};
