//! Crate `stf`: runs STF tests. A test sends packets into a device, compares the packets that
//! leave it with those that it expects, and reports the differences.
//!
//! **In:** an [`ir::Program`], an [`exec::Engine`], the text of an STF file. **Out:** a
//! [`Report`] of the failures, each with the line of the test that it belongs to. [`run_in`] does
//! the same for a test bed that contains a device ([`PacketPlane`]).
//!
//! Invariants:
//! - Commands take effect in file order. Expectations are global: their position in the file does
//!   not matter.
//! - A port that a packet or an expectation names is observed: exactly the expected packets leave
//!   by it, in their order. Packets that leave by other ports are ignored. The same rule holds
//!   for the digests that `expect_digest` names, and for the log if there is an `expect_log`.
//! - Time is virtual: a packet arrives a microsecond after the one before it. `wait DURATION`
//!   lets more time pass.
//! - After every test the device's packet counts are conserved, or the test fails.
//!
//! Tests: the programs of `testkit` and the examples.

mod replication;
mod report;
mod run;

pub use report::{Failure, Report};
pub use run::{
    CaptureDirection, LoadRefusal, PacketPlane, ReadFile, TakeSent, TestFiles, TestSetup, run,
    run_in,
};
