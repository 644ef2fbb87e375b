//! The plane: reports in, commands to elements out.

mod counts;
mod outputs;
mod restoration;
mod settings;
mod updates;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::net::Ipv4Addr;

use consensus::{
    ElementChange, ElementId, Key, LogIndex, Operation, RequestAnswer, Term, is_reserved,
};
use fabric::Topology;
use fabric::topology::SwitchId;
use packet::Nanos;
use support::rng::mix;
use telemetry::{Exporter, ReportView, SequenceTracker, TelemetryReport, datagram_digest};

use crate::classify::{ReportFacts, RuleSet};
use crate::decision::{DecidedChange, Decision, DecisionId, DecisionRefusal, Outcome, Subject};
use crate::detour_check::DetourCheck;
use crate::element::{ElementAnswer, WriteResult};
use crate::loops::{ElementDevice, ElementIndex, Loops, MonitorIndex, ReflexIndex, SourceIndex};
use crate::monitor::instances::Instances;
use crate::monitor::program::ProgramMonitor;
use crate::monitor::{Detector, Finding, MonitoredReport, Observation, Targets};
use crate::permission::{Permission, Wish};
use crate::settings::Settings;
use crate::store::{ReplicaGroup, RequestId, StoreEvent, StoreRefusal};
use crate::write::ElementWrite;

pub use self::counts::{MonitorCounts, PlaneCounts};
use self::outputs::PassedReports;
pub use self::settings::SetError;
pub use self::updates::ElementUpdate;
use self::updates::Updates;

/// Decisions that are kept; older ones are dropped and counted.
const MAX_DECISIONS: usize = 65_536;
/// Time without an answer, beyond the delays of the way, after which commands are sent again.
const RESEND: Nanos = Nanos::from_millis(1);
/// The same for a P4Runtime server: its connection loses no command, and its answer can take long.
const SERVER_RESEND: Nanos = Nanos::from_millis(1000);
/// Commands that are sent again at once.
const RESEND_COMMANDS: usize = 64;

/// A command for an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementCommand {
    /// The element.
    pub element: ElementIndex,
    /// Term of the leader that sends it.
    pub term: Term,
    /// The change.
    pub change: ElementChange,
}

struct Source {
    /// Exporters by their addresses: numbers of Report 0.5 have no node.
    tracker: SequenceTracker<(Ipv4Addr, Exporter)>,
}

struct Monitor {
    rules: RuleSet,
    instances: Instances,
    counts: MonitorCounts,
}

/// Changed decisions that are kept at most, if they are not taken.
const MAX_UPDATED: usize = 4096;

/// State of the commands to an element.
#[derive(Clone, Copy, Debug, Default)]
struct Delivery {
    /// Index of the newest change that was sent.
    newest: LogIndex,
    /// Index up to which the element has all.
    answered: LogIndex,
    /// Index up to which a confirmation was requested.
    confirming: LogIndex,
    /// Time at which what is not answered is sent again.
    deadline: Option<Nanos>,
    /// Index up to which changes were sent again, if there are more.
    more: Option<LogIndex>,
}

/// A change on its way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// The decision and its monitor. `None`: a place is restored at the end of its life.
    decision: Option<(DecisionId, MonitorIndex)>,
    write: ElementWrite,
}

/// The topology that detours are checked against, and the switches of elements.
struct Routes {
    check: DetourCheck,
    switches: Vec<SwitchId>,
    topology: Topology,
    /// Links that a setting takes out of use.
    down: BTreeSet<usize>,
}

/// A reflex plane without threads, clock and I/O. Times never decrease.
pub struct ReflexPlane {
    loops: Loops,
    sources: Vec<Source>,
    monitors: Vec<Monitor>,
    permissions: Vec<Permission>,
    routes: Option<Routes>,
    store: ReplicaGroup,
    deliveries: Vec<Delivery>,
    commands: VecDeque<ElementCommand>,
    decisions: VecDeque<Decision>,
    next_decision: u64,
    /// Changes that the store has not answered: their names and decisions.
    requests: HashMap<RequestId, (Key, Option<DecisionId>)>,
    /// Changes that the store has not committed, by name. A permission has one of a name.
    proposed: HashMap<Key, Pending>,
    /// Committed changes by element and index that are not answered, in order.
    sent: Vec<VecDeque<(LogIndex, Pending)>>,
    /// Another process leads.
    follows: bool,
    /// Time of the last step.
    stepped: Nanos,
    /// Term of a leader of this process that elements do not know yet.
    leading: Option<Term>,
    /// Updates of controllers.
    controllers: Updates,
    /// Answers to operations on keys.
    answers: VecDeque<(RequestId, RequestAnswer)>,
    counts: PlaneCounts,
    /// Sender of the last datagram that was not allowed or malformed.
    last_refused: Option<Ipv4Addr>,
    /// Decisions with a newer outcome that were not taken: at most [`MAX_UPDATED`].
    updated: Vec<DecisionId>,
    /// Writes that give the store what elements have, where they refused a change.
    repairs: Vec<ElementWrite>,
    settings: Settings,
    passed: PassedReports,
    /// Findings of one report: kept, so that a report needs no allocation.
    findings: Vec<Finding>,
}

impl ReflexPlane {
    /// Creates a plane. All memory of monitors is allocated at once.
    pub fn new(loops: Loops, now: Nanos) -> ReflexPlane {
        let store = ReplicaGroup::new(&loops.store, loops.seed, now);
        let store = store.expect("the check of the file limits the nodes of a store");
        ReflexPlane::with_store(loops, store)
    }

    /// Creates a plane with the replicas of its process.
    pub fn with_store(loops: Loops, store: ReplicaGroup) -> ReflexPlane {
        let seed = loops.seed;
        let sources = loops.sources.iter().map(|source| Source {
            tracker: SequenceTracker::new(64 * source.from.len()),
        });
        let monitors = (1..).zip(&loops.monitors).map(|(number, monitor)| Monitor {
            rules: RuleSet::new(&monitor.rules),
            instances: Instances::new(monitor, mix(seed ^ number)),
            counts: MonitorCounts::default(),
        });
        let permissions = loops.reflexes.iter().enumerate();
        let permissions = permissions.map(|(at, reflex)| {
            let node = loops.elements[reflex.element.0].node;
            Permission::new(ReflexIndex(at), reflex, node)
        });
        let elements = loops.elements.len();
        ReflexPlane {
            sources: sources.collect(),
            monitors: monitors.collect(),
            permissions: permissions.collect(),
            routes: None,
            store,
            deliveries: vec![Delivery::default(); elements],
            commands: VecDeque::new(),
            decisions: VecDeque::new(),
            next_decision: 0,
            requests: HashMap::new(),
            proposed: HashMap::new(),
            sent: vec![VecDeque::new(); elements],
            follows: false,
            stepped: Nanos::ZERO,
            leading: None,
            controllers: Updates::default(),
            answers: VecDeque::new(),
            counts: PlaneCounts::default(),
            last_refused: None,
            updated: Vec::new(),
            repairs: Vec::new(),
            settings: Settings::new(&loops),
            passed: PassedReports::default(),
            findings: Vec::new(),
            loops,
        }
    }

    /// Returns the declarations.
    pub fn loops(&self) -> &Loops {
        &self.loops
    }

    /// Has detours of flows checked against a topology ([`DetourCheck`]).
    ///
    /// # Errors
    /// The topology has no switch for this element.
    pub fn set_topology(&mut self, topology: &Topology) -> Result<(), ElementIndex> {
        let elements = self.loops.elements.iter().enumerate();
        let switches = elements.map(|(at, element)| {
            let mut switches = topology.switches.iter();
            // A P4Runtime server has the element's own name in the topology.
            let name = element.device.switch().unwrap_or(&element.name);
            let found = switches.position(|switch| switch.name == name);
            found.map(SwitchId).ok_or(ElementIndex(at))
        });
        self.routes = Some(Routes {
            switches: switches.collect::<Result<_, _>>()?,
            check: DetourCheck::new(topology),
            topology: topology.clone(),
            down: BTreeSet::new(),
        });
        self.settings.add_links(topology);
        Ok(())
    }

    /// Returns a monitor that is a P4 program. `None`: it is built in.
    pub fn program_mut(&mut self, monitor: MonitorIndex) -> Option<&mut ProgramMonitor> {
        match self.monitors[monitor.0].instances.first_mut() {
            Detector::Program(program) => Some(program),
            _ => None,
        }
    }

    /// Takes the payload of a datagram that arrived at a source.
    pub fn receive(&mut self, now: Nanos, source: SourceIndex, from: Ipv4Addr, payload: &[u8]) {
        self.counts.received += 1;
        let spec = &self.loops.sources[source.0];
        if spec.from.iter().all(|(_, address)| *address != from) {
            self.counts.not_allowed += 1;
            self.last_refused = Some(from);
            return;
        }
        let Ok(report) = TelemetryReport::parse(payload) else {
            self.counts.malformed += 1;
            self.last_refused = Some(from);
            return;
        };
        let exporter = report.header.exporter;
        // Report 0.5 has the node in its values, or has none.
        let first = report.individuals().next();
        let in_values = || first.and_then(|report| report.local_hop()?.node);
        let node = exporter.node.or_else(in_values);
        let mut allowed = spec.from.iter().filter(|(_, address)| *address == from);
        if node.is_some_and(|claimed| allowed.all(|(node, _)| *node != claimed)) {
            self.counts.not_allowed += 1;
            self.last_refused = Some(from);
            return;
        }
        let domain = spec.domain;
        let digest = datagram_digest(payload);
        let tracker = &mut self.sources[source.0].tracker;
        let header = report.header;
        let key = (from, exporter);
        let arrival = tracker.observe(key, header.version, header.sequence, digest);
        if arrival == telemetry::Arrival::Repeated {
            self.counts.repeated += 1;
            return;
        }
        self.counts.accepted += 1;
        for individual in report.individuals() {
            self.counts.reports += 1;
            let view = ReportView::new(exporter, &individual, &domain);
            let local = individual.local_hop();
            let interfaces = local.and_then(|hop| hop.interfaces);
            let facts = ReportFacts {
                flow: view.flow,
                node,
                ingress_port: interfaces.map(|ports| ports.ingress),
                egress_port: interfaces.map(|ports| ports.egress),
                queue: local.and_then(|hop| hop.queue).map(|queue| queue.id),
                drop_reason: individual.drop_record().map(|record| record.reason),
            };
            self.passed.look(&facts);
            let report = MonitoredReport::new(facts, &view, individual.packet_bytes());
            self.classify(now, &report);
        }
        self.passed.end(payload);
    }

    /// Gives a report to all monitors that it concerns.
    fn classify(&mut self, now: Nanos, report: &MonitoredReport<'_>) {
        let mut is_classified = false;
        for at in 0..self.monitors.len() {
            if self.monitors[at].rules.matches(&report.facts) {
                is_classified = true;
                self.observe(now, MonitorIndex(at), report);
            }
        }
        match is_classified {
            true => self.counts.classified += 1,
            false => self.counts.unclassified += 1,
        }
    }

    fn observe(&mut self, now: Nanos, index: MonitorIndex, report: &MonitoredReport<'_>) {
        let monitor = &mut self.monitors[index.0];
        let counts = &mut monitor.counts;
        counts.reports += 1;
        let mut findings = std::mem::take(&mut self.findings);
        match monitor.instances.observe(report, now, &mut findings) {
            Observation::Normal => counts.normal += 1,
            Observation::Alarm => counts.alarms += 1,
            Observation::NoPath => counts.no_path += 1,
            Observation::NoSample => counts.no_sample += 1,
            Observation::NoRoom => counts.no_room += 1,
        }
        for finding in findings.drain(..) {
            self.decide(now, index, &finding);
        }
        self.findings = findings;
    }

    /// Makes the decisions about a finding: one for each permission that it is for.
    fn decide(&mut self, now: Nanos, index: MonitorIndex, finding: &Finding) {
        let count = self.loops.monitors[index.0].reflexes.len();
        let Some(wish) = finding.wish.filter(|_| count > 0) else {
            self.record(now, index, finding, |_, _| Outcome::Reported);
            return;
        };
        match finding.targets {
            Targets::All => {
                for at in 0..count {
                    let reflex = self.loops.monitors[index.0].reflexes[at];
                    self.attempt(now, index, finding, Ok((reflex, wish)));
                }
            }
            Targets::FirstOf(nodes) => {
                let reflexes = self.loops.monitors[index.0].reflexes.iter();
                let of = |node| {
                    move |plane: &ReflexPlane, reflex: &&ReflexIndex| {
                        plane.permissions[reflex.0].node() == node
                    }
                };
                let mut found = None;
                for node in nodes.get().iter().map(|node| Some(*node)).chain([None]) {
                    found = found.or(reflexes.clone().find(|it| of(node)(self, it)));
                }
                let target = found.map(|reflex| (*reflex, wish));
                let target = target.ok_or(DecisionRefusal::NotOnPath);
                self.attempt(now, index, finding, target);
            }
            Targets::Of(place) => {
                let reflex = self.loops.monitors[index.0].reflexes.get(place);
                let target = reflex.map(|reflex| (*reflex, wish));
                let target = target.ok_or(DecisionRefusal::NotAllowed);
                self.attempt(now, index, finding, target);
            }
        }
    }

    /// Makes a decision by a permission.
    fn attempt(
        &mut self,
        now: Nanos,
        index: MonitorIndex,
        finding: &Finding,
        target: Result<(ReflexIndex, Wish), DecisionRefusal>,
    ) {
        self.record(now, index, finding, |plane, id| {
            let change = target.and_then(|(reflex, wish)| {
                plane.propose(now, (id, index), reflex, &finding.subject, &wish)
            });
            change.map_or_else(Outcome::Refused, Outcome::Made)
        });
    }

    /// Keeps a decision with its outcome. Those that are held or the same are only counted.
    fn record(
        &mut self,
        now: Nanos,
        index: MonitorIndex,
        finding: &Finding,
        outcome: impl FnOnce(&mut ReflexPlane, DecisionId) -> Outcome,
    ) {
        let id = DecisionId(self.next_decision + 1);
        let outcome = outcome(self, id);
        let counts = &mut self.monitors[index.0].counts;
        match outcome {
            Outcome::Reported => {}
            Outcome::Made(_) => counts.made += 1,
            Outcome::Refused(refusal) => {
                counts.refused[refusal as usize] += 1;
                if refusal == DecisionRefusal::Same {
                    return;
                }
                self.monitors[index.0].instances.refused();
                if refusal == DecisionRefusal::Held {
                    // An alarm lasts: one decision of each subject is kept, and not each packet's.
                    return;
                }
            }
        }
        self.next_decision = id.0;
        if self.decisions.len() >= MAX_DECISIONS {
            self.decisions.pop_front();
            self.counts.lost_decisions += 1;
        }
        self.decisions.push_back(Decision {
            id,
            at: now,
            monitor: index,
            subject: finding.subject,
            path: finding.path,
            measured: finding.measured,
            outcome,
        });
    }

    /// Requests a change at the store, if its permission allows it.
    fn propose(
        &mut self,
        now: Nanos,
        decision: (DecisionId, MonitorIndex),
        reflex: ReflexIndex,
        subject: &Subject,
        wish: &Wish,
    ) -> Result<DecidedChange, DecisionRefusal> {
        let is_unsafe = |port| self.is_unsafe(reflex, subject, port);
        let decided = self.permissions[reflex.0].decide(subject, wish, is_unsafe, now);
        let write = self.permissions[reflex.0].settle(subject, decided, now)?;
        let setting = write.setting.ok_or(DecisionRefusal::NoKey)?;
        self.request_write(&write, Some(decision))?;
        self.permissions[reflex.0].made(&write, now);
        Ok(DecidedChange {
            reflex,
            setting,
            log_index: None,
            committed: None,
            answered: None,
        })
    }

    /// Returns whether a port of a permission would send a flow into a loop or to nowhere.
    fn is_unsafe(&self, reflex: ReflexIndex, subject: &Subject, port: u32) -> bool {
        let (Some(routes), Some(flow)) = (&self.routes, subject.flow()) else {
            return false;
        };
        let switch_of = |permission: &Permission| routes.switches[permission.spec().element.0];
        let managed = |switch: SwitchId| {
            let mut own = self.permissions.iter().filter(|it| switch_of(it) == switch);
            own.find_map(|permission| permission.port_of(subject))
        };
        let own = switch_of(&self.permissions[reflex.0]);
        let way = routes.check.check((own, port), flow.destination, &managed);
        way.is_err()
    }

    /// Requests a write at the store.
    fn request_write(
        &mut self,
        write: &ElementWrite,
        decision: Option<(DecisionId, MonitorIndex)>,
    ) -> Result<(), DecisionRefusal> {
        let element = self.loops.reflexes[write.reflex.0].element;
        let name = write.name();
        let request = self.store.change(id_of(element), name, write.encode())?;
        let write = *write;
        let id = decision.map(|(id, _)| id);
        self.requests.insert(request, (name, id));
        let pending = Pending { decision, write };
        self.proposed.insert(name, pending);
        Ok(())
    }

    /// Does all work that is due at `now`.
    pub fn step(&mut self, now: Nanos) {
        self.stepped = now;
        self.end_lives(now);
        self.repair();
        self.store.step(now);
        self.look_at_settings(now);
        while let Some(event) = self.store.next_event() {
            match event {
                StoreEvent::Change(term, change) => self.changed(now, term, change),
                StoreEvent::Committed(id) => {
                    self.controllers.committed(id);
                    if let Some((name, decision)) = self.requests.remove(&id) {
                        if let Some(decision) = decision {
                            self.update(decision, |made| made.committed = Some(now));
                        }
                        self.leave_to_leader(&name);
                    }
                }
                StoreEvent::Answered(id, answer) => self.answers.push_back((id, answer)),
                StoreEvent::Full(id) => {
                    self.controllers.full(id);
                    let request = self.requests.remove(&id);
                    let pending = request.and_then(|(name, _)| self.proposed.remove(&name));
                    if let Some(pending) = pending {
                        self.refuse(&pending, DecisionRefusal::StoreFull);
                    }
                }
                StoreEvent::Leading => {
                    self.follows = false;
                    self.leading = self.store.leading().map(|(_, term)| term);
                    self.adopt_entries(now);
                    self.send_all_again(now);
                }
            }
        }
        self.follow();
        for at in 0..self.deliveries.len() {
            if self.deliveries[at]
                .deadline
                .is_some_and(|deadline| deadline <= now)
            {
                self.send_again(now, ElementIndex(at));
            }
        }
    }

    /// Ends what this process knows of a committed change if the leader is in another one, which
    /// sends it to the element.
    fn leave_to_leader(&mut self, name: &Key) {
        let is_left = self.store.leading().is_none() && self.follows;
        if (is_left || self.other_leads())
            && let Some(pending) = self.proposed.remove(name)
        {
            self.left(&pending);
        }
    }

    fn left(&mut self, pending: &Pending) {
        let ReflexIndex(reflex) = pending.write.reflex;
        self.permissions[reflex].left(&pending.write);
    }

    fn other_leads(&self) -> bool {
        self.store.leading().is_none() && self.store.other_leader().is_some()
    }

    /// Leaves all committed changes to a leader in another process when it begins to lead.
    fn follow(&mut self) {
        let follows = self.other_leads();
        let begins = follows && !self.follows;
        if follows || self.store.leading().is_some() {
            self.follows = follows;
        }
        if !begins {
            return;
        }
        for at in 0..self.sent.len() {
            while let Some((_, pending)) = self.sent[at].pop_front() {
                self.left(&pending);
            }
            (self.deliveries[at].deadline, self.deliveries[at].more) = (None, None);
        }
        let waits: HashSet<Key> = self.requests.values().map(|(name, _)| *name).collect();
        let committed = self.proposed.extract_if(|name, _| !waits.contains(name));
        for (_, pending) in committed.collect::<Vec<_>>() {
            self.left(&pending);
        }
        self.permissions.iter_mut().for_each(Permission::follow);
        for write in self.repairs.drain(..) {
            // The leader knows what the element has.
            self.permissions[write.reflex.0].left(&write);
        }
    }

    /// Counts the entries of the store in their permissions.
    fn adopt_entries(&mut self, now: Nanos) {
        for at in 0..self.deliveries.len() {
            let element = id_of(ElementIndex(at));
            for change in self.store.changes_of(element) {
                let write = change.change.and_then(|it| ElementWrite::decode(it.get()));
                let Some(write) = write else { continue };
                if let Some(permission) = self.permissions.get_mut(write.reflex.0) {
                    permission.adopt(&write, now);
                }
            }
        }
    }

    /// Sends a committed change to its element. If it is of another process, it rules here, too.
    fn changed(&mut self, now: Nanos, term: Term, change: ElementChange) {
        let Some(element) = self.index_of(change.element) else {
            return;
        };
        if change.index <= self.store.confirmed(change.element) {
            // A leader that started again applies its log: the element had this change, and what
            // came of it since is sent from the state. Its life begins again.
            self.deliveries[element.0].deadline = Some(now);
        } else if self.send(now, element, term, change) {
            return;
        }
        let Some(bytes) = change.change else {
            let permissions = self.permissions.iter_mut();
            permissions
                .filter(|it| it.spec().element == element)
                .for_each(|permission| permission.removed(&change.key));
            return;
        };
        if let Some(write) = ElementWrite::decode(bytes.get())
            && let Some(permission) = self.permissions.get_mut(write.reflex.0)
        {
            permission.adopt(&write, now);
        }
    }

    /// Sends a change. A leader before this one may have committed it. Returns true if it is one of
    /// this process that was under way.
    fn send(
        &mut self,
        now: Nanos,
        element: ElementIndex,
        term: Term,
        change: ElementChange,
    ) -> bool {
        // Another change of the name may be committed while one of this process waits.
        let own = self.proposed.get(&change.key);
        let is_own = own.is_some_and(|own| own.write.encode() == change.change);
        if is_own && let Some(pending) = self.proposed.remove(&change.key) {
            let ReflexIndex(reflex) = pending.write.reflex;
            self.permissions[reflex].committed(&pending.write, now);
            if pending.write.setting.is_some() {
                self.sent[element.0].push_back((change.index, pending));
            }
            if let Some((decision, _)) = pending.decision {
                self.update(decision, |made| made.log_index = Some(change.index));
            }
        }
        let spec = &self.loops.elements[element.0];
        let resend = match spec.device {
            ElementDevice::Switch(_) => spec.delay + spec.delay + RESEND,
            ElementDevice::P4Runtime(_) => SERVER_RESEND,
        };
        let delivery = &mut self.deliveries[element.0];
        delivery.newest = delivery.newest.max(change.index);
        delivery.deadline = Some(now + resend);
        self.counts.commands += 1;
        self.commands.push_back(ElementCommand {
            element,
            term,
            change,
        });
        is_own
    }

    fn send_all_again(&mut self, now: Nanos) {
        for at in 0..self.deliveries.len() {
            self.send_again(now, ElementIndex(at));
        }
    }

    /// Sends the changes again that an element has not answered.
    fn send_again(&mut self, now: Nanos, element: ElementIndex) {
        let delivery = &mut self.deliveries[element.0];
        (delivery.deadline, delivery.more) = (None, None);
        let mut after = delivery.answered;
        for sent in 0.. {
            let Some((term, change)) = self.store.change_after(id_of(element), after) else {
                break;
            };
            if sent == RESEND_COMMANDS {
                self.deliveries[element.0].more = Some(after);
                break;
            }
            after = change.index;
            self.counts.resent += 1;
            self.send(now, element, term, change);
        }
        let delivery = &mut self.deliveries[element.0];
        if delivery.answered < delivery.newest && delivery.deadline.is_none() {
            // No node leads now.
            delivery.deadline = Some(now + RESEND);
        }
    }

    /// Takes an element's answer to a command.
    pub fn answer(&mut self, now: Nanos, element: ElementIndex, answer: ElementAnswer) {
        let (index, last) = match answer {
            ElementAnswer::Has(index, last) => (index, last),
            // A leader of a later term is there, and sends again.
            ElementAnswer::OldTerm(_) => return,
            ElementAnswer::Restarted => {
                let delivery = &mut self.deliveries[element.0];
                (delivery.answered, delivery.newest) = (LogIndex(0), LogIndex(0));
                self.send_again(now, element);
                return;
            }
        };
        let delivery = &mut self.deliveries[element.0];
        if index <= delivery.answered {
            return;
        }
        delivery.answered = index;
        if delivery.answered >= delivery.newest {
            delivery.deadline = None;
        }
        while let Some((sent, pending)) = self.sent[element.0].front().copied()
            && sent <= index
        {
            self.sent[element.0].pop_front();
            // The answer has the result of the last change; those before it were answered, or
            // their answers were lost.
            let result = match sent == index {
                true => last,
                false => WriteResult::Applied,
            };
            match result {
                WriteResult::Applied => {
                    let ReflexIndex(reflex) = pending.write.reflex;
                    self.permissions[reflex].done(&pending.write);
                    if let Some((decision, _)) = pending.decision {
                        self.update(decision, |made| made.answered = Some(now));
                    }
                }
                WriteResult::Refused => self.refuse(&pending, DecisionRefusal::SwitchRefused),
                WriteResult::Unknown => self.refuse(&pending, DecisionRefusal::WrongKey),
            }
        }
        let delivery = &mut self.deliveries[element.0];
        if delivery.confirming < index && self.store.confirm(id_of(element), index).is_ok() {
            delivery.confirming = index;
        }
        if delivery.more.is_some_and(|more| more <= index) {
            self.send_again(now, element);
        }
    }

    /// Turns a change that was made into a refusal.
    fn refuse(&mut self, pending: &Pending, refusal: DecisionRefusal) {
        let ReflexIndex(reflex) = pending.write.reflex;
        self.permissions[reflex].undone(&pending.write);
        let Some((decision, monitor)) = pending.decision else {
            return;
        };
        if refusal != DecisionRefusal::StoreFull {
            // The store has it, and the element does not.
            self.repairs
                .extend(self.permissions[reflex].repair(pending.write.place));
        }
        let monitor = &mut self.monitors[monitor.0];
        monitor.instances.refused();
        monitor.counts.made -= 1;
        monitor.counts.refused[refusal as usize] += 1;
        if let Some(outcome) = self.outcome(decision) {
            *outcome = Outcome::Refused(refusal);
        }
    }

    /// Changes a decision that is on its way, unless it was dropped.
    fn update(&mut self, id: DecisionId, change: impl FnOnce(&mut DecidedChange)) {
        if let Some(Outcome::Made(made)) = self.outcome(id) {
            change(made);
        }
    }

    fn outcome(&mut self, id: DecisionId) -> Option<&mut Outcome> {
        let place = self
            .decisions
            .binary_search_by_key(&id, |decision| decision.id);
        let place = place.ok()?;
        if self.updated.len() < MAX_UPDATED {
            self.updated.push(id);
        }
        Some(&mut self.decisions[place].outcome)
    }

    /// Returns the decision with a number, unless it was dropped or is only counted.
    pub fn decision(&self, id: DecisionId) -> Option<&Decision> {
        let place = self
            .decisions
            .binary_search_by_key(&id, |decision| decision.id);
        self.decisions.get(place.ok()?)
    }

    /// Returns true if an element has all changes of the store, which a leader of this process has
    /// committed.
    pub fn is_settled(&self, element: ElementIndex) -> bool {
        let answered = self.deliveries[element.0].answered;
        self.store.leads_with_all() && self.store.change_after(id_of(element), answered).is_none()
    }

    /// Returns the term of a leader of this process, once.
    pub fn take_leading(&mut self) -> Option<Term> {
        self.leading.take()
    }

    /// Requests an operation of a user on a key of the store. [`ReflexPlane::next_answer`] has the
    /// answer.
    ///
    /// # Errors
    /// The store takes no request now, or the key is one of the plane's own.
    pub fn request(&mut self, operation: Operation) -> Result<RequestId, StoreRefusal> {
        let key = match &operation {
            Operation::Get(key)
            | Operation::Put(key, _)
            | Operation::Delete(key)
            | Operation::CompareAndSet { key, .. } => Some(key),
            _ => None,
        };
        if key.is_some_and(is_reserved) {
            return Err(StoreRefusal::Reserved);
        }
        self.store.request(operation)
    }

    /// Returns the next answer to an operation on a key.
    pub fn next_answer(&mut self) -> Option<(RequestId, RequestAnswer)> {
        self.answers.pop_front()
    }

    /// Passes each command to `take`, in order.
    pub fn drain_commands(&mut self, mut take: impl FnMut(ElementCommand)) {
        while let Some(command) = self.commands.pop_front() {
            take(command);
        }
    }

    /// Returns the decisions, oldest first. Those that were `held` or `same` are only counted.
    pub fn decisions(&self) -> impl DoubleEndedIterator<Item = &Decision> {
        self.decisions.iter()
    }

    /// Returns the time of the next action without a report.
    pub fn next_time(&self) -> Nanos {
        let deadlines = self.deliveries.iter().filter_map(|it| it.deadline);
        let is_leading = self.store.leading().is_some();
        let permissions = self.permissions.iter().filter(|_| is_leading);
        let ends = permissions.filter_map(Permission::next_time);
        // Lives that ended while no node of this process led end with the next step.
        let ends = ends.map(|end| end.max(self.stepped));
        deadlines
            .chain(ends)
            .fold(self.store.next_time(), Nanos::min)
    }

    /// Returns the sender of the last datagram that was not allowed or malformed.
    pub fn last_refused(&self) -> Option<Ipv4Addr> {
        self.last_refused
    }

    /// Takes the decisions with a new outcome since the last call. `None`: there were too many
    /// to keep, so any may have changed.
    pub fn take_updated(&mut self) -> Option<Vec<DecisionId>> {
        let updated = std::mem::take(&mut self.updated);
        (updated.len() < MAX_UPDATED).then_some(updated)
    }

    /// Returns the store.
    pub fn store(&self) -> &ReplicaGroup {
        &self.store
    }

    /// Returns the store, for messages of other processes and for tests of faults.
    pub fn store_mut(&mut self) -> &mut ReplicaGroup {
        &mut self.store
    }

    fn index_of(&self, element: ElementId) -> Option<ElementIndex> {
        let at = (element.0 as usize).checked_sub(1)?;
        (at < self.deliveries.len()).then_some(ElementIndex(at))
    }
}

impl From<StoreRefusal> for DecisionRefusal {
    fn from(refusal: StoreRefusal) -> DecisionRefusal {
        match refusal {
            StoreRefusal::NoLeader => DecisionRefusal::NoQuorum,
            StoreRefusal::Busy => DecisionRefusal::Busy,
            // Decisions have no keys of users.
            StoreRefusal::Disk | StoreRefusal::Reserved => DecisionRefusal::Disk,
        }
    }
}

/// Returns an element's number in the store, from 1.
fn id_of(element: ElementIndex) -> ElementId {
    ElementId(element.0 as u32 + 1)
}
