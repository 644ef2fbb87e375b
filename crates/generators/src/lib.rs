//! Crate `generators`: table contents of realistic shape, and lookup keys that match them.
//!
//! **In:** a kind, a size and a seed. **Out:** rule sets over the five-tuple ([`RuleSet`]) and
//! routing tables ([`RoutingTable`]), with a [`Pattern`] for each key field, and random keys.
//!
//! Invariants: the same arguments give the same contents and keys in every run. The crate is below
//! `table`: the tests and benchmarks of `table` use it.
//!
//! Tests: `tests/`.

mod pattern;
pub mod routes;
pub mod rules;

pub use pattern::Pattern;
pub use routes::{Family, Route, RoutingTable};
pub use rules::{FilterError, FiveTuple, Kind, PortRange, Prefix, RuleSet, Spread};
