//! The monitor of path latencies: nanoPU, section 3.1.2.

use std::cmp::Reverse;
use std::net::IpAddr;

use packet::Nanos;
use support::rng::{INCREMENT, folded_product, mix};
use table::prefetch::prefetch;
use telemetry::{EqualClocks, FlowKey, HopTime, IntNodeId, NoSample, ReportedPath};

use super::flow_table::{FlowHash, FlowTable, FlowTableKey};
use super::{Finding, MonitoredReport, Observation, Targets};
use crate::decision::{Measured, PathNodes, Subject};
use crate::loops::{Compare, DetourNode, LatencyMeasure, PathLatencySpec};
use crate::permission::{MAX_HOPS, PathPorts, Wish};

/// Maximum number of samples of an average.
pub(crate) const MAX_WINDOW: usize = 1024;
/// Maximum number of flows of a monitor.
pub(crate) const MAX_FLOWS: usize = 1 << 24;

/// A flow on one path, as words that are compared and hashed fast: a detour changes what is normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PathKey {
    source: [u64; 2],
    destination: [u64; 2],
    /// Protocol, ports, versions of the addresses, and whether there are ports.
    rest: u64,
    path: u64,
}

impl PathKey {
    #[inline]
    fn new(flow: FlowKey, path: u64) -> PathKey {
        let words = |address: IpAddr| match address {
            IpAddr::V4(address) => [u64::from(address.to_bits()), 0],
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                [bits as u64, (bits >> 64) as u64]
            }
        };
        let ports = flow.ports.map_or(0, |ports| {
            1 << 32 | u64::from(ports.source) << 16 | u64::from(ports.destination)
        });
        PathKey {
            source: words(flow.source),
            destination: words(flow.destination),
            rest: ports
                | u64::from(flow.protocol) << 40
                | u64::from(flow.source.is_ipv6()) << 48
                | u64::from(flow.destination.is_ipv6()) << 49,
            path,
        }
    }
}

impl FlowTableKey for PathKey {
    /// Returns the mixed products of pairs of words, each with a part of the seed. The products do
    /// not wait for each other.
    #[inline]
    fn hash(&self, seed: u64) -> u64 {
        let pair = |number: u64, a: u64, b: u64| {
            let secret = seed.wrapping_add(number.wrapping_mul(INCREMENT));
            folded_product(a ^ secret, b ^ secret.rotate_left(32))
        };
        let lower = pair(0, self.source[0], self.destination[0]);
        let upper = pair(1, self.source[1], self.destination[1]);
        let rest = pair(2, self.rest, self.path);
        mix(lower ^ upper.rotate_left(21) ^ rest.rotate_left(42))
    }
}

/// Latency of a packet that is not normal for its flow and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyAlarm {
    /// The packet's latency.
    pub latency: Nanos,
    /// The moving average that it was compared with.
    pub average: Nanos,
}

/// Result of one report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyOutcome {
    /// The latency is normal, or the average is not known yet.
    Normal,
    /// It is not.
    Alarm(LatencyAlarm),
    /// The report is no sample.
    NoSample(NoSample),
    /// A hop has no node ID, so the path is not known.
    UnknownPath,
    /// The latency is 4.29 s or more: clocks that are not equal, rather than a path.
    TooLong,
    /// There is no place for the flow.
    Full,
}

/// A monitor: moving averages of latencies, by flow and path.
#[derive(Clone, Debug)]
pub struct PathLatencyMonitor {
    spec: PathLatencySpec,
    seed: u64,
    flows: FlowTable<PathKey>,
    /// State of each place, in [`PathLatencyMonitor::lines`] each.
    states: Box<[Line]>,
    lines: usize,
}

/// Words of a cache line.
const LINE: usize = 16;
/// Words of a state before its samples: two of the sum, and one of count and place of the next
/// sample.
const HEAD: usize = 3;

/// Cache line of a state. A state has an [`Average`], then the last latencies in nanoseconds,
/// [`PathLatencySpec::window`] of them: a window of up to 13 is in one line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([u32; LINE]);

/// Sum of the last latencies of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    sum: u64,
    count: u16,
    next: u16,
}

impl Average {
    #[inline]
    fn read(line: &Line) -> Average {
        let [low, high, rest, ..] = line.0;
        Average {
            sum: u64::from(low) | u64::from(high) << 32,
            count: rest as u16,
            next: (rest >> 16) as u16,
        }
    }

    fn mean(self) -> Nanos {
        Nanos(self.sum / u64::from(self.count).max(1))
    }

    /// Adds a sample in place of the oldest one of a full window.
    #[inline]
    fn add(&mut self, latency: Nanos, window: usize, state: &mut [Line]) {
        // Longer ones are no samples.
        let sample = latency.0 as u32;
        let word = HEAD + usize::from(self.next);
        let slot = &mut state[word / LINE].0[word % LINE];
        if usize::from(self.count) == window {
            self.sum -= u64::from(*slot);
        } else {
            self.count += 1;
        }
        *slot = sample;
        self.sum += u64::from(sample);
        self.next += 1;
        if usize::from(self.next) == window {
            self.next = 0;
        }
    }

    #[inline]
    fn write(self, line: &mut Line) {
        let rest = u32::from(self.count) | u32::from(self.next) << 16;
        line.0[..HEAD].copy_from_slice(&[self.sum as u32, (self.sum >> 32) as u32, rest]);
    }
}

/// A latency of a flow on a path, before it is compared.
#[derive(Clone, Copy, Debug)]
pub struct PathSample {
    key: PathKey,
    hash: FlowHash,
    latency: Nanos,
    at: Nanos,
}

/// Parts of a path's latency, in nanoseconds: the times in its nodes, or from each node to the next
/// one.
struct PathParts {
    count: usize,
    nodes: [IntNodeId; MAX_HOPS],
    times: [u32; LINE],
}

impl PathParts {
    fn new(path: &ReportedPath<'_>, measure: LatencyMeasure) -> PathParts {
        let mut parts = PathParts {
            count: 0,
            nodes: [IntNodeId::default(); MAX_HOPS],
            times: [0; LINE],
        };
        let narrow =
            |time: Option<Nanos>| time.map_or(0, |time| u32::try_from(time.0).unwrap_or(u32::MAX));
        let mut arrived: Option<HopTime> = None;
        for (at, hop) in path.hops().take(MAX_HOPS).enumerate() {
            parts.nodes[at] = hop.node.unwrap_or_default();
            parts.count = at + 1;
            match measure {
                LatencyMeasure::Hops => parts.times[at] = narrow(hop.residence()),
                LatencyMeasure::EqualClocks => {
                    let span = hop.ingress_time.zip(arrived);
                    let span = span.and_then(|(end, start)| end.since(start));
                    if let Some(part) = at.checked_sub(1) {
                        parts.times[part] = narrow(span);
                    }
                    arrived = hop.ingress_time;
                }
            }
        }
        parts
    }
}

/// Returns the lines of a flow's state.
fn lines_of(spec: &PathLatencySpec) -> usize {
    let parts = usize::from(spec.detour == DetourNode::BeforeIncrease);
    (HEAD + spec.window).div_ceil(LINE) + parts
}

/// Returns the bytes that a monitor allocates.
pub(crate) fn bytes_of(spec: &PathLatencySpec) -> usize {
    FlowTable::<PathKey>::bytes_for(spec.flows, lines_of(spec) * size_of::<Line>())
}

impl PathLatencyMonitor {
    /// Returns true if it has an average of a report's flow and path.
    pub(crate) fn knows(&self, report: &MonitoredReport<'_>, now: Nanos) -> bool {
        let Some((flow, path)) = report.flow_and_path() else {
            return false;
        };
        let path = path.path_hash(self.seed);
        path.is_some_and(|path| self.flows.knows(&PathKey::new(flow, path), now))
    }

    /// Sets the amount above the average that is an alarm.
    pub(crate) fn set_above(&mut self, above: Nanos) {
        self.spec.above = above;
    }

    /// Creates a monitor. All its memory is allocated at once.
    pub fn new(spec: PathLatencySpec, seed: u64) -> PathLatencyMonitor {
        let flows = FlowTable::new(spec.flows, spec.forget, seed);
        let lines = lines_of(&spec);
        let states = vec![Line::default(); flows.places() * lines].into();
        PathLatencyMonitor {
            spec,
            seed,
            flows,
            states,
            lines,
        }
    }

    /// Takes the path of a packet of a flow.
    #[inline]
    pub fn observe(
        &mut self,
        flow: FlowKey,
        path: &ReportedPath<'_>,
        now: Nanos,
    ) -> LatencyOutcome {
        match self.sample(flow, path, now) {
            Ok(sample) => self.observe_sample(&sample),
            Err(outcome) => outcome,
        }
    }

    /// Reads the latency of a packet of a flow for [`PathLatencyMonitor::observe_batch`].
    ///
    /// # Errors
    /// The outcome of a report that is no sample.
    #[inline]
    pub fn sample(
        &self,
        flow: FlowKey,
        path: &ReportedPath<'_>,
        now: Nanos,
    ) -> Result<PathSample, LatencyOutcome> {
        let latency = match self.spec.measure {
            LatencyMeasure::Hops => path.summed_stack_latency(),
            LatencyMeasure::EqualClocks => path.first_to_last_ingress(EqualClocks),
        };
        let latency = latency.map_err(LatencyOutcome::NoSample)?;
        if u32::try_from(latency.0).is_err() {
            return Err(LatencyOutcome::TooLong);
        }
        let path = path.path_hash(self.seed);
        let key = PathKey::new(flow, path.ok_or(LatencyOutcome::UnknownPath)?);
        let hash = self.flows.hash(&key);
        self.flows.prefetch_tags(hash);
        let at = now;
        Ok(PathSample {
            key,
            hash,
            latency,
            at,
        })
    }

    /// Takes samples in their order, as [`PathLatencyMonitor::observe`] does one by one, and waits
    /// for the memory of all of them at once. A batch of 16 is enough.
    #[inline]
    pub fn observe_batch(
        &mut self,
        samples: &[PathSample],
        mut each: impl FnMut(&PathSample, LatencyOutcome),
    ) {
        for sample in samples {
            let state = |place: usize| prefetch(&self.states, place * self.lines);
            self.flows.prefetch_slots(sample.hash, state);
        }
        for sample in samples {
            let outcome = self.observe_sample(sample);
            each(sample, outcome);
        }
    }

    #[inline]
    fn observe_sample(&mut self, sample: &PathSample) -> LatencyOutcome {
        let Some(place) = self.place(sample) else {
            return LatencyOutcome::Full;
        };
        let alarm = self.compare(place, sample.latency);
        alarm.map_or(LatencyOutcome::Normal, LatencyOutcome::Alarm)
    }

    /// Returns the place of a sample's flow, with an empty state if it is new.
    #[inline]
    fn place(&mut self, sample: &PathSample) -> Option<usize> {
        let place = self
            .flows
            .place_hashed(&sample.key, sample.hash, sample.at)?;
        if place.is_new {
            let state = &mut self.states[place.index * self.lines..][..self.lines];
            Average::default().write(&mut state[0]);
            if self.spec.detour == DetourNode::BeforeIncrease
                && let Some(parts) = state.last_mut()
            {
                *parts = Line::default();
            }
        }
        Some(place.index)
    }

    /// Keeps the parts of a normal latency, to find the one that grows.
    fn keep_parts(&mut self, place: usize, path: &ReportedPath<'_>) {
        if self.spec.detour == DetourNode::BeforeIncrease {
            let parts = PathParts::new(path, self.spec.measure);
            self.states[place * self.lines + self.lines - 1].0 = parts.times;
        }
    }

    /// Returns the nodes at which a flow can be detoured, the best one first.
    fn targets(&self, place: usize, path: &ReportedPath<'_>) -> PathNodes {
        if self.spec.detour == DetourNode::First {
            return PathNodes::new(super::nodes(path));
        }
        let parts = PathParts::new(path, self.spec.measure);
        let kept = &self.states[place * self.lines + self.lines - 1];
        let grown = parts.times.iter().zip(kept.0).enumerate();
        let grown = grown.map(|(at, (now, kept))| (now.saturating_sub(kept), at));
        // The first one of equal growth.
        let largest = grown.max_by_key(|(growth, at)| (*growth, Reverse(*at)));
        let slow = largest.map_or(0, |(_, at)| at);
        let before = match self.spec.measure {
            // The time in the node: the first node has none before it.
            LatencyMeasure::Hops => slow.max(1),
            // The time from the node to the next one.
            LatencyMeasure::EqualClocks => slow + 1,
        };
        let nodes = parts.nodes[..parts.count.min(before)].iter();
        PathNodes::new(nodes.rev().copied())
    }

    pub(crate) fn take(
        &mut self,
        report: &MonitoredReport<'_>,
        now: Nanos,
        findings: &mut Vec<Finding>,
    ) -> Observation {
        let Some((flow, path)) = report.flow_and_path() else {
            return Observation::NoPath;
        };
        let Ok(sample) = self.sample(flow, path, now) else {
            return Observation::NoSample;
        };
        let Some(place) = self.place(&sample) else {
            return Observation::NoRoom;
        };
        let Some(alarm) = self.compare(place, sample.latency) else {
            self.keep_parts(place, path);
            return Observation::Normal;
        };
        let LatencyAlarm { latency, average } = alarm;
        findings.push(Finding {
            subject: Subject::Flow(flow),
            path: PathNodes::new(super::nodes(path)),
            measured: Measured::Latency { latency, average },
            wish: Some(Wish::Entry(PathPorts::new(path))),
            targets: Targets::FirstOf(self.targets(place, path)),
        });
        Observation::Alarm
    }

    /// Compares a latency with the average at a place, and adds it.
    #[inline]
    fn compare(&mut self, place: usize, latency: Nanos) -> Option<LatencyAlarm> {
        let PathLatencySpec {
            window,
            above,
            compare,
            ..
        } = self.spec;
        let state = &mut self.states[place * self.lines..][..self.lines];
        let mut average = Average::read(&state[0]);
        if compare == Compare::Paper {
            average.add(latency, window, state);
        }
        if usize::from(average.count) == window {
            let differs = match compare {
                // `latency > mean + above`, without a division.
                Compare::Above => {
                    let excess = latency.0.checked_sub(above.0);
                    excess.is_some_and(|excess| excess * u64::from(average.count) > average.sum)
                }
                Compare::Paper => latency.0.abs_diff(average.mean().0) > above.0,
            };
            if differs {
                average.write(&mut state[0]);
                let average = average.mean();
                return Some(LatencyAlarm { latency, average });
            }
        }
        if compare == Compare::Above {
            average.add(latency, window, state);
        }
        average.write(&mut state[0]);
        None
    }

    /// Returns the number of flows and paths that are known.
    pub fn flows(&self) -> usize {
        self.flows.flows()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use support::rng::Rng;
    use telemetry::{Instructions, IntStack, L4Ports};

    use super::*;

    const NODE: Instructions = Instructions::NODE;
    const LATENCY: Instructions = Instructions::LATENCY;

    fn monitor(compare: Compare, window: usize, above: u64) -> PathLatencyMonitor {
        let spec = PathLatencySpec {
            window,
            above: Nanos(above),
            compare,
            measure: LatencyMeasure::Hops,
            detour: DetourNode::First,
            flows: 4,
            forget: Nanos::from_secs(1),
        };
        PathLatencyMonitor::new(spec, 1)
    }

    fn outcome(alarm: Option<LatencyAlarm>) -> LatencyOutcome {
        alarm.map_or(LatencyOutcome::Normal, LatencyOutcome::Alarm)
    }

    /// Returns the stack of a packet through these nodes, with the latency in each.
    fn entries(hops: &[(u32, u32)]) -> Vec<u8> {
        let hops = hops.iter().rev();
        hops.flat_map(|(node, latency)| [node.to_be_bytes(), latency.to_be_bytes()].concat())
            .collect()
    }

    fn stack(entries: &[u8]) -> ReportedPath<'_> {
        let stack = IntStack::new(NODE.with(LATENCY), 0, entries).unwrap();
        ReportedPath::new(stack, None, None, false)
    }

    #[test]
    fn a_detour_before_the_increase_is_at_the_nodes_before_the_one_that_became_slow() {
        let flow = FlowKey {
            source: IpAddr::V4(1.into()),
            destination: IpAddr::V4(2.into()),
            protocol: 17,
            ports: None,
        };
        // Slow node, and the nodes at which the flow can be detoured.
        for (slow, detour, expected) in [
            (3, DetourNode::BeforeIncrease, &[2, 1][..]),
            (1, DetourNode::BeforeIncrease, &[1]),
            (4, DetourNode::BeforeIncrease, &[3, 2, 1]),
            (4, DetourNode::First, &[1, 2, 3, 4]),
        ] {
            let spec = PathLatencySpec {
                detour,
                ..monitor(Compare::Above, 4, 1000).spec
            };
            let mut monitor = PathLatencyMonitor::new(spec, 1);
            // Node 2 is always slower than the others.
            let normal = [(1, 500), (2, 2000), (3, 500), (4, 500)];
            let late = normal.map(|(node, time)| (node, time + 3000 * u32::from(node == slow)));
            let mut take = |hops: &[(u32, u32)]| {
                let entries = entries(hops);
                let path = stack(&entries);
                let sample = monitor.sample(flow, &path, Nanos::ZERO).unwrap();
                let place = monitor.place(&sample).unwrap();
                match monitor.compare(place, sample.latency) {
                    Some(_) => Some(monitor.targets(place, &path)),
                    None => {
                        monitor.keep_parts(place, &path);
                        None
                    }
                }
            };
            for _ in 0..6 {
                assert_eq!(take(&normal), None);
            }
            let targets = take(&late).unwrap();
            let found: Vec<u32> = targets.get().iter().map(|node| node.0).collect();
            assert_eq!(found, expected, "node {slow}");
        }
    }

    #[test]
    fn a_batch_gives_the_outcomes_of_its_samples_one_by_one() {
        let mut rng = Rng::new(5);
        let spec = PathLatencySpec {
            flows: 200,
            ..monitor(Compare::Above, 4, 100).spec
        };
        let mut single = PathLatencyMonitor::new(spec, 1);
        let mut batched = single.clone();
        for at in 0..2_000 {
            let (mut samples, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..rng.index(20) {
                let source = match rng.index(3) {
                    0 => IpAddr::V6((rng.below(40) as u128).into()),
                    _ => IpAddr::V4((rng.below(40) as u32).into()),
                };
                let flow = FlowKey {
                    source,
                    destination: IpAddr::V4(7.into()),
                    protocol: 17,
                    ports: None,
                };
                let latency = 500 + rng.below(60) as u32;
                let entries = entries(&[(1, latency), (2 + rng.index(2) as u32, latency)]);
                let path = stack(&entries);
                let now = Nanos(at);
                samples.push(batched.sample(flow, &path, now).unwrap());
                expected.push(single.observe(flow, &path, now));
            }
            let mut found = Vec::new();
            batched.observe_batch(&samples, |_, outcome| found.push(outcome));
            assert_eq!(found, expected);
        }
        assert_eq!(single.flows(), batched.flows());
    }

    #[test]
    fn flows_that_differ_in_one_field_have_states_of_their_own() {
        let flow = |source: IpAddr, protocol, ports: Option<(u16, u16)>| FlowKey {
            source,
            destination: IpAddr::V4(7.into()),
            protocol,
            ports: ports.map(|(source, destination)| L4Ports {
                source,
                destination,
            }),
        };
        let v4 = IpAddr::V4(1.into());
        let flows = [
            flow(v4, 6, Some((1, 2))),
            flow(v4, 17, Some((1, 2))),
            flow(v4, 6, Some((2, 1))),
            flow(v4, 6, Some((0, 0))),
            flow(v4, 6, None),
            flow(IpAddr::V6(1.into()), 6, Some((1, 2))),
            flow(IpAddr::V6((1 << 64).into()), 6, Some((1, 2))),
        ];
        let keys = flows.map(|flow| PathKey::new(flow, 5));
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{:?}", flows[at]);
        }
        assert_ne!(keys[0], PathKey::new(flows[0], 6));
    }

    /// Takes reports of flows with queueing that differs from packet to packet, then a slow link.
    fn noise_is_no_alarm(reports: u64) {
        let spec = PathLatencySpec {
            flows: 64,
            ..monitor(Compare::Above, 10, 10_000).spec
        };
        let mut monitor = PathLatencyMonitor::new(spec, 1);
        let mut rng = Rng::new(48);
        // Queueing in each of five nodes has an exponential distribution with a mean of 400 ns.
        let mut hops = |extra: u32| {
            let hops = (1..=5).map(|node| {
                let part = (rng.below(1 << 30) + 1) as f64 / (1u64 << 30) as f64;
                (node, 600 + (-400.0 * part.ln()) as u32 + extra / 5)
            });
            entries(&hops.collect::<Vec<_>>())
        };
        let flow = |port: u64| FlowKey {
            source: IpAddr::V4(1.into()),
            destination: IpAddr::V4(2.into()),
            protocol: 17,
            ports: Some(L4Ports {
                source: port as u16,
                destination: 1,
            }),
        };
        for number in 0..reports {
            let entries = hops(0);
            let now = Nanos(number * 1000);
            let outcome = monitor.observe(flow(number % 64), &stack(&entries), now);
            assert_eq!(outcome, LatencyOutcome::Normal, "report {number}");
        }
        let entries = hops(50_000);
        let outcome = monitor.observe(flow(0), &stack(&entries), Nanos(reports * 1000));
        assert!(matches!(outcome, LatencyOutcome::Alarm(_)), "{outcome:?}");
    }

    #[test]
    fn a_noisy_steady_state_gives_no_alarm() {
        noise_is_no_alarm(50_000);
    }

    #[test]
    #[ignore = "a million reports take a minute without optimisation"]
    fn a_million_noisy_reports_give_no_alarm() {
        noise_is_no_alarm(1_000_000);
    }

    /// Compares latencies of one place by their definition.
    fn naive(compare: Compare, window: usize, above: u64, all: &[u64]) -> Vec<LatencyOutcome> {
        let mut kept: VecDeque<u64> = VecDeque::new();
        let mut outcomes = Vec::new();
        for latency in all {
            let mut with = kept.clone();
            with.push_back(*latency);
            if with.len() > window {
                with.pop_front();
            }
            let compared = if compare == Compare::Paper {
                &with
            } else {
                &kept
            };
            let average = compared.iter().sum::<u64>() / (compared.len() as u64).max(1);
            let is_full = compared.len() == window;
            let is_alarm = is_full
                && match compare {
                    Compare::Above => *latency > average + above,
                    Compare::Paper => latency.abs_diff(average) > above,
                };
            if compare == Compare::Paper || !is_alarm {
                kept = with;
            }
            outcomes.push(match is_alarm {
                true => LatencyOutcome::Alarm(LatencyAlarm {
                    latency: Nanos(*latency),
                    average: Nanos(average),
                }),
                false => LatencyOutcome::Normal,
            });
        }
        outcomes
    }

    #[test]
    fn alarms_are_those_of_the_definition() {
        let mut rng = Rng::new(3);
        for case in 0..500 {
            let window = 1 + rng.index(12);
            let above = rng.below(300);
            let all: Vec<u64> = (0..200)
                .map(|at| 1000 + rng.below(400) + if at > 100 { 350 } else { 0 })
                .collect();
            for compare in [Compare::Above, Compare::Paper] {
                let mut monitor = monitor(compare, window, above);
                let found: Vec<_> = all
                    .iter()
                    .map(|it| outcome(monitor.compare(0, Nanos(*it))))
                    .collect();
                assert_eq!(found, naive(compare, window, above, &all), "case {case}");
            }
        }
    }

    #[test]
    fn a_jump_stays_an_alarm_for_as_long_as_it_lasts() {
        let mut monitor = monitor(Compare::Above, 10, 1000);
        for _ in 0..10 {
            assert_eq!(monitor.compare(0, Nanos(5000)), None);
        }
        let alarm = LatencyAlarm {
            latency: Nanos(9000),
            average: Nanos(5000),
        };
        for _ in 0..100 {
            assert_eq!(monitor.compare(0, Nanos(9000)), Some(alarm));
        }
        assert_eq!(monitor.compare(0, Nanos(5000)), None);
    }
}
