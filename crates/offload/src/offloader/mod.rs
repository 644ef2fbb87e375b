//! The offloader: it decides which flows a target has, and keeps their rules right while the device
//! changes.
//!
//! It is a core without clock, threads and I/O. The caller gives packets that the software
//! processed, the device's records, the target's events and the time. It gets [`OffloadCommand`]s
//! for the target and for the device's counters.

mod changes;
mod decide;
mod exchange;
mod known;
mod reasons;
mod types;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ir::TableId;
use packet::{Nanos, PortId};
use switch::Record;
use table::EntryId;

pub use exchange::SameObjects;
pub use known::FlowId;
use known::{Known, KnownFlows, Rule};
use reasons::ReasonCounts;
pub use types::{Credit, FlowReport, FlowState, OffloadCommand, OffloaderOptions, Override, Waits};

use crate::flow::{Flow, NotOffloadable, Step};
use crate::target::{Placed, RuleCounts, RuleId, Target, TargetEvent};
use crate::trace::{FlowTracer, View};

/// Numbers of what the offloader did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloaderCounts {
    /// Flows that were traced again.
    pub retraced: u64,
    /// Those of them that had another match or effect then.
    pub changed: u64,
    /// Flows that were traced again and had the same effect.
    pub unchanged: u64,
    /// Rules that the hardware lost.
    pub evicted: u64,
    /// Packets that were not noted because too many flows are known.
    pub unnoted: u64,
    /// Packets in the target by rules that ended while the program was exchanged, and of which the
    /// flow is another one now.
    pub uncredited: u64,
}

/// The offloader of one device to one target.
pub struct Offloader {
    options: OffloaderOptions,
    tracer: FlowTracer,
    known: KnownFlows,
    rules: BTreeMap<RuleId, Rule>,
    next_rule: u64,
    /// Flows to trace again, in the order of the changes.
    suspects: VecDeque<FlowId>,
    is_suspect: BTreeSet<FlowId>,
    of_tables: BTreeMap<TableId, Override>,
    of_flows: BTreeMap<FlowId, Override>,
    /// Reasons for which packets were not offloadable, with their numbers of packets.
    reasons: ReasonCounts,
    /// Reasons of the target for refusals, with their numbers of times.
    refusals: ReasonCounts,
    swept: FlowId,
    /// Flows that the sweep has traced again since the last decision.
    swept_flows: usize,
    next_decision: Nanos,
    last_decision: Nanos,
    counts: OffloaderCounts,
    /// Reason for which the last decision decided nothing.
    error: Option<String>,
    /// Ports that are down.
    down: BTreeSet<PortId>,
    /// Counts of rules that ended between an exchange of the program and the next step.
    late: Vec<Late>,
}

/// Counts of a rule that has ended, for its flow if the flow is the same in the new program.
struct Late {
    id: FlowId,
    credit: Credit,
}

impl Offloader {
    /// Creates an offloader without flows.
    pub fn new(tracer: FlowTracer, options: OffloaderOptions) -> Offloader {
        Offloader {
            options,
            tracer,
            known: KnownFlows::default(),
            rules: BTreeMap::new(),
            next_rule: 0,
            suspects: VecDeque::new(),
            is_suspect: BTreeSet::new(),
            of_tables: BTreeMap::new(),
            of_flows: BTreeMap::new(),
            reasons: ReasonCounts::default(),
            refusals: ReasonCounts::default(),
            swept: FlowId(0),
            swept_flows: 0,
            next_decision: Nanos::ZERO,
            last_decision: Nanos::ZERO,
            counts: OffloaderCounts::default(),
            error: None,
            down: BTreeSet::new(),
            late: Vec::new(),
        }
    }

    /// Sets a port up or down. No rule sends to a port that is down.
    pub fn set_port(&mut self, port: PortId, is_up: bool) {
        let is_changed = match is_up {
            true => self.down.remove(&port),
            false => self.down.insert(port),
        };
        if !is_changed {
            return;
        }
        let flows = self.known.iter().filter(|(_, known)| known.sends_to(port));
        let flows: Vec<FlowId> = flows.map(|(id, _)| id).collect();
        for id in flows {
            self.suspect(id);
            if let Some(known) = self.known.get_mut(id).filter(|_| is_up) {
                known.not_before = Nanos::ZERO;
            }
        }
    }

    /// Checks whether the target can have a rule for a flow now.
    fn can(&self, target: &dyn Target, flow: &Flow) -> Result<(), NotOffloadable> {
        let port_that_is_down = |step: &Step| match step {
            Step::Output(port) if self.down.contains(port) => Some(*port),
            _ => None,
        };
        match flow.steps.iter().find_map(port_that_is_down) {
            Some(port) => Err(NotOffloadable::PortDown(port)),
            None => target.can(flow),
        }
    }

    /// Sets or removes the owner's choice for all flows that look up a table.
    pub fn set_table_override(&mut self, table: TableId, wanted: Option<Override>) {
        match wanted {
            Some(wanted) => self.of_tables.insert(table, wanted),
            None => self.of_tables.remove(&table),
        };
    }

    /// Sets or removes the owner's choice for a flow. It has precedence over that for a table.
    pub fn set_flow_override(&mut self, flow: FlowId, wanted: Option<Override>) {
        match wanted {
            Some(wanted) => self.of_flows.insert(flow, wanted),
            None => self.of_flows.remove(&flow),
        };
    }

    fn override_of(&self, id: FlowId) -> Option<Override> {
        let own = self.of_flows.get(&id).copied();
        own.or_else(|| {
            let met = &self.known.get(id)?.flow().met.lookups;
            let mut choices = met.iter().filter_map(|met| self.of_tables.get(&met.table));
            let first = choices.next().copied()?;
            // A table with flows that stay in software has precedence.
            let never = choices.any(|choice| *choice == Override::Never);
            Some(if never { Override::Never } else { first })
        })
    }

    /// Returns all flows.
    pub fn flows(&self) -> impl Iterator<Item = FlowReport> + '_ {
        self.known.iter().map(|(id, known)| FlowReport {
            id,
            flow: Arc::clone(known.flow()),
            parsed: Arc::clone(&known.traced.parsed),
            state: known.state.clone(),
            rate: known.rate,
            gain: self.gain_by_rate(known),
            is_decided: known.is_decided,
            wanted: self.override_of(id),
            in_software: known.all_in_software,
            in_target: known.all_in_target,
        })
    }

    /// Returns the state and the packets a second of each flow.
    pub fn states(&self) -> impl Iterator<Item = (&FlowState, u64)> {
        self.known
            .iter()
            .map(|(_, known)| (&known.state, known.rate))
    }

    /// Returns the reasons for which packets were not offloadable, with their numbers of packets.
    pub fn reasons(&self) -> impl Iterator<Item = (&str, u64)> {
        self.reasons.iter()
    }

    /// Returns the reasons for which the target has refused rules, with their numbers of times.
    pub fn refusals(&self) -> impl Iterator<Item = (&str, u64)> {
        self.refusals.iter()
    }

    /// Returns the entries, or misses for `None`, that the flows of the target's rules met: counts
    /// for these may still come.
    pub fn entries_in_target(&self) -> impl Iterator<Item = (TableId, Option<EntryId>)> {
        let flows = self.rules.values().map(|rule| &rule.flow);
        flows.flat_map(|flow| flow.met.lookups.iter().map(|met| (met.table, met.entry)))
    }

    /// Returns true if the target has a rule, or adds or removes one.
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Forgets all flows. Their rules go, and the counts that these had are still credited.
    pub fn withdraw(&mut self) -> Vec<OffloadCommand> {
        let mut commands = Vec::new();
        let all: Vec<FlowId> = self.known.iter().map(|(id, _)| id).collect();
        all.into_iter()
            .for_each(|id| self.forget(id, &mut commands));
        in_batches(commands)
    }

    /// Returns the numbers of what was done.
    pub fn counts(&self) -> OffloaderCounts {
        self.counts
    }

    /// Returns the reason for which the last decision decided nothing.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Notes packets of one frame that the software has processed. `view` must have all changes of
    /// which the records were given.
    pub fn observe(
        &mut self,
        now: Nanos,
        view: View<'_>,
        ingress: PortId,
        frame: &[u8],
        packets: u64,
    ) {
        let found = self.known.find(ingress, frame);
        if let Some(known) = found.and_then(|id| self.known.get_mut(id)) {
            known.in_software += packets;
            known.all_in_software += packets;
            known.last_use = now;
            known.miss(frame);
            return;
        }
        if self.known.len() >= self.options.most_flows {
            self.counts.unnoted += packets;
            return;
        }
        let traced = match self.tracer.trace(view, ingress, frame) {
            Ok(traced) => traced,
            Err(reason) => return self.note(&reason, packets),
        };
        let sample = frame.to_vec();
        self.known.add(|| Known {
            traced,
            sample,
            state: FlowState::Software,
            rule: None,
            since: now,
            counted: now,
            in_software: packets,
            in_target: 0,
            missed: VecDeque::new(),
            all_in_software: packets,
            all_in_target: 0,
            rate: 0,
            not_before: Nanos::ZERO,
            last_use: now,
            is_decided: false,
        });
    }

    /// Notes a refusal of the target.
    fn note_refusal(&mut self, words: &str) {
        self.refusals.add(words, 1);
    }

    fn note(&mut self, reason: &NotOffloadable, packets: u64) {
        self.reasons.add(&reason.to_string(), packets);
    }

    /// Takes a record of the device's log: the flows that the change may affect are traced again in
    /// the next [`Offloader::step`].
    pub fn changed(&mut self, record: &Record) {
        let program = Arc::clone(self.tracer.program());
        for id in changes::affected(&self.known, &self.is_suspect, &program, record) {
            self.suspect(id);
        }
    }

    /// Takes the tracer of another program, which has taken the place of the old one. All flows are
    /// traced again. Until then nothing is credited: the numbers of the old program's objects may
    /// be those of others.
    pub fn exchange(&mut self, tracer: FlowTracer) {
        self.tracer = tracer;
        for rule in self.rules.values_mut() {
            rule.is_of_program = false;
        }
        let all: Vec<FlowId> = self.known.iter().map(|(id, _)| id).collect();
        all.into_iter().for_each(|id| self.suspect(id));
    }

    /// As [`Offloader::exchange`], for a program in which entries of tables of the same name have
    /// the same numbers: counts go on, but for flows that met an object that has gone.
    pub fn exchange_with_entries(&mut self, tracer: FlowTracer) {
        let same = SameObjects::of(self.tracer.program(), tracer.program());
        let before: Vec<FlowId> = self.known.iter().map(|(id, _)| id).collect();
        for id in before {
            let known = self.known.get(id);
            if let Some(flow) = known.and_then(|known| same.flow(known.flow())) {
                self.known.renumber(id, flow);
            }
        }
        let mut kept = Vec::new();
        for (id, rule) in &mut self.rules {
            if let Some(flow) = same.flow(&rule.flow).filter(|_| rule.is_of_program) {
                rule.flow = flow;
                kept.push(*id);
            }
        }
        self.exchange(tracer);
        for id in kept {
            let rule = self.rules.get_mut(&id);
            rule.into_iter().for_each(|rule| rule.is_of_program = true);
        }
    }

    fn suspect(&mut self, id: FlowId) {
        if self.is_suspect.insert(id) {
            self.suspects.push_back(id);
        }
    }

    /// Returns how long counts of the target may be late: an entry's idle time-out must wait for as
    /// long ([`switch::Device::set_idle_delay`]).
    pub fn counts_delay(&self, target: &dyn Target) -> Nanos {
        self.options.period + target.counts_delay()
    }

    /// Does what is due: traces flows that changes have affected, decides, sweeps and asks for
    /// counts.
    pub fn step(&mut self, now: Nanos, view: View<'_>, target: &dyn Target) -> Vec<OffloadCommand> {
        let mut commands = Vec::new();
        while let Some(id) = self.suspects.pop_front() {
            self.is_suspect.remove(&id);
            self.retrace(now, id, view, target, &mut commands);
        }
        self.credit_late(&mut commands);
        // Rules that changes make wrong do not wait for a decision, which is long where there are
        // many flows. It waits for an eighth of a period at most.
        let is_late = now.since(self.next_decision).0 > self.options.period.0 / 8;
        if !commands.is_empty() && !is_late {
            return in_batches(commands);
        }
        let most = self.options.sweep.min(self.known.len());
        // Where each step had commands, all flows of the sweep are due in this one: rules that are
        // wrong wait for an eighth of them at most.
        let most = match commands.is_empty() {
            true => most,
            false => self.swept_flows + most.div_ceil(8),
        };
        self.sweep(now, most, view, target, &mut commands);
        if now >= self.next_decision {
            self.swept_flows = 0;
            self.decide(now, target, &mut commands);
            let rules: Vec<RuleId> = self.rules.keys().copied().collect();
            if !rules.is_empty() {
                commands.push(OffloadCommand::Read(rules));
            }
            self.next_decision = now + self.options.period;
        }
        in_batches(commands)
    }

    /// Credits counts of rules that ended after an exchange of the program.
    fn credit_late(&mut self, commands: &mut Vec<OffloadCommand>) {
        for late in std::mem::take(&mut self.late) {
            let known = self.known.get(late.id).map(Known::flow);
            match known.is_some_and(|flow| flow.has_effect_of(&late.credit.flow)) {
                true => commands.push(OffloadCommand::Credit(late.credit)),
                false => self.counts.uncredited += late.credit.packets,
            }
        }
    }

    /// Traces the flows again that the sweep has reached by now, until it has traced `most` in this
    /// period. They are spread over the period, so that a change does not wait for all of them.
    fn sweep(
        &mut self,
        now: Nanos,
        most: usize,
        view: View<'_>,
        target: &dyn Target,
        commands: &mut Vec<OffloadCommand>,
    ) {
        let all = self.options.sweep.min(self.known.len());
        let left = self.next_decision.since(now).0;
        let passed = self.options.period.0.saturating_sub(left);
        let due = all as u128 * u128::from(passed) / u128::from(self.options.period.0.max(1));
        while (self.swept_flows as u128) < due && self.swept_flows < most {
            self.swept_flows += 1;
            let Some(next) = self.known.after(self.swept) else {
                return;
            };
            self.swept = next;
            self.retrace(now, next, view, target, commands);
        }
    }

    /// Traces a flow again, and makes its rule right.
    fn retrace(
        &mut self,
        now: Nanos,
        id: FlowId,
        view: View<'_>,
        target: &dyn Target,
        commands: &mut Vec<OffloadCommand>,
    ) {
        let Some(known) = self.known.get(id) else {
            return;
        };
        self.counts.retraced += 1;
        let ingress = known.flow().ingress;
        let traced = match self.tracer.trace(view, ingress, &known.sample) {
            Ok(traced) => traced,
            Err(reason) => {
                self.counts.changed += 1;
                self.note(&reason, 0);
                return self.forget(id, commands);
            }
        };
        if traced.flow.has_effect_of(known.flow()) && traced.flow.covers(known.flow()) {
            self.counts.unchanged += 1;
            self.leave_port(now, id, target, commands);
            // Its packets may look up other keys now.
            if let Some(known) = self.known.get_mut(id) {
                known.traced.take_keys(traced);
                let rule = known.rule.and_then(|rule| self.rules.get_mut(&rule));
                rule.into_iter().for_each(|rule| rule.is_of_program = true);
            }
            return;
        }
        self.counts.changed += 1;
        if self.known.twin(id, &traced.flow).is_some() {
            return self.forget(id, commands);
        }
        let can = self.can(target, &traced.flow);
        self.known.change(id, traced);
        let Some(known) = self.known.get_mut(id) else {
            return;
        };
        let Some(old) = known.rule else {
            return;
        };
        if let Err(reason) = can {
            known.state = FlowState::Refused(reason.to_string());
            known.not_before = now + self.options.retry_after;
            known.rule = None;
            commands.push(OffloadCommand::Remove(vec![old]));
            return self.note_refusal(&reason.to_string());
        }
        let flow = Arc::clone(known.flow());
        self.next_rule += 1;
        let new = RuleId(self.next_rule);
        known.rule = Some(new);
        known.state = FlowState::Adding;
        known.since = now;
        self.rules.insert(new, rule_of(id, &flow));
        if let Some(rule) = self.rules.get_mut(&old) {
            rule.successor = Some(new);
        }
        commands.push(OffloadCommand::Replace(vec![(old, new, flow)]));
    }

    /// Takes the rule of an unchanged flow away if it sends to a port that is down.
    fn leave_port(
        &mut self,
        now: Nanos,
        id: FlowId,
        target: &dyn Target,
        commands: &mut Vec<OffloadCommand>,
    ) {
        let Some(known) = self.known.get(id).filter(|known| known.rule.is_some()) else {
            return;
        };
        let Err(reason @ NotOffloadable::PortDown(_)) = self.can(target, known.flow()) else {
            return;
        };
        let not_before = now + self.options.retry_after;
        if let Some(known) = self.known.get_mut(id) {
            known.state = FlowState::Refused(reason.to_string());
            known.not_before = not_before;
            commands.extend(
                known
                    .rule
                    .take()
                    .map(|rule| OffloadCommand::Remove(vec![rule])),
            );
        }
    }

    /// Removes a flow and its rule.
    fn forget(&mut self, id: FlowId, commands: &mut Vec<OffloadCommand>) {
        self.of_flows.remove(&id);
        if let Some(rule) = self.known.remove(id).and_then(|known| known.rule) {
            commands.push(OffloadCommand::Remove(vec![rule]));
        }
    }

    fn decide(&mut self, now: Nanos, target: &dyn Target, commands: &mut Vec<OffloadCommand>) {
        self.measure(now, target, commands);
        let most = target.capacity().rules.unwrap_or(u32::MAX);
        let choice = self.choose(now, most);
        self.error = choice.error;
        let (mut leaving, mut entering) = (Vec::new(), Vec::new());
        for (id, known) in self.known.iter_mut() {
            known.is_decided = true;
            match (choice.wanted.contains(&id), known.rule) {
                (false, Some(rule)) if known.state.is_in_target() => {
                    known.rule = None;
                    known.state = FlowState::Software;
                    leaving.push(rule);
                }
                (true, None) => entering.push(id),
                (false, None) if matches!(known.state, FlowState::Wanted(_)) => {
                    known.state = FlowState::Software;
                }
                _ => {}
            }
        }
        let mut room = most.saturating_sub(target.capacity().used);
        let mut batch = Vec::new();
        for id in entering {
            let can = match self.known.get(id) {
                Some(known) => self.can(target, known.flow()),
                None => continue,
            };
            let Some(known) = self.known.get_mut(id) else {
                continue;
            };
            if let Err(reason) = can {
                known.state = FlowState::Refused(reason.to_string());
                known.not_before = now + self.options.retry_after;
                self.note_refusal(&reason.to_string());
                continue;
            }
            // Removals are under way: the next decision adds it.
            if room == 0 {
                let is_making_room = !leaving.is_empty();
                let waits = if is_making_room {
                    Waits::Removal
                } else {
                    Waits::Room
                };
                known.state = FlowState::Wanted(waits);
                continue;
            }
            room -= 1;
            self.next_rule += 1;
            let rule = RuleId(self.next_rule);
            known.rule = Some(rule);
            known.state = FlowState::Adding;
            known.since = now;
            self.rules.insert(rule, rule_of(id, known.flow()));
            batch.push((rule, Arc::clone(known.flow())));
        }
        if !leaving.is_empty() {
            commands.push(OffloadCommand::Remove(leaving));
        }
        if !batch.is_empty() {
            commands.push(OffloadCommand::Add(batch));
        }
    }

    /// Takes the counts of the last period: rates, lost rules and flows without packets.
    fn measure(&mut self, now: Nanos, target: &dyn Target, commands: &mut Vec<OffloadCommand>) {
        let span = now.0.saturating_sub(self.last_decision.0).max(1);
        self.last_decision = now;
        let grace = self.options.period + self.options.period + target.counts_delay();
        let mut over = Vec::new();
        let (mut lost, mut evicted) = (Vec::new(), 0);
        for (id, known) in self.known.iter_mut() {
            let packets = known.in_software + known.in_target;
            let rate = u128::from(packets) * 1_000_000_000 / u128::from(span);
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            known.rate = known.rate.saturating_add(rate) / 2;
            let is_settled = now > known.since + grace;
            // No event says that the hardware dropped a rule, but its packets come to software.
            let takes = |frame: &Vec<u8>| target.takes(known.flow(), frame);
            let is_lost = known.state == FlowState::InHardware
                && is_settled
                && now > known.counted + grace
                && known.missed.iter().any(takes);
            known.missed.clear();
            // The hardware may have room by now.
            let is_tried_again = known.state == FlowState::NotInHardware && now >= known.not_before;
            if is_tried_again {
                lost.extend(known.rule.take());
                known.state = FlowState::Software;
            }
            if is_lost {
                lost.extend(known.rule.take());
                known.state = FlowState::Evicted;
                known.not_before = now + self.options.retry_after;
                evicted += 1;
            }
            (known.in_software, known.in_target) = (0, 0);
            let is_silent = now > known.last_use + self.options.forget_after + grace;
            if is_silent {
                over.push(id);
            }
        }
        self.counts.evicted += evicted;
        if !lost.is_empty() {
            commands.push(OffloadCommand::Remove(lost));
        }
        for id in over {
            self.forget(id, commands);
        }
    }

    /// Takes what happened at the target.
    pub fn event(&mut self, now: Nanos, event: TargetEvent) -> Vec<OffloadCommand> {
        let mut commands = Vec::new();
        match event {
            TargetEvent::Added(rule, placed) => {
                let state = match placed {
                    Placed::InHardware => FlowState::InHardware,
                    Placed::NotInHardware => FlowState::NotInHardware,
                };
                self.settle(now, rule, state, &mut commands);
            }
            TargetEvent::Refused(rule, words) => {
                self.note_refusal(&words);
                self.is_not_added(now, rule, FlowState::Refused(words), &mut commands);
            }
            TargetEvent::Full(rule) => {
                let state = FlowState::Wanted(Waits::Room);
                self.is_not_added(now, rule, state, &mut commands);
            }
            TargetEvent::Removed(rule, counts) => self.end(now, rule, counts, &mut commands),
            TargetEvent::Evicted(rule, counts) => {
                self.is_gone(now, rule, counts, FlowState::Evicted, &mut commands);
            }
            TargetEvent::Lost(rule, counts, reason) => {
                let state = FlowState::Lost(reason);
                self.is_gone(now, rule, counts, state, &mut commands);
            }
            TargetEvent::Counts(rule, _, counts) => self.credit(now, rule, counts, &mut commands),
        }
        commands
    }

    /// Notes that the target has no longer a rule, without a request.
    fn is_gone(
        &mut self,
        now: Nanos,
        rule: RuleId,
        counts: RuleCounts,
        state: FlowState,
        commands: &mut Vec<OffloadCommand>,
    ) {
        let not_before = now + self.options.retry_after;
        if let Some(known) = self.owner(rule) {
            known.rule = None;
            known.state = state;
            known.not_before = not_before;
            self.counts.evicted += 1;
        }
        self.end(now, rule, counts, commands);
    }

    /// Takes the last counts of a rule.
    fn end(
        &mut self,
        now: Nanos,
        id: RuleId,
        counts: RuleCounts,
        commands: &mut Vec<OffloadCommand>,
    ) {
        let is_late = self.rules.get(&id).is_some_and(|rule| !rule.is_of_program);
        if let Some(rule) = self.rules.get_mut(&id) {
            rule.is_of_program = true;
        }
        let from = commands.len();
        self.credit(now, id, counts, commands);
        let rule = self.rules.remove(&id);
        let (true, Some(rule)) = (is_late, rule) else {
            return;
        };
        for command in commands.drain(from..) {
            if let OffloadCommand::Credit(credit) = command {
                let id = rule.id;
                self.late.push(Late { id, credit });
            }
        }
    }

    /// Returns the flow that a rule is the current one of.
    fn owner(&mut self, rule: RuleId) -> Option<&mut Known> {
        let id = self.rules.get(&rule)?.id;
        let known = self.known.get_mut(id)?;
        (known.rule == Some(rule)).then_some(known)
    }

    fn settle(
        &mut self,
        now: Nanos,
        rule: RuleId,
        state: FlowState,
        commands: &mut Vec<OffloadCommand>,
    ) {
        if let Some(rule) = self.rules.get_mut(&rule) {
            rule.is_added = true;
        }
        let not_before = now + self.options.retry_after;
        if let Some(known) = self.owner(rule) {
            if state == FlowState::NotInHardware {
                known.not_before = not_before;
            }
            known.state = state;
            known.since = now;
            return;
        }
        // Its flow has gone meanwhile. A successor that is not added yet replaces the rule.
        let successor = self.rules.get(&rule).and_then(|rule| rule.successor);
        let successor = successor.and_then(|successor| self.rules.get(&successor));
        if successor.is_none_or(|successor| successor.is_added) {
            commands.push(OffloadCommand::Remove(vec![rule]));
        }
    }

    /// Notes that a rule was not added. The rule that it should have replaced is not right now:
    /// it goes.
    fn is_not_added(
        &mut self,
        now: Nanos,
        rule: RuleId,
        state: FlowState,
        commands: &mut Vec<OffloadCommand>,
    ) {
        let not_before = match state {
            FlowState::Refused(_) => now + self.options.retry_after,
            _ => now,
        };
        if let Some(known) = self.owner(rule) {
            known.rule = None;
            known.state = state;
            known.not_before = not_before;
        }
        self.rules.remove(&rule);
        let olds = self.rules.iter_mut();
        let olds = olds.filter(|(_, old)| old.successor == Some(rule));
        let olds: Vec<RuleId> = olds
            .map(|(id, old)| {
                old.successor = None;
                *id
            })
            .collect();
        if !olds.is_empty() {
            commands.push(OffloadCommand::Remove(olds));
        }
    }

    /// Credits what a rule has counted since the last time.
    fn credit(
        &mut self,
        now: Nanos,
        id: RuleId,
        counts: RuleCounts,
        commands: &mut Vec<OffloadCommand>,
    ) {
        let rule = self.rules.get_mut(&id);
        let Some(rule) = rule.filter(|rule| rule.is_of_program) else {
            return;
        };
        // A target that starts again counts from zero.
        if counts.packets < rule.counts.packets {
            rule.counts = RuleCounts::default();
        }
        let packets = counts.packets - rule.counts.packets;
        let bytes = counts.bytes.saturating_sub(rule.counts.bytes);
        if packets == 0 {
            return;
        }
        rule.counts = counts;
        let last_use = counts.last_use.unwrap_or_default();
        let (flow, owner) = (Arc::clone(&rule.flow), rule.id);
        if let Some(known) = self.known.get_mut(owner) {
            known.in_target += packets;
            known.all_in_target += packets;
            known.counted = now;
            known.last_use = known.last_use.max(last_use);
        }
        commands.push(OffloadCommand::Credit(Credit {
            flow,
            packets,
            bytes,
            last_use,
        }));
    }
}

/// Joins commands of one kind: a target takes about as long for a batch as for a rule. Rules that
/// are right from now on come first.
fn in_batches(commands: Vec<OffloadCommand>) -> Vec<OffloadCommand> {
    let (mut replaced, mut removed) = (Vec::new(), Vec::new());
    let mut others = Vec::new();
    for command in commands {
        match command {
            OffloadCommand::Replace(rules) => replaced.extend(rules),
            OffloadCommand::Remove(rules) => removed.extend(rules),
            other => others.push(other),
        }
    }
    let mut joined = Vec::new();
    if !replaced.is_empty() {
        joined.push(OffloadCommand::Replace(replaced));
    }
    if !removed.is_empty() {
        joined.push(OffloadCommand::Remove(removed));
    }
    joined.extend(others);
    joined
}

fn rule_of(id: FlowId, flow: &Arc<Flow>) -> Rule {
    Rule {
        id,
        flow: Arc::clone(flow),
        counts: RuleCounts::default(),
        successor: None,
        is_added: false,
        is_of_program: true,
    }
}
