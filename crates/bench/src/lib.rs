//! Crate `bench`: workloads for benchmarks, with programs, table entries, traffic and hand-written
//! loops.
//!
//! **In:** a kind, a size and a seed. A [`Workload`] also needs the verified IR of its program.
//! **Out:** table entries, lookup keys, packets, and the program's function as a hand-written loop
//! ([`Forward`]).
//!
//! Invariants:
//! - A workload is the same in every run. Measured values come only from [`measure`], [`lookups`],
//!   [`io`], [`churn`], [`isolation`] and [`load`].
//! - A hand-written loop has the same results as its program for every packet, counters included,
//!   with the same tables. [`compare()`] checks this, and must run before a workload is measured.
//!   The loop omits what only the device does: usage of entries, packet accounting, work limit.
//! - The loop looks up every table that the program applies, with the table's own
//!   [`table::Lookup`]. So the loop is a limit for the generated code, not for another choice of
//!   tables.
//!
//! [`churn`] and [`isolation`] are the drivers of two tests of `tenancy` under load, which
//! `polyplane bench --tenants` measures. `testkit` runs them as tests that pass or fail.
//!
//! [`split`] has functions over a switch and servers, with their halves as sides.
//!
//! Tests: `testkit/tests/workloads.rs` compares every workload's program with its loop on every
//! engine; `churn.rs`, `isolation.rs` and `vpdps.rs` beside it run the drivers. Unit tests are
//! beside the code.

pub mod arrival;
pub mod churn;
mod compare;
mod device;
mod forward;
#[cfg(target_os = "linux")]
pub mod io;
pub mod isolation;
pub mod latency;
pub mod load;
pub mod lookups;
pub mod measure;
mod names;
mod setup;
pub mod split;
#[cfg(target_os = "linux")]
pub mod swap;
mod tables;
pub mod tenants;
mod wire;
mod workload;
pub mod workloads;

pub use compare::{Difference, compare};
pub use device::{OnDevice, OnWorker};
pub use forward::{Bare, Forward, Reading, SentFrames};
pub use names::{ActionName, Key, NameError, TableName};
pub use setup::{Item, ItemSink, SetupError, configure};
pub use workload::{Hand, Workload};
