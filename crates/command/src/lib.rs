//! Crate `command`: options that several subcommands share, and the steps that follow from them.
//!
//! **In:** arguments of a command line. **Out:** programs, engines, devices and captures;
//! diagnostics go to the terminal.
//!
//! [`args`] has the options; [`engine`] selects an engine; [`compile`] compiles a program or a
//! policy and shows its diagnostics; [`handlers`] compiles its C code; [`configure`] loads it with
//! its entries; [`captures`] merges capture files into one stream of packets; [`topology`] reads
//! and simulates a fabric, and [`switches`] makes its switches; [`reductions`] reads and simulates
//! jobs.
//!
//! Invariants: files are read only by paths of the command line, up to a limit of bytes.
//!
//! Tests: in each module, and in `cli`, which runs the built command.

pub mod args;
pub mod captures;
pub mod compile;
pub mod configure;
pub mod engine;
pub mod handlers;
pub mod mininet;
pub mod reductions;
pub mod split_bed;
pub mod split_text;
pub mod switches;
pub mod topology;

/// Result of a subcommand that did not fail with an error message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Success.
    Well,
    /// The input has errors, which were reported.
    WithErrors,
    /// The configuration of a switch, or a file that it names, has errors, which were reported. To
    /// start it again does not help.
    Misconfigured,
}
