//! Instances of a monitor: each has the state of whole keys, and more are added while it runs.
//!
//! A key belongs to one of many slots by a seeded hash, and a slot to the instance with the
//! greatest hash of both. So a new instance takes an equal part of the slots of each other one. A
//! key of such a slot stays at the instance before as long as that one knows it.

use packet::Nanos;
use support::rng::mix;

use super::{Detector, Finding, MonitoredReport, Observation};
use crate::loops::{KeyPart, MonitorKind, MonitorSpec};
use crate::settings::Threshold;

/// Instances of a monitor at most.
pub(crate) const MAX_INSTANCES: usize = 64;
/// Bytes of all instances of a monitor at most.
const MAX_BYTES: usize = 1 << 30;
/// Parts of the keys.
const SLOTS: usize = 1024;

/// Part of the keys.
#[derive(Clone, Debug, Default)]
struct KeySlot {
    owner: usize,
    /// Instances that had it before, the last one first.
    former: Vec<usize>,
}

/// The instances of a monitor.
pub(crate) struct Instances {
    kind: MonitorKind,
    seed: u64,
    all: Vec<Detector>,
    slots: Vec<KeySlot>,
    /// Thresholds that were set, for further instances.
    thresholds: Vec<(Threshold, u64)>,
}

/// Returns the number of instances that a monitor of this kind can have.
pub(crate) fn most_instances(kind: &MonitorKind) -> usize {
    let bytes = match kind {
        MonitorKind::PathLatency(spec) => super::path_latency::bytes_of(spec),
        MonitorKind::Spreader(spec) => super::spreader::bytes_of(spec),
        // They have one state, or none.
        MonitorKind::Loops(_)
        | MonitorKind::RateLimit(_)
        | MonitorKind::Microburst(_)
        | MonitorKind::Tuning(_)
        | MonitorKind::Program(_) => return 1,
    };
    (MAX_BYTES / bytes.max(1)).clamp(1, MAX_INSTANCES)
}

impl Instances {
    /// Creates the instances of a monitor.
    pub(crate) fn new(monitor: &MonitorSpec, seed: u64) -> Instances {
        let mut instances = Instances {
            kind: monitor.kind.clone(),
            seed,
            all: vec![Detector::new(&monitor.kind, seed)],
            slots: vec![KeySlot::default(); SLOTS],
            thresholds: Vec::new(),
        };
        instances.grow(monitor.instances);
        // None of them knows a key yet.
        let slots = instances.slots.iter_mut();
        slots.for_each(|slot| slot.former.clear());
        instances
    }

    /// Returns their number.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Adds instances up to a number.
    pub(crate) fn grow(&mut self, count: usize) {
        while self.all.len() < count.min(most_instances(&self.kind)) {
            let new = self.all.len();
            // Their seeds differ: keys that meet in one of them do not in all.
            let mut detector = Detector::new(&self.kind, mix(self.seed ^ new as u64));
            for (threshold, value) in &self.thresholds {
                detector.set(*threshold, *value);
            }
            self.all.push(detector);
            let weight = |slot: usize, instance: usize| {
                mix(self.seed ^ mix((slot * MAX_INSTANCES + instance) as u64))
            };
            for (at, slot) in self.slots.iter_mut().enumerate() {
                if weight(at, new) > weight(at, slot.owner) {
                    slot.former.insert(0, slot.owner);
                    slot.owner = new;
                }
            }
        }
    }

    /// Returns the only instance of a monitor of a kind that has one, or the first one.
    pub(crate) fn first(&self) -> &Detector {
        &self.all[0]
    }

    /// Returns the first instance, to change it.
    pub(crate) fn first_mut(&mut self) -> &mut Detector {
        &mut self.all[0]
    }

    /// Sets a threshold of all of them.
    pub(crate) fn set(&mut self, threshold: Threshold, value: u64) {
        self.thresholds.retain(|(known, _)| *known != threshold);
        self.thresholds.push((threshold, value));
        let all = self.all.iter_mut();
        all.for_each(|detector| detector.set(threshold, value));
    }

    /// Notes that a change that one of them asked for was refused.
    pub(crate) fn refused(&mut self) {
        self.all.iter_mut().for_each(Detector::refused);
    }

    /// Takes a report at the instance of its key, and adds what that finds.
    #[inline]
    pub(crate) fn observe(
        &mut self,
        report: &MonitoredReport<'_>,
        now: Nanos,
        findings: &mut Vec<Finding>,
    ) -> Observation {
        let at = match self.all.len() {
            1 => 0,
            _ => self.instance_of(report, now),
        };
        self.all[at].observe(report, now, findings)
    }

    /// Returns the instance of a report's key. Reports without a key are the first one's.
    fn instance_of(&self, report: &MonitoredReport<'_>, now: Nanos) -> usize {
        let Some(flow) = &report.facts.flow else {
            return 0;
        };
        let hash = match &self.kind {
            MonitorKind::Spreader(spec) => match spec.host {
                KeyPart::Destination => {
                    super::flow_table::seeded_hash(self.seed, &flow.destination)
                }
                _ => super::flow_table::seeded_hash(self.seed, &flow.source),
            },
            _ => super::flow_table::seeded_hash(self.seed, flow),
        };
        let slot = &self.slots[mix(hash) as usize % SLOTS];
        let mut former = slot.former.iter().copied();
        let known = former.find(|at| self.all[*at].knows(report, now));
        known.unwrap_or(slot.owner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    use telemetry::{FlowKey, L4Ports, ReportedHops};

    use super::*;
    use crate::classify::ReportFacts;
    use crate::loops::SpreaderSpec;

    fn spreader(instances: usize, hosts: usize) -> Instances {
        let monitor = MonitorSpec {
            name: "scanners".to_owned(),
            rules: Vec::new(),
            kind: MonitorKind::Spreader(SpreaderSpec {
                host: KeyPart::Source,
                distinct: vec![KeyPart::Destination],
                limit: 4,
                window: Nanos::from_secs(1),
                hosts,
            }),
            instances,
            reflexes: Vec::new(),
        };
        Instances::new(&monitor, 7)
    }

    fn report(host: u32, peer: u32) -> MonitoredReport<'static> {
        let address = |number: u32| IpAddr::V4(number.into());
        MonitoredReport {
            facts: ReportFacts {
                flow: Some(FlowKey {
                    source: address(host),
                    destination: address(peer),
                    protocol: 6,
                    ports: Some(L4Ports {
                        source: 1,
                        destination: 2,
                    }),
                }),
                node: None,
                ingress_port: None,
                egress_port: None,
                queue: None,
                drop_reason: None,
            },
            hops: ReportedHops::None,
            frame_bytes: None,
        }
    }

    #[test]
    fn a_new_instance_takes_new_keys_and_known_ones_stay_whole() {
        let mut instances = spreader(1, 400);
        let mut findings = Vec::new();
        let mut observe = |instances: &mut Instances, host, peer, at| {
            instances.observe(&report(host, peer), Nanos(at), &mut findings)
        };
        for host in 0..200 {
            for peer in 0..4 {
                let seen = observe(&mut instances, host, peer, 1);
                assert_eq!(seen, Observation::Normal);
            }
        }
        instances.grow(4);
        assert_eq!(instances.count(), 4);
        // Each host has its four peers still, so the next one is too many.
        for host in 0..200 {
            let seen = observe(&mut instances, host, 9, 2);
            assert_eq!(seen, Observation::Alarm, "host {host}");
            let at = instances.instance_of(&report(host, 0), Nanos(2));
            assert_eq!(at, 0, "host {host}");
        }
        // Other hosts are at all of them, and each at one.
        let mut hosts: BTreeMap<usize, u32> = BTreeMap::new();
        for host in 1000..1400 {
            let first = instances.instance_of(&report(host, 0), Nanos(3));
            observe(&mut instances, host, 0, 3);
            let at = instances.instance_of(&report(host, 1), Nanos(3));
            assert_eq!(at, first);
            *hosts.entry(at).or_default() += 1;
        }
        assert_eq!(hosts.len(), 4);
        assert!(hosts.values().all(|count| *count > 50), "{hosts:?}");
        // A host that was silent for the window begins at its new instance.
        let later = Nanos::from_secs(3);
        let moved = (0..200).filter(|host| instances.instance_of(&report(*host, 0), later) != 0);
        assert!(moved.count() > 100);
    }

    #[test]
    fn more_instances_have_room_for_more_keys_and_thresholds_are_those_of_all() {
        let room = |instances: usize| {
            let mut instances = spreader(instances, 64);
            let mut findings = Vec::new();
            let seen =
                (0..2000).map(|host| instances.observe(&report(host, 1), Nanos(1), &mut findings));
            seen.filter(|seen| *seen == Observation::Normal).count()
        };
        assert!(room(4) > 3 * room(1));
        let mut instances = spreader(2, 400);
        instances.set(Threshold::Peers, 1);
        instances.grow(3);
        let mut findings = Vec::new();
        for host in 0..300 {
            let mut observe =
                |peer| instances.observe(&report(host, peer), Nanos(1), &mut findings);
            assert_eq!(observe(1), Observation::Normal);
            assert_eq!(observe(2), Observation::Alarm, "host {host}");
        }
    }
}
