//! Loop files, decisions and counts as text and JSON.

use std::collections::{BTreeMap, HashMap, HashSet};

use ::reflex::{
    Burst, Decision, DecisionRefusal, ElementDevice, ElementIndex, Loops, MemberTransport,
    MonitorIndex, Outcome, PlaneDriver, ReflexIndex, Setting, SourceIndex, Subject,
};
use consensus::RaftRole;
use packet::Nanos;
use reflex_runtime::{PlaneEvent, ProcessCounts};
use serde::Serialize;
use serde_json::{Value, json};
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
            sources: loops
                .sources
                .iter()
                .map(|it| it.listen.to_string())
                .collect(),
            monitors: loops.monitors.iter().map(|it| it.name.clone()).collect(),
            reflexes: loops.reflexes.iter().map(|it| it.name.clone()).collect(),
            store: loops.store.nodes.clone(),
        }
    }
}

/// Returns a loop file in words.
pub(super) fn declared(loops: &Loops) -> String {
    let mut text = format!("{}\n", loops.name);
    for element in &loops.elements {
        let name = &element.name;
        text += &match &element.device {
            ElementDevice::Switch(switch) => format!("element {name}: switch {switch}\n"),
            ElementDevice::P4Runtime(device) => format!(
                "element {name}: device {} of the P4Runtime server {}\n",
                device.device_id, device.address
            ),
        };
    }
    for source in &loops.sources {
        let nodes: Vec<String> = source
            .from
            .iter()
            .map(|(node, _)| node.to_string())
            .collect();
        let (place, port) = (&source.listen, source.udp_port);
        text += &format!(
            "source at {place}, UDP port {port}: nodes {}\n",
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
    let store = &loops.store;
    let nodes = store.nodes.iter().enumerate();
    let nodes = nodes.map(|(at, node)| match &store.transport {
        MemberTransport::Udp(addresses) => format!("{node} at {}", addresses[at]),
        MemberTransport::Frames(addresses, interfaces) => {
            let (address, interface) = (addresses[at], &interfaces[at]);
            let driver = if interface.is_xdp { "xdp" } else { "packet" };
            format!("{node} at {address} by {driver}:{}", interface.name)
        }
        MemberTransport::Rings(_) | MemberTransport::OneProcess => node.clone(),
    });
    let nodes: Vec<String> = nodes.collect();
    let way = match &store.transport {
        MemberTransport::Rings(name) => format!(", messages by rings {name}.NODE.NODE"),
        MemberTransport::Udp(_) | MemberTransport::Frames(..) | MemberTransport::OneProcess => {
            String::new()
        }
    };
    let place = match &store.dir {
        Some(dir) => format!("on disk in {}", dir.display()),
        None => "in memory".to_owned(),
    };
    text += &format!("store of {}, {place}{way}\n", nodes.join(", "));
    if store.nodes.len() < 3 {
        text += "note: this store tolerates the loss of none of its nodes; with 3 it tolerates that of one\n";
    }
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
    /// The leader in another process sends it.
    #[serde(skip)]
    is_left: bool,
    /// The subject, the measurement, the change and the result in words.
    #[serde(skip)]
    subject: String,
    #[serde(skip)]
    measured_text: String,
    #[serde(skip)]
    setting: Option<String>,
    result: String,
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
    /// Frames of a program that are no command.
    malformed: u64,
    made: u64,
    /// Changes that were made and that a switch of this process's leader does not have yet.
    waiting: u64,
    /// Decisions without effect, by reason.
    refused: BTreeMap<&'static str, u64>,
    /// Bursts, of monitors of kind `microburst`.
    bursts: Vec<ShownBurst>,
}

/// Returns a line for each permission of a table: its keys with the fields that they get.
pub(super) fn keys_text(driver: &PlaneDriver) -> Vec<String> {
    let elements = driver.plane().loops().elements.iter().enumerate();
    let lines = elements.flat_map(|(at, element)| {
        let keys = driver.keys(ElementIndex(at)).into_iter();
        keys.map(|keys| format!("{}: reflex {keys}", element.name))
    });
    lines.collect()
}

/// Counts of an element.
#[derive(Serialize)]
struct ShownElement {
    name: String,
    /// Keys of each permission's table with the fields that they get.
    keys: Vec<String>,
    applied: u64,
    refused: u64,
    repeated: u64,
    early: u64,
    old_term: u64,
    unknown: u64,
    /// Entries that the store did not have, and that were removed.
    removed: u64,
    /// Commands reach it.
    connected: bool,
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
    /// Sender of the last datagram that was not allowed or malformed.
    last_refused: Option<String>,
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
    /// Times of its start and its end, in nanoseconds.
    start: u64,
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
        let leads = plane.store().leading().is_some();
        let sources = (0..loops.sources.len()).map(|at| plane.sequences(SourceIndex(at)));
        let monitors = loops.monitors.iter().enumerate();
        let monitors = monitors.map(|(at, monitor)| {
            let counts = plane.monitor_counts(MonitorIndex(at));
            let refused = DecisionRefusal::ALL.into_iter().zip(counts.refused);
            let refused = refused.filter(|(_, count)| *count > 0);
            let is_waiting = |decision: &&Decision| {
                let waits = match decision.outcome {
                    Outcome::Made(change) => change.answered.is_none(),
                    Outcome::Reported | Outcome::Refused(_) => false,
                };
                leads && waits && decision.monitor == MonitorIndex(at)
            };
            let waiting = plane.decisions().filter(is_waiting).count() as u64;
            ShownMonitor {
                name: monitor.name.clone(),
                reports: counts.reports,
                normal: counts.normal,
                alarms: counts.alarms,
                no_path: counts.no_path,
                no_sample: counts.no_sample,
                no_room: counts.no_room,
                malformed: counts.malformed,
                made: counts.made,
                waiting,
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
                keys: driver.keys(ElementIndex(at)),
                applied: counts.applied,
                refused: counts.refused,
                repeated: counts.repeated,
                early: counts.early,
                old_term: counts.old_term,
                unknown: counts.unknown,
                removed: counts.removed,
                connected: driver.is_connected(ElementIndex(at)),
                last_refusal: driver.last_refusal(ElementIndex(at)),
            }
        });
        Report {
            name: loops.name.clone(),
            start: 0,
            end: end.0,
            counts: ShownCounts {
                received: counts.received,
                not_allowed: counts.not_allowed,
                malformed: counts.malformed,
                last_refused: plane.last_refused().map(|from| from.to_string()),
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
            decisions: plane
                .decisions()
                .map(|it| shown(loops, it, leads))
                .collect(),
        }
    }

    /// Adds the number of frames that are no datagrams of a source.
    pub(super) fn with_others(mut self, others: u64) -> Report {
        self.counts.others = others;
        self
    }

    /// Sets the time of the start, which times in texts are relative to.
    pub(super) fn with_start(mut self, start: Nanos) -> Report {
        self.start = start.0;
        self
    }

    pub(super) fn text(&self) -> String {
        let mut text = self.decisions_text();
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
        if let Some(from) = &counts.last_refused {
            text += &format!("  last refused sender: {from}\n");
        }
        for monitor in &self.monitors {
            let (alarms, made) = (amount::count(monitor.alarms, "alarm"), monitor.made);
            let made = amount::count(made, "change");
            text += &format!("{}: {alarms}, {made}", monitor.name);
            if monitor.waiting > 0 {
                text += &format!(", {} of them at no switch yet", monitor.waiting);
            }
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
            if monitor.malformed > 0 {
                let frames = amount::count(monitor.malformed, "frame");
                text += &format!(", {frames} to port 1 without a command");
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
                (element.removed, "removed that the store does not have"),
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

/// Result of a member of a store in a simulated fabric.
#[derive(Serialize)]
pub(super) struct MemberReport {
    member: String,
    host: String,
    report: Report,
}

/// Results of all members.
#[derive(Serialize)]
pub(super) struct MemberReports {
    pub(super) members: Vec<MemberReport>,
}

impl MemberReport {
    pub(super) fn new(member: &str, host: &str, report: Report) -> MemberReport {
        MemberReport {
            member: member.to_owned(),
            host: host.to_owned(),
            report,
        }
    }

    pub(super) fn text(&self) -> String {
        let (member, host) = (&self.member, &self.host);
        format!("member {member} at {host}\n{}", self.report.text())
    }
}

impl Report {
    /// Returns an error if changes are at no switch, with the reasons.
    pub(super) fn error(&self) -> Option<String> {
        let waiting: u64 = self.monitors.iter().map(|it| it.waiting).sum();
        let away = self.elements.iter().filter(|it| !it.connected);
        let reasons = away.map(|it| {
            let reason = it.last_refusal.as_deref().unwrap_or("not connected");
            format!("{}: {reason}", it.name)
        });
        let reasons: Vec<String> = reasons.collect();
        let changes = amount::count(waiting, "change");
        (waiting > 0).then(|| match &reasons[..] {
            [] => format!("{changes} at no switch yet"),
            _ => format!("{changes} at no switch yet: {}", reasons.join("; ")),
        })
    }

    /// Returns the decisions as a table: one row for those of a monitor, path and result.
    fn decisions_text(&self) -> String {
        let mut groups: Vec<Vec<&ShownDecision>> = Vec::new();
        let mut places: HashMap<GroupKey<'_>, usize> = HashMap::new();
        for decision in &self.decisions {
            let key = (
                &decision.monitor[..],
                &decision.path[..],
                decision.reflex.as_deref(),
                decision.setting.as_deref(),
                decision.refused,
                decision.answered.is_some(),
            );
            let place = *places.entry(key).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.push(decision),
                None => groups.push(vec![decision]),
            }
        }
        let head = ["at", "monitor", "subject", "path", "measured", "result"];
        let at = |decision: &ShownDecision| time(Nanos(decision.at.saturating_sub(self.start)));
        let rows = groups.iter().take(MAX_SHOWN).map(|group| {
            let (first, last) = (group[0], group[group.len() - 1]);
            let path: Vec<String> = first.path.iter().map(ToString::to_string).collect();
            let subjects: HashSet<&str> = group.iter().map(|it| &it.subject[..]).collect();
            let [when, subject] = match group.len() {
                1 => [at(first), first.subject.clone()],
                count => {
                    let more = match subjects.len() {
                        1 => first.subject.clone(),
                        subjects => format!("{subjects} subjects, as {}", first.subject),
                    };
                    let decisions = amount::count(count as u64, "decision");
                    [
                        format!("{} to {}", at(first), at(last)),
                        format!("{decisions} about {more}"),
                    ]
                }
            };
            vec![
                when,
                first.monitor.clone(),
                subject,
                path.join(" "),
                first.measured_text.clone(),
                result_of(group),
            ]
        });
        let mut text = match groups.is_empty() {
            true => String::new(),
            false => table(&head, rows) + "\n",
        };
        if let Some(more @ 1..) = groups.len().checked_sub(MAX_SHOWN) {
            let kinds = amount::count(more as u64, "more kind");
            text += &format!("and {kinds} of decisions; --json has all\n\n");
        }
        text
    }
}

/// Properties that all decisions of a row have: monitor, path, permission, change, refusal, and
/// whether the element answered.
type GroupKey<'d> = (
    &'d str,
    &'d [u32],
    Option<&'d str>,
    Option<&'d str>,
    Option<&'static str>,
    bool,
);

/// Returns the result of like decisions, with the longest times.
fn result_of(group: &[&ShownDecision]) -> String {
    let (Some(reflex), Some(setting)) = (&group[0].reflex, &group[0].setting) else {
        return group[0].result.clone();
    };
    let longest = |end: fn(&ShownDecision) -> Option<u64>| {
        let times = group.iter().map(|it| Some(end(it)?.saturating_sub(it.at)));
        let longest = times.collect::<Option<Vec<u64>>>();
        longest.and_then(|times| times.into_iter().max())
    };
    let ends = (longest(|it| it.committed), longest(|it| it.answered));
    format!("{reflex}: {setting}, {}", ends_of(ends, group[0].is_left))
}

/// Returns when a change was committed and done, in words. `is_left`: the leader in another process
/// sends it.
fn ends_of((committed, done): (Option<u64>, Option<u64>), is_left: bool) -> String {
    let committed = match committed {
        None => return "not committed yet".to_owned(),
        Some(0) => "committed at once".to_owned(),
        Some(after) => format!("committed after {}", time(Nanos(after))),
    };
    match (done, is_left) {
        (Some(after), _) => format!("{committed}, done after {}", time(Nanos(after))),
        (None, true) => format!("{committed}, left to the leader"),
        (None, false) => format!("{committed}, not done yet"),
    }
}

/// Returns an event of a run as JSON.
pub(super) fn event(driver: &PlaneDriver, event: &PlaneEvent) -> Value {
    let loops = driver.plane().loops();
    match event {
        PlaneEvent::Decision(decision) => {
            let leads = driver.plane().store().leading().is_some();
            json!({ "event": "decision", "decision": shown(loops, decision, leads) })
        }
        PlaneEvent::Leader(Some((node, term))) => {
            json!({ "event": "leader", "node": loops.store.nodes[*node], "term": term.0 })
        }
        PlaneEvent::Leader(None) => json!({ "event": "no_leader" }),
        PlaneEvent::Element(element, is_connected, reason) => json!({
            "event": match is_connected { true => "connected", false => "disconnected" },
            "element": loops.elements[element.0].name,
            "reason": reason,
        }),
        PlaneEvent::Removed(element, count) => json!({
            "event": "removed", "element": loops.elements[element.0].name, "entries": count,
        }),
        PlaneEvent::Disk(Some(error)) => json!({
            "event": "disk", "is_full": error.is_full, "error": error.message,
        }),
        PlaneEvent::Disk(None) => json!({ "event": "disk", "error": null }),
    }
}

/// Returns an event, as JSON, in words.
pub(super) fn event_text(event: &Value) -> String {
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let about = |decision: &Value| match (&decision["flow"], &decision["host"]) {
        (Value::String(flow), _) => flow.clone(),
        (_, Value::String(host)) => host.clone(),
        _ => "all flows".to_owned(),
    };
    let decision = &event["decision"];
    match event["event"].as_str() {
        Some("decision") => format!(
            "decision {} of {}: {}: {}",
            decision["number"],
            word(&decision["monitor"]),
            about(decision),
            word(&decision["result"])
        ),
        Some("leader") => format!(
            "node {} leads the store in term {}",
            word(&event["node"]),
            event["term"]
        ),
        Some("no_leader") => "the store has no leader".to_owned(),
        Some("connected") => format!("element {}: connected", word(&event["element"])),
        Some("disconnected") => format!(
            "element {}: not connected: {}",
            word(&event["element"]),
            word(&event["reason"])
        ),
        Some("removed") => format!(
            "element {}: removed {} that the store does not have",
            word(&event["element"]),
            amount::count(event["entries"].as_u64().unwrap_or(0), "entry")
        ),
        Some("disk") if event["error"].is_null() => "the store keeps entries again".to_owned(),
        Some("disk") => format!("the store cannot keep entries: {}", word(&event["error"])),
        _ => event.to_string(),
    }
}

/// A node of the store in a running process.
#[derive(Serialize)]
struct ShownNode {
    name: String,
    role: &'static str,
    term: u64,
    leader: Option<String>,
    commit: u64,
    last: u64,
}

/// State of a running plane.
#[derive(Serialize)]
struct ShownState {
    #[serde(flatten)]
    report: Report,
    nodes: Vec<ShownNode>,
    /// Error of the disk, if entries cannot be kept.
    disk: Option<String>,
    /// Names of elements that commands do not reach.
    disconnected: Vec<String>,
    /// Names of the store's voters.
    voters: Vec<String>,
    /// Names of nodes in other processes that this one should hear and does not.
    unheard: Vec<String>,
    strangers: u64,
    forged: u64,
    unsent: u64,
    output_datagrams: u64,
    unsent_output_datagrams: u64,
}

/// Returns the state of a running plane as JSON.
pub(super) fn state(
    driver: &PlaneDriver,
    counts: ProcessCounts,
    start: Nanos,
    now: Nanos,
) -> Value {
    let plane = driver.plane();
    let loops = plane.loops();
    let nodes = plane.store().states().map(|state| ShownNode {
        name: loops.store.nodes[state.node].clone(),
        role: match state.role {
            RaftRole::Leader => "leader",
            RaftRole::Follower => "follower",
            RaftRole::PreCandidate | RaftRole::Candidate => "candidate",
        },
        term: state.term.0,
        leader: state.leader.map(|at| loops.store.nodes[at].clone()),
        commit: state.commit.0,
        last: state.last.0,
    });
    let elements = loops.elements.iter().enumerate();
    let disconnected = elements.filter(|(at, _)| !driver.is_connected(ElementIndex(*at)));
    let state = ShownState {
        report: Report::new(driver, now)
            .with_start(start)
            .with_others(counts.others),
        nodes: nodes.collect(),
        disk: plane.store().disk_error().map(|error| error.message),
        disconnected: disconnected.map(|(_, it)| it.name.clone()).collect(),
        voters: plane
            .store()
            .voters()
            .into_iter()
            .filter_map(|at| loops.store.nodes.get(at).cloned())
            .collect(),
        unheard: plane
            .store()
            .unheard(now)
            .into_iter()
            .filter_map(|at| loops.store.nodes.get(at).cloned())
            .collect(),
        strangers: counts.strangers,
        forged: counts.forged,
        unsent: counts.unsent,
        output_datagrams: counts.output_datagrams,
        unsent_output_datagrams: counts.unsent_output_datagrams,
    };
    serde_json::to_value(state).unwrap_or_default()
}

/// Returns the state of a running plane, as JSON, in words.
pub(super) fn state_text(state: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("nobody").to_owned();
    let list = |key: &str| state[key].as_array().cloned().unwrap_or_default();
    let since = state["end"].as_u64().unwrap_or(0) - state["start"].as_u64().unwrap_or(0);
    let mut text = format!("{}, for {}\n", word(&state["name"]), time(Nanos(since)));
    for node in list("nodes") {
        text += &format!(
            "node {}: {} in term {}, {}; committed {} of {} entries\n",
            word(&node["name"]),
            word(&node["role"]),
            node["term"],
            match node["leader"].as_str() {
                Some(leader) => format!("led by {leader}"),
                None => "no process leads".to_owned(),
            },
            node["commit"],
            node["last"]
        );
    }
    let unheard: Vec<String> = list("unheard").iter().map(word).collect();
    if !unheard.is_empty() {
        text += &format!(
            "not heard for an election timeout: {}\n",
            unheard.join(", ")
        );
    }
    if let Some(error) = state["disk"].as_str() {
        text += &format!("the store cannot keep entries: {error}\n");
    }
    let counts = &state["counts"];
    text += &format!(
        "{} datagrams received, {} reports for monitors\n",
        counts["received"], counts["classified"]
    );
    let some = |values: &Value, names: &[(&str, &str)]| {
        let mut text = String::new();
        for (key, what) in names {
            if let Some(count @ 1..) = values[*key].as_u64() {
                text += &format!(", {count} {what}");
            }
        }
        text
    };
    let refused = some(
        counts,
        &[("not_allowed", "not allowed"), ("malformed", "malformed")],
    );
    if let Some(from) = counts["last_refused"].as_str() {
        let refused = refused.trim_start_matches(", ");
        text += &format!("refused datagrams: {refused}; the last one from {from}\n");
    }
    for monitor in list("monitors") {
        text += &format!(
            "monitor {}: {} reports, {} alarms, {} changes{}\n",
            word(&monitor["name"]),
            monitor["reports"],
            monitor["alarms"],
            monitor["made"],
            some(
                &monitor,
                &[
                    ("waiting", "of them at no switch yet"),
                    ("no_path", "reports without a path"),
                    ("no_sample", "reports without the values that it needs"),
                    ("no_room", "reports without room for its state"),
                    ("malformed", "frames to port 1 without a command"),
                ]
            )
        );
    }
    let disconnected = list("disconnected");
    let leads = list("nodes").iter().any(|node| node["role"] == "leader");
    for element in list("elements") {
        let is_away = disconnected.contains(&element["name"]);
        if is_away && !leads {
            let name = word(&element["name"]);
            let what = match list("nodes").iter().any(|node| node["leader"].is_string()) {
                true => "the leading process sends its commands",
                false => {
                    "no command is sent, since no process leads: a majority of the store is needed"
                }
            };
            text += &format!("element {name}: {what}\n");
            continue;
        }
        text += &format!(
            "element {}: {}, {} changes applied, {} refused{}",
            word(&element["name"]),
            match is_away {
                true => "not connected",
                false => "connected",
            },
            element["applied"],
            element["refused"],
            some(
                &element,
                &[("removed", "entries removed that the store does not have")]
            )
        );
        if let Some(reason) = element["last_refusal"].as_str() {
            text += &format!(" ({reason})");
        }
        text += "\n";
    }
    text
}

/// Returns a decision as reports show it. `leads`: a node of this process leads the store.
fn shown(loops: &Loops, decision: &Decision, leads: bool) -> ShownDecision {
    let made = match decision.outcome {
        Outcome::Made(change) => Some(change),
        Outcome::Reported | Outcome::Refused(_) => None,
    };
    let setting = made.map(|change| measured::setting(change.setting));
    let result = match decision.outcome {
        Outcome::Reported => "reported".to_owned(),
        Outcome::Refused(refusal) => refusal.to_string(),
        Outcome::Made(change) => {
            let name = &loops.reflexes[change.reflex.0].name;
            let since = |end: Option<Nanos>| Some(end?.since(decision.at).0);
            let ends = ends_of((since(change.committed), since(change.answered)), !leads);
            let setting = setting.as_deref().unwrap_or_default();
            format!("{name}: {setting}, {ends}")
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
        is_left: !leads,
        subject: subject(&decision.subject),
        measured_text: measured::measured(&decision.measured),
        setting,
        result,
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
