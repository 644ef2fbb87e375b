//! The monitor of bursts in queues: it rebuilds each queue over time from the times of its packets,
//! and finds each flow's share (nanoPU, section 4.1.1 a).

use std::collections::{BTreeMap, VecDeque};

use telemetry::{FlowKey, Hop, HopTime, IntNodeId};

use super::flow_table::{FlowTable, FlowTableKey, seeded_hash};
use super::{Finding, MonitoredReport, Observation, Targets};
use crate::classify::ReportFacts;
use crate::decision::{Measured, PathNodes, Subject};
use crate::loops::{BurstFlows, MicroburstSpec};
use crate::permission::{PathPorts, Wish};
use crate::settings::Threshold;
use packet::Nanos;

/// Maximum number of queues of a monitor.
pub(crate) const MAX_QUEUES: usize = 4096;
/// Maximum number of packets of a queue.
pub(crate) const MAX_PACKETS: usize = 65_536;
/// Flows of a burst that are kept: those with the largest shares.
const TOP_FLOWS: usize = 4;
/// Findings of one report at most.
const MAX_FINDINGS: usize = 256;
/// Bursts that are kept; older ones are dropped.
const MAX_BURSTS: usize = 4096;
/// Time without a report of a queue after which its place may be given to another one.
const FORGET: Nanos = Nanos::from_secs(10);

/// A queue of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueName {
    /// The node.
    pub node: IntNodeId,
    /// Its port.
    pub port: u16,
    /// Number of the queue at the port; 0 if reports do not have it.
    pub queue: u8,
}

/// A burst: a time in which a queue held more bytes than the threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The queue.
    pub queue: QueueName,
    /// Time of the node at which a packet first found the queue above the threshold.
    pub start: Nanos,
    /// Time at which it held the most bytes.
    pub peak: Nanos,
    /// Bytes that it held then.
    pub bytes: u64,
    /// Flows with the most bytes in it then, with their bytes; at most four.
    pub flows: Vec<(FlowKey, u64)>,
}

/// A packet that may still be in a queue.
#[derive(Clone, Copy, Debug)]
struct Queued {
    flow: FlowKey,
    dequeued: u64,
    bytes: u32,
}

/// A flow in a queue.
#[derive(Clone, Copy, Debug)]
struct QueuedFlow {
    bytes: u64,
    packets: u32,
    /// Departure of its last packet.
    left: u64,
    /// The path of its last report.
    path: PathPorts,
    /// A decision about it was made in this burst.
    is_decided: bool,
}

/// State of a queue at the arrival of the last reported packet.
#[derive(Clone, Debug, Default)]
struct Queue {
    packets: VecDeque<Queued>,
    bytes: u64,
    /// Flows with packets in it, and those that had one a short time ago.
    flows: BTreeMap<FlowKey, QueuedFlow>,
    /// Departures after which a flow had no packet in it, in their order.
    idle: VecDeque<(u64, FlowKey)>,
    /// Latest arrival.
    arrived: u64,
    /// Number of the burst under way.
    burst: Option<u64>,
}

/// A monitor: packets that are in each queue.
///
/// A report has the arrival and the departure of its packet at each hop. Packets of a queue leave
/// it in the order of their arrival, so when the report of a packet comes, those of all packets
/// that it found in the queue have come: the queue at its arrival is known. Times of one node are
/// compared with each other only. Reports that are lost, and packets without INT, are missing in
/// the queue. Flows that used the queue a short time ago are victims of a burst, too.
#[derive(Clone, Debug)]
pub(crate) struct MicroburstMonitor {
    spec: MicroburstSpec,
    names: FlowTable<QueueName>,
    queues: Vec<Queue>,
    bursts: VecDeque<Burst>,
    /// Number of the first burst that is kept.
    first_burst: u64,
}

impl FlowTableKey for QueueName {
    fn hash(&self, seed: u64) -> u64 {
        seeded_hash(seed, self)
    }
}

impl MicroburstMonitor {
    /// Creates a monitor. Memory of a queue is allocated with its packets.
    pub(crate) fn new(spec: MicroburstSpec, seed: u64) -> MicroburstMonitor {
        let names = FlowTable::new(spec.queues, FORGET, seed);
        MicroburstMonitor {
            queues: vec![Queue::default(); names.places()],
            names,
            spec,
            bursts: VecDeque::new(),
            first_burst: 0,
        }
    }

    /// Sets a threshold.
    pub(crate) fn set(&mut self, threshold: Threshold, value: u64) {
        match threshold {
            Threshold::Above => self.spec.above = value,
            Threshold::Share => self.spec.share = value.min(1000) as u32,
            _ => {}
        }
    }

    /// Returns the bursts that it found, oldest first.
    pub(crate) fn bursts(&self) -> impl Iterator<Item = &Burst> {
        self.bursts.iter()
    }

    pub(crate) fn take(
        &mut self,
        report: &MonitoredReport<'_>,
        findings: &mut Vec<Finding>,
    ) -> Observation {
        let (Some((flow, path)), Some(bytes)) = (report.flow_and_path(), report.frame_bytes) else {
            return Observation::NoPath;
        };
        let ports = PathPorts::new(path);
        let mut sample = Observation::NoSample;
        for hop in path.hops() {
            // A hop is a sample of its own: others may be missing.
            let Some((name, arrived, dequeued)) = queued(&hop) else {
                continue;
            };
            let packet = Queued {
                flow,
                dequeued,
                bytes,
            };
            let result = self.observe(name, arrived, packet, &ports, findings);
            sample = match (sample, result) {
                (Observation::Alarm, _) | (_, Observation::Alarm) => Observation::Alarm,
                (Observation::NoRoom, _) | (_, Observation::NoRoom) => Observation::NoRoom,
                _ => Observation::Normal,
            };
        }
        sample
    }

    /// Takes a packet that arrived in a queue at this time.
    fn observe(
        &mut self,
        name: QueueName,
        arrived: u64,
        packet: Queued,
        path: &PathPorts,
        findings: &mut Vec<Finding>,
    ) -> Observation {
        // The clock of reports is not that of the node; its own times order them well enough.
        let Some(place) = self.names.place(&name, Nanos(arrived)) else {
            return Observation::NoRoom;
        };
        let queue = &mut self.queues[place.index];
        if place.is_new {
            *queue = Queue::default();
        }
        // Reports that come by several ways may change their order a little.
        queue.arrived = queue.arrived.max(arrived);
        while queue
            .packets
            .front()
            .is_some_and(|first| first.dequeued <= queue.arrived)
        {
            queue.leave();
        }
        let is_full = queue.packets.len() >= self.spec.packets;
        if is_full {
            queue.leave();
        }
        queue.forget(self.spec.recent.0, self.spec.packets);
        queue.enter(packet, path);
        if queue.bytes <= self.spec.above {
            if queue.bytes <= self.spec.above / 2 && queue.burst.take().is_some() {
                queue
                    .flows
                    .values_mut()
                    .for_each(|flow| flow.is_decided = false);
            }
            return if is_full {
                Observation::NoRoom
            } else {
                Observation::Normal
            };
        }
        let number = self.first_burst + self.bursts.len() as u64;
        let is_first = queue.burst.is_none();
        let number = *queue.burst.get_or_insert(number);
        if is_first {
            self.bursts.push_back(Burst {
                queue: name,
                start: Nanos(queue.arrived),
                peak: Nanos(queue.arrived),
                bytes: 0,
                flows: Vec::new(),
            });
            if self.bursts.len() > MAX_BURSTS {
                self.bursts.pop_front();
                self.first_burst += 1;
            }
        }
        let kept = number.checked_sub(self.first_burst);
        if let Some(burst) = kept.and_then(|at| self.bursts.get_mut(at as usize))
            && queue.bytes > burst.bytes
        {
            (burst.peak, burst.bytes) = (Nanos(queue.arrived), queue.bytes);
            queue.top_flows(&mut burst.flows);
        }
        let mut decided = findings.len();
        let most = decided + MAX_FINDINGS;
        if is_first {
            let bytes = queue.bytes;
            for (flow, queued) in &mut queue.flows {
                if decided < most
                    && let Some(finding) = find(&self.spec, name, bytes, *flow, queued)
                {
                    findings.push(finding);
                    decided += 1;
                }
            }
        } else if let Some(queued) = queue.flows.get_mut(&packet.flow) {
            findings.extend(find(&self.spec, name, queue.bytes, packet.flow, queued));
        }
        Observation::Alarm
    }
}

/// Returns a hop's queue, and the times at which the packet came and left. `None` if a value is
/// missing, or if the time has 32 bits: it wraps after 4.29 s.
fn queued(hop: &Hop) -> Option<(QueueName, u64, u64)> {
    let name = QueueName {
        node: hop.node?,
        port: hop.interfaces?.egress,
        queue: hop.queue.map_or(0, |queue| queue.id),
    };
    let HopTime::Full(arrived) = hop.ingress_time? else {
        return None;
    };
    Some((name, arrived, arrived.checked_add(hop.residence()?.0)?))
}

/// Returns a finding about a flow in a burst, once, if its share says so.
fn find(
    spec: &MicroburstSpec,
    queue: QueueName,
    bytes: u64,
    flow: FlowKey,
    queued: &mut QueuedFlow,
) -> Option<Finding> {
    if queued.is_decided {
        return None;
    }
    let facts = ReportFacts {
        flow: Some(flow),
        node: Some(queue.node),
        ingress_port: None,
        egress_port: Some(queue.port),
        queue: Some(queue.queue),
        drop_reason: None,
    };
    let mut rules = spec.entitled.iter();
    let rule = rules.find(|(rule, _)| rule.matches(&facts));
    let share = rule.map_or(spec.share, |(_, share)| *share);
    let is_culprit = u128::from(queued.bytes) * 1000 > u128::from(bytes) * u128::from(share);
    if is_culprit != (spec.flows == BurstFlows::Culprits) {
        return None;
    }
    queued.is_decided = true;
    let path = queued.path;
    let nodes = path.get().iter().map(|hop| hop.0);
    // From the source up to the queue: a change after it does not help.
    let last = nodes.clone().position(|node| node == queue.node);
    let before = nodes.clone().take(last.map_or(usize::MAX, |at| at + 1));
    Some(Finding {
        subject: Subject::Flow(flow),
        path: PathNodes::new(nodes),
        measured: Measured::Burst {
            node: queue.node,
            port: queue.port.into(),
            bytes,
            flow_bytes: queued.bytes,
        },
        wish: Some(Wish::Entry(path)),
        targets: Targets::FirstOf(PathNodes::new(before)),
    })
}

impl Queue {
    fn enter(&mut self, packet: Queued, path: &PathPorts) {
        self.bytes += u64::from(packet.bytes);
        let flow = self.flows.entry(packet.flow).or_insert(QueuedFlow {
            bytes: 0,
            packets: 0,
            left: 0,
            path: *path,
            is_decided: false,
        });
        flow.bytes += u64::from(packet.bytes);
        flow.packets += 1;
        flow.path = *path;
        self.packets.push_back(packet);
    }

    /// Removes the first packet.
    fn leave(&mut self) {
        let Some(packet) = self.packets.pop_front() else {
            return;
        };
        self.bytes -= u64::from(packet.bytes);
        if let Some(flow) = self.flows.get_mut(&packet.flow) {
            flow.bytes -= u64::from(packet.bytes);
            flow.packets -= 1;
            if flow.packets == 0 {
                flow.left = packet.dequeued;
                self.idle.push_back((packet.dequeued, packet.flow));
            }
        }
    }

    /// Removes flows without packets that are not recent, or are more than `most`.
    fn forget(&mut self, recent: u64, most: usize) {
        while let Some((left, flow)) = self.idle.front().copied()
            && (left.saturating_add(recent) < self.arrived || self.idle.len() > most)
        {
            self.idle.pop_front();
            let state = self.flows.get(&flow);
            if state.is_some_and(|state| state.packets == 0 && state.left == left) {
                self.flows.remove(&flow);
            }
        }
    }

    /// Writes the flows with the most bytes to `top`.
    fn top_flows(&self, top: &mut Vec<(FlowKey, u64)>) {
        top.clear();
        let inside = self.flows.iter().filter(|(_, queued)| queued.packets > 0);
        for (flow, queued) in inside {
            let at = top.partition_point(|(_, bytes)| *bytes >= queued.bytes);
            if at < TOP_FLOWS {
                top.insert(at, (*flow, queued.bytes));
                top.truncate(TOP_FLOWS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::Ipv4Addr;

    use support::rng::Rng;
    use telemetry::L4Ports;

    use super::*;

    fn flow(number: u16) -> FlowKey {
        FlowKey {
            source: Ipv4Addr::new(10, 0, 0, 1).into(),
            destination: Ipv4Addr::new(10, 0, 0, 2).into(),
            protocol: 17,
            ports: Some(L4Ports {
                source: number,
                destination: 80,
            }),
        }
    }

    const NAME: QueueName = QueueName {
        node: IntNodeId(1),
        port: 3,
        queue: 0,
    };

    fn monitor(above: u64, flows: BurstFlows) -> MicroburstMonitor {
        let spec = MicroburstSpec {
            above,
            flows,
            entitled: vec![(ReportRule::parse("l4.src 7").unwrap(), 1000)],
            share: 250,
            recent: Nanos(2000),
            queues: 4,
            packets: 4096,
        };
        MicroburstMonitor::new(spec, 1)
    }

    use crate::classify::ReportRule;

    /// Packets of a queue: arrival, departure, bytes and flow. Phases of calm and of bursts.
    fn packets(seed: u64) -> Vec<(u64, Queued)> {
        let mut rng = Rng::new(seed);
        let (mut now, mut free) = (0, 0);
        let packets = (0..4000).map(|at| {
            let is_burst = at / 100 % 4 == 3;
            now += if is_burst {
                rng.below(60)
            } else {
                rng.below(700)
            };
            let bytes = 100 + rng.below(200);
            free = now.max(free) + bytes;
            let flow = flow(rng.below(if is_burst { 3 } else { 20 }) as u16);
            let bytes = bytes as u32;
            let dequeued = free;
            (
                now,
                Queued {
                    flow,
                    dequeued,
                    bytes,
                },
            )
        });
        packets.collect()
    }

    #[test]
    fn the_queue_that_a_packet_finds_is_that_of_the_definition() {
        for seed in 0..5 {
            let packets = packets(seed);
            let mut monitor = monitor(5000, BurstFlows::Victims);
            let mut bursts = 0;
            let mut is_burst = false;
            for (at, (arrived, packet)) in packets.iter().enumerate() {
                let path = PathPorts::default();
                monitor.observe(NAME, *arrived, *packet, &path, &mut Vec::new());
                let inside = packets[..=at].iter().map(|(_, packet)| packet);
                let inside = inside.filter(|packet| packet.dequeued > *arrived);
                let mut flows: HashMap<FlowKey, u64> = HashMap::new();
                for packet in inside {
                    *flows.entry(packet.flow).or_default() += u64::from(packet.bytes);
                }
                let bytes: u64 = flows.values().sum();
                let queue = monitor.queues.iter().find(|it| it.arrived == *arrived);
                let queue = queue.expect("the packet is in a queue");
                assert_eq!(queue.bytes, bytes);
                let inside = queue.flows.iter().filter(|(_, it)| it.packets > 0);
                let found = inside.map(|(flow, it)| (*flow, it.bytes));
                assert_eq!(found.collect::<HashMap<_, _>>(), flows);
                if bytes > 5000 {
                    bursts += usize::from(!is_burst);
                    is_burst = true;
                } else if bytes <= 2500 {
                    is_burst = false;
                }
            }
            assert!(bursts > 5);
            assert_eq!(monitor.bursts().count(), bursts);
        }
    }

    #[test]
    fn a_flow_that_used_the_queue_a_short_time_ago_is_a_victim_and_then_it_is_forgotten() {
        for (gap, expected) in [(2000, 2), (2002, 1)] {
            let mut monitor = monitor(600, BurstFlows::Victims);
            let mut findings = Vec::new();
            let mut add = |number: u16, arrived: u64, dequeued: u64| {
                let packet = Queued {
                    flow: flow(number),
                    dequeued,
                    bytes: 100,
                };
                let path = PathPorts::default();
                monitor.observe(NAME, arrived, packet, &path, &mut findings);
            };
            add(2, 0, 1);
            for at in 0..10 {
                add(if at == 9 { 3 } else { 1 }, 1 + gap, 10_000 + at);
            }
            assert_eq!(findings.len(), expected, "{gap}");
        }
    }

    #[test]
    fn victims_and_culprits_are_found_once_in_a_burst_by_their_entitlement() {
        // Flows 1 and 7 fill the queue; 7 may have all of it.
        let numbers = [1, 7, 1, 7, 1, 7, 2, 1, 7, 1, 7, 3];
        for (which, expected) in [
            (BurstFlows::Culprits, vec![1]),
            (BurstFlows::Victims, vec![2, 3, 7]),
        ] {
            let mut monitor = monitor(600, which);
            let mut findings = Vec::new();
            for (at, number) in numbers.iter().enumerate() {
                let packet = Queued {
                    flow: flow(*number),
                    dequeued: 1000 + at as u64,
                    bytes: 100,
                };
                monitor.observe(
                    NAME,
                    at as u64,
                    packet,
                    &PathPorts::default(),
                    &mut findings,
                );
            }
            let found = findings.iter().map(|finding| {
                let flow = finding.subject.flow().expect("it is about a flow");
                flow.ports.unwrap().source
            });
            let mut found: Vec<u16> = found.collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{which:?}");
        }
    }
}
