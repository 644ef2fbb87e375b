//! The room of STF tests: packets into a device, packets expected from it, and what is said when they differ.
//!
//! **In:** an [`ir::Program`], an [`exec::Engine`], the text of an STF file. **Out:** a [`Report`]: what failed, each failure with the line of
//! the test that it belongs to. [`run_in`] does the same for what has a device inside ([`Plane`]). [`apply()`] and [`apply_file`] bring checked [`entries::Update`]s to a device, for the other commands
//! too.
//! **May import:** `switch`, `entries`, `exec`, `packet`, `ir`, `bits`.
//!
//! Invariants:
//! - commands take effect in file order; expectations are global: their place in the file does not matter;
//! - the ports that a packet or an expectation names are observed: exactly the expected packets come out there, in their order; what comes out
//!   elsewhere is not looked at. The same goes for the digests that `expect_digest` names, and for the log once there is an `expect_log`;
//! - time is the test's: a packet arrives a microsecond after the one before it, `wait DURATION` lets more pass;
//! - after every test the device's packets are conserved, or the test fails.
//!
//! Tests: the programs of `testkit` and the examples.

mod apply;
mod replication;
mod report;
mod run;

pub use apply::{Unapplied, apply, apply_file};
pub use report::{Failure, Report};
pub use run::{Plane, ReadFile, Refused, Setup, TakeSent, run, run_in};
