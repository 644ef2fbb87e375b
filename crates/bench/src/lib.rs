//! The room `bench`: workloads: rule sets, routing tables, traces; programs and hand-written loops for benches.
//!
//! **In:** a kind, a size and a seed. **Out:** the same workload in every run: entries for tables and keys to look up.
//! **May import:** `table`, `bits`.
//!
//! Nothing here measures: whoever asks for a workload does.
//!
//! Tests: `tests/`.

pub mod choices;
pub mod routes;
pub mod rules;

pub use choices::Choices;
pub use routes::{Family, Route, RoutingTable};
pub use rules::{FiveTuple, Kind, PortRange, Prefix, RuleSet, Spread};
