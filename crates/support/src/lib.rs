//! Crate `support`: small utilities for all crates, independent of packets and P4.
//!
//! **In:** plain values, and paths of files. **Out:** plain values.
//!
//! [`work`] bounds the time and the memory of a computation and cancels it; [`read`] reads files up
//! to a limit; [`name`] bounds names that users give; [`count`] writes counts with their nouns, and
//! [`amount`] sizes, rates and times; [`text_table`] aligns columns of text;
//! [`rng`] draws seeded random numbers; [`checksum`] computes the Internet checksum, [`crc`]
//! CRC-32; [`mac`] reads and writes MAC addresses; [`quantile`] computes quantiles and medians;
//! [`tsc_clock`] reads the processor's time stamp counter; `wakeup` wakes a thread that polls
//! descriptors.
//!
//! Invariants: no input except the files that a caller names, and no output. A thread that is not
//! inside [`work::Work::run`] pays one thread-local read for a [`work::checkpoint`].
//!
//! Tests: in each module.

pub mod amount;
pub mod checksum;
pub mod count;
pub mod crc;
pub mod mac;
pub mod name;
pub mod quantile;
pub mod read;
pub mod rng;
pub mod text_table;
pub mod tsc_clock;
#[cfg(target_os = "linux")]
pub mod wakeup;
pub mod work;
