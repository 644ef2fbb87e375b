//! Loop files, decisions and counts as text and JSON.

use std::collections::BTreeMap;

use ::reflex::{
    Burst, Decision, DecisionRefusal, ElementIndex, Loops, MonitorIndex, Outcome, PlaneDriver,
    ReflexIndex, Setting, SourceIndex, Subject,
};
use packet::Nanos;
use serde::Serialize;
use support::text_table::table;
use telemetry::FlowKey;

use support::amount;

use super::measured::{self, ShownMeasured, time};

/// Decisions that the text shows.
const MAX_SHOWN: usize = 40;

/// A loop file as JSON.
#[derive(Serialize)]
pub(super) struct Declared {
    name: String,
    elements: Vec<String>,
    sources: Vec<String>,
    monitors: Vec<String>,
    reflexes: Vec<String>,
    store: Vec<String>,
}

impl Declared {
    pub(super) fn new(loops: &Loops) -> Declared {
        Declared {
            name: loops.name.clone(),
            elements: loops.elements.iter().map(|it| it.name.clone()).collect(),
            sources: loops.sources.iter().map(|it| it.host.clone()).collect(),
            monitors: loops.monitors.iter().map(|it| it.name.clone()).collect(),
            reflexes: loops.reflexes.iter().map(|it| it.name.clone()).collect(),
            store: loops.store.nodes.clone(),
        }
    }
}

/// Returns a loop file in words.
pub(super) fn declared(loops: &Loops) -> String {
    let mut text = format!("{}\n", loops.name);
    for source in &loops.sources {
        let nodes: Vec<String> = source
            .from
            .iter()
            .map(|(node, _)| node.to_string())
            .collect();
        let (host, port) = (&source.host, source.udp_port);
        text += &format!(
            "source at {host}, UDP port {port}: nodes {}\n",
            nodes.join(", ")
        );
    }
    for monitor in &loops.monitors {
        let rules: Vec<String> = monitor.rules.iter().map(ToString::to_string).collect();
        let (name, kind, rules) = (
            &monitor.name,
            measured::kind(&monitor.kind),
            rules.join("; "),
        );
        text += &format!("monitor {name}: {kind}, of reports of {rules}\n");
        for ReflexIndex(reflex) in &monitor.reflexes {
            text += &format!("  does {}\n", loops.reflexes[*reflex].name);
        }
    }
    for reflex in &loops.reflexes {
        text += &format!(
            "reflex {}: {}\n",
            reflex.name,
            measured::reflex(reflex, loops)
        );
    }
    text += &format!("store of {}\n", loops.store.nodes.join(", "));
    text
}

/// A decision as reports show it. Times are nanoseconds.
#[derive(Serialize)]
struct ShownDecision {
    number: u64,
    at: u64,
    monitor: String,
    /// The kind of the monitor.
    kind: &'static str,
    /// The subject: a flow, or a host; neither if it is all that concerns the monitor.
    flow: Option<String>,
    host: Option<String>,
    /// Nodes of the path.
    path: Vec<u32>,
    #[serde(flatten)]
    measured: ShownMeasured,
    /// The permission, the port that it sends packets to or the rate or value that it sets, and the
    /// times of its parts.
    reflex: Option<String>,
    port: Option<u32>,
    set_rate: Option<u64>,
    set_value: Option<u64>,
    committed: Option<u64>,
    log_index: Option<u64>,
    answered: Option<u64>,
    refused: Option<&'static str>,
    #[serde(skip)]
    words: [String; 3],
}

/// A burst of a queue. Times are nanoseconds of the node's clock.
#[derive(Serialize)]
struct ShownBurst {
    node: u32,
    port: u16,
    queue: u8,
    start: u64,
    peak: u64,
    bytes: u64,
    /// The flows with the most bytes at the peak.
    flows: Vec<ShownShare>,
}

/// Share of a flow in a burst.
#[derive(Serialize)]
struct ShownShare {
    flow: String,
    bytes: u64,
}

impl ShownBurst {
    fn new(burst: &Burst) -> ShownBurst {
        let flows = burst.flows.iter().map(|(key, bytes)| ShownShare {
            flow: flow(key),
            bytes: *bytes,
        });
        ShownBurst {
            node: burst.queue.node.0,
            port: burst.queue.port,
            queue: burst.queue.queue,
            start: burst.start.0,
            peak: burst.peak.0,
            bytes: burst.bytes,
            flows: flows.collect(),
        }
    }
}

/// Counts of a monitor.
#[derive(Serialize)]
struct ShownMonitor {
    name: String,
    reports: u64,
    normal: u64,
    alarms: u64,
    no_path: u64,
    no_sample: u64,
    no_room: u64,
    made: u64,
    /// Decisions without effect, by reason.
    refused: BTreeMap<&'static str, u64>,
    /// Bursts, of monitors of kind `microburst`.
    bursts: Vec<ShownBurst>,
}

/// Counts of an element.
#[derive(Serialize)]
struct ShownElement {
    name: String,
    applied: u64,
    refused: u64,
    repeated: u64,
    early: u64,
    old_term: u64,
    unknown: u64,
    /// Words of the switch's last refusal.
    last_refusal: Option<String>,
}

/// Counts of datagrams and reports. Received = not allowed + malformed + repeated + accepted;
/// reports = classified + unclassified.
#[derive(Serialize)]
struct ShownCounts {
    received: u64,
    not_allowed: u64,
    malformed: u64,
    repeated: u64,
    accepted: u64,
    reports: u64,
    classified: u64,
    unclassified: u64,
    /// Reports that exporters numbered and that did not arrive.
    lost: u64,
    commands: u64,
    resent: u64,
    lost_decisions: u64,
    /// Places that were restored at the end of their life.
    ended: u64,
    /// Datagrams of exporters without a place in a sequence.
    untracked: u64,
    /// Frames that are no datagrams of a source, in captures.
    others: u64,
}

/// Result of a run.
#[derive(Serialize)]
pub(super) struct Report {
    name: String,
    /// Time of its end, in nanoseconds.
    end: u64,
    counts: ShownCounts,
    monitors: Vec<ShownMonitor>,
    elements: Vec<ShownElement>,
    decisions: Vec<ShownDecision>,
}

impl Report {
    pub(super) fn new(driver: &PlaneDriver, end: Nanos) -> Report {
        let plane = driver.plane();
        let loops = plane.loops();
        let counts = plane.counts();
        let sources = (0..loops.sources.len()).map(|at| plane.sequences(SourceIndex(at)));
        let monitors = loops.monitors.iter().enumerate();
        let monitors = monitors.map(|(at, monitor)| {
            let counts = plane.monitor_counts(MonitorIndex(at));
            let refused = DecisionRefusal::ALL.into_iter().zip(counts.refused);
            let refused = refused.filter(|(_, count)| *count > 0);
            ShownMonitor {
                name: monitor.name.clone(),
                reports: counts.reports,
                normal: counts.normal,
                alarms: counts.alarms,
                no_path: counts.no_path,
                no_sample: counts.no_sample,
                no_room: counts.no_room,
                made: counts.made,
                refused: refused.map(|(why, count)| (why.name(), count)).collect(),
                bursts: plane
                    .bursts(MonitorIndex(at))
                    .map(ShownBurst::new)
                    .collect(),
            }
        });
        let elements = loops.elements.iter().enumerate();
        let elements = elements.map(|(at, element)| {
            let counts = driver.element_counts(ElementIndex(at));
            ShownElement {
                name: element.name.clone(),
                applied: counts.applied,
                refused: counts.refused,
                repeated: counts.repeated,
                early: counts.early,
                old_term: counts.old_term,
                unknown: counts.unknown,
                last_refusal: driver.last_refusal(ElementIndex(at)),
            }
        });
        Report {
            name: loops.name.clone(),
            end: end.0,
            counts: ShownCounts {
                received: counts.received,
                not_allowed: counts.not_allowed,
                malformed: counts.malformed,
                repeated: counts.repeated,
                accepted: counts.accepted,
                reports: counts.reports,
                classified: counts.classified,
                unclassified: counts.unclassified,
                lost: sources.map(|counts| counts.lost).sum(),
                commands: counts.commands,
                resent: counts.resent,
                lost_decisions: counts.lost_decisions,
                ended: counts.ended,
                untracked: (0..loops.sources.len())
                    .map(|at| plane.untracked(SourceIndex(at)))
                    .sum(),
                others: 0,
            },
            monitors: monitors.collect(),
            elements: elements.collect(),
            decisions: plane.decisions().map(|it| shown(loops, it)).collect(),
        }
    }

    /// Adds the number of frames that are no datagrams of a source.
    pub(super) fn with_others(mut self, others: u64) -> Report {
        self.counts.others = others;
        self
    }

    pub(super) fn text(&self) -> String {
        let head = ["at", "monitor", "subject", "path", "measured", "result"];
        let rows = self.decisions.iter().take(MAX_SHOWN).map(|decision| {
            let path: Vec<String> = decision.path.iter().map(ToString::to_string).collect();
            let [subject, measured, result] = decision.words.clone();
            vec![
                time(Nanos(decision.at)),
                decision.monitor.clone(),
                subject,
                path.join(" "),
                measured,
                result,
            ]
        });
        let mut text = match self.decisions.is_empty() {
            true => String::new(),
            false => table(&head, rows) + "\n",
        };
        if let Some(more @ 1..) = self.decisions.len().checked_sub(MAX_SHOWN) {
            text += &format!(
                "and {}; --json has all\n\n",
                amount::count(more as u64, "more decision")
            );
        }
        let counts = &self.counts;
        let received = amount::count(counts.received, "datagram");
        let reports = amount::count(counts.classified, "report");
        text += &format!("{}: {received}, {reports} for monitors\n", self.name);
        let others = [
            (counts.not_allowed, "not allowed"),
            (counts.malformed, "malformed"),
            (counts.repeated, "repeated"),
            (counts.lost, "lost"),
            (counts.unclassified, "for no monitor"),
            (counts.untracked, "not in a sequence"),
            (counts.others, "no datagrams of a source"),
            (counts.lost_decisions, "older decisions dropped"),
            (counts.ended, "places restored at the end of their life"),
        ];
        for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
            text += &format!("  {what}: {count}\n");
        }
        for monitor in &self.monitors {
            let (alarms, made) = (amount::count(monitor.alarms, "alarm"), monitor.made);
            text += &format!("{}: {alarms}, {made} changes", monitor.name);
            if !monitor.bursts.is_empty() {
                let bursts = amount::count(monitor.bursts.len() as u64, "burst");
                text += &format!(", {bursts}");
            }
            for (reason, count) in &monitor.refused {
                text += &format!(", {count} refused ({reason})");
            }
            let others = [
                (monitor.no_path, "without a path"),
                (monitor.no_sample, "without the values that it needs"),
                (monitor.no_room, "without room for its state"),
            ];
            for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
                text += &format!(", {} {what}", amount::count(count, "report"));
            }
            text += "\n";
        }
        for element in &self.elements {
            text += &format!(
                "{}: {} applied",
                element.name,
                amount::count(element.applied, "change")
            );
            let others = [
                (element.refused, "refused by the switch"),
                (element.repeated, "repeated"),
                (element.early, "out of order"),
                (element.old_term, "of an old leader"),
                (element.unknown, "unknown"),
            ];
            for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
                text += &format!(", {count} {what}");
            }
            if let Some(words) = &element.last_refusal {
                text += &format!(" ({words})");
            }
            text += "\n";
        }
        text
    }
}

fn shown(loops: &Loops, decision: &Decision) -> ShownDecision {
    let made = match decision.outcome {
        Outcome::Made(change) => Some(change),
        Outcome::Reported | Outcome::Refused(_) => None,
    };
    let result = match decision.outcome {
        Outcome::Reported => "reported".to_owned(),
        Outcome::Refused(refusal) => refusal.to_string(),
        Outcome::Made(change) => {
            let name = &loops.reflexes[change.reflex.0].name;
            let since = |end: Option<Nanos>| {
                end.map_or("not yet".to_owned(), |end| time(end.since(decision.at)))
            };
            let committed = since(change.committed);
            let answered = since(change.answered);
            let setting = measured::setting(change.setting);
            format!("{name}: {setting}, committed after {committed}, done after {answered}")
        }
    };
    let MonitorIndex(monitor) = decision.monitor;
    ShownDecision {
        number: decision.id.0,
        at: decision.at.0,
        monitor: loops.monitors[monitor].name.clone(),
        kind: loops.monitors[monitor].kind.name(),
        flow: decision.subject.flow().map(flow),
        host: match decision.subject {
            Subject::Host(host) => Some(host.to_string()),
            Subject::Flow(_) | Subject::Tenant => None,
        },
        path: decision.path.get().iter().map(|node| node.0).collect(),
        measured: ShownMeasured::new(&decision.measured),
        reflex: made.map(|change| loops.reflexes[change.reflex.0].name.clone()),
        port: made.and_then(|change| change.setting.port()),
        set_rate: made.and_then(|change| match change.setting {
            Setting::Rate(rate) => Some(rate),
            _ => None,
        }),
        set_value: made.and_then(|change| match change.setting {
            Setting::Value(value) => Some(value),
            _ => None,
        }),
        committed: made.and_then(|change| Some(change.committed?.0)),
        log_index: made.and_then(|change| Some(change.log_index?.0)),
        answered: made.and_then(|change| Some(change.answered?.0)),
        refused: match decision.outcome {
            Outcome::Refused(refusal) => Some(refusal.name()),
            Outcome::Reported | Outcome::Made(_) => None,
        },
        words: [
            subject(&decision.subject),
            measured::measured(&decision.measured),
            result,
        ],
    }
}

/// Returns a subject in words.
fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Flow(key) => flow(key),
        Subject::Host(host) => host.to_string(),
        Subject::Tenant => "all flows".to_owned(),
    }
}

/// Returns a flow in words: addresses with ports, and the protocol.
fn flow(flow: &FlowKey) -> String {
    let protocol = match flow.protocol {
        6 => "TCP".to_owned(),
        17 => "UDP".to_owned(),
        other => format!("protocol {other}"),
    };
    match flow.ports {
        Some(ports) => format!(
            "{}:{} > {}:{} {protocol}",
            flow.source, ports.source, flow.destination, ports.destination
        ),
        None => format!("{} > {} {protocol}", flow.source, flow.destination),
    }
}
