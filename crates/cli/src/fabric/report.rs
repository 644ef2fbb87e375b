//! Report of a simulation, as text and as JSON.

use std::time::Duration;

use fabric::topology::FlowKind;
use fabric::{
    Distribution, Drop, FlowReport, LinkReport, Progress, Report, RequestsReport, StreamReport,
};
use serde::Serialize;

use crate::{amount, out};
use support::text_table::padded;

/// Maximum number of flows that are listed. For more flows, the distribution is shown.
const FEW: usize = 20;

/// Report in JSON, with the cost of the simulation.
#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    report: &'a Report,
    is_complete: bool,
    /// Wall-clock time.
    took_seconds: f64,
    /// Frames that arrived at an end of a link, per second of wall-clock time.
    frames_per_second: f64,
}

/// Writes the report to standard output.
pub(crate) fn write(report: &Report, progress: &Progress, took: Duration, json: bool) {
    let rate = progress.frames as f64 / took.as_secs_f64().max(1e-9);
    if json {
        out::json(&Json {
            report,
            is_complete: progress.is_done,
            took_seconds: took.as_secs_f64(),
            frames_per_second: rate,
        });
        return;
    }
    pings(report);
    flows(report);
    streams(report);
    split(report);
    nanopus(report);
    links(&report.links);
    drops(report);
    let simulated = amount::time(Duration::from_secs_f64(report.seconds));
    let frames = amount::count(progress.frames, "frame");
    out::line(&format!(
        "{}: {simulated} simulated in {}, {frames} over links, {}",
        report.fabric,
        amount::time(took),
        amount::packet_rate(rate)
    ));
}

fn pings(report: &Report) {
    for ping in &report.pings {
        let times: Vec<String> = ping
            .microseconds
            .iter()
            .map(|us| format!("{us:.1}"))
            .collect();
        out::line(&format!(
            "ping {} to {}: {} of {} answered, in us: {}",
            ping.from,
            ping.to,
            times.len(),
            ping.sent,
            times.join(" ")
        ));
    }
}

fn flows(report: &Report) {
    for (kind, name) in [
        (FlowKind::Named, "flow"),
        (FlowKind::Elephant, "elephant"),
        (FlowKind::Mouse, "mouse"),
    ] {
        let flows: Vec<&FlowReport> = report.flows_of(kind).collect();
        match flows.len() {
            0 => {}
            1..=FEW => flows.iter().for_each(|flow| one_flow(name, flow)),
            many => {
                let times = report.completion_times(kind);
                let complete = times.0.len();
                let flows = amount::count(many as u64, "flow");
                out::line(&format!("{flows} ({name}), {complete} complete"));
                out::line(&quantiles("  completion time", &times, &|seconds| {
                    amount::time(Duration::from_secs_f64(seconds))
                }));
                let rates = report.throughputs(kind);
                out::line(&quantiles("  throughput", &rates, &amount::bit_rate));
            }
        }
    }
}

fn one_flow(name: &str, flow: &FlowReport) {
    let how = match (flow.completion_seconds, flow.bits_per_second) {
        (Some(seconds), Some(rate)) if flow.is_intact => {
            let time = amount::time(Duration::from_secs_f64(seconds));
            format!("in {time}, {}", amount::bit_rate(rate))
        }
        (Some(_), _) => "arrived changed".to_owned(),
        (None, _) => format!("of which {} arrived", amount::bytes(flow.received)),
    };
    let bytes = amount::bytes(flow.bytes);
    out::line(&format!(
        "{name} {} to {}: {bytes} {how}",
        flow.from, flow.to
    ));
}

fn streams(report: &Report) {
    for stream in &report.streams {
        let StreamReport { from, to, sent, .. } = stream;
        let packets = amount::count(*sent, "packet");
        let flows = amount::count(stream.flows.into(), "flow");
        let order = match stream.reordered {
            0 => "none reordered".to_owned(),
            reordered => format!(
                "{reordered} reordered in {}, at most {} of one",
                amount::count(stream.reordered_flows, "flow"),
                stream.max_reordered_of_flow
            ),
        };
        let received = stream.received;
        out::line(&format!(
            "traffic {from} to {to}: {packets} of {flows}, {received} received, {order}"
        ));
        if let Some(latency) = &stream.latency {
            out::line(&format!(
                "  latency in us: mean {:.2} ± {:.2}, median {:.2}, 90 % {:.2}, 99 % {:.2}, most {:.2}",
                latency.mean_us,
                latency.deviation_us,
                latency.p50_us,
                latency.p90_us,
                latency.p99_us,
                latency.max_us
            ));
        }
    }
}

/// Writes the requests to nanoPUs, and what these did.
fn nanopus(report: &Report) {
    for requests in &report.requests {
        let RequestsReport { from, to, .. } = requests;
        let waiting = match requests.waiting {
            0 => String::new(),
            waiting => format!(", {waiting} waiting for a buffer of the host"),
        };
        out::line(&format!(
            "model: requests {from} to {to}: {} sent{waiting}, {}",
            requests.sent,
            amount::count(requests.answered as u64, "answer")
        ));
        if let Some(latency) = &requests.latency {
            out::line(&format!(
                "  latency, request to the last bit of the answer: min {:.3}, p50 {:.3}, p99 {:.3}, \
                 max {:.3} ns",
                latency.min_ns, latency.p50_ns, latency.p99_ns, latency.max_ns
            ));
        }
    }
    for nanopu in &report.nanopus {
        out::line(&format!(
            "model: nanoPU {}: {} messages received, {} acknowledged; {} timeouts, {} given up, \
             {} packets trimmed, {} without a buffer, {} for contexts that are not bound, {} evictions",
            nanopu.name,
            nanopu.messages_received,
            nanopu.messages_sent,
            nanopu.timeouts,
            nanopu.abandoned,
            nanopu.trimmed,
            nanopu.no_buffer,
            nanopu.unbound,
            nanopu.evictions
        ));
        for (number, core) in nanopu.cores.iter().enumerate() {
            let parts = core.parts.iter().filter(|(_, cycles)| *cycles > 0);
            let parts: Vec<String> = parts.map(|(name, n)| format!("{name} {n}")).collect();
            let instructions = amount::count(core.instructions, "instruction");
            let parts = parts.join(", ");
            out::line(&format!("  core {number}: {instructions}; cycles: {parts}"));
            if let Some(fault) = &core.fault {
                out::line(&format!("  core {number}: {fault}"));
            }
        }
    }
}

/// Writes what a split program did: packets that the switch answered, requests, moves of entries,
/// and the servers' loads.
fn split(report: &Report) {
    for switch in &report.switches {
        let Some(split) = &switch.split else {
            continue;
        };
        let counts = &split.counts;
        let share = split.share_in_switch.unwrap_or(0.0) * 100.0;
        let packets = amount::count(counts.packets, "packet");
        let (requests, answered) = (counts.requests, counts.answered);
        out::line(&format!(
            "split at {}: {packets}, {share:.1} % answered in the switch; {requests} to servers, \
             {answered} answered",
            switch.name
        ));
        out::line(&format!(
            "  moves of entries {}, reports {}, postponed {}, overtaken {}; changes refused {}",
            counts.moves, counts.reports, counts.postponed, counts.overtaken, counts.refused
        ));
    }
    for server in &report.servers {
        let requests = amount::count(server.requests, "request");
        out::line(&format!(
            "server {}: {requests}, {} answered, load {:.1} %",
            server.name,
            server.responses,
            server.load * 100.0
        ));
        if !server.dropped.is_empty() {
            out::line(&format!("  dropped: {}", drops_text(&server.dropped)));
        }
    }
}

fn quantiles(name: &str, values: &Distribution, text: &dyn Fn(f64) -> String) -> String {
    let parts = [
        (0.1, "10 %"),
        (0.5, "median"),
        (0.9, "90 %"),
        (0.99, "99 %"),
        (1.0, "most"),
    ];
    let parts = parts.iter().filter_map(|(share, label)| {
        let value = values.quantile(*share)?;
        Some(format!("{label} {}", text(value)))
    });
    format!("{name}: {}", parts.collect::<Vec<_>>().join(", "))
}

fn links(links: &[LinkReport]) {
    let names: Vec<String> = links
        .iter()
        .map(|l| format!("{} to {}", l.from, l.to))
        .collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max(4);
    out::line(&format!(
        "{}  {:>10}  {:>9}  {:>8}  {:>8}  busy",
        padded("link", width),
        "packets",
        "bytes",
        "lost",
        "overflow"
    ));
    for (link, name) in links.iter().zip(names) {
        let busy = link.utilisation;
        let busy = busy.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0));
        out::line(&format!(
            "{}  {:>10}  {:>9}  {:>8}  {:>8}  {busy}",
            padded(&name, width),
            link.packets,
            amount::bytes(link.bytes),
            link.lost,
            link.overflowed
        ));
    }
}

fn drops_text(drops: &[Drop]) -> String {
    let parts = drops
        .iter()
        .map(|drop| format!("{} {}", drop.reason, drop.packets));
    parts.collect::<Vec<_>>().join(", ")
}

fn drops(report: &Report) {
    for switch in report
        .switches
        .iter()
        .filter(|switch| !switch.dropped.is_empty())
    {
        out::line(&format!(
            "dropped by {}: {}",
            switch.name,
            drops_text(&switch.dropped)
        ));
    }
    let all = match report.dropped.is_empty() {
        true => "nothing".to_owned(),
        false => drops_text(&report.dropped),
    };
    let made = amount::count(report.made, "packet");
    let (delivered, on_the_way) = (report.delivered, report.in_flight);
    out::line(&format!(
        "{made} made, {delivered} delivered, {on_the_way} on the way; dropped: {all}"
    ));
}
