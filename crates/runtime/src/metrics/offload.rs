//! Metrics of the offload of flows.

use offload_runtime::{OffloadStats, ReasonRow};
use prometheus_client::metrics::MetricType;

use crate::metrics::families::{Metric, Value, by, count, level};
use crate::metrics::snapshot::{Labels, MetricsSnapshot};

pub(super) const OFFLOAD: &[Metric] = &[
    (
        "offload_flows",
        "Known flows by state",
        MetricType::Gauge,
        |shot| {
            let states = shot.offload.iter().flat_map(|stats| &stats.states);
            let one = |state: &str, flows| (vec![("state", state.to_owned())], Value::Level(flows));
            states.map(|row| one(&row.state, row.flows)).collect()
        },
    ),
    (
        "offload_rules",
        "Rules in the target",
        MetricType::Gauge,
        |shot| level(&shot.offload, |stats| stats.rules),
    ),
    (
        "offload_capacity",
        "Rules that the target may hold",
        MetricType::Gauge,
        |shot| {
            let capacity = shot.offload.as_ref().and_then(|stats| stats.capacity);
            level(&capacity, |rules| *rules)
        },
    ),
    (
        "offload_packets",
        "Packets of the target that the counts of the device have",
        MetricType::Counter,
        |shot| count(&shot.offload, |stats| stats.packets),
    ),
    (
        "offload_bytes",
        "Bytes of these packets, as the target counts them",
        MetricType::Counter,
        |shot| count(&shot.offload, |stats| stats.bytes),
    ),
    (
        "offload_uncredited_packets",
        "Packets of the target of which an object to count them had gone",
        MetricType::Counter,
        |shot| count(&shot.offload, |stats| stats.uncredited_packets),
    ),
    (
        "offload_moves",
        "Rules that the target was asked to add, replace or remove",
        MetricType::Counter,
        |shot| {
            let stats = shot.offload.iter();
            let all = stats.flat_map(|stats| {
                [
                    ("added", stats.added),
                    ("replaced", stats.replaced),
                    ("removed", stats.removed),
                ]
            });
            by("kind", all)
        },
    ),
    (
        "offload_evictions",
        "Rules that the hardware lost",
        MetricType::Counter,
        |shot| count(&shot.offload, |stats| stats.evicted),
    ),
    (
        "offload_refusals",
        "Rules that the target refused",
        MetricType::Counter,
        |shot| by_words(shot, |stats| &stats.refused),
    ),
    (
        "offload_software_packets",
        "Packets that no rule can express, as samples say",
        MetricType::Counter,
        |shot| by_words(shot, |stats| &stats.not_offloadable),
    ),
    (
        "offload_unnoted_packets",
        "Packets of flows that are not known, since too many are",
        MetricType::Counter,
        |shot| count(&shot.offload, |stats| stats.unnoted_packets),
    ),
];

fn by_words(
    shot: &MetricsSnapshot,
    rows: fn(&OffloadStats) -> &Vec<ReasonRow>,
) -> Vec<(Labels, Value)> {
    let rows = shot.offload.iter().flat_map(rows);
    let labelled = |row: &ReasonRow| {
        let labels = vec![("reason", row.reason.clone())];
        (labels, Value::Count(row.count))
    };
    rows.map(labelled).collect()
}
