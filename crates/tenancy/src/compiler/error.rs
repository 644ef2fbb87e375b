//! Compilation errors.

use std::fmt;
use std::time::Duration;

/// Reason of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The client disconnected, or no longer waits.
    ClientGone,
    /// The vPDP was deleted.
    Deleted,
    /// The vPDP's quota was reduced.
    QuotaShrunk,
    /// The switch stops.
    Stopped,
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cancelled::ClientGone => "the client that asked for it has gone",
            Cancelled::Deleted => "the vPDP was deleted",
            Cancelled::QuotaShrunk => {
                "the quotas of the vPDP became smaller meanwhile; load it again under the new ones"
            }
            Cancelled::Stopped => "the switch stops",
        })
    }
}

/// Compilation error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// The text is longer than the quota allows.
    TooLong {
        /// Length of the text in bytes.
        asked: usize,
        /// Maximum length in bytes.
        allowed: usize,
    },
    /// The compilation exceeded the time quota.
    TooSlow(Duration),
    /// The compilation exceeded the memory quota, in bytes.
    TooLarge(u64),
    /// Another program of the vPDP is being compiled.
    Busy,
    /// The queue is full, or the compilation waited too long.
    TooMany {
        /// Maximum number of concurrent compilations.
        at_once: usize,
    },
    /// Earlier compilations have used up the cycle quota.
    InDebt,
    /// The compilation was cancelled.
    Cancelled(Cancelled),
    /// The text is wrong: diagnostics.
    Wrong(String),
    /// The thread could not be started, or the compiler panicked.
    Failed,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::TooLong { asked, allowed } => write!(
                f,
                "the program's text has {asked} bytes as it was sent (P4, or the IR that `polyplane` makes of it), but the quota is {allowed} bytes; make it shorter, or ask for a larger quota"
            ),
            CompileError::TooSlow(time) => write!(
                f,
                "the program is not compiled and loaded within the quota of {} ms (compile-ms); make it simpler, or ask for a larger quota",
                time.as_millis()
            ),
            CompileError::TooLarge(bytes) => write!(
                f,
                "to compile and load the program takes more memory than the quota of {bytes} bytes (compile-bytes); make it simpler, or ask for a larger quota"
            ),
            CompileError::Busy => f.write_str(
                "another program of this vPDP is still being compiled or loaded; try again later",
            ),
            CompileError::TooMany { at_once } => write!(
                f,
                "too many compilations: the switch runs {at_once} at once, and those of other vPDPs wait; try again later"
            ),
            CompileError::InDebt => f.write_str(
                "compilations of this vPDP have used up its quota of processor cycles (cycles); try again later",
            ),
            CompileError::Cancelled(reason) => {
                write!(f, "the compilation was cancelled: {reason}")
            }
            CompileError::Wrong(diagnostics) => f.write_str(diagnostics),
            CompileError::Failed => f.write_str("the compiler did not come to an end"),
        }
    }
}

impl std::error::Error for CompileError {}
