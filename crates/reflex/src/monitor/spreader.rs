//! The monitor of hosts with many peers: super-spreaders, scans of ports, distributed attacks
//! (nanoPU, table 2).

use std::net::IpAddr;

use packet::Nanos;
use telemetry::FlowKey;

use super::flow_table::{FlowTable, FlowTableKey, seeded_hash};
use super::{Finding, MonitoredReport, Observation, Targets};
use crate::decision::{Measured, PathNodes, Subject};
use crate::loops::{KeyPart, SpreaderSpec};
use crate::permission::{PathPorts, Wish};
use crate::write::EntryKey;

/// Maximum number of peers of a host.
pub(crate) const MAX_PEERS: usize = 4096;
/// Maximum number of hosts of a monitor.
pub(crate) const MAX_HOSTS: usize = 1 << 22;
/// Bytes of a peer.
pub(crate) const PEER_BYTES: usize = size_of::<Peer>();
/// Parts of a window in which times of peers are kept.
const TICKS: u64 = 1024;

/// A peer of a host.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    /// Hash of the fields that make it; 0 is no peer.
    mark: u32,
    /// Tick of its last report.
    last: u32,
}

/// A monitor: for each host the marks of its last peers, as many as it may have.
///
/// It counts no peer twice. Two peers with equal marks count as one: with `n` peers that is so with
/// a probability of at most `n * n / 2^33`, and chosen peers cannot cause it, as marks are seeded.
/// A peer counts for the window after its last report, up to a thousandth of it more.
#[derive(Clone, Debug)]
pub(crate) struct SpreaderMonitor {
    spec: SpreaderSpec,
    seed: u64,
    tick: u64,
    hosts: FlowTable<IpAddr>,
    /// Time of each host's last report.
    last: Box<[Nanos]>,
    /// [`SpreaderMonitor::room`] for each host.
    peers: Box<[Peer]>,
    /// The greatest limit: that of the file.
    room: usize,
}

impl FlowTableKey for IpAddr {
    fn hash(&self, seed: u64) -> u64 {
        seeded_hash(seed, self)
    }
}

/// Returns the bytes of a monitor.
pub(crate) fn bytes_of(spec: &SpreaderSpec) -> usize {
    let state = size_of::<Nanos>() + spec.limit * size_of::<Peer>();
    FlowTable::<IpAddr>::bytes_for(spec.hosts, state)
}

impl SpreaderMonitor {
    /// Creates a monitor. All its memory is allocated at once.
    pub(crate) fn new(spec: SpreaderSpec, seed: u64) -> SpreaderMonitor {
        let hosts = FlowTable::new(spec.hosts, spec.window, seed);
        let places = hosts.places();
        SpreaderMonitor {
            seed: seed.rotate_left(17),
            tick: (spec.window.0 / TICKS).max(1),
            hosts,
            last: vec![Nanos::ZERO; places].into(),
            peers: vec![Peer::default(); places * spec.limit].into(),
            room: spec.limit,
            spec,
        }
    }

    /// Returns true if it has peers of a report's host.
    pub(crate) fn knows(&self, report: &MonitoredReport<'_>, now: Nanos) -> bool {
        let host = report.facts.flow.map(|flow| self.host(&flow));
        host.is_some_and(|host| self.hosts.knows(&host, now))
    }

    /// Sets the number of peers that a host may have, up to that of the file.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.spec.limit = limit.clamp(1, self.room);
    }

    pub(crate) fn take(
        &mut self,
        report: &MonitoredReport<'_>,
        now: Nanos,
        findings: &mut Vec<Finding>,
    ) -> Observation {
        let Some(flow) = report.facts.flow else {
            return Observation::NoPath;
        };
        let sample = self.observe(&flow, now);
        if sample == Observation::Alarm {
            let path = report.flow_and_path();
            let limit = self.spec.limit as u32;
            findings.push(Finding {
                subject: Subject::Host(self.host(&flow)),
                path: path.map_or(PathNodes::default(), |(_, path)| {
                    PathNodes::new(super::nodes(path))
                }),
                measured: Measured::Peers {
                    peers: limit + 1,
                    limit,
                },
                wish: Some(Wish::Entry(PathPorts::default())),
                targets: Targets::All,
            });
        }
        sample
    }

    fn host(&self, flow: &FlowKey) -> IpAddr {
        match self.spec.host {
            KeyPart::Destination => flow.destination,
            _ => flow.source,
        }
    }

    /// Takes a flow. An alarm is a peer beyond those that the host may have; it is not kept.
    fn observe(&mut self, flow: &FlowKey, now: Nanos) -> Observation {
        let Some(key) = EntryKey::of_flow(flow, &self.spec.distinct) else {
            return Observation::NoSample;
        };
        let host = self.host(flow);
        let Some(place) = self.hosts.place(&host, now) else {
            return Observation::NoRoom;
        };
        let limit = self.spec.limit;
        let peers = &mut self.peers[place.index * self.room..][..limit];
        let last = &mut self.last[place.index];
        if place.is_new || now > *last + self.spec.window {
            peers.fill(Peer::default());
        }
        *last = now;
        let mark = (seeded_hash(self.seed, &key) as u32).max(1);
        // Ticks wrap: a host without a report for a window has no peers.
        let tick = (now.0 / self.tick) as u32;
        let mut free = None;
        for peer in peers {
            if peer.mark == mark {
                peer.last = tick;
                return Observation::Normal;
            }
            let is_free = peer.mark == 0 || u64::from(tick.wrapping_sub(peer.last)) > TICKS;
            if is_free && free.is_none() {
                free = Some(peer);
            }
        }
        match free {
            Some(free) => {
                *free = Peer { mark, last: tick };
                Observation::Normal
            }
            None => Observation::Alarm,
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

    fn monitor(limit: usize, window: Nanos, hosts: usize) -> SpreaderMonitor {
        let spec = SpreaderSpec {
            host: KeyPart::Source,
            distinct: vec![KeyPart::Destination, KeyPart::DestinationPort],
            limit,
            window,
            hosts,
        };
        SpreaderMonitor::new(spec, 5)
    }

    fn flow(host: u32, peer: u32) -> FlowKey {
        FlowKey {
            source: Ipv4Addr::from(0x0a00_0000 + host).into(),
            destination: Ipv4Addr::from(0x1400_0000 + peer / 4).into(),
            protocol: 17,
            ports: Some(L4Ports {
                source: 1000,
                destination: (peer % 4) as u16,
            }),
        }
    }

    #[test]
    fn an_alarm_is_a_new_peer_beyond_the_limit_of_the_window() {
        let mut rng = Rng::new(8);
        for case in 0..50 {
            let limit = 1 + rng.index(20);
            // Whole ticks, so that the window is exact.
            let window = Nanos(TICKS * 1000);
            let mut monitor = monitor(limit, window, 8);
            let mut known: HashMap<(u32, u32), u64> = HashMap::new();
            let mut last: HashMap<u32, u64> = HashMap::new();
            let mut now = 0;
            for _ in 0..3000 {
                now += 1000 * rng.below(40);
                let (host, peer) = (rng.below(3) as u32, rng.below(60) as u32);
                let is_live = |at: &u64| now - at <= window.0;
                if last.get(&host).is_some_and(|at| !is_live(at)) {
                    known.retain(|(of, _), _| *of != host);
                }
                last.insert(host, now);
                let of_host = known
                    .iter()
                    .filter(|((of, _), at)| *of == host && is_live(at));
                let live = of_host.count();
                // A peer that was silent for longer than the window keeps its place until another
                // one takes it.
                let is_known = known.get(&(host, peer)).is_some_and(is_live);
                let expected = match is_known || live < limit {
                    true => Observation::Normal,
                    false => Observation::Alarm,
                };
                let found = monitor.observe(&flow(host, peer), Nanos(now));
                assert_eq!(found, expected, "case {case}, host {host}, peer {peer}");
                if expected == Observation::Normal {
                    known.insert((host, peer), now);
                }
            }
        }
    }

    #[test]
    fn hosts_beyond_the_table_have_no_room_and_known_ones_stay() {
        let mut monitor = monitor(4, Nanos::from_secs(1), 1000);
        for peer in 0..4 {
            assert_eq!(
                monitor.observe(&flow(0, peer), Nanos(5)),
                Observation::Normal
            );
        }
        let full = (1..100_000)
            .filter(|host| monitor.observe(&flow(*host, 0), Nanos(6)) == Observation::NoRoom);
        assert!(full.count() > 90_000);
        assert_eq!(monitor.observe(&flow(0, 4), Nanos(7)), Observation::Alarm);
    }

    #[test]
    fn a_flow_without_a_field_is_no_sample() {
        let mut monitor = monitor(4, Nanos::from_secs(1), 10);
        let flow = FlowKey {
            ports: None,
            ..flow(1, 1)
        };
        assert_eq!(monitor.observe(&flow, Nanos::ZERO), Observation::NoSample);
    }
}
