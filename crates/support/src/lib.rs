//! Crate `support`: small utilities for all crates, independent of packets and P4.
//!
//! **In:** plain values, and paths of files. **Out:** plain values.
//!
//! [`work`] bounds the time and the memory of a computation and cancels it; [`read`] reads files up
//! to a limit; [`name`] checks names that users give; [`count`] writes counts with their nouns.
//!
//! Invariants: no input except the files that a caller names, and no output. A thread that is not
//! inside [`work::Work::run`] pays one thread-local read for a [`work::checkpoint`].
//!
//! Tests: in each module.

pub mod count;
pub mod name;
pub mod read;
pub mod work;
