//! A node with a clock of its own, which a fault may let deviate from the time of the fabric.

use packet::{Nanos, PortId};

use crate::halves::SplitCounts;
use crate::node::{Node, NodeCounts};
use crate::topology::{DiskFate, LinkSpec};

/// Parts of one.
const BILLION: i128 = 1_000_000_000;

/// Clock of a node: it runs at a speed since a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NodeClock {
    /// True time since which the speed is in force, and the clock's time then.
    since: Nanos,
    shown: Nanos,
    /// Billionths that it gains.
    drift: i64,
}

impl NodeClock {
    /// Returns the clock's time at a true time.
    fn shown_at(&self, now: Nanos) -> Nanos {
        let passed = i128::from(now.since(self.since).0);
        let shown = passed * (BILLION + i128::from(self.drift)) / BILLION;
        Nanos(self.shown.0.saturating_add(shown as u64))
    }

    /// Returns the first true time at which the clock shows a time.
    fn true_time_of(&self, shown: Nanos) -> Nanos {
        let left = i128::from(shown.0.saturating_sub(self.shown.0));
        let speed = BILLION + i128::from(self.drift);
        let passed = (left * BILLION + speed - 1) / speed;
        Nanos(
            self.since
                .0
                .saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)),
        )
    }
}

/// A node that gets the time of its own clock.
pub(crate) struct ClockedNode {
    node: Box<dyn Node>,
    clock: NodeClock,
}

impl ClockedNode {
    /// Gives a node a clock without deviation.
    pub(crate) fn new(node: Box<dyn Node>) -> ClockedNode {
        ClockedNode {
            node,
            clock: NodeClock {
                since: Nanos::ZERO,
                shown: Nanos::ZERO,
                drift: 0,
            },
        }
    }
}

impl Node for ClockedNode {
    fn attach(&mut self, port: PortId, link: &LinkSpec) {
        self.node.attach(port, link);
    }

    fn receive(&mut self, port: PortId, bytes: &[u8], now: Nanos) {
        self.node.receive(port, bytes, self.clock.shown_at(now));
    }

    fn step(&mut self, now: Nanos) {
        self.node.step(self.clock.shown_at(now));
    }

    fn next_time(&self) -> Option<Nanos> {
        let next = self.node.next_time()?;
        Some(self.clock.true_time_of(next))
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        let clock = self.clock;
        let mut take = |port: PortId, bytes: &[u8], at| take(port, bytes, clock.true_time_of(at));
        self.node.drain_sent(&mut take);
    }

    fn tally(&self) -> NodeCounts {
        self.node.tally()
    }

    fn take_servers(&mut self) -> Vec<Box<dyn Node>> {
        self.node.take_servers()
    }

    fn changed_others(&mut self) -> bool {
        self.node.changed_others()
    }

    fn split_counts(&self) -> Option<SplitCounts> {
        self.node.split_counts()
    }

    fn resume(&mut self, from: Nanos, now: Nanos) {
        let [from, now] = [from, now].map(|time| self.clock.shown_at(time));
        self.node.resume(from, now);
    }

    fn has_clock(&self) -> bool {
        self.node.has_clock()
    }

    fn crash(&mut self) {
        self.node.crash();
    }

    fn restart(&mut self, disk: DiskFate, now: Nanos) -> Result<(), String> {
        self.node.restart(disk, self.clock.shown_at(now))
    }

    fn set_clock(&mut self, now: Nanos, ahead: Nanos, drift: i64) {
        self.clock = NodeClock {
            since: now,
            shown: self.clock.shown_at(now) + ahead,
            drift,
        };
    }
}

#[cfg(test)]
mod tests {
    use support::rng::Rng;

    use super::*;

    #[test]
    fn a_clock_never_goes_back_and_its_times_come_at_the_first_moment_that_shows_them() {
        let mut rng = Rng::new(1);
        for _ in 0..1000 {
            let clock = NodeClock {
                since: Nanos(rng.below(1 << 40)),
                shown: Nanos(rng.below(1 << 40)),
                drift: rng.between(0, 1_800_000_000) as i64 - 900_000_000,
            };
            let mut before = clock.shown;
            for step in 0..50u64 {
                let now = Nanos(clock.since.0 + step * step);
                let shown = clock.shown_at(now);
                assert!(shown >= before);
                before = shown;
                let at = clock.true_time_of(shown);
                assert!(at <= now && clock.shown_at(at) >= shown);
                assert!(at == clock.since || clock.shown_at(Nanos(at.0 - 1)) < shown);
            }
        }
    }
}
