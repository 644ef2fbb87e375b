//! The room of small services that every room may use and that know nothing of packets or P4.
//!
//! **In:** plain values, and paths of files. **Out:** plain values. **May import:** nothing.
//!
//! [`work`] bounds the time and the memory of a computation and cancels it; [`read`] reads files
//! up to a limit; [`name`] bounds names that users give; [`count`] writes counts with their nouns;
//! [`rng`] draws seeded random numbers; [`checksum`] computes the Internet checksum;
//! [`mac`] reads and writes MAC addresses; [`quantile`] computes quantiles and medians;
//! [`tsc_clock`] reads the processor's time stamp counter; `wakeup` wakes a thread that polls descriptors.
//!
//! Invariants: no input but the files that a caller names, and no output; a thread that is not
//! inside [`work::Work::run`] pays one thread-local read for a [`work::checkpoint`].
//!
//! Tests: beside the code.

pub mod checksum;
pub mod count;
pub mod mac;
pub mod name;
pub mod quantile;
pub mod read;
pub mod rng;
pub mod tsc_clock;
#[cfg(target_os = "linux")]
pub mod wakeup;
pub mod work;
