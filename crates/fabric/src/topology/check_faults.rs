//! The check of faults of a topology.

use std::collections::BTreeSet;

use packet::Nanos;
use port::PerMillion;
use toml_file::{Quantity, Spanned, Text};

use super::check::Check;
use super::file::{self, File};
use super::{DiskFate, End, FaultKind, FaultSpec, Link, NodeId, SwitchId};

impl Check<'_> {
    /// Reads all faults.
    pub(super) fn faults(
        &mut self,
        file: &File,
        links: &[Link],
        split: Option<SwitchId>,
    ) -> Vec<FaultSpec> {
        let mut all: Vec<FaultSpec> = Vec::new();
        // The line of each.
        let mut lines = Vec::new();
        for fault in &file.faults {
            let specs = self.fault(fault, links, split).unwrap_or_default();
            let busy = specs.iter().find_map(|spec| {
                let first = all.iter().position(|other| overlap(spec, other))?;
                Some((spec, lines[first]))
            });
            if let Some((spec, line)) = busy {
                let name = self.name_of_fault(&spec.kind, links);
                let message = format!("two faults of {name} overlap in time");
                let mend = format!(
                    "let the fault of line {line} end by the begin of this one, or begin after it"
                );
                self.mistake(fault, message, mend);
            }
            lines.extend(specs.iter().map(|_| self.line(fault)));
            all.extend(specs);
        }
        all
    }

    /// Returns the name of the link or node of a fault, for messages.
    fn name_of_fault(&self, kind: &FaultKind, links: &[Link]) -> String {
        let of_end = |end: &End| match end.node {
            NodeId::Switch(_) => format!("{}:{}", self.name_of(end.node), end.port),
            _ => self.name_of(end.node).to_owned(),
        };
        match kind {
            FaultKind::Link { link, .. } => {
                let ends = links[*link].ends.each_ref().map(of_end);
                format!("the link {} to {}", ends[0], ends[1])
            }
            FaultKind::Pause(node) | FaultKind::Crash(node, _) => self.name_of(*node).to_owned(),
            FaultKind::Clock { node, .. } => format!("the clock of {}", self.name_of(*node)),
        }
    }

    fn name_of(&self, node: NodeId) -> &str {
        let mut names = self.names.iter();
        let found = names.find(|(_, (named, _))| *named == node);
        found.map_or("", |(name, _)| name.as_str())
    }

    /// Reads a fault.
    fn fault(
        &mut self,
        fault: &Spanned<file::Fault>,
        links: &[Link],
        split: Option<SwitchId>,
    ) -> Option<Vec<FaultSpec>> {
        let given = fault.get_ref();
        let at = Nanos(self.quantity(&given.at, Quantity::Time)?);
        let until = match &given.until {
            Some(text) => Some(Nanos(self.quantity(text, Quantity::Time)?)),
            None => None,
        };
        if let (Some(text), Some(end)) = (&given.until, until)
            && end <= at
        {
            let mend = "let `until` be later than `at`";
            self.mistake(text, "the fault ends before it begins".to_owned(), mend);
        }
        if given.clock.is_none() && (given.ahead.is_some() || given.drift.is_some()) {
            let mend = "write `clock = \"s1\"` with it, or take `ahead` and `drift` away";
            self.mistake(fault, "only a clock deviates".to_owned(), mend);
        }
        if let (None, Some(disk)) = (&given.crash, &given.disk) {
            let mend = "write `crash = \"s1\"` with it, or take `disk` away";
            self.mistake(disk, "only a node that crashes has a disk".to_owned(), mend);
        }
        let kinds = match (
            &given.link,
            &given.pause,
            &given.crash,
            &given.partition,
            &given.clock,
        ) {
            (Some(ends), None, None, None, None) => vec![self.fault_of_link(fault, ends, links)?],
            (None, Some(name), None, None, None) => vec![self.pause(fault, name)?],
            (None, None, Some(name), None, None) => vec![self.crash(fault, name, split)?],
            (None, None, None, Some(names), None) => self.partition(fault, names, links)?,
            (None, None, None, None, Some(name)) => vec![self.clock(fault, name, split)?],
            _ => {
                let mend = "write one of `link = [\"h1\", \"s1:1\"]`, `pause = \"s1\"`, `crash = \
                            \"s1\"`, `clock = \"s1\"` and `partition = [\"h1\", \"s1\"]`";
                let message = "a fault is of a link or of nodes".to_owned();
                self.mistake(fault, message, mend);
                return None;
            }
        };
        let spec = |kind| FaultSpec { kind, at, until };
        Some(kinds.into_iter().map(spec).collect())
    }

    /// Reads a fault of a link: what it does not give stays.
    fn fault_of_link(
        &mut self,
        fault: &Spanned<file::Fault>,
        ends: &[Text; 2],
        links: &[Link],
    ) -> Option<FaultKind> {
        let given = fault.get_ref();
        if let Some(way) = &given.way {
            let mend = "write `from` with the end that sends the frames";
            self.mistake(way, "a way is of a partition".to_owned(), mend);
        }
        let [a, b] = ends.each_ref().map(|end| self.end(end));
        let (a, b) = (a?, b?);
        let mut all_ends = links.iter().map(|link| link.ends);
        let Some(link) = all_ends.position(|ends| ends == [a, b] || ends == [b, a]) else {
            let message = "there is no link between these ends".to_owned();
            let mend = "name the ends as the [[link]] section does";
            self.mistake(&ends[0], message, mend);
            return None;
        };
        let from = match &given.from {
            None => None,
            Some(text) => {
                let sender = self.end(text)?;
                let at = links[link].ends.iter().position(|end| *end == sender);
                if at.is_none() {
                    let message = format!("{} is no end of this link", text.get_ref());
                    let mend = "name the end that sends the frames, as `link` does";
                    self.mistake(text, message, mend);
                }
                Some(at?)
            }
        };
        let parts = file::LinkParts {
            delay: given.delay.clone(),
            loss: given.loss.clone(),
            duplicate: given.duplicate.clone(),
            reorder: given.reorder.clone(),
            corrupt: given.corrupt.clone(),
            ..file::LinkParts::default()
        };
        let during = self.link_spec(&parts, Some(links[link].spec));
        if during == links[link].spec {
            let mend = "give it a delay, or a loss, duplicate, reorder or corrupt";
            self.mistake(fault, "the fault changes nothing".to_owned(), mend);
        }
        Some(FaultKind::Link { link, from, during })
    }

    /// Reads the pause of a node.
    fn pause(&mut self, fault: &Spanned<file::Fault>, name: &Text) -> Option<FaultKind> {
        let given = fault.get_ref();
        let node = self.node(name, name.get_ref())?;
        if given.from.is_some() || given.way.is_some() || has_properties(given) {
            let message = "a node that pauses has no other fault".to_owned();
            let mend = "give it `at` and `until` alone; other faults are those of a `link`";
            self.mistake(fault, message, mend);
        }
        Some(FaultKind::Pause(node))
    }

    /// Finds the switch or host with this name. Another node is a mistake with this remedy.
    fn switch_or_host(&mut self, name: &Text, mend: &str) -> Option<NodeId> {
        let node = self.node(name, name.get_ref())?;
        if matches!(node, NodeId::Switch(_) | NodeId::Host(_)) {
            return Some(node);
        }
        let message = format!("{} is neither a switch nor a host", name.get_ref());
        self.mistake(name, message, mend);
        None
    }

    /// Reads the crash of a node.
    fn crash(
        &mut self,
        fault: &Spanned<file::Fault>,
        name: &Text,
        split: Option<SwitchId>,
    ) -> Option<FaultKind> {
        let given = fault.get_ref();
        let node = self.switch_or_host(name, "name a switch or a host")?;
        if split.is_some_and(|split| node == NodeId::Switch(split)) {
            let message = format!("{} runs a split program", name.get_ref());
            let mend = "name a switch without servers: a half is not loaded alone";
            self.mistake(name, message, mend);
        }
        if given.from.is_some() || given.way.is_some() || has_properties(given) {
            let message = "a node that crashes has no other fault".to_owned();
            let mend = "give it `at`, `until` and `disk` alone; other faults are those of a `link`";
            self.mistake(fault, message, mend);
        }
        let disk = match given.disk.as_ref().map(|disk| disk.get_ref().as_str()) {
            None | Some("kept") => DiskFate::Kept,
            Some("lost") => DiskFate::Lost,
            Some(other) => {
                let message = format!("\"{other}\" is no state of a disk");
                self.mistake(fault, message, "write \"kept\" or \"lost\"");
                DiskFate::Kept
            }
        };
        Some(FaultKind::Crash(node, disk))
    }

    /// Reads the deviation of a clock.
    fn clock(
        &mut self,
        fault: &Spanned<file::Fault>,
        name: &Text,
        split: Option<SwitchId>,
    ) -> Option<FaultKind> {
        let given = fault.get_ref();
        let node = self.switch_or_host(name, "name a switch, or the host of a member")?;
        if split.is_some_and(|split| node == NodeId::Switch(split)) {
            let message = format!("{} runs a split program", name.get_ref());
            let mend = "name a switch without servers: both halves of a split take one time";
            self.mistake(name, message, mend);
        }
        let is_other = given.from.is_some() || given.way.is_some() || has_properties(given);
        if is_other || given.ahead.is_none() && given.drift.is_none() {
            let message = "a clock deviates by a time or by a share of the time".to_owned();
            let mend = "give it `ahead = \"5 us\"` or `drift = 0.001`, or both, and no other fault";
            self.mistake(fault, message, mend);
        }
        let ahead = given.ahead.as_ref();
        let ahead = ahead.and_then(|time| self.quantity(time, Quantity::Time));
        let drift = given.drift.as_ref().map_or(0.0, |drift| *drift.get_ref());
        if let Some(given) = &given.drift
            && !(-0.5..=0.5).contains(&drift)
        {
            let mend = "write a share from -0.5 to 0.5, as in 0.0001";
            self.mistake(given, format!("{drift} is no drift of a clock"), mend);
        }
        Some(FaultKind::Clock {
            node,
            ahead: Nanos(ahead.unwrap_or(0)),
            drift: (drift.clamp(-0.5, 0.5) * 1e9).round() as i64,
        })
    }

    /// Reads a partition: all links between these nodes and the others lose their frames.
    fn partition(
        &mut self,
        fault: &Spanned<file::Fault>,
        names: &[Text],
        links: &[Link],
    ) -> Option<Vec<FaultKind>> {
        let given = fault.get_ref();
        if given.from.is_some() || has_properties(given) {
            let message = "a partition loses all frames".to_owned();
            let mend = "give it `at`, `until` and `way` alone";
            self.mistake(fault, message, mend);
        }
        let inside = names.iter().map(|name| self.node(name, name.get_ref()));
        let inside = inside
            .collect::<Vec<_>>()
            .into_iter()
            .collect::<Option<BTreeSet<NodeId>>>()?;
        let way = match given.way.as_ref().map(|way| way.get_ref().as_str()) {
            None | Some("both") => None,
            Some("in") => Some(false),
            Some("out") => Some(true),
            Some(other) => {
                let message = format!("\"{other}\" is no way of frames");
                let mend = "write \"in\", \"out\" or \"both\": seen from the nodes of the list";
                self.mistake(fault, message, mend);
                None
            }
        };
        let mut kinds = Vec::new();
        for (link, laid) in links.iter().enumerate() {
            let is_inside = laid.ends.map(|end| inside.contains(&end.node));
            if is_inside[0] == is_inside[1] {
                continue;
            }
            // The end that sends the lost frames.
            let from = way.and_then(|out| is_inside.iter().position(|is_inside| *is_inside == out));
            let mut during = laid.spec;
            during.faults.drop = PerMillion(1_000_000);
            kinds.push(FaultKind::Link { link, from, during });
        }
        if kinds.is_empty() {
            let message = "no link leads from these nodes to others".to_owned();
            let mend = "name the nodes of one side";
            self.mistake(fault, message, mend);
        }
        Some(kinds)
    }
}

/// Returns true if a fault gives properties of a link.
fn has_properties(given: &file::Fault) -> bool {
    let shares = [
        &given.loss,
        &given.duplicate,
        &given.reorder,
        &given.corrupt,
    ];
    given.delay.is_some() || shares.iter().any(|share| share.is_some())
}

/// Returns true if two faults of one link direction or node are in force at one time.
fn overlap(a: &FaultSpec, b: &FaultSpec) -> bool {
    let ends_before =
        |first: &FaultSpec, then: &FaultSpec| first.until.is_some_and(|until| until <= then.at);
    a.kind.excludes(&b.kind) && !ends_before(a, b) && !ends_before(b, a)
}
