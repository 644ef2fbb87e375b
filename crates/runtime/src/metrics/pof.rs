//! Metrics of POF switches, besides those that they share with devices.

use prometheus_client::metrics::MetricType;

use crate::metrics::families::{Metric, by, count, level};

pub(super) const POF: &[Metric] = &[
    (
        "pof_controllers",
        "Controllers that are connected",
        MetricType::Gauge,
        |shot| level(&shot.pof, |pof| pof.controllers),
    ),
    (
        "pof_connections",
        "Connections that controllers have had",
        MetricType::Counter,
        |shot| count(&shot.pof, |pof| pof.connections),
    ),
    (
        "pof_programs",
        "Programs that were made: the first one, and one for each new shape of an entry",
        MetricType::Counter,
        |shot| count(&shot.pof, |pof| pof.programs),
    ),
    (
        "pof_packets",
        "Packets that the program did not forward as its entries say",
        MetricType::Counter,
        |shot| {
            let pof = shot.pof.iter();
            by("outcome", pof.flat_map(|pof| pof.packets.clone()))
        },
    ),
    (
        "pof_state_failures",
        "Times at which changes could not be stored",
        MetricType::Counter,
        |shot| count(&shot.pof, |pof| pof.state_failures),
    ),
];
