//! The guard of an element against commands that are old, repeated, or too early.

use crate::ids::{LogIndex, Term};

/// State of an element: the greatest term that it saw, and the last change that it applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    term: Term,
    applied: LogIndex,
}

/// Decision about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Apply it, and answer with its index.
    Apply,
    /// It was applied before: answer with this index.
    Repeat(LogIndex),
    /// Changes are missing before it: answer with this index, so the leader goes on from there.
    Gap(LogIndex),
    /// A leader of an earlier term sent it: refuse it, and answer with the term.
    OldTerm(Term),
}

impl Fence {
    /// Returns the index of the last applied change.
    pub const fn applied(&self) -> LogIndex {
        self.applied
    }

    /// Decides about the change at `index`, sent by the leader of `term`, that goes after the one
    /// at `previous`.
    pub fn admit(&mut self, term: Term, previous: LogIndex, index: LogIndex) -> Admission {
        if term < self.term {
            return Admission::OldTerm(self.term);
        }
        self.term = term;
        if index <= self.applied {
            Admission::Repeat(self.applied)
        } else if previous > self.applied {
            Admission::Gap(self.applied)
        } else {
            self.applied = index;
            Admission::Apply
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_terms_repeats_and_gaps_are_told_apart() {
        let mut fence = Fence::default();
        let mut admit =
            |term, previous, index| fence.admit(Term(term), LogIndex(previous), LogIndex(index));
        assert_eq!(admit(2, 0, 5), Admission::Apply);
        assert_eq!(admit(2, 0, 5), Admission::Repeat(LogIndex(5)));
        assert_eq!(admit(2, 7, 9), Admission::Gap(LogIndex(5)));
        assert_eq!(admit(3, 5, 7), Admission::Apply);
        assert_eq!(admit(2, 7, 9), Admission::OldTerm(Term(3)));
        // A new leader sends only what is left of the changes.
        assert_eq!(admit(3, 5, 9), Admission::Apply);
    }
}
