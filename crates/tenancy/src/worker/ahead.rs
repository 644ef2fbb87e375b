//! What the processor is asked for while packets go: what those of the next vPDPs will read.

use switch::Ahead;

use super::Worker;
use crate::root::{Admission, Root, Ways};

/// Groups between two things that a group needs: so long what leads to the next one takes to come. What is asked for last comes while the groups before go through; much earlier, and it would have
/// left the nearest cache again.
const LEAD: usize = 4;

/// What is asked for last of a vPDP's worker.
const LAST: Ahead = Ahead::State(exec::Ahead::Entries);

/// How many groups before its own each thing that a group needs is asked for.
pub(super) const AHEAD: [(usize, Ahead); 5] = [
    (5 * LEAD, Ahead::Own),
    (4 * LEAD, Ahead::Root),
    (3 * LEAD, Ahead::State(exec::Ahead::Tables)),
    (2 * LEAD, Ahead::State(exec::Ahead::Lookups)),
    (LEAD, LAST),
];

/// The first of these for a group that is served by itself, and for one whose packets go together with others': what leads to the last one is read on the way there, in less time than it
/// takes to ask for each.
pub(super) const ALONE: usize = 0;
pub(super) const TOGETHER_WITH_OTHERS: usize = AHEAD.len() - 1;

impl Worker {
    /// Asks the processor for what the groups behind this one will need, from this thing of [`AHEAD`] on, each when what leads there has been asked for long ago. Of vPDPs that no packet is
    /// let into nothing is needed.
    pub(super) fn look_ahead(&mut self, root: &Root, number: usize, first: usize) {
        let groups = self.sorter.groups();
        if number + 1 >= groups {
            return;
        }
        for (at, &(lead, what)) in AHEAD.iter().enumerate().skip(first) {
            let begin = self.asked[at].max(number + 1);
            let end = groups.min(number + 1 + lead);
            for group in begin..end {
                let (slot, _) = self.sorter.group(group);
                // Those whose packets go together with others' are let in: nothing is read of their places.
                let goes = self.functions.of(slot).is_some();
                let is_let_in = |ways: &Ways<'_>| goes || ways.place.admission == Admission::Open;
                let ways = root.ways(slot).filter(is_let_in);
                if let Some((ways, seat)) = ways.zip(self.seat(slot)) {
                    seat.ask_for(what);
                    if what == LAST {
                        ways.ask_for_outlets();
                    }
                }
            }
            self.asked[at] = begin.max(end);
        }
    }
}
