//! The check of monitors: the settings of each kind, and the permissions that fit it.

use packet::Nanos;
use telemetry::IntNodeId;
use toml_file::{FileMistake, Quantity, Spanned, Text};

use super::check::{Check, Names};
use super::check_reflex::KEY_PARTS;
use super::file;
use super::{
    BurstFlows, ChangeSpec, Compare, DetourNode, KeyPart, LatencyMeasure, Loops, MicroburstSpec,
    MonitorKind, MonitorSpec, PathLatencySpec, ProgramSpec, RateLimitSpec, ReflexIndex,
    RoutingLoopSpec, SpreaderSpec, TuningSpec, macro_of,
};
use crate::classify::ReportRule;
use crate::monitor::instances::most_instances;
use crate::monitor::microburst::{MAX_PACKETS, MAX_QUEUES};
use crate::monitor::path_latency::{MAX_FLOWS, MAX_WINDOW, bytes_of};
use crate::monitor::spreader::{MAX_HOSTS, MAX_PEERS, PEER_BYTES};

/// Samples of an average by default: nanoPU, section 3.1.2.
const WINDOW: usize = 10;
/// Flows of a monitor by default.
const FLOWS: usize = 65_536;
/// Time after which a silent flow can be forgotten, by default.
const FORGET: Nanos = Nanos::from_secs(10);
/// Bytes of a `path_latency` monitor at most.
const MAX_LATENCY_BYTES: usize = 1 << 29;
/// Bytes of a monitor's peers at most.
const MAX_PEER_BYTES: usize = 1 << 28;
/// Time in which peers count, by default.
const WITHIN: Nanos = Nanos::from_secs(1);
/// Hosts of a monitor by default.
const HOSTS: usize = 16_384;
/// Time over which rates are measured, by default, and at most.
const EVERY: Nanos = Nanos::from_millis(4);
const MAX_EVERY: Nanos = Nanos::from_secs(60);
/// Largest limit: 1 Tbit/s.
const MAX_LIMIT: u64 = 1_000_000_000_000;
/// Part of a queue that a flow may take by default, in percent.
const SHARE: u32 = 25;
/// Time in which a flow of a queue is remembered, by default.
const RECENT: Nanos = Nanos::from_millis(1);
/// Thresholds of a queue by default, in packets.
const LEAST: u32 = 4;
const MOST: u32 = 1000;
/// Queues of a monitor, and packets of a queue, by default.
const QUEUES: usize = 64;
const PACKETS: usize = 2048;

/// Kinds of monitors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    PathLatency,
    Spreader,
    Loops,
    RateLimit,
    Microburst,
    Tuning,
    Program,
}

/// Kinds that are built in, by their names in files.
const KINDS: [(&str, Option<Kind>); 6] = [
    ("path_latency", Some(Kind::PathLatency)),
    ("spreader", Some(Kind::Spreader)),
    ("loops", Some(Kind::Loops)),
    ("rate_limit", Some(Kind::RateLimit)),
    ("microburst", Some(Kind::Microburst)),
    ("tuning", Some(Kind::Tuning)),
];

impl Kind {
    /// Returns the settings that it has.
    fn settings(self) -> &'static [&'static str] {
        match self {
            Kind::PathLatency => &[
                "window", "above", "compare", "latency", "detour", "flows", "forget",
            ],
            Kind::Spreader => &["host", "distinct", "peers", "within", "hosts"],
            Kind::Loops => &["ttl_reason"],
            Kind::RateLimit => &["limit", "every"],
            Kind::Tuning => &["node", "port", "objective", "every", "least", "most"],
            Kind::Microburst => &[
                "above", "flows_of", "share", "entitled", "recent", "queues", "packets",
            ],
            Kind::Program => &["entries"],
        }
    }
}

impl Check {
    pub(super) fn monitor(&mut self, monitor: &file::Monitor, reflexes: &Names<'_>) -> MonitorSpec {
        let kind = self.kind(monitor);
        if let Some(kind) = kind {
            self.only_settings_of(kind, monitor);
        }
        let rules = self.rules(monitor);
        let kind = match kind {
            None => MonitorKind::Loops(RoutingLoopSpec::default()),
            Some(Kind::PathLatency) => MonitorKind::PathLatency(self.path_latency(monitor)),
            Some(Kind::Spreader) => MonitorKind::Spreader(self.spreader(monitor)),
            Some(Kind::Loops) => MonitorKind::Loops(RoutingLoopSpec {
                ttl_reason: monitor
                    .ttl_reason
                    .is_some()
                    .then(|| self.mistakes.number(&monitor.ttl_reason, 0, 0)),
            }),
            Some(Kind::RateLimit) => MonitorKind::RateLimit(self.rate_limit(monitor)),
            Some(Kind::Tuning) => MonitorKind::Tuning(self.tuning(monitor)),
            Some(Kind::Microburst) => MonitorKind::Microburst(self.microburst(monitor)),
            Some(Kind::Program) => MonitorKind::Program(self.program(monitor)),
        };
        MonitorSpec {
            name: monitor.name.get_ref().clone(),
            rules,
            instances: self.instances(monitor, &kind),
            kind,
            reflexes: self.reflexes_of(monitor, reflexes),
        }
    }

    /// Reads the number of instances.
    fn instances(&mut self, monitor: &file::Monitor, kind: &MonitorKind) -> usize {
        let most = most_instances(kind);
        if let (Some(given), 1) = (&monitor.instances, most) {
            let name = kind.name();
            let message = format!("a monitor of kind {name} has one state for all reports");
            self.mistakes.at(given, message, "take instances away");
            return 1;
        }
        self.bounded(&monitor.instances, 1, most)
    }

    /// Returns the kind of a monitor. `None` after a mistake.
    fn kind(&mut self, monitor: &file::Monitor) -> Option<Kind> {
        match (&monitor.kind, &monitor.program) {
            (Some(kind), None) => self.word(Some(kind), &KINDS),
            (None, Some(_)) => Some(Kind::Program),
            (Some(_), Some(program)) => {
                let message = "the monitor has both `kind` and `program`".to_owned();
                self.mistakes.at(program, message, "remove one of the two");
                None
            }
            (None, None) => {
                let message = "the monitor has neither `kind` nor `program`".to_owned();
                let kinds: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
                let mend = format!(
                    "write program = \"FILE.p4\", or as kind one of: {}",
                    kinds.join(", ")
                );
                self.mistakes.at(&monitor.name, message, mend);
                None
            }
        }
    }

    fn program(&mut self, monitor: &file::Monitor) -> ProgramSpec {
        let place = monitor.place();
        for (name, text) in [("program", &monitor.program), ("entries", &monitor.entries)] {
            if let Some(text) = text.as_ref().filter(|text| text.get_ref().is_empty()) {
                let message = format!("`{name}` names no file");
                self.mistakes.at(text, message, "write the name of a file");
            }
        }
        let entries = monitor.entries.as_ref();
        ProgramSpec {
            program: place.get_ref().into(),
            entries: entries.map(|entries| entries.get_ref().into()),
            line: self.mistakes.line(place),
        }
    }

    /// Adds a mistake for each setting of another kind.
    fn only_settings_of(&mut self, kind: Kind, monitor: &file::Monitor) {
        let settings = kind.settings();
        for (name, span) in monitor.given() {
            if !settings.contains(&name) {
                let monitor = match &monitor.kind {
                    Some(kind) => format!("a monitor of kind {}", kind.get_ref()),
                    None => "a monitor with a program".to_owned(),
                };
                self.mistakes.add(FileMistake {
                    line: self.mistakes.line_of(span.start),
                    message: format!("{monitor} has no setting `{name}`"),
                    mend: format!("remove it; it has: {}", settings.join(", ")),
                });
            }
        }
    }

    fn rules(&mut self, monitor: &file::Monitor) -> Vec<ReportRule> {
        if monitor.matches.get_ref().is_empty() {
            let mend = "write rules, as in [\"ip.dst 10.0.2.0/24\"], or [\"any\"]";
            let message = "no report concerns the monitor".to_owned();
            self.mistakes.at(&monitor.matches, message, mend);
        }
        let rules = monitor.matches.get_ref().iter();
        let rules = rules.filter_map(|text| self.rule(text, text.get_ref()));
        rules.collect()
    }

    pub(super) fn rule(&mut self, at: &Text, text: &str) -> Option<ReportRule> {
        let rule = ReportRule::parse(text);
        if let Err(error) = &rule {
            self.mistakes.at(at, error.to_string(), error.mend());
        }
        rule.ok()
    }

    fn reflexes_of(&mut self, monitor: &file::Monitor, reflexes: &Names<'_>) -> Vec<ReflexIndex> {
        let several = monitor.reflexes.as_ref();
        if let (Some(_), Some(several)) = (&monitor.reflex, several) {
            let message = "the monitor has both `reflex` and `reflexes`".to_owned();
            self.mistakes
                .at(several, message, "list all of them as `reflexes`");
        }
        let several = several.into_iter().flat_map(|it| it.get_ref());
        let names = monitor.reflex.iter().chain(several);
        let mut found = Vec::new();
        for name in names {
            let index = ReflexIndex(self.resolve(name, reflexes, "reflex"));
            let is_known = reflexes.contains_key(name.get_ref().as_str());
            if is_known && found.contains(&index) {
                let message = format!("the reflex \"{}\" is there twice", name.get_ref());
                self.mistakes.at(name, message, "name each once");
            } else {
                found.push(index);
            }
        }
        found
    }

    /// Adds a mistake for a setting that a kind cannot do without.
    fn needed<'t, T>(
        &mut self,
        given: Option<&'t Spanned<T>>,
        monitor: &file::Monitor,
        message: &str,
        mend: &str,
    ) -> Option<&'t Spanned<T>> {
        if given.is_none() {
            self.mistakes.at(monitor.place(), message.to_owned(), mend);
        }
        given
    }

    fn path_latency(&mut self, monitor: &file::Monitor) -> PathLatencySpec {
        let window = self.bounded(&monitor.window, WINDOW, MAX_WINDOW);
        let flows = self.bounded(&monitor.flows, FLOWS, MAX_FLOWS);
        let mend = "write by how much it must exceed the average, as in above = \"1 us\"";
        let above = monitor.above.as_ref();
        let above = self.needed(above, monitor, "the monitor has no threshold", mend);
        let spec = PathLatencySpec {
            window,
            above: self.time(above, Nanos::ZERO),
            compare: self.word(
                monitor.compare.as_ref(),
                &[("above", Compare::Above), ("paper", Compare::Paper)],
            ),
            measure: self.word(
                monitor.latency.as_ref(),
                &[
                    ("hops", LatencyMeasure::Hops),
                    ("equal clocks", LatencyMeasure::EqualClocks),
                ],
            ),
            detour: self.word(
                monitor.detour.as_ref(),
                &[
                    ("first", DetourNode::First),
                    ("before increase", DetourNode::BeforeIncrease),
                ],
            ),
            flows,
            forget: self.time(monitor.forget.as_ref(), FORGET),
        };
        let bytes = bytes_of(&spec);
        if bytes > MAX_LATENCY_BYTES {
            let mebibytes = bytes.div_ceil(1 << 20);
            let message =
                format!("{flows} flows with {window} samples each take {mebibytes} MiB of memory");
            let most = MAX_LATENCY_BYTES >> 20;
            let mend =
                format!("let `flows` or `window` be less, so that they take {most} MiB at most");
            self.mistakes.at(monitor.place(), message, mend);
        }
        spec
    }

    fn spreader(&mut self, monitor: &file::Monitor) -> SpreaderSpec {
        let words = [
            ("ip.src", Some(KeyPart::Source)),
            ("ip.dst", Some(KeyPart::Destination)),
        ];
        let host = self.word(monitor.host.as_ref(), &words);
        let host = host.unwrap_or(KeyPart::Source);
        let mend = "write how many peers a host may have, as in peers = 64";
        let peers = monitor.peers.as_ref();
        self.needed(peers, monitor, "the monitor has no number of peers", mend);
        let limit = self.bounded(&monitor.peers, 1, MAX_PEERS);
        let hosts = self.bounded(&monitor.hosts, HOSTS, MAX_HOSTS);
        // A table of hosts has up to three places for each.
        let most = MAX_PEER_BYTES / (3 * PEER_BYTES);
        if hosts * limit > most {
            let message = format!("{hosts} hosts with {limit} peers each need too much memory");
            let mend = format!("let hosts times peers be at most {most}");
            self.mistakes.at(monitor.place(), message, mend);
        }
        let window = self.time(monitor.within.as_ref(), WITHIN);
        if let (Some(within), Nanos::ZERO) = (&monitor.within, window) {
            let mend = "write a time, as in within = \"1 s\"";
            let message = "no peer counts for no time".to_owned();
            self.mistakes.at(within, message, mend);
        }
        let other = match host {
            KeyPart::Source => KeyPart::Destination,
            _ => KeyPart::Source,
        };
        SpreaderSpec {
            host,
            distinct: self.distinct(monitor.distinct.as_ref(), (host, other)),
            limit,
            window,
            hosts,
        }
    }

    /// Reads the fields of a flow that make a peer of a host; by default, the other address.
    fn distinct(
        &mut self,
        given: Option<&Spanned<Vec<Text>>>,
        (host, other): (KeyPart, KeyPart),
    ) -> Vec<KeyPart> {
        let Some(given) = given else {
            return vec![other];
        };
        let mut parts = Vec::new();
        for text in given.get_ref() {
            let part = self.key_part(text);
            if part == Some(host) {
                let message = format!("\"{}\" is the host itself", text.get_ref());
                let mend = "name fields that differ from peer to peer, as in [\"ip.dst\"]";
                self.mistakes.at(text, message, mend);
            }
            parts.extend(part);
        }
        if given.get_ref().is_empty() {
            let mend = "name the fields of a flow that make a peer, as in [\"ip.dst\", \"l4.dst\"]";
            let message = "without fields all peers are the same".to_owned();
            self.mistakes.at(given, message, mend);
        }
        parts
    }

    fn rate_limit(&mut self, monitor: &file::Monitor) -> RateLimitSpec {
        let mend = "write what all edges may send together, as in limit = \"1 Gbit/s\"";
        let limit = monitor.limit.as_ref();
        let limit = self.needed(limit, monitor, "the monitor has no limit", mend);
        let read = limit.and_then(|text| self.mistakes.quantity(text, Quantity::Rate));
        if let (Some(text), Some(bits)) = (limit, read)
            && !(8..=MAX_LIMIT).contains(&bits)
        {
            let message = format!("a limit of \"{}\" is out of range", text.get_ref());
            self.mistakes
                .at(text, message, "write 8 bit/s to 1000 Gbit/s");
        }
        RateLimitSpec {
            limit: read.unwrap_or(8) / 8,
            every: self.every(monitor),
        }
    }

    /// Reads the length of an interval.
    fn every(&mut self, monitor: &file::Monitor) -> Nanos {
        let every = self.time(monitor.every.as_ref(), EVERY);
        if let Some(given) = &monitor.every
            && (every == Nanos::ZERO || every > MAX_EVERY)
        {
            let message = format!("nothing can be measured over \"{}\"", given.get_ref());
            let mend = "write a time up to 60 s in which 50 packets or more come";
            self.mistakes.at(given, message, mend);
        }
        every
    }

    fn microburst(&mut self, monitor: &file::Monitor) -> MicroburstSpec {
        let mend = "write how many bytes in a queue are a burst, as in above = \"60 KB\"";
        let above = monitor.above.as_ref();
        let above = self.needed(above, monitor, "the monitor has no threshold", mend);
        let above = above.and_then(|text| self.mistakes.quantity(text, Quantity::Size));
        let share = self.mistakes.number(&monitor.share, 0, SHARE);
        if let (Some(given), 101..) = (&monitor.share, share) {
            let message = format!("{share} percent of a queue are more than all");
            self.mistakes.at(given, message, "write a number up to 100");
        }
        let entitled = monitor.entitled.iter().flat_map(|it| it.get_ref());
        let entitled = entitled.filter_map(|text| self.entitlement(text));
        let entitled = entitled.collect();
        let words = [
            ("victims", BurstFlows::Victims),
            ("culprits", BurstFlows::Culprits),
        ];
        MicroburstSpec {
            above: above.unwrap_or(1),
            flows: self.word(monitor.flows_of.as_ref(), &words),
            entitled,
            share: 10 * share.min(100),
            recent: self.time(monitor.recent.as_ref(), RECENT),
            queues: self.bounded(&monitor.queues, QUEUES, MAX_QUEUES),
            packets: self.bounded(&monitor.packets, PACKETS, MAX_PACKETS),
        }
    }

    fn tuning(&mut self, monitor: &file::Monitor) -> TuningSpec {
        let mend = "write the node ID and the port of the queue, as in node = 1 and port = 3";
        let (node, port) = (monitor.node.as_ref(), monitor.port.as_ref());
        self.needed(node, monitor, "the monitor has no `node`", mend);
        self.needed(port, monitor, "the monitor has no `port`", mend);
        let mend = "write the time that 99 of 100 packets may be in the node, as in \
                    objective = \"100 us\"";
        let objective = monitor.objective.as_ref();
        let objective = self.needed(objective, monitor, "the monitor has no objective", mend);
        let least = self.mistakes.number(&monitor.least, 1, LEAST);
        let most = self.mistakes.number(&monitor.most, 1, MOST);
        if let (Some(given), true) = (
            monitor.least.as_ref().or(monitor.most.as_ref()),
            least > most,
        ) {
            let message = format!("thresholds from {least} to {most} packets are none");
            self.mistakes
                .at(given, message, "let `least` be at most `most`");
        }
        TuningSpec {
            node: IntNodeId(self.mistakes.number(&monitor.node, 0, 0)),
            port: self.mistakes.number(&monitor.port, 0, 0),
            objective: self.time(objective, Nanos::ZERO),
            every: self.every(monitor),
            least,
            most: most.max(least),
        }
    }

    /// Reads a rule and the part of a queue that flows may take, as in "ip.src 10.0.1.0/24 50 %".
    fn entitlement(&mut self, text: &Text) -> Option<(ReportRule, u32)> {
        let words = text.get_ref().strip_suffix('%').map(str::trim_end);
        let parts = words.and_then(|words| words.rsplit_once(' '));
        let parts = parts.and_then(|(rule, share)| Some((rule, share.parse().ok()?)));
        let Some((rule, share @ 0..=100)) = parts else {
            let message = format!("\"{}\" is no rule with a share", text.get_ref());
            let mend = "write a rule and a percentage, as in \"ip.src 10.0.1.0/24 50 %\"";
            self.mistakes.at(text, message, mend);
            return None;
        };
        Some((self.rule(text, rule)?, 10 * share))
    }

    pub(super) fn key_part(&mut self, part: &Text) -> Option<KeyPart> {
        let found = KEY_PARTS.iter().find(|(name, _)| name == part.get_ref());
        if found.is_none() {
            let all: Vec<&str> = KEY_PARTS.iter().map(|(name, _)| *name).collect();
            let message = format!("\"{}\" is no field of a flow", part.get_ref());
            let mend = format!("write one of: {}", all.join(", "));
            self.mistakes.at(part, message, mend);
        }
        found.map(|(_, part)| *part)
    }

    /// Adds mistakes of permissions that have the same macro in the monitor's program.
    fn macros(&mut self, given: &file::Monitor, monitor: &MonitorSpec, loops: &Loops) {
        let mut known: Vec<(String, &str)> = Vec::new();
        for ReflexIndex(reflex) in &monitor.reflexes {
            let Some(reflex) = loops.reflexes.get(*reflex) else {
                continue;
            };
            let name = macro_of(&reflex.name);
            let same = known.iter().find(|(other, _)| *other == name);
            if let Some((_, other)) = same.filter(|(_, other)| *other != reflex.name) {
                let message = format!(
                    "the reflexes \"{other}\" and \"{}\" are both {name} in the program",
                    reflex.name
                );
                let mend = "give them names that differ in letters or digits";
                self.mistakes.at(given.place(), message, mend);
            }
            known.push((name, &reflex.name));
        }
    }

    /// Adds mistakes of permissions that a monitor's kind cannot use.
    pub(super) fn fit(&mut self, given: &file::Monitor, monitor: &MonitorSpec, loops: &Loops) {
        let is_known = match (&given.kind, &given.program) {
            (Some(kind), None) => KINDS.iter().any(|(name, _)| name == kind.get_ref()),
            (None, Some(_)) => true,
            _ => false,
        };
        if !is_known {
            return;
        }
        if let MonitorKind::Program(_) = monitor.kind {
            self.macros(given, monitor, loops);
        }
        let several = given.reflexes.iter().flat_map(|it| it.get_ref());
        for name in given.reflex.iter().chain(several) {
            let mut reflexes = loops.reflexes.iter();
            let Some(reflex) = reflexes.find(|it| it.name == *name.get_ref()) else {
                continue;
            };
            let entry = match &reflex.change {
                ChangeSpec::Entry(entry) => Some(entry),
                _ => None,
            };
            let (fits, needs) = match &monitor.kind {
                MonitorKind::PathLatency(_) | MonitorKind::Loops(_) => (
                    entry.is_some_and(|entry| !entry.ports.is_empty()),
                    "a table and `ports`".to_owned(),
                ),
                MonitorKind::Microburst(_) => (
                    entry.is_some_and(|entry| entry.ports.is_empty() == entry.meter.is_some()),
                    "a table, and either `ports` or `meter_rate`".to_owned(),
                ),
                MonitorKind::Tuning(_) => (
                    matches!(
                        reflex.change,
                        ChangeSpec::Queue(_) | ChangeSpec::Register { .. }
                    ),
                    "a `queue` or a `register`".to_owned(),
                ),
                MonitorKind::Spreader(spec) => {
                    let mut names = KEY_PARTS.iter();
                    let host = names.find(|(_, part)| *part == spec.host);
                    let host = host.map_or("", |(name, _)| name);
                    let fits = |entry: &super::EntrySpec| {
                        entry.key == [spec.host]
                            && entry.ports.is_empty()
                            && entry.prefixes.is_empty()
                    };
                    (
                        entry.is_some_and(fits),
                        format!("a table with key = [\"{host}\"], without `ports` and `prefixes`"),
                    )
                }
                MonitorKind::RateLimit(_) => (
                    matches!(reflex.change, ChangeSpec::Meter { .. }),
                    "a `meter`".to_owned(),
                ),
                // The permission checks each command.
                MonitorKind::Program(_) => (true, String::new()),
            };
            let keeps = matches!(
                monitor.kind,
                MonitorKind::RateLimit(_) | MonitorKind::Tuning(_)
            );
            if keeps && fits && reflex.life.is_some() {
                let message = format!("the reflex \"{}\" has a `life`", name.get_ref());
                let kind = monitor.kind.name();
                let mend = format!("remove it: what a monitor of kind {kind} sets stays");
                self.mistakes.at(name, message, mend);
            }
            if !fits {
                let kind = monitor.kind.name();
                let message = format!(
                    "a monitor of kind {kind} cannot use the reflex \"{}\"",
                    name.get_ref()
                );
                self.mistakes.at(name, message, format!("give it {needs}"));
            }
        }
    }
}
