//! The reasons for which there is no program.

use std::fmt;
use std::time::Duration;

/// The reason for which a compilation was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The client that asked for it has gone, or waits no longer.
    ClientGone,
    /// The vPDP was deleted.
    Deleted,
    /// The vPDP has a smaller quota by now.
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

/// The reason for which there is no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// The text is longer than the quota allows.
    TooLong {
        /// Its bytes.
        asked: usize,
        /// Bytes that there may be.
        allowed: usize,
    },
    /// It took longer than the quota allows.
    TooSlow(Duration),
    /// It took more memory than the quota allows, in bytes.
    TooLarge(u64),
    /// Another program of the vPDP is being made.
    Busy,
    /// Too many compilations wait, or its turn did not come in time.
    TooMany {
        /// Compilations that run at once.
        at_once: usize,
    },
    /// Compilations before have used up the quota of cycles.
    InDebt,
    /// It was cancelled.
    Cancelled(Cancelled),
    /// The text is wrong: diagnostics.
    Wrong(String),
    /// No thread could be had, or the compiler failed.
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
