//! Reports of the offload of a running switch, by HTTP from its metrics server.

use clap::Args;
use offload_runtime::{FlowRow, InterfaceRow, OffloadStats, PlacementReport, ReasonRow};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use support::amount;
use support::text_table::{align, table};

use super::selection::Selection;
use crate::http::MetricsAddress;
use crate::{Ended, http, out};

/// Options of a report of a running switch.
#[derive(Args)]
#[command(
    after_help = "The switch is `polyplane pof`, `run` or `serve` with --offload and --metrics ADDRESS.\n\n\
                  Rows of `stats`: rules are those of the target now, with those on the way. added, replaced and removed count requests \
                  since the start, evicted the rules that the NIC dropped. traced again counts flows that a change or the sweep \
                  looked at, and changed those of them that had another match or effect then. packets after their entry came from \
                  the NIC when an entry or counter of theirs had been removed, as after each deletion of an entry with traffic; \
                  FLOW_REMOVED of POF has them. packets of unknown flows came when too many flows were known. changes lost counts \
                  the times at which more changes waited than are kept, and all flows were traced again."
)]
pub(super) struct ReportOptions {
    /// The address that the switch serves metrics at.
    #[arg(long, value_name = "ADDRESS")]
    at: MetricsAddress,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Part of a report, of one device.
#[derive(Deserialize, Serialize)]
struct OfDevice<T> {
    device: u64,
    report: T,
}

/// Returns a part of the reports of all devices; none if it was written as JSON.
fn fetch<T: DeserializeOwned>(
    at: &MetricsAddress,
    part: &str,
    json: bool,
) -> Result<Vec<OfDevice<T>>, String> {
    let body = http::get(at, &format!("/offload/{part}"))?;
    let unread = |error| format!("{at} does not answer as a switch of this version: {error}");
    if json {
        let value: serde_json::Value = serde_json::from_str(&body).map_err(unread)?;
        out::json(&value);
        return Ok(Vec::new());
    }
    serde_json::from_str(&body).map_err(unread)
}

/// Shows a report of each device.
fn show<T>(devices: &[OfDevice<T>], show: impl Fn(&T)) {
    for device in devices {
        if devices.len() > 1 {
            out::line(&format!("device {}:", device.device));
        }
        show(&device.report);
    }
}

/// Shows the flows of a running switch.
pub(super) fn flows(
    at: &MetricsAddress,
    selection: &Selection,
    why: bool,
    json: bool,
) -> Result<Ended, String> {
    let mut devices: Vec<OfDevice<Vec<FlowRow>>> = fetch(at, "flows", false)?;
    let mut lines = Vec::new();
    for device in &mut devices {
        lines.push(selection.choose(&mut device.report, !json));
    }
    if json {
        out::json(&devices);
        return Ok(Ended::Well);
    }
    show(&devices, |flows| out::text(&flows_text(flows, why)));
    lines
        .into_iter()
        .flatten()
        .for_each(|line| out::line(&line));
    if why {
        let stats: Vec<OfDevice<OffloadStats>> = fetch(at, "stats", false)?;
        show(&stats, |stats| {
            show_reasons("packets in no flow", &stats.not_offloadable);
        });
    }
    Ok(Ended::Well)
}

/// Shows the numbers of what the offload of a running switch did.
pub(super) fn stats(options: &ReportOptions) -> Result<Ended, String> {
    let stats: Vec<OfDevice<OffloadStats>> = fetch(&options.at, "stats", options.json)?;
    show(&stats, |stats| {
        out::text(&stats_text(stats));
        show_interfaces(&stats.interfaces);
        show_reasons("rules refused", &stats.refused);
        show_reasons("packets in no flow", &stats.not_offloadable);
    });
    Ok(Ended::Well)
}

/// Shows the last decision of a running switch.
pub(super) fn placement(options: &ReportOptions) -> Result<Ended, String> {
    let placements: Vec<OfDevice<PlacementReport>> = fetch(&options.at, "placement", options.json)?;
    show(&placements, |placement| {
        out::text(&placement_text(placement))
    });
    Ok(Ended::Well)
}

fn flows_text(flows: &[FlowRow], why: bool) -> String {
    let row = |flow: &FlowRow| {
        let to: Vec<String> = flow.outputs.iter().map(u32::to_string).collect();
        let mut cells = vec![
            flow.flow.to_string(),
            flow.plane.clone(),
            flow.state.clone(),
            flow.rate.to_string(),
            flow.nic_packets.to_string(),
            flow.software_packets.to_string(),
            flow.wanted.clone().unwrap_or_else(|| flow.gain.to_string()),
            match to.is_empty() {
                true => "drop".to_owned(),
                false => to.join(","),
            },
            flow.matched.clone(),
        ];
        if why {
            let reason = flow.reason.clone();
            cells.push(reason.unwrap_or_else(|| "-".to_owned()));
        }
        cells
    };
    let mut head = vec![
        "flow",
        "plane",
        "state",
        "packets/s",
        "in NIC",
        "in software",
        "gain",
        "to",
        "match",
    ];
    if why {
        head.push("why not in hardware");
    }
    table(&head, flows.iter().map(row))
}

fn show_interfaces(rows: &[InterfaceRow]) {
    for row in rows {
        let name = format!("port {} ({})", row.port, row.interface);
        out::line(&match &row.refusal {
            None => format!("{name} takes rules of TC flower"),
            Some(reason) => format!("{name} takes no rules: {reason}"),
        });
    }
}

fn show_reasons(what: &str, rows: &[ReasonRow]) {
    for row in rows {
        out::line(&format!("{what}: {}: {}", row.count, row.reason));
    }
}

fn stats_text(stats: &OffloadStats) -> String {
    let states = stats.states.iter().filter(|row| row.flows > 0);
    let states: Vec<String> = states
        .map(|row| format!("{} {}", row.flows, row.state))
        .collect();
    let rules = match stats.capacity {
        Some(capacity) => format!("{} of {capacity}", stats.rules),
        None => stats.rules.to_string(),
    };
    let packets = amount::count(stats.packets, "packet");
    let nic = format!("{packets}, {}", amount::bytes(stats.bytes));
    let words = [
        ("target", stats.target.clone()),
        ("flows", states.join(", ")),
        ("rules", rules),
        ("NIC", nic),
    ];
    let counts = [
        ("added", stats.added),
        ("replaced", stats.replaced),
        ("removed", stats.removed),
        ("evicted", stats.evicted),
        ("traced again", stats.retraced),
        ("changed", stats.changed),
        ("packets after their entry", stats.uncredited_packets),
        ("packets of unknown flows", stats.unnoted_packets),
        ("changes lost", stats.lost_changes),
    ];
    let counts = counts.map(|(name, count)| (name, count.to_string()));
    let rows = words.into_iter().chain(counts);
    let rows: Vec<Vec<String>> = rows
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    align(&rows)
}

fn placement_text(placement: &PlacementReport) -> String {
    let limit = |most: Option<u64>| most.map_or_else(|| "no limit".to_owned(), |n| n.to_string());
    let planes = placement.planes.iter().map(|plane| {
        vec![
            plane.plane.clone(),
            plane.flows.to_string(),
            limit(plane.capacity),
            plane.rate.to_string(),
        ]
    });
    let mut text = format!(
        "policy {}, every {} ms, moves a second: {}, hysteresis {} %\n",
        placement.policy,
        placement.period_ms,
        limit(placement.moves_a_second),
        placement.hysteresis
    );
    text.push_str(&table(&["plane", "flows", "capacity", "packets/s"], planes));
    for row in &placement.tables {
        let missing = match row.is_there {
            true => "",
            false => " (there is no such table)",
        };
        text.push_str(&format!("table {}: {}{missing}\n", row.table, row.choice));
    }
    if let Some(error) = &placement.error {
        text.push_str(&format!("nothing is decided: {error}\n"));
    }
    text
}
