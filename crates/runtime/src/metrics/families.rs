//! Names of the metrics, and their values in a snapshot.

use std::fmt;

use p4rt::LATENCY_MICROS;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;

use crate::metrics::offload::OFFLOAD;
use crate::metrics::pof::POF;
use crate::metrics::snapshot::{Labels, MetricsSnapshot};
use crate::metrics::vpdps::VPDPS;
use crate::observation::SampledDrops;
use crate::report::{Drops, PortReport, SpecialisationStatus, TableReport, WorkerReport};

/// Collector of the metrics of several snapshots.
#[derive(Debug)]
pub(super) struct Collector(pub(super) Vec<MetricsSnapshot>);

/// A value of a metric.
pub(super) enum Value {
    Count(u64),
    Seconds(f64),
    Level(u64),
}

/// A metric other than a histogram: name, help, type, function that returns its values in a
/// snapshot. Counter names get the suffix `_total`.
pub(super) type Metric = (
    &'static str,
    &'static str,
    MetricType,
    fn(&MetricsSnapshot) -> Vec<(Labels, Value)>,
);

/// Returns a value without further labels, if there is one.
pub(super) fn one(value: Option<Value>) -> Vec<(Labels, Value)> {
    value.map(|value| (Vec::new(), value)).into_iter().collect()
}

/// Returns a counter that only some snapshots have.
pub(super) fn count<T>(part: &Option<T>, pick: fn(&T) -> u64) -> Vec<(Labels, Value)> {
    one(part.as_ref().map(pick).map(Value::Count))
}

/// Returns a gauge that only some snapshots have.
pub(super) fn level<T>(part: &Option<T>, pick: fn(&T) -> u64) -> Vec<(Labels, Value)> {
    one(part.as_ref().map(pick).map(Value::Level))
}

/// Returns counters by the value of a label.
pub(super) fn by(
    label: &'static str,
    counts: impl IntoIterator<Item = (&'static str, u64)>,
) -> Vec<(Labels, Value)> {
    let counts = counts.into_iter();
    counts
        .map(|(what, count)| (vec![(label, what.to_owned())], Value::Count(count)))
        .collect()
}

/// Returns dropped packets by reason.
pub(super) fn by_reason(drops: &[Drops]) -> Vec<(Labels, Value)> {
    let labelled = |drops: &Drops| {
        let labels = vec![("reason", drops.reason.clone())];
        (labels, Value::Count(drops.packets))
    };
    drops.iter().map(labelled).collect()
}

/// Returns the specialisation of a snapshot's device, if it has one.
fn specialisation(shot: &MetricsSnapshot) -> Option<&SpecialisationStatus> {
    shot.device.as_ref()?.specialisation.as_ref()
}

/// Metrics of switches and devices.
const DEVICES: &[Metric] = &[
    (
        "port_up",
        "Whether the link of a port carries packets",
        MetricType::Gauge,
        |shot| {
            let ports = shot.ports.iter();
            let known = ports.filter_map(|port| Some((port, port.up?)));
            known
                .map(|(port, up)| {
                    let labels = vec![("port", port.port.to_string()), ("name", port.name.clone())];
                    (labels, Value::Level(up.into()))
                })
                .collect()
        },
    ),
    (
        "port_packets",
        "Packets that a port carried",
        MetricType::Counter,
        |shot| {
            let both = |port: &PortReport| {
                [
                    ("received", port.received.packets),
                    ("sent", port.sent.packets),
                ]
            };
            by_port_and_direction(shot, both)
        },
    ),
    (
        "port_bytes",
        "Bytes of the packets that a port carried",
        MetricType::Counter,
        |shot| {
            let both =
                |port: &PortReport| [("received", port.received.bytes), ("sent", port.sent.bytes)];
            by_port_and_direction(shot, both)
        },
    ),
    (
        "port_dropped_packets",
        "Packets that a port itself dropped",
        MetricType::Counter,
        |shot| {
            let ports = shot.ports.iter();
            let drops = ports.flat_map(|port| port.dropped.iter().map(move |drops| (port, drops)));
            drops
                .map(|(port, drops)| {
                    let labels = vec![
                        ("port", port.port.to_string()),
                        ("reason", drops.reason.clone()),
                    ];
                    (labels, Value::Count(drops.packets))
                })
                .collect()
        },
    ),
    (
        "dropped_packets_sampled",
        "Samples of dropped packets, by table and action of the last lookup",
        MetricType::Counter,
        |shot| {
            let samples = shot.device.iter().flat_map(|device| &device.sampled_drops);
            let labelled = |sample: &SampledDrops| {
                let labels = vec![
                    ("reason", sample.reason.clone()),
                    ("table", sample.table.clone()),
                    ("action", sample.action.clone()),
                ];
                (labels, Value::Count(sample.packets))
            };
            samples.map(labelled).collect()
        },
    ),
    (
        "dropped_packets",
        "Packets that the program or the device dropped",
        MetricType::Counter,
        |shot| {
            let device = shot.device.as_ref();
            device.map_or_else(Vec::new, |device| by_reason(&device.dropped))
        },
    ),
    (
        "replicated_packets",
        "Copies that the device made",
        MetricType::Counter,
        |shot| count(&shot.device, |device| device.replicated),
    ),
    (
        "refused_copies",
        "Copies that the program asked for and the device did not make",
        MetricType::Counter,
        |shot| {
            let device = shot.device.as_ref();
            device.map_or_else(Vec::new, |device| by_reason(&device.copies_refused))
        },
    ),
    (
        "held_packets",
        "Packets that wait in queues",
        MetricType::Gauge,
        |shot| level(&shot.device, |device| device.held),
    ),
    (
        "specialised",
        "Whether packets run code made for the contents of the tables",
        MetricType::Gauge,
        |shot| {
            let status = specialisation(shot);
            level(&status, |status| (status.code == "specialised").into())
        },
    ),
    (
        "specialised_published",
        "Times that code made for the contents of the tables was published",
        MetricType::Counter,
        |shot| count(&specialisation(shot), |status| status.published),
    ),
    (
        "specialised_left",
        "Times that such code was left because a table changed",
        MetricType::Counter,
        |shot| count(&specialisation(shot), |status| status.left),
    ),
    (
        "table_hits",
        "Packets that hit an entry",
        MetricType::Counter,
        |shot| by_table(shot, |table| Value::Count(table.hits)),
    ),
    (
        "table_misses",
        "Packets that hit none",
        MetricType::Counter,
        |shot| by_table(shot, |table| Value::Count(table.misses)),
    ),
    (
        "table_entries",
        "Entries in a table",
        MetricType::Gauge,
        |shot| by_table(shot, |table| Value::Level(table.entries as u64)),
    ),
    (
        "table_capacity",
        "Entries that a table may have",
        MetricType::Gauge,
        |shot| by_table(shot, |table| Value::Level(table.capacity as u64)),
    ),
    (
        "worker_packets",
        "Packets that a worker took in",
        MetricType::Counter,
        |shot| by_worker(shot, |worker| Value::Count(worker.received)),
    ),
    (
        "worker_bursts",
        "Rounds of a worker in which there were packets",
        MetricType::Counter,
        |shot| by_worker(shot, |worker| Value::Count(worker.bursts)),
    ),
    (
        "worker_busy_seconds",
        "Time of these rounds",
        MetricType::Counter,
        |shot| by_worker(shot, |worker| Value::Seconds(worker.busy)),
    ),
    (
        "worker_sleeps",
        "Times that a worker slept",
        MetricType::Counter,
        |shot| by_worker(shot, |worker| Value::Count(worker.sleeps)),
    ),
    (
        "digests",
        "Digest messages of the program",
        MetricType::Counter,
        |shot| count(&shot.digests, |digests| *digests),
    ),
    (
        "events_waiting",
        "Packet-ins, digests and notifications that wait for the server",
        MetricType::Gauge,
        |shot| level(&shot.events, |(waiting, _)| *waiting as u64),
    ),
    (
        "events_lost",
        "Packet-ins, digests and notifications that the server did not take in time",
        MetricType::Counter,
        |shot| count(&shot.events, |(_, lost)| *lost),
    ),
    (
        "p4runtime_sessions",
        "Sessions of controllers",
        MetricType::Gauge,
        |shot| level(&shot.control, |figures| figures.sessions),
    ),
    (
        "p4runtime_primaries",
        "Roles that have a primary",
        MetricType::Gauge,
        |shot| level(&shot.control, |figures| figures.primaries),
    ),
    (
        "p4runtime_updates",
        "Updates of controllers",
        MetricType::Counter,
        |shot| {
            let figures = shot.control.iter();
            let both = figures.flat_map(|f| [("made", f.updates), ("refused", f.refused)]);
            by("outcome", both)
        },
    ),
    (
        "p4runtime_denied",
        "Calls and sessions that the client's certificate does not allow",
        MetricType::Counter,
        |shot| count(&shot.control, |figures| figures.denied),
    ),
    (
        "p4runtime_reads",
        "Read calls of controllers",
        MetricType::Counter,
        |shot| count(&shot.control, |figures| figures.reads),
    ),
    (
        "p4runtime_configs",
        "Configs that controllers set",
        MetricType::Counter,
        |shot| count(&shot.control, |figures| figures.configs),
    ),
    (
        "p4runtime_packet_ins",
        "Packets that controllers were sent",
        MetricType::Counter,
        |shot| count(&shot.control, |figures| figures.packet_ins),
    ),
    (
        "p4runtime_packet_outs",
        "Packets of controllers that the device was given",
        MetricType::Counter,
        |shot| count(&shot.control, |figures| figures.packet_outs),
    ),
    (
        "p4runtime_digest_lists",
        "Lists of digests that controllers were sent",
        MetricType::Counter,
        |shot| count(&shot.control, |figures| figures.digest_lists),
    ),
    (
        "p4runtime_digests_waiting",
        "Digest messages that wait for their list or for its acknowledgement",
        MetricType::Gauge,
        |shot| level(&shot.control, |figures| figures.digests_waiting),
    ),
    (
        "p4runtime_notifications_lost",
        "Notifications that no session took in time",
        MetricType::Counter,
        |shot| count(&shot.control, |figures| figures.lost),
    ),
];

fn by_port_and_direction(
    shot: &MetricsSnapshot,
    both: fn(&PortReport) -> [(&'static str, u64); 2],
) -> Vec<(Labels, Value)> {
    let ports = shot.ports.iter();
    let directions = ports.flat_map(|port| both(port).map(|one| (port, one)));
    directions
        .map(|(port, (direction, count))| {
            let labels = vec![
                ("port", port.port.to_string()),
                ("name", port.name.clone()),
                ("direction", direction.to_owned()),
            ];
            (labels, Value::Count(count))
        })
        .collect()
}

fn by_table(shot: &MetricsSnapshot, pick: fn(&TableReport) -> Value) -> Vec<(Labels, Value)> {
    let tables = shot.tables();
    tables
        .map(|table| (vec![("table", table.name.clone())], pick(table)))
        .collect()
}

fn by_worker(shot: &MetricsSnapshot, pick: fn(&WorkerReport) -> Value) -> Vec<(Labels, Value)> {
    let workers = shot.workers.iter();
    workers
        .map(|worker| (vec![("worker", worker.worker.to_string())], pick(worker)))
        .collect()
}

/// Returns all metrics but the histogram.
fn all_metrics() -> impl Iterator<Item = &'static Metric> {
    DEVICES.iter().chain(VPDPS).chain(OFFLOAD).chain(POF)
}

impl prometheus_client::collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, help, kind, values) in all_metrics() {
            let of_shot = |shot| {
                let values: Vec<(Labels, Value)> = values(shot);
                values.into_iter().map(move |value| (shot, value))
            };
            let mut all = self.0.iter().flat_map(of_shot).peekable();
            if all.peek().is_none() {
                continue;
            }
            let mut metric = encoder.encode_descriptor(name, help, None, *kind)?;
            for (shot, (labels, value)) in all {
                let labels = [shot.labels.clone(), labels].concat();
                value.encode(metric.encode_family(&labels)?)?;
            }
        }
        self.encode_latencies(&mut encoder)
    }
}

impl Collector {
    fn encode_latencies(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "How long Write calls took, from their arrival until the device had made them and, with --state, kept them";
        let name = "p4runtime_write_seconds";
        let figures = self.0.iter();
        let figures = figures.filter_map(|shot| Some((&shot.labels, shot.control.as_ref()?)));
        let mut figures = figures.peekable();
        if figures.peek().is_none() {
            return Ok(());
        }
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, figures) in figures {
            let ends = LATENCY_MICROS.iter().map(|end| *end as f64 / 1e6);
            let ends = ends.chain([f64::INFINITY]);
            let counts = figures.writes.counts;
            let buckets: Vec<(f64, u64)> = ends.zip(counts).collect();
            metric
                .encode_family(labels)?
                .encode_histogram::<[(&str, &str); 0]>(
                    figures.writes.sum.as_secs_f64(),
                    counts.iter().sum(),
                    &buckets,
                    None,
                )?;
        }
        Ok(())
    }
}

impl Value {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        type None = [(&'static str, &'static str); 0];
        match self {
            Value::Count(count) => encoder.encode_counter::<None, _, u64>(count, Option::None),
            Value::Seconds(seconds) => {
                encoder.encode_counter::<None, _, u64>(seconds, Option::None)
            }
            Value::Level(level) => encoder.encode_gauge(level),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_in_the_manual_whether_it_has_values_or_not() {
        let manual = include_str!("../../../../docs/reference/metrics.md");
        for (name, _, kind, _) in all_metrics() {
            let end = match kind {
                MetricType::Counter => "_total",
                _ => "",
            };
            assert!(
                manual.contains(&format!("`polyplane_{name}{end}`")),
                "{name}"
            );
        }
    }
}
