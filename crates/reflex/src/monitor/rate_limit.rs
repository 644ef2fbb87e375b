//! The monitor of a tenant's rate over all its edges, with max-min fair shares (nanoPU, table 2:
//! distributed rate limiting).

use packet::Nanos;
use telemetry::IntNodeId;

use super::{Finding, MonitoredReport, Observation, Targets};
use crate::decision::{Measured, PathNodes, Subject};
use crate::loops::RateLimitSpec;
use crate::permission::Wish;

/// Edges of a tenant at most.
pub(crate) const MAX_EDGES: usize = 64;
/// Part of its share, in thousandths, from which on an edge is taken to want more than it gets.
const WANTS_MORE: u64 = 930;
/// Change of the share, in thousandths, below which meters stay as they are.
const STEP: u64 = 20;
/// Nanoseconds of a second.
const SECOND: u128 = 1_000_000_000;

/// An edge: the node by which packets enter the network.
#[derive(Clone, Copy, Debug)]
struct Edge {
    node: IntNodeId,
    /// Bytes of the interval.
    bytes: u64,
}

/// A monitor: the bytes of each edge in an interval, and the share that all edges may have.
///
/// An interval ends with the first report after it. Each edge may send at the same rate, the level
/// of max-min fairness: an edge that wants less leaves the rest to the others. What an edge wants
/// is known only if its meter does not limit it; an edge near its share wants more.
#[derive(Clone, Debug)]
pub(crate) struct RateLimitMonitor {
    spec: RateLimitSpec,
    edges: Vec<Edge>,
    start: Option<Nanos>,
    /// The share that meters have, in bytes a second; the limit before the first change.
    share: u64,
    is_limited: bool,
    /// A meter does not have the share: its change was refused.
    is_refused: bool,
}

impl RateLimitMonitor {
    /// Creates a monitor.
    pub(crate) fn new(spec: RateLimitSpec) -> RateLimitMonitor {
        RateLimitMonitor {
            spec,
            edges: Vec::with_capacity(MAX_EDGES),
            start: None,
            share: spec.limit,
            is_limited: false,
            is_refused: false,
        }
    }

    /// Sets the limit of all edges together, in bytes a second. Meters get their shares at the end
    /// of the interval.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.spec.limit = limit;
    }

    /// Notes that a meter did not get the share.
    pub(crate) fn refused(&mut self) {
        self.is_refused = true;
    }

    pub(crate) fn take(
        &mut self,
        report: &MonitoredReport<'_>,
        now: Nanos,
        findings: &mut Vec<Finding>,
    ) -> Observation {
        let Some((_, path)) = report.flow_and_path() else {
            return Observation::NoPath;
        };
        // A cut stack lacks the first hops.
        let first = path.hops().next().filter(|_| !path.gaps().cut);
        let node = first.and_then(|hop| hop.node);
        let (Some(node), Some(bytes)) = (node, report.frame_bytes) else {
            return Observation::NoSample;
        };
        self.observe(node, bytes, now, findings)
    }

    fn observe(
        &mut self,
        node: IntNodeId,
        bytes: u32,
        now: Nanos,
        findings: &mut Vec<Finding>,
    ) -> Observation {
        let start = *self.start.get_or_insert(now);
        let mut sample = Observation::Normal;
        if now >= start + self.spec.every {
            if let Some(finding) = self.evaluate(now.since(start)) {
                findings.push(finding);
                sample = Observation::Alarm;
            }
            self.start = Some(now);
        }
        let place = self.edges.iter().position(|edge| edge.node == node);
        match place {
            Some(at) => self.edges[at].bytes += u64::from(bytes),
            None if self.edges.len() < MAX_EDGES => {
                let bytes = bytes.into();
                self.edges.push(Edge { node, bytes });
            }
            None => return Observation::NoRoom,
        }
        sample
    }

    /// Ends an interval. Returns a finding if the share changes.
    fn evaluate(&mut self, span: Nanos) -> Option<Finding> {
        let limit = self.spec.limit;
        let mut wants = [u64::MAX; MAX_EDGES];
        let mut total = 0u64;
        for (edge, wanted) in self.edges.iter_mut().zip(&mut wants) {
            let rate = u128::from(edge.bytes) * SECOND / u128::from(span.0.max(1));
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            edge.bytes = 0;
            total = total.saturating_add(rate);
            let is_near =
                u128::from(rate) * 1000 >= u128::from(self.share) * u128::from(WANTS_MORE);
            if !(self.is_limited && is_near) {
                *wanted = rate;
            }
        }
        let share = level(&mut wants[..self.edges.len()], limit);
        if !self.is_limited && total <= limit {
            return None;
        }
        let differ = u128::from(share.abs_diff(self.share)) * 1000;
        let is_small = differ <= u128::from(self.share) * u128::from(STEP);
        if self.is_limited && is_small && !self.is_refused {
            return None;
        }
        self.share = share;
        self.is_limited = true;
        self.is_refused = false;
        Some(Finding {
            subject: Subject::Tenant,
            path: PathNodes::default(),
            measured: Measured::Rate {
                rate: total,
                limit,
                share,
            },
            wish: Some(Wish::Rate(share)),
            targets: Targets::All,
        })
    }
}

/// Returns the level of max-min fairness: the rate up to which all wants are met, so that their sum
/// is the limit; the limit if it is enough for all. Bertsekas, Gallager: Data Networks, section
/// 6.5.2, for one link.
fn level(wants: &mut [u64], limit: u64) -> u64 {
    wants.sort_unstable();
    let mut rest = limit;
    for (at, want) in wants.iter().enumerate() {
        let share = rest / (wants.len() - at) as u64;
        if *want > share {
            return share.max(1);
        }
        rest -= want;
    }
    limit
}

#[cfg(test)]
mod tests {
    use support::rng::Rng;

    use super::*;

    #[test]
    fn the_level_gives_each_edge_what_it_wants_or_an_equal_part_of_the_rest() {
        for (wants, limit, expected) in [
            (vec![10, 20, 30], 100, 100),
            (vec![100, 100], 100, 50),
            (vec![10, u64::MAX, u64::MAX], 100, 45),
            (vec![], 100, 100),
            (vec![u64::MAX], 100, 100),
        ] {
            assert_eq!(level(&mut wants.clone(), limit), expected, "{wants:?}");
        }
        let mut rng = Rng::new(4);
        for _ in 0..1000 {
            let count = 1 + rng.index(10);
            let mut wants: Vec<u64> = (0..count).map(|_| rng.below(1_000_000)).collect();
            let limit = 1 + rng.below(3_000_000);
            let level = level(&mut wants, limit);
            let sum: u64 = wants.iter().map(|want| (*want).min(level)).sum();
            let all: u64 = wants.iter().sum();
            if all <= limit {
                assert_eq!(level, limit);
            } else {
                assert!(sum <= limit.max(count as u64) && sum + count as u64 > limit);
            }
        }
    }

    /// Runs edges that want these rates, in bytes a second, and have meters with the share.
    /// Returns the rates of the last interval.
    fn run(monitor: &mut RateLimitMonitor, wants: &[u64], start: &mut u64, span: u64) -> Vec<u64> {
        const BYTES: u32 = 1000;
        let mut credit = vec![0f64; wants.len()];
        let mut sent = vec![0u64; wants.len()];
        let mut findings = Vec::new();
        let end = *start + span;
        while *start < end {
            *start += 1000;
            for (at, want) in wants.iter().enumerate() {
                let rate = match monitor.is_limited {
                    true => (*want).min(monitor.share),
                    false => *want,
                };
                credit[at] += rate as f64 / 1e6;
                while credit[at] >= f64::from(BYTES) {
                    credit[at] -= f64::from(BYTES);
                    if *start + 10_000_000 > end {
                        sent[at] += 100 * u64::from(BYTES);
                    }
                    let node = IntNodeId(at as u32);
                    monitor.observe(node, BYTES, Nanos(*start), &mut findings);
                }
            }
        }
        sent
    }

    #[test]
    fn rates_are_max_min_fair_soon_after_each_change() {
        let spec = RateLimitSpec {
            limit: 50_000_000,
            every: Nanos::from_millis(4),
        };
        let mut rng = Rng::new(11);
        let mut monitor = RateLimitMonitor::new(spec);
        let mut now = 0;
        for case in 0..40 {
            let wants: Vec<u64> = (0..4).map(|_| 1_000_000 + rng.below(40_000_000)).collect();
            let rates = run(&mut monitor, &wants, &mut now, 30_000_000);
            let fair = level(&mut wants.clone(), spec.limit);
            let expected: Vec<u64> = wants.iter().map(|want| (*want).min(fair)).collect();
            let sum: u64 = rates.iter().sum();
            let expected_sum: u64 = expected.iter().sum();
            assert!(
                sum.abs_diff(expected_sum) * 20 <= expected_sum,
                "case {case}: {rates:?} {expected:?}"
            );
            for (rate, expected) in rates.iter().zip(&expected) {
                assert!(
                    rate.abs_diff(*expected) * 10 <= *expected,
                    "case {case}: {rates:?} {expected:?}"
                );
            }
        }
    }

    #[test]
    fn a_share_that_was_refused_is_asked_for_again() {
        let spec = RateLimitSpec {
            limit: 1_000_000,
            every: Nanos::from_millis(1),
        };
        let mut monitor = RateLimitMonitor::new(spec);
        let mut findings = Vec::new();
        let mut shares = Vec::new();
        for at in 0..60u64 {
            monitor.observe(IntNodeId(1), 200, Nanos(at * 100_000), &mut findings);
            shares.extend(findings.drain(..).map(|finding| finding.wish));
            if at == 35 {
                monitor.refused();
            }
        }
        let share = Some(Wish::Rate(1_000_000));
        assert_eq!(shares, [share, share]);
    }

    #[test]
    fn below_the_limit_nothing_is_limited() {
        let spec = RateLimitSpec {
            limit: 50_000_000,
            every: Nanos::from_millis(4),
        };
        let mut monitor = RateLimitMonitor::new(spec);
        let rates = run(&mut monitor, &[20_000_000, 29_000_000], &mut 0, 30_000_000);
        assert!(!monitor.is_limited, "{rates:?}");
    }
}
