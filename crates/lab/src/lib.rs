//! Crate `lab`: the subcommands `polyplane bench` and `polyplane experiment`, which measure.
//!
//! **In:** their options. **Out:** figures, as text, as JSON and as pictures.
//!
//! [`bench`] measures programs, tables, ports and virtual data planes; [`experiment`] measures
//! figures of papers. Workloads and measurements are in the crate `bench`.
//!
//! Invariants: sides of a comparison give the same results before they are measured.
//!
//! Tests: beside the code, and in `cli`, which runs the built command.

pub mod bench;
pub mod experiment;
