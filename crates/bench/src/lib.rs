//! The room `bench`: workloads: rule sets, routing tables, traces; programs and hand-written loops for benches.
//!
//! **In:** a kind, a size and a seed; for a [`Workload`] the verified IR of its program. **Out:** the same workload in every run: entries for
//! tables, keys to look up, packets to forward, and the function of the program as a loop written by hand ([`Forward`]).
//! **May import:** `switch`, `tenancy`, `passes`, `exec`, `table`, `port`, `packet`, `ir`, `bits`.
//!
//! Invariants:
//! - a workload is the same in every run; what was measured comes from [`measure`], [`lookups`], [`io`], [`life`], [`hostile`] and [`load`] alone;
//! - a loop written by hand does packet by packet what its program says, counters included, over the same tables: [`compare()`] holds one against the
//!   other, and whoever measures a workload compares first. It leaves out what only the device adds (usage of entries, ledger, budget);
//! - each table that a program applies is looked up in the loop too, by its own [`table::Lookup`]: the loop is the limit of code, not of another
//!   choice of tables.
//!
//! Tests: `tests/`, where every workload's program is compared with its loop on every engine; beside the code.

pub mod arrival;
pub mod choices;
pub mod clock;
mod compare;
mod device;
mod forward;
pub mod hostile;
#[cfg(target_os = "linux")]
pub mod io;
pub mod latency;
pub mod life;
pub mod load;
pub mod lookups;
pub mod measure;
mod names;
pub mod routes;
pub mod rules;
mod setup;
#[cfg(target_os = "linux")]
pub mod swap;
pub mod tenants;
mod wire;
mod workload;
pub mod workloads;

pub use choices::Choices;
pub use compare::{Difference, compare};
pub use device::{OnDevice, OnWorker};
pub use forward::{Bare, Forward, Outbox, Reading};
pub use names::{ActionName, Key, NameError, TableName};
pub use routes::{Family, Route, RoutingTable};
pub use rules::{FiveTuple, Kind, PortRange, Prefix, RuleSet, Spread};
pub use setup::{Item, Setup, SetupError, configure};
pub use workload::{Hand, Workload};
