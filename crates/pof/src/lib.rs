//! Crate `pof`: a switch that controllers program by protocol-oblivious forwarding (POF), in the
//! dialect of POFSwitch 1.4.
//!
//! **In:** bytes of a controller's connection, packets with their ports, the time. **Out:** bytes
//! for the controller, packets.
//!
//! - [`model`] has the objects of the protocol, [`wire`] its messages.
//! - [`tables`] is the state of a switch, with all checks of changes.
//! - `translate` makes an [`ir::Program`] of tables and shapes of entries.
//! - [`Forwarder`] keeps the tables and a [`switch::Device`] that forwards by them.
//! - [`ProgramJob`] makes a program for new shapes, on any thread, while the one before it runs.
//! - [`ControlledSwitch`] is what all controllers share; [`session`] is a connection with one.
//! - [`ObjectKey`] names an object, for stores; [`text`] writes objects as lines.
//!
//! It may import `switch`, `exec`, `packet`, `ir` and `bits`. It has no I/O, no threads
//! and no clock.
//!
//! Invariants:
//! - No bytes of a controller and no packet cause a panic.
//! - A refused message changes nothing.
//! - An entry of a known shape does not change the program. A new shape does, and entries, counts
//!   and ages stay.
//! - A packet is forwarded by the entries of one moment.
//! - A message that waits for a program has changed nothing, and what came after it on its
//!   connection waits too, apart from ECHO_REQUEST.
//!
//! Tests: `tests/wire.rs` and `tests/session.rs`; `tests/agreement.rs` compares random tables,
//! entries and frames on `interp` and `jit` with a reference evaluator.

mod controlled;
mod forwarder;
mod long_answer;
pub mod model;
mod objects;
mod program_job;
mod schedule;
pub mod session;
mod shapes;
pub mod tables;
pub mod text;
mod translate;
pub mod wire;

pub use controlled::{ControlledSwitch, SessionId, port};
pub use forwarder::{Count, Event, Forwarder, ForwarderOptions, RemovalReason, Removed};
pub use objects::ObjectKey;
pub use program_job::{MadeProgram, ProgramJob, ProgramWait};
pub use translate::{CONTROLLER_PORT, Fault, OnMiss, WAITING_PORT};
