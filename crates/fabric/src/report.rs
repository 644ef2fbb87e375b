//! Results of a simulation: flows, pings, links and switches.

use packet::Nanos;
use serde::Serialize;
use support::quantile::nearest_rank;

use crate::halves::SplitCounts;
use crate::link_direction::LineCounts;
use crate::nanopus::{NanopuReport, RequestsReport};
use crate::simulation::{Flow, Laid, Pings, Simulation};
use crate::topology::{FlowKind, NodeId};

/// Results of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The topology's name.
    pub fabric: String,
    /// Simulated duration, in seconds.
    pub seconds: f64,
    /// The flows, in the order in which they were added.
    pub flows: Vec<FlowReport>,
    /// The series of pings.
    pub pings: Vec<PingReport>,
    /// The streams of packets.
    pub streams: Vec<StreamReport>,
    /// The links, one entry per direction.
    pub links: Vec<LinkReport>,
    /// The switches.
    pub switches: Vec<SwitchReport>,
    /// The servers of a split program.
    pub servers: Vec<ServerReport>,
    /// The nanoPUs.
    pub nanopus: Vec<NanopuReport>,
    /// The series of requests to nanoPUs.
    pub requests: Vec<RequestsReport>,
    /// Packets made by hosts, nanoPUs and switches.
    pub made: u64,
    /// Packets delivered to a host or a nanoPU.
    pub delivered: u64,
    /// Dropped packets, by reason.
    pub dropped: Vec<Drop>,
    /// Packets in flight.
    pub in_flight: u64,
}

/// Results of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowReport {
    /// Name of the sender.
    pub from: String,
    /// Name of the receiver.
    pub to: String,
    /// Origin of the flow.
    pub kind: FlowKind,
    /// Number of bytes to send.
    pub bytes: u64,
    /// Number of bytes received.
    pub received: u64,
    /// True if the received data is as sent.
    pub is_intact: bool,
    /// Flow completion time: from the start of the connection to the last byte, if that has
    /// arrived.
    pub completion_seconds: Option<f64>,
    /// Throughput in bits per second: bytes to send over completion time.
    pub bits_per_second: Option<f64>,
}

/// Results of a series of pings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PingReport {
    /// Name of the sender.
    pub from: String,
    /// Name of the receiver.
    pub to: String,
    /// Number of requests sent.
    pub sent: u16,
    /// Round-trip times, in microseconds.
    pub microseconds: Vec<f64>,
}

/// Results of one direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkReport {
    /// Its transmitting end.
    pub from: String,
    /// Its receiving end.
    pub to: String,
    /// Frames that arrived.
    pub packets: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Frames lost in transit.
    pub lost: u64,
    /// Frames dropped because the link's queue was full.
    pub overflowed: u64,
    /// Fraction of time in which the link was transmitting. `None` for a link without a rate.
    pub utilisation: Option<f64>,
}

/// Results of a switch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchReport {
    /// Its name.
    pub name: String,
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Dropped packets, by reason.
    pub dropped: Vec<Drop>,
    /// Counters of its split program, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitReport>,
}

/// Counters of a split program, and the share of packets that need no server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SplitReport {
    /// Fraction of packets that did not leave to a server. `None` without packets.
    pub share_in_switch: Option<f64>,
    /// Requests without a response: they or their responses were dropped, or are in flight.
    pub unanswered: u64,
    /// The counters.
    #[serde(flatten)]
    pub counts: SplitCounts,
}

/// Results of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerReport {
    /// Its name.
    pub name: String,
    /// Requests received.
    pub requests: u64,
    /// Responses sent.
    pub responses: u64,
    /// Dropped packets, by reason.
    pub dropped: Vec<Drop>,
    /// Fraction of time in which its workers processed requests.
    pub load: f64,
}

/// Results of a stream of packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamReport {
    /// Name of the sender.
    pub from: String,
    /// Name of the receiver.
    pub to: String,
    /// Number of flows.
    pub flows: u32,
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Packets received after one of the same flow that was sent later (RFC 4737).
    pub reordered: u64,
    /// Flows with such packets.
    pub reordered_flows: u64,
    /// Maximum number of such packets of one flow.
    pub max_reordered_of_flow: u32,
    /// Latency from sender to receiver. `None` without packets.
    pub latency: Option<LatencyReport>,
}

/// Distribution of latencies, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyReport {
    /// Mean.
    pub mean_us: f64,
    /// Standard deviation.
    pub deviation_us: f64,
    /// Median.
    pub p50_us: f64,
    /// Quantile 0.9.
    pub p90_us: f64,
    /// Quantile 0.99.
    pub p99_us: f64,
    /// Maximum.
    pub max_us: f64,
}

impl LatencyReport {
    /// Returns the distribution of latencies in nanoseconds. `None` if there are none.
    pub fn new(times: &[u32]) -> Option<LatencyReport> {
        let sorted = distribution(times.iter().map(|time| f64::from(*time) / 1e3)).0;
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let squares = sorted.iter().map(|time| (time - mean).powi(2));
        let quantile = |share| nearest_rank(&sorted, share);
        Some(LatencyReport {
            mean_us: mean,
            deviation_us: (squares.sum::<f64>() / count).sqrt(),
            p50_us: quantile(0.5)?,
            p90_us: quantile(0.9)?,
            p99_us: quantile(0.99)?,
            max_us: quantile(1.0)?,
        })
    }
}

/// Packets dropped for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drop {
    /// Stable name of the reason.
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
}

impl Simulation {
    /// Returns the results so far.
    pub fn report(&self) -> Report {
        let mut dropped = Drops::default();
        let (mut made, mut delivered, mut in_flight) = (0, 0, 0);
        let mut switches = Vec::new();
        let mut servers = Vec::new();
        for node in self.nodes() {
            let tally = self.tally(node);
            made += tally.made;
            delivered += tally.delivered;
            in_flight += tally.held;
            dropped.add_all(&tally.dropped);
            let mut own = Drops::default();
            own.add_all(&tally.dropped);
            let name = self.topology().name_of(node).to_owned();
            match node {
                NodeId::Switch(id) => switches.push(SwitchReport {
                    name,
                    received: tally.received,
                    sent: tally.sent,
                    dropped: own.0,
                    split: self.split_counts(id).map(split_report),
                }),
                NodeId::Server(id) => {
                    let workers = f64::from(self.topology().servers[id.0].workers);
                    let time = self.now().as_secs_f64() * workers;
                    servers.push(ServerReport {
                        name,
                        requests: tally.received,
                        responses: tally.sent,
                        dropped: own.0,
                        load: if time > 0.0 {
                            tally.busy.as_secs_f64() / time
                        } else {
                            0.0
                        },
                    });
                }
                NodeId::Host(_) | NodeId::Nanopu(_) => {}
            }
        }
        for laid in self.lines() {
            let counts = laid.line.counts();
            in_flight += laid.line.in_flight();
            dropped.add("link_loss", counts.lost);
            dropped.add("link_queue_full", counts.overflowed);
        }
        Report {
            fabric: self.topology().name.clone(),
            seconds: self.now().as_secs_f64(),
            flows: self.flows().iter().map(|f| self.flow_report(f)).collect(),
            pings: self.pings().iter().map(|p| self.ping_report(p)).collect(),
            streams: self.stream_reports(),
            links: self.lines().iter().map(|l| self.link_report(l)).collect(),
            switches,
            servers,
            nanopus: self.nanopu_reports(),
            requests: self.request_reports(),
            made,
            delivered,
            dropped: dropped.0,
            in_flight,
        }
    }

    fn nanopu_reports(&self) -> Vec<NanopuReport> {
        let specs = self.topology().nanopus.iter();
        let nodes = self.nanopus().iter().zip(specs);
        nodes
            .map(|(node, spec)| node.report(&spec.host.name, self.now()))
            .collect()
    }

    fn request_reports(&self) -> Vec<RequestsReport> {
        let topology = self.topology();
        let series = topology.requests.iter().filter_map(|spec| {
            let requests = self.host(spec.from).requests()?;
            let from = topology.name_of(NodeId::Host(spec.from));
            Some(requests.report(from, topology.name_of(NodeId::Nanopu(spec.to))))
        });
        series.collect()
    }

    fn flow_report(&self, flow: &Flow) -> FlowReport {
        let spec = &flow.spec;
        let [from, to] = [spec.from, spec.to].map(|id| &self.topology().hosts[id.0]);
        let receipt = self.receipt(flow);
        let received = receipt.map_or(0, |receipt| receipt.bytes);
        let last = receipt.filter(|receipt| receipt.bytes >= spec.bytes);
        let time = last.map(|receipt| receipt.last.since(spec.at).as_secs_f64());
        FlowReport {
            from: from.name.clone(),
            to: to.name.clone(),
            kind: spec.kind,
            bytes: spec.bytes,
            received,
            is_intact: receipt.is_none_or(|receipt| receipt.is_intact),
            completion_seconds: time,
            bits_per_second: time.map(|seconds| spec.bytes as f64 * 8.0 / seconds),
        }
    }

    fn stream_reports(&self) -> Vec<StreamReport> {
        let topology = self.topology();
        let streams = (0..).zip(&topology.traffic).map(|(number, spec)| {
            let [from, to] = [spec.from, spec.to].map(NodeId::Host);
            let receipt = self.host(spec.to).stream_receipt(number);
            let by_flow = receipt.map_or(&[][..], |receipt| &receipt.reordered_by_flow);
            StreamReport {
                from: topology.name_of(from).to_owned(),
                to: topology.name_of(to).to_owned(),
                flows: spec.flows,
                sent: self.host(spec.from).stream_sent(number),
                received: receipt.map_or(0, |receipt| receipt.received),
                reordered: receipt.map_or(0, |receipt| receipt.reordered),
                reordered_flows: by_flow.iter().filter(|count| **count > 0).count() as u64,
                max_reordered_of_flow: by_flow.iter().copied().max().unwrap_or(0),
                latency: receipt.and_then(|receipt| LatencyReport::new(&receipt.times)),
            }
        });
        streams.collect()
    }

    /// Returns the latencies of a stream's packets in nanoseconds, in order of arrival.
    pub fn latencies(&self, stream: usize) -> &[u32] {
        let Some(spec) = self.topology().traffic.get(stream) else {
            return &[];
        };
        let receipt = self.host(spec.to).stream_receipt(stream as u16);
        receipt.map_or(&[], |receipt| &receipt.times)
    }

    fn ping_report(&self, ping: &Pings) -> PingReport {
        let [from, to] = [ping.spec.from, ping.spec.to].map(NodeId::Host);
        let echoes = self.host(ping.spec.from).echoes(ping.ident);
        let (sent, times) = echoes.map_or((0, &[][..]), |echoes| (echoes.sent, &echoes.times[..]));
        PingReport {
            from: self.topology().name_of(from).to_owned(),
            to: self.topology().name_of(to).to_owned(),
            sent,
            microseconds: times.iter().map(|time| time.0 as f64 / 1e3).collect(),
        }
    }

    fn link_report(&self, laid: &Laid) -> LinkReport {
        let LineCounts {
            arrived,
            arrived_bytes,
            lost,
            overflowed,
            busy,
            ..
        } = laid.line.counts();
        let all = self.now();
        let has_rate = laid.line.spec().rate.is_some() && all > Nanos::ZERO;
        LinkReport {
            from: self.topology().end_text(laid.from),
            to: self.topology().end_text(laid.to),
            packets: arrived,
            bytes: arrived_bytes,
            lost,
            overflowed,
            utilisation: has_rate.then(|| busy.as_secs_f64() / all.as_secs_f64()),
        }
    }
}

fn split_report(counts: SplitCounts) -> SplitReport {
    let share = counts.in_switch as f64 / counts.packets as f64;
    SplitReport {
        share_in_switch: (counts.packets > 0).then_some(share),
        unanswered: counts.requests - counts.answered,
        counts,
    }
}

/// Drops summed up by reason, in order of first occurrence.
#[derive(Default)]
struct Drops(Vec<Drop>);

impl Drops {
    fn add(&mut self, reason: &str, packets: u64) {
        if packets == 0 {
            return;
        }
        match self.0.iter_mut().find(|drop| drop.reason == reason) {
            Some(drop) => drop.packets += packets,
            None => self.0.push(Drop {
                reason: reason.to_owned(),
                packets,
            }),
        }
    }

    fn add_all(&mut self, drops: &[(&str, u64)]) {
        for (reason, packets) in drops {
            self.add(reason, *packets);
        }
    }
}

impl Report {
    /// Iterates over the flows of one kind.
    pub fn flows_of(&self, kind: FlowKind) -> impl Iterator<Item = &FlowReport> {
        self.flows.iter().filter(move |flow| flow.kind == kind)
    }

    /// Returns the completion times of the complete flows of one kind, in seconds.
    pub fn completion_times(&self, kind: FlowKind) -> Distribution {
        distribution(
            self.flows_of(kind)
                .filter_map(|flow| flow.completion_seconds),
        )
    }

    /// Returns the throughputs of the complete flows of one kind, in bits per second.
    pub fn throughputs(&self, kind: FlowKind) -> Distribution {
        distribution(self.flows_of(kind).filter_map(|flow| flow.bits_per_second))
    }
}

/// Values in ascending order. The cumulative distribution function of a value is the fraction of
/// values up to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution(pub Vec<f64>);

/// Returns the distribution of the values.
pub fn distribution(values: impl Iterator<Item = f64>) -> Distribution {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    Distribution(values)
}

impl Distribution {
    /// Returns the smallest value `v` such that at least the fraction `share` of the values is at
    /// most `v`.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        nearest_rank(&self.0, share)
    }

    /// Iterates over the steps of the cumulative distribution function: each value with the
    /// fraction of values up to it.
    pub fn steps(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let all = self.0.len() as f64;
        let values = self.0.iter().enumerate();
        values.map(move |(rank, value)| (*value, (rank + 1) as f64 / all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_came() {
        let values = distribution([4.0, 1.0, 3.0, 2.0].into_iter());
        let quantiles = [0.0, 0.25, 0.5, 0.51, 0.9, 1.0].map(|share| values.quantile(share));
        assert_eq!(quantiles, [1.0, 1.0, 2.0, 3.0, 4.0, 4.0].map(Some));
        assert_eq!(values.steps().last(), Some((4.0, 1.0)));
        assert_eq!(distribution(std::iter::empty()).quantile(0.5), None);
    }
}
