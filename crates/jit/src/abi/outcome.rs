//! How native code tells how it ended.

use exec::{DropReason, PackedOutcome};

/// How native code ended, in the number that it returns: one of these in the upper half, what belongs to it in the lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// At its end.
    Done,
    /// A parser rejected with this error.
    Reject(u32),
    /// The packet must be dropped.
    Drop(DropReason),
}

const REJECT: u64 = 1;
const DROP: u64 = PackedOutcome::DROPPED >> 32;

impl Outcome {
    /// The number that means this.
    pub(crate) fn number(self) -> u64 {
        match self {
            Outcome::Done => 0,
            Outcome::Reject(error) => Outcome::REJECT_FLAG | u64::from(error),
            Outcome::Drop(reason) => Outcome::DROP_FLAG | reason.index() as u64,
        }
    }

    /// What to put around the index of a reason to drop the packet.
    pub(crate) const DROP_FLAG: u64 = DROP << 32;

    /// What to put around an error's number.
    pub(crate) const REJECT_FLAG: u64 = REJECT << 32;

    pub(super) fn of(number: u64) -> Outcome {
        match number >> 32 {
            0 => Outcome::Done,
            REJECT => Outcome::Reject(number as u32),
            _ => {
                let reason = DropReason::ALL.get(number as u32 as usize);
                Outcome::Drop(reason.copied().unwrap_or(DropReason::Aborted))
            }
        }
    }
}
