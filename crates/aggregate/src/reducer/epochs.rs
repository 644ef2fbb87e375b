//! Epochs of a reducer: what mappers may send.

use packet::Nanos;

use super::progress::{Asked, Epoch, FlowEpoch};
use super::{ALL_PLACES, MAX_EPOCHS, Phase, Reducer, total};
use crate::combined::Combined;
use crate::reduction_error::ReductionError;
use crate::vector::{LaneOperation, Layout};

/// Share of a bank's slots that an epoch is planned to fill, in percent.
const FILL: u64 = 95;

impl Reducer {
    /// Goes on to the mappers' next inputs, when all mappers have theirs.
    pub(super) fn begin_next(&mut self) -> bool {
        if !self.has_next_inputs() || self.wants_load() {
            return false;
        }
        for flow in &mut self.flows {
            flow.asked = flow.next.take();
        }
        self.submission = self.submission.wrapping_add(1);
        self.result = Combined::default();
        self.completed_at = None;
        self.start = 0;
        self.epochs.clear();
        self.phase = Phase::Waiting;
        true
    }

    /// Begins when all mappers have reported their number of keys.
    pub(super) fn begin(&mut self, now: Nanos) -> bool {
        let asked: Option<Vec<Asked>> = self.flows.iter().map(|flow| flow.asked).collect();
        let Some(asked) = asked else {
            return false;
        };
        self.first_asked_at = None;
        if self.config.flows.shape.is_vector() {
            return self.begin_vector(&asked, now);
        }
        // The first epoch holds all keys even if no two mappers have the same.
        let all = total(asked.iter().map(|asked| asked.keys));
        self.width = self.width_for(all, ALL_PLACES);
        self.fill(now);
        false
    }

    /// Begins with a vector: its blocks are known, and each epoch is a range of them.
    fn begin_vector(&mut self, asked: &[Asked], now: Nanos) -> bool {
        let shape = self.config.flows.shape;
        let first = asked.first();
        let expected = first.map_or(0, |first| first.keys);
        let operation = first.and_then(|first| first.lanes);
        let operation = operation.unwrap_or(LaneOperation::of(shape));
        for (flow, asked) in (0..).zip(asked) {
            let found = asked.lanes.unwrap_or(LaneOperation::of(shape));
            let failure = if found != operation || !found.is_of(shape) {
                ReductionError::Operations {
                    flow,
                    expected: operation,
                    found,
                }
            } else if asked.keys != expected {
                ReductionError::Lengths {
                    flow,
                    expected,
                    found: asked.keys,
                }
            } else {
                continue;
            };
            self.phase = Phase::Failed(failure);
            return false;
        }
        let layout = Layout::new(expected, operation);
        let least = u64::from(layout.blocks).div_ceil(MAX_EPOCHS - 2);
        self.width = u64::from(self.config.slots).max(least);
        self.layout = Some(layout);
        self.fill(now);
        false
    }

    /// Returns the width of an epoch that fills a bank, where `keys` keys are in `width` places.
    pub(super) fn width_for(&self, keys: u64, width: u64) -> u64 {
        let room = u128::from(self.config.slots) * u128::from(FILL) / 100;
        let least = ALL_PLACES / MAX_EPOCHS;
        match keys <= u64::from(self.config.slots) && width == ALL_PLACES || keys == 0 {
            true => ALL_PLACES,
            false => (u128::from(width) * room / u128::from(keys)) as u64,
        }
        .clamp(least, ALL_PLACES)
    }

    /// Announces epochs.
    pub(super) fn fill(&mut self, now: Nanos) {
        self.phase = Phase::Filling;
        while self.epochs.len() < usize::from(self.config.open_epochs) {
            let first = match self.epochs.back() {
                Some(Epoch { end: u32::MAX, .. }) => break,
                Some(epoch) => u64::from(epoch.end) + 1,
                None => u64::from(self.start),
            };
            let Some(end) = self.end_of_epoch(first) else {
                break;
            };
            self.epochs.push_back(Epoch {
                end,
                flows: vec![FlowEpoch::default(); self.flows.len()],
                partial: Combined::default(),
            });
        }
        for flow in 0..self.config.mappers {
            self.flows[usize::from(flow)].heard_at = now;
            self.signal(flow);
        }
    }

    /// Returns the last place of the epoch with this first one. `None` if it is of blocks of values
    /// and not all scales are in the result.
    fn end_of_epoch(&self, first: u64) -> Option<u32> {
        let last = (first + self.width - 1).min(ALL_PLACES - 1) as u32;
        let Some(layout) = &self.layout else {
            return Some(last);
        };
        let scales = layout.scale_blocks;
        if first < u64::from(scales) {
            return Some(last.min(scales - 1));
        }
        match (
            self.start >= scales,
            last >= layout.blocks.saturating_sub(1),
        ) {
            (false, _) => None,
            (true, true) => Some(u32::MAX),
            (true, false) => Some(last),
        }
    }

    /// Ends filling when all mappers have left the base epoch and all of its messages are here.
    pub(super) fn finish_filling(&mut self, now: Nanos) -> bool {
        let Some(epoch) = self.epochs.front() else {
            return false;
        };
        if !epoch.flows.iter().all(FlowEpoch::is_complete) {
            return false;
        }
        let sent = epoch.flows.iter().filter_map(|flow| flow.end);
        let sent = total(sent.map(|end| end.pairs));
        let absorbed = total(epoch.flows.iter().map(|flow| flow.absorbed));
        let left = total(epoch.flows.iter().map(|flow| flow.left));
        if !self.check(sent, left.saturating_add(absorbed)) {
            return false;
        }
        self.counts.pairs = self.counts.pairs.saturating_add(sent);
        self.counts.absorbed = self.counts.absorbed.saturating_add(absorbed);
        match absorbed {
            0 => self.commit(now),
            _ => self.collect_level(0, absorbed, now),
        }
        true
    }
}
