//! Metrics of switches that host virtual data planes, and of these. Metrics that they share with
//! devices are in `families`.

use prometheus_client::metrics::MetricType;
use tenancy::{CompileFigures, Quotas, Rate};

use crate::metrics::families::{Metric, Value, by, by_reason, level, one};
use crate::metrics::snapshot::{Labels, MetricsSnapshot, VpdpShot};

pub(super) const VPDPS: &[Metric] = &[
    (
        "vpdps",
        "Virtual data planes of the switch",
        MetricType::Gauge,
        |shot| level(&shot.switch, |switch| switch.vpdps as u64),
    ),
    (
        "switch_dropped_packets",
        "Packets that were dropped by all virtual data planes that there were, or were nobody's",
        MetricType::Counter,
        |shot| {
            let switch = shot.switch.as_ref();
            switch.map_or_else(Vec::new, |switch| by_reason(&switch.dropped))
        },
    ),
    (
        "switch_controller_packets",
        "Packets of virtual data planes for their controllers",
        MetricType::Counter,
        |shot| {
            let both = shot.switch.iter().flat_map(|switch| {
                let (sent, lost) = switch.to_controllers;
                [("sent", sent), ("lost", lost)]
            });
            by("outcome", both)
        },
    ),
    (
        "vpdp_packets",
        "Packets that came to a virtual data plane and left it",
        MetricType::Counter,
        |shot| {
            let both = shot.vpdp.iter().flat_map(|VpdpShot { ledger, .. }| {
                [("received", ledger.received), ("sent", ledger.sent)]
            });
            by("direction", both)
        },
    ),
    (
        "vpdp_passes",
        "Passes of packets that started over",
        MetricType::Counter,
        |shot| {
            let both = shot.vpdp.iter().flat_map(|VpdpShot { ledger, .. }| {
                [
                    ("resubmitted", ledger.resubmitted),
                    ("recirculated", ledger.recirculated),
                ]
            });
            by("kind", both)
        },
    ),
    (
        "vpdp_suspended",
        "Whether a virtual data plane takes no packets for now",
        MetricType::Gauge,
        |shot| level(&shot.vpdp, |vpdp| vpdp.is_suspended.into()),
    ),
    (
        "vpdp_programmed",
        "Whether a virtual data plane has a program",
        MetricType::Gauge,
        |shot| level(&shot.vpdp, |vpdp| vpdp.has_program.into()),
    ),
    (
        "vpdp_ports",
        "Ports of a virtual data plane that are connected to ports of the switch",
        MetricType::Gauge,
        |shot| level(&shot.vpdp, |vpdp| vpdp.ports as u64),
    ),
    (
        "vpdp_links",
        "Ports of a virtual data plane that are linked to ports of virtual data planes",
        MetricType::Gauge,
        |shot| level(&shot.vpdp, |vpdp| vpdp.links as u64),
    ),
    (
        "vpdp_entries",
        "Entries that count against the quota",
        MetricType::Gauge,
        |shot| level(&shot.vpdp, |vpdp| vpdp.entries),
    ),
    (
        "vpdp_state_bytes",
        "Bytes of counters, meters, registers and tables that packets write",
        MetricType::Gauge,
        |shot| level(&shot.vpdp, |vpdp| vpdp.state_bytes),
    ),
    (
        "vpdp_stages",
        "Stages of the program",
        MetricType::Gauge,
        |shot| level(&shot.vpdp, |vpdp| vpdp.stages),
    ),
    (
        "vpdp_compilations",
        "Compilations of programs that ran, and those that were refused or ended by a quota or a cancellation",
        MetricType::Counter,
        |shot| {
            let both = shot.vpdp.iter().flat_map(|vpdp| {
                let CompileFigures { begun, refused, .. } = vpdp.compilations;
                [("begun", begun), ("refused", refused)]
            });
            by("outcome", both)
        },
    ),
    (
        "vpdp_compile_seconds",
        "Processor time that compilations of programs took",
        MetricType::Counter,
        |shot| {
            let vpdp = shot.vpdp.as_ref();
            one(vpdp.map(|vpdp| Value::Seconds(vpdp.compilations.time.as_secs_f64())))
        },
    ),
    (
        "vpdp_quota_entries",
        "Entries that there may be",
        MetricType::Gauge,
        |shot| quota(shot, |quotas| quotas.limits.entries),
    ),
    (
        "vpdp_quota_state_bytes",
        "Bytes of state that there may be",
        MetricType::Gauge,
        |shot| quota(shot, |quotas| quotas.limits.state_bytes),
    ),
    (
        "vpdp_quota_stages",
        "Stages that there may be",
        MetricType::Gauge,
        |shot| quota(shot, |quotas| quotas.limits.stages),
    ),
    (
        "vpdp_quota_packets_per_second",
        "Packets that may come in, a second",
        MetricType::Gauge,
        |shot| quota(shot, |quotas| per_second(quotas.packets)),
    ),
    (
        "vpdp_quota_passes_per_second",
        "Passes of packets that start over that there may be, a second",
        MetricType::Gauge,
        |shot| quota(shot, |quotas| per_second(quotas.passes)),
    ),
    (
        "vpdp_quota_cycles_per_second",
        "Processor cycles that packets may take, a second",
        MetricType::Gauge,
        |shot| quota(shot, |quotas| per_second(quotas.cycles)),
    ),
    (
        "vpdp_weight",
        "The share of a processor that has too much to do, beside others' weights",
        MetricType::Gauge,
        |shot| level(&shot.vpdp, |vpdp| vpdp.quotas.weight.max(1).into()),
    ),
];

/// Returns a quota. Without a limit there is no value.
fn quota(shot: &MetricsSnapshot, pick: fn(&Quotas) -> Option<u64>) -> Vec<(Labels, Value)> {
    let quota = shot.vpdp.as_ref().and_then(|vpdp| pick(&vpdp.quotas));
    one(quota.map(Value::Level))
}

fn per_second(rate: Option<Rate>) -> Option<u64> {
    rate.map(|rate| rate.per_second)
}
