//! Crate `terminal`: output of the command line, for people and for programs.
//!
//! **In:** text, and values that serialize. **Out:** standard output and standard error.
//!
//! [`out`] writes text, JSON, notes and errors; [`live`] is a status line that is updated in place;
//! [`log`] is the log of a switch on standard error.
//!
//! Invariants: no input. Standard error has only lines of JSON once the log is JSON.
//!
//! Tests: in each module.

pub mod live;
pub mod log;
pub mod out;
