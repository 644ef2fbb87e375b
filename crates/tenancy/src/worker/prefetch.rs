//! Prefetching for the next frame groups while packets are processed.

use switch::Ahead;

use super::Worker;
use crate::snapshot::{Admission, EgressMap, SwitchSnapshot};

/// Distance between two prefetch stages of a group, in groups: the time until an address loaded by
/// one stage can be used by the next. The last stage runs while the preceding groups are
/// processed. Much earlier, its lines would be evicted from the L1 cache again.
const LEAD: usize = 4;

/// Last prefetch stage of a vPDP's worker.
const LAST: Ahead = Ahead::State(exec::PrefetchStage::Entries);

/// Distance of each prefetch stage, in groups.
pub(super) const PREFETCH_DISTANCE: [(usize, Ahead); 5] = [
    (5 * LEAD, Ahead::Own),
    (4 * LEAD, Ahead::Root),
    (3 * LEAD, Ahead::State(exec::PrefetchStage::Tables)),
    (2 * LEAD, Ahead::State(exec::PrefetchStage::Lookups)),
    (LEAD, LAST),
];

/// First prefetch stage of a group that is served alone, and of one in a shared burst. In a shared
/// burst the addresses for the last stage are read directly: that is faster than all stages.
pub(super) const ALONE: usize = 0;
pub(super) const TOGETHER_WITH_OTHERS: usize = PREFETCH_DISTANCE.len() - 1;

impl Worker {
    /// Prefetches for the groups after `number`, from stage `first` of [`PREFETCH_DISTANCE`] on.
    /// Each stage uses addresses that an earlier one has prefetched. vPDPs that admit no packets
    /// are skipped.
    pub(super) fn look_ahead(&mut self, root: &SwitchSnapshot, number: usize, first: usize) {
        let groups = self.sorter.groups();
        if number + 1 >= groups {
            return;
        }
        for (at, &(lead, what)) in PREFETCH_DISTANCE.iter().enumerate().skip(first) {
            let begin = self.asked[at].max(number + 1);
            let end = groups.min(number + 1 + lead);
            for group in begin..end {
                let (slot, _) = self.sorter.group(group);
                // Members of shared bursts are admitted, so their `Place` is not read.
                let goes = self.functions.of(slot).is_some();
                let is_let_in =
                    |ways: &EgressMap<'_>| goes || ways.place.admission == Admission::Open;
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
