//! Result of a call into native code.

use exec::{DropReason, PackedOutcome};

/// Result of native code, decoded from the returned number: the kind is in the upper half, its
/// argument in the lower half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The code reached its end.
    Done,
    /// The parser rejected the packet with this error.
    Reject(u32),
    /// The packet must be dropped.
    Drop(DropReason),
}

const REJECT: u64 = 1;
const DROP: u64 = PackedOutcome::DROPPED >> 32;

impl Outcome {
    /// Returns the encoding of this result.
    pub(crate) fn number(self) -> u64 {
        match self {
            Outcome::Done => 0,
            Outcome::Reject(error) => Outcome::REJECT_FLAG | u64::from(error),
            Outcome::Drop(reason) => Outcome::DROP_FLAG | reason.index() as u64,
        }
    }

    /// Bits to combine with the index of a drop reason.
    pub(crate) const DROP_FLAG: u64 = DROP << 32;

    /// Bits to combine with the number of an error.
    pub(crate) const REJECT_FLAG: u64 = REJECT << 32;

    pub(super) fn of(number: u64) -> Outcome {
        match number >> 32 {
            0 => Outcome::Done,
            REJECT => Outcome::Reject(number as u32),
            _ => {
                let reason = DropReason::from_index(number as u32 as usize);
                Outcome::Drop(reason.unwrap_or(DropReason::Aborted))
            }
        }
    }
}
