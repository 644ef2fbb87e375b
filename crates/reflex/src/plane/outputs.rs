//! Reports that are passed on to other collectors, as they came.

use super::ReflexPlane;
use crate::classify::{ReportFacts, RuleSet};
use crate::loops::{Loops, OutputContent, OutputIndex};

/// Bytes of datagrams that wait at most.
const MAX_WAITING: usize = 4 << 20;

/// Datagrams that wait to be passed on: none by default. Warm, it allocates nothing.
#[derive(Default)]
pub(super) struct PassedReports {
    /// Rules of each output; `None` of those that get events.
    rules: Vec<Option<RuleSet>>,
    /// Outputs that the datagram is for.
    wanted: Vec<bool>,
    bytes: Vec<u8>,
    ends: Vec<(OutputIndex, usize)>,
    /// Datagrams that had no room.
    dropped: u64,
}

impl PassedReports {
    pub(super) fn new(loops: &Loops) -> PassedReports {
        let rules = loops.outputs.iter().map(|output| match &output.content {
            OutputContent::Reports(rules) => Some(RuleSet::new(rules)),
            OutputContent::EventsAsJson | OutputContent::EventsAsReports(_) => None,
        });
        PassedReports {
            rules: rules.collect(),
            wanted: vec![false; loops.outputs.len()],
            bytes: Vec::new(),
            ends: Vec::new(),
            dropped: 0,
        }
    }

    /// Looks at a report of the datagram that is received.
    pub(super) fn look(&mut self, facts: &ReportFacts) {
        for (wanted, rules) in self.wanted.iter_mut().zip(&self.rules) {
            *wanted |= rules.as_ref().is_some_and(|rules| rules.matches(facts));
        }
    }

    /// Ends the datagram, and keeps it for the outputs of which a rule matched a report.
    pub(super) fn end(&mut self, payload: &[u8]) {
        for (at, wanted) in self.wanted.iter_mut().enumerate() {
            if !std::mem::take(wanted) {
                continue;
            }
            if self.bytes.len() + payload.len() > MAX_WAITING {
                self.dropped += 1;
                continue;
            }
            self.bytes.extend_from_slice(payload);
            self.ends.push((OutputIndex(at), self.bytes.len()));
        }
    }

    /// Passes each datagram that waits to `take`.
    pub(super) fn drain(&mut self, mut take: impl FnMut(OutputIndex, &[u8])) {
        let mut begin = 0;
        for (output, end) in self.ends.drain(..) {
            take(output, &self.bytes[begin..end]);
            begin = end;
        }
        self.bytes.clear();
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl ReflexPlane {
    /// Keeps the datagrams for other collectors from now on, for [`ReflexPlane::drain_passed`].
    pub fn pass_reports(&mut self) {
        self.passed = PassedReports::new(&self.loops);
    }

    /// Passes each datagram that goes on to another collector to `send`.
    pub fn drain_passed(&mut self, send: impl FnMut(OutputIndex, &[u8])) {
        self.passed.drain(send);
    }

    /// Returns the number of datagrams for other collectors that had no room.
    pub fn unpassed(&self) -> u64 {
        self.passed.dropped()
    }
}
