//! The thread that writes rules: it carries out requests in batches and keeps interfaces in view.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netlink_packet_route::tc::{TcHandle, TcMessage};
use packet::Nanos;

use super::cookie::{cookie, rule_of};
use super::ports::Ports;
use super::priority::Priorities;
use super::queue::{Queued, Shared};
use super::rule::{FlowerRule, RulePlanes};
use super::session::{Installed, RulePlace, Session, TcError, TcRequest, decoded};
use super::target::TcTargetOptions;
use super::{codec, probe};
use crate::flow::Flow;
use crate::target::{Placed, RuleCounts, RuleId, TargetEvent};

/// Largest number of requests that are sent with one system call. Their answers fit in the receive
/// queue of a kernel with default limits.
const MAX_BATCH: usize = 64;

/// Time that a batch of additions should take, so that a change waits no longer than that.
const BATCH_TIME: Duration = Duration::from_millis(5);

/// Number of times that a rule is written or removed again after an answer that leaves its state
/// open.
const TRIES: usize = 3;

type Answer = Result<Option<Installed>, TcError>;

/// A rule that the kernel has.
struct Held {
    place: RulePlace,
    rule: FlowerRule,
    flow: Arc<Flow>,
}

/// A rule that is being added.
struct Fresh {
    id: RuleId,
    interface: u32,
    rule: FlowerRule,
    flow: Arc<Flow>,
    /// The rule that it replaces.
    old: Option<RuleId>,
    /// An answer was lost: the kernel may have it.
    is_unsure: bool,
}

/// A request that waits for its first answers.
enum Plan {
    /// One answer: that of the addition.
    Add(Fresh),
    /// Two answers: those of the addition and of the old rule.
    Exchange(Fresh, RuleId),
    /// One answer: the old rule, which has the new one's keys.
    InPlace(Fresh, RuleId),
    /// One answer: the old rule.
    Remove(RuleId),
    /// One answer: the rule.
    Check(RuleId),
}

/// A request that waits for its second answer.
enum Ending {
    /// The rule was removed.
    Removed(RuleId, RuleCounts),
    /// The rule was replaced in its place.
    Replaced(Fresh, RuleId, RuleCounts),
}

/// State of a rule that was read.
enum Found {
    /// It is there, as it was written or changed by others.
    Ours {
        counts: RuleCounts,
        is_changed: bool,
    },
    /// It is not there.
    Gone,
    /// The kernel's answer leaves it open.
    Unsure,
}

/// State of the thread.
pub(super) struct Writer {
    session: Session,
    shared: Arc<Shared>,
    options: Arc<TcTargetOptions>,
    ports: Ports,
    rules: HashMap<RuleId, Held>,
    priorities: BTreeMap<u32, Priorities>,
    /// Interfaces on which the place for rules was made here.
    made: BTreeSet<u32>,
    /// Rules that the kernel did not remove.
    stuck: BTreeSet<RuleId>,
    /// Number of additions of a batch that take about [`BATCH_TIME`].
    additions: usize,
    events: Vec<TargetEvent>,
}

impl Writer {
    /// Prepares interfaces and removes own rules of earlier processes, on all interfaces of the
    /// network namespace. Returns the writer and the number of rules that were removed.
    ///
    /// # Errors
    /// An error of the kernel.
    pub(super) fn open(
        mut session: Session,
        options: &Arc<TcTargetOptions>,
    ) -> Result<(Writer, Arc<Shared>), TcError> {
        let ports = Ports::open(&mut session, &options.ports, options.planes)?;
        let removed = remove_all(&mut session, options.owner)?;
        let counts = super::TcCounts {
            removed_at_start: removed,
            ..super::TcCounts::default()
        };
        let shared = Arc::new(Shared::new(Arc::new(ports.clone()), counts));
        let mut writer = Writer {
            session,
            shared: Arc::clone(&shared),
            options: Arc::clone(options),
            ports,
            rules: HashMap::new(),
            priorities: BTreeMap::new(),
            made: BTreeSet::new(),
            stuck: BTreeSet::new(),
            additions: MAX_BATCH,
            events: Vec::new(),
        };
        match writer.prepare() {
            Ok(()) => {
                shared.publish_ports(writer.ports.clone());
                Ok((writer, shared))
            }
            Err(error) => {
                // The places that were made; the error says more than one of theirs.
                let _ = writer.clear();
                Err(error)
            }
        }
    }

    /// Runs until the owner stops it, then removes all that it made.
    pub(super) fn run(mut self) {
        let period = Duration::from_nanos(self.options.check_period.0);
        let mut checked = Instant::now();
        loop {
            let wait = period.saturating_sub(checked.elapsed());
            let Some(round) = self.shared.next_round(wait, MAX_BATCH / 2, self.additions) else {
                break;
            };
            self.round(round.urgent);
            let begin = Instant::now();
            let count = round.additions.len();
            self.round(round.additions);
            self.measure(count, begin.elapsed());
            if checked.elapsed() >= period {
                checked = Instant::now();
                self.check();
                self.publish();
            }
        }
        let error = self.clear().err();
        self.shared.lock().error = error;
    }

    /// Adjusts the size of batches of additions to the target's speed.
    fn measure(&mut self, count: usize, time: Duration) {
        if count == 0 {
            return;
        }
        let each = (time / count as u32).max(Duration::from_micros(1));
        let fitting = BATCH_TIME.as_nanos() / each.as_nanos();
        self.additions = usize::try_from(fitting)
            .unwrap_or(MAX_BATCH)
            .clamp(1, MAX_BATCH);
    }

    fn publish(&mut self) {
        self.shared.publish(&mut self.events);
    }

    /// Carries out requests that depend on different rules.
    fn round(&mut self, requests: Vec<Queued>) {
        if requests.is_empty() {
            return;
        }
        let (mut plans, mut first) = (Vec::new(), Vec::new());
        for request in requests {
            self.plan(request, &mut plans, &mut first);
        }
        let mut answers = self.session.batch(first).into_iter();
        let mut answer = move || answers.next().unwrap_or(Err(TcError::Lost));
        let (mut endings, mut second, mut again) = (Vec::new(), Vec::new(), Vec::new());
        for plan in plans {
            match plan {
                Plan::Add(fresh) => {
                    self.take_addition(fresh, answer(), &mut again);
                }
                Plan::Exchange(fresh, old) => {
                    let added = self.take_addition(fresh, answer(), &mut again);
                    let found = self.found(old, answer());
                    match found {
                        Found::Ours { counts, .. } if added => {
                            let place = self.rules.get(&old).map(|held| held.place);
                            second.extend(place.map(TcRequest::Delete));
                            endings.push(Ending::Removed(old, counts));
                        }
                        Found::Gone if added => self.gone(old, RuleCounts::default()),
                        _ if added => self.remove(old),
                        // The old rule stays until its owner removes it, or the new one has room.
                        _ => {}
                    }
                }
                Plan::InPlace(fresh, old) => {
                    match (self.found(old, answer()), self.rules.get(&old)) {
                        (Found::Ours { counts, .. }, Some(held)) => {
                            second.push(TcRequest::Replace(held.place, fresh.rule.clone()));
                            endings.push(Ending::Replaced(fresh, old, counts));
                        }
                        (Found::Unsure, _) => again.push(fresh),
                        _ => {
                            self.gone(old, RuleCounts::default());
                            again.push(fresh);
                        }
                    }
                }
                Plan::Remove(id) => match (self.found(id, answer()), self.rules.get(&id)) {
                    (Found::Ours { counts, .. }, Some(held)) => {
                        second.push(TcRequest::Delete(held.place));
                        endings.push(Ending::Removed(id, counts));
                    }
                    (Found::Unsure, Some(_)) => self.remove(id),
                    _ => self.gone(id, RuleCounts::default()),
                },
                Plan::Check(id) => self.checked(id, answer()),
            }
        }
        let mut answers = self.session.batch(second).into_iter();
        for ending in endings {
            let answer = answers.next().unwrap_or(Err(TcError::Lost));
            match ending {
                Ending::Removed(id, counts) => match answer {
                    Ok(last) => {
                        let last = last.map(|last| self.counts_of(&last));
                        self.gone(id, last.unwrap_or(counts));
                    }
                    Err(error) if error.is_gone() => self.gone(id, counts),
                    Err(_) => self.remove(id),
                },
                Ending::Replaced(fresh, old, counts) => {
                    self.take_replacement(fresh, old, counts, answer, &mut again);
                }
            }
        }
        for fresh in again {
            self.add_alone(fresh);
        }
        self.publish();
    }

    fn plan(&mut self, request: Queued, plans: &mut Vec<Plan>, first: &mut Vec<TcRequest>) {
        match request {
            Queued::Add(id, flow) => {
                if let Some(fresh) = self.fresh(id, flow, None) {
                    first.push(TcRequest::Add(fresh.interface, fresh.rule.clone()));
                    plans.push(Plan::Add(fresh));
                }
            }
            Queued::Replace(old, new, flow) => {
                let Some(fresh) = self.fresh(new, flow, Some(old)) else {
                    return;
                };
                let Some(held) = self.rules.get(&old) else {
                    first.push(TcRequest::Add(fresh.interface, fresh.rule.clone()));
                    plans.push(Plan::Add(fresh));
                    return;
                };
                let is_same = held.place.interface == fresh.interface
                    && held.rule.priority == fresh.rule.priority
                    && held.rule.keys == fresh.rule.keys;
                if is_same {
                    first.push(TcRequest::Read(held.place));
                    plans.push(Plan::InPlace(fresh, old));
                } else {
                    first.push(TcRequest::Add(fresh.interface, fresh.rule.clone()));
                    first.push(TcRequest::Read(held.place));
                    plans.push(Plan::Exchange(fresh, old));
                }
            }
            Queued::Remove(id) => match self.rules.get(&id) {
                Some(held) => {
                    first.push(TcRequest::Read(held.place));
                    plans.push(Plan::Remove(id));
                }
                None => self.gone(id, RuleCounts::default()),
            },
            Queued::Check(id) => {
                if let Some(held) = self.rules.get(&id) {
                    first.push(TcRequest::Read(held.place));
                    plans.push(Plan::Check(id));
                }
            }
            Queued::Stray(id, place) => {
                if !self.rules.contains_key(&id) {
                    self.remove_stray(id, place);
                }
            }
        }
    }

    /// Translates a flow and gives its rule a priority and a cookie.
    fn fresh(&mut self, id: RuleId, flow: Arc<Flow>, old: Option<RuleId>) -> Option<Fresh> {
        let (interface, mut rule) = match self.ports.translate(&flow) {
            Ok(translated) => translated,
            Err(reason) => {
                self.refuse(id, reason.to_string());
                return None;
            }
        };
        let Some(priorities) = self.priorities.get_mut(&interface) else {
            // Priorities of other owners are not known.
            let words = "the interface could not be prepared for rules so far";
            self.refuse(id, words.to_owned());
            return None;
        };
        let Some(priority) = priorities.of(&rule) else {
            let words = "no priority is left: each set of masks has one of its own";
            self.refuse(id, words.to_owned());
            return None;
        };
        rule.priority = priority;
        rule.cookie = cookie(self.options.owner, id);
        Some(Fresh {
            id,
            interface,
            rule,
            flow,
            old,
            is_unsure: false,
        })
    }

    /// Takes the answer of an addition. Returns true if the rule is there.
    fn take_addition(&mut self, mut fresh: Fresh, answer: Answer, again: &mut Vec<Fresh>) -> bool {
        match answer {
            Ok(Some(installed)) => self.hold(fresh, installed),
            Ok(None) | Err(TcError::Overrun { .. } | TcError::Malformed(_)) => {
                self.shared.count(|counts| counts.overruns += 1);
                fresh.is_unsure = true;
                again.push(fresh);
                false
            }
            Err(error) => {
                let waits_for_old = is_full(&error) && self.has(fresh.old);
                match waits_for_old || is_in_the_way(&error) {
                    true => again.push(fresh),
                    false => self.not_added(fresh, &error),
                }
                false
            }
        }
    }

    fn has(&self, id: Option<RuleId>) -> bool {
        id.is_some_and(|id| self.rules.contains_key(&id))
    }

    fn take_replacement(
        &mut self,
        mut fresh: Fresh,
        old: RuleId,
        counts: RuleCounts,
        answer: Answer,
        again: &mut Vec<Fresh>,
    ) {
        match answer {
            Ok(Some(installed)) => {
                self.forget(old);
                self.hold(fresh, installed);
                self.events.push(TargetEvent::Removed(old, counts));
            }
            Ok(None) | Err(TcError::Overrun { .. } | TcError::Malformed(_)) => {
                self.shared.count(|counts| counts.overruns += 1);
                fresh.is_unsure = true;
                again.push(fresh);
            }
            Err(error) if is_full(&error) || is_in_the_way(&error) => again.push(fresh),
            Err(error) if error.is_gone() => {
                self.gone(old, counts);
                again.push(fresh);
            }
            Err(error) => self.not_added(fresh, &error),
        }
    }

    /// Adds a rule by requests of its own. The rule that it replaces goes first if there is no room
    /// or if it has the same keys.
    fn add_alone(&mut self, mut fresh: Fresh) {
        let mut error = TcError::Lost;
        for _ in 0..TRIES {
            if fresh.is_unsure {
                match self.find(&fresh) {
                    Ok(Some(installed)) => {
                        let old = fresh.old;
                        if self.hold(fresh, installed) {
                            old.into_iter().for_each(|old| self.remove_if_held(old));
                        }
                        return;
                    }
                    Ok(None) => fresh.is_unsure = false,
                    Err(other) => {
                        error = other;
                        match error {
                            TcError::Malformed(_) => break,
                            _ => continue,
                        }
                    }
                }
            }
            match self.session.add(fresh.interface, &fresh.rule) {
                Ok(installed) => {
                    let old = fresh.old;
                    if self.hold(fresh, installed) {
                        old.into_iter().for_each(|old| self.remove_if_held(old));
                    }
                    return;
                }
                Err(other) => error = other,
            }
            if is_foreign_priority(&error) {
                if !self.move_priority(&mut fresh) {
                    break;
                }
            } else if is_unprepared(&error) {
                match self.session.prepare(fresh.interface) {
                    Ok(true) => drop(self.made.insert(fresh.interface)),
                    Ok(false) => {}
                    Err(_) => break,
                }
            } else if self.has(fresh.old) && (is_full(&error) || is_there(&error)) {
                fresh.old.into_iter().for_each(|old| self.remove(old));
            } else if matches!(error, TcError::Lost) {
                // The answer was lost, and the rule is not there.
            } else {
                fresh.is_unsure = !matches!(error, TcError::Refused { .. });
                if !fresh.is_unsure {
                    break;
                }
            }
        }
        self.not_added(fresh, &error);
    }

    /// Leaves a priority to another owner. Returns true if the rule has another one.
    fn move_priority(&mut self, fresh: &mut Fresh) -> bool {
        let Some(priorities) = self.priorities.get_mut(&fresh.interface) else {
            return false;
        };
        // Several rules of a batch can find it taken.
        if priorities.exclude(fresh.rule.priority) {
            self.shared.count(|counts| counts.priorities_left += 1);
        }
        let priority = priorities.of(&fresh.rule);
        fresh.rule.priority = priority.unwrap_or(fresh.rule.priority);
        priority.is_some()
    }

    /// Finds a rule by its cookie. One that cannot be read is removed, and is an error.
    fn find(&mut self, fresh: &Fresh) -> Result<Option<Installed>, TcError> {
        let (side, chain) = (TcHandle::MIN_INGRESS, fresh.rule.chain);
        let there = self.session.filters(fresh.interface, side, Some(chain))?;
        let is_own = |message: &&TcMessage| codec::cookie_of(message) == Some(fresh.rule.cookie);
        let Some(message) = there.iter().find(is_own) else {
            return Ok(None);
        };
        let what = match decoded(message) {
            Ok(Some(installed)) => return Ok(Some(installed)),
            Ok(None) => "the rule's echo is another rule".to_owned(),
            Err(error) => error.to_string(),
        };
        self.session.delete(codec::place_of(message))?;
        Err(TcError::Malformed(what))
    }

    /// Notes a rule that the kernel has. Returns false if it is not the rule that was asked for:
    /// then it is removed.
    fn hold(&mut self, fresh: Fresh, installed: Installed) -> bool {
        let place = RulePlace {
            interface: fresh.interface,
            chain: installed.rule.chain,
            priority: installed.rule.priority,
            protocol: installed.rule.protocol,
            handle: installed.handle,
        };
        let is_right = installed.rule == fresh.rule;
        let (id, old) = (fresh.id, fresh.old);
        let held = Held {
            place,
            rule: fresh.rule,
            flow: fresh.flow,
        };
        // A rule that was replaced in its place is there no more.
        let replaced = old.filter(|old| {
            let held = self.rules.get(old);
            held.is_some_and(|held| held.place == place)
        });
        self.rules.insert(id, held);
        replaced
            .into_iter()
            .for_each(|old| self.gone(old, RuleCounts::default()));
        if !is_right {
            self.remove_silently(id);
            self.refuse(
                id,
                "the kernel has another rule than was asked for".to_owned(),
            );
            return false;
        }
        let placed = match installed.in_hardware {
            true => Placed::InHardware,
            false => Placed::NotInHardware,
        };
        self.shared.count(|counts| counts.added += 1);
        self.events.push(TargetEvent::Added(id, placed));
        true
    }

    fn not_added(&mut self, fresh: Fresh, error: &TcError) {
        self.give_back(fresh.interface, &fresh.rule);
        if is_full(error) {
            self.shared.count(|counts| counts.full += 1);
            return self.events.push(TargetEvent::Full(fresh.id));
        }
        let words = match error {
            TcError::Refused {
                words: Some(words),
                source,
                ..
            } => format!("{words} ({source})"),
            other => other.to_string(),
        };
        self.refuse(fresh.id, words);
    }

    fn refuse(&mut self, id: RuleId, words: String) {
        self.shared.count(|counts| counts.refused += 1);
        self.events.push(TargetEvent::Refused(id, words));
    }

    /// Returns what an answer says about a rule. A place can have another rule by now.
    fn found(&self, id: RuleId, answer: Answer) -> Found {
        let Some(held) = self.rules.get(&id) else {
            return Found::Gone;
        };
        match answer {
            Ok(Some(there)) if there.rule.cookie == held.rule.cookie => Found::Ours {
                counts: self.counts_of(&there),
                is_changed: there.rule != held.rule,
            },
            Ok(_) => Found::Gone,
            Err(error) if error.is_gone() => Found::Gone,
            Err(_) => Found::Unsure,
        }
    }

    fn counts_of(&self, installed: &Installed) -> RuleCounts {
        counts_at(self.shared.now(), installed)
    }

    /// Takes the state of a rule that was not in a list.
    fn checked(&mut self, id: RuleId, answer: Answer) {
        match self.found(id, answer) {
            Found::Ours {
                counts,
                is_changed: false,
            } => {
                let now = self.shared.now();
                self.events.push(TargetEvent::Counts(id, now, counts));
            }
            Found::Ours { counts, .. } => {
                self.remove_silently(id);
                self.lose(id, counts, "the kernel has another rule in its place");
            }
            Found::Gone => {
                self.forget(id);
                self.lose(
                    id,
                    RuleCounts::default(),
                    "another program removed its rule",
                );
            }
            // The next list says more.
            Found::Unsure => {}
        }
    }

    fn lose(&mut self, id: RuleId, counts: RuleCounts, words: &str) {
        self.shared.count(|counts| counts.lost += 1);
        self.events
            .push(TargetEvent::Lost(id, counts, words.to_owned()));
    }

    /// Notes that a rule is not there.
    fn gone(&mut self, id: RuleId, counts: RuleCounts) {
        self.forget(id);
        self.events.push(TargetEvent::Removed(id, counts));
    }

    fn forget(&mut self, id: RuleId) {
        self.stuck.remove(&id);
        if let Some(held) = self.rules.remove(&id) {
            self.give_back(held.place.interface, &held.rule);
        }
    }

    fn give_back(&mut self, interface: u32, rule: &FlowerRule) {
        if let Some(priorities) = self.priorities.get_mut(&interface) {
            priorities.give_back(rule);
        }
    }

    fn remove_if_held(&mut self, id: RuleId) {
        if self.rules.contains_key(&id) {
            self.remove(id);
        }
    }

    /// Removes a rule by requests of its own. One that the kernel does not remove is tried again.
    fn remove(&mut self, id: RuleId) {
        match self.take_away(id) {
            Some(counts) => self.gone(id, counts),
            None => drop(self.stuck.insert(id)),
        }
    }

    /// Removes a rule without a result for its owner.
    fn remove_silently(&mut self, id: RuleId) {
        match self.take_away(id) {
            Some(_) => self.forget(id),
            None => drop(self.stuck.insert(id)),
        }
    }

    /// Removes a rule from the kernel. Returns its last counts, or `None` if it is still there.
    fn take_away(&mut self, id: RuleId) -> Option<RuleCounts> {
        let place = self.rules.get(&id)?.place;
        let mut last = RuleCounts::default();
        for _ in 0..TRIES {
            let read = self.session.read(place);
            match self.found(id, read) {
                Found::Ours { counts, .. } => last = counts,
                Found::Gone => return Some(last),
                Found::Unsure if self.has_cookie(place, id) => {}
                Found::Unsure => continue,
            }
            match self.session.delete(place) {
                Ok(()) => return Some(last),
                Err(error) if error.is_gone() => return Some(last),
                Err(_) => {}
            }
        }
        None
    }

    /// Removes an own rule that no one knows.
    fn remove_stray(&mut self, id: RuleId, place: RulePlace) {
        if self.has_cookie(place, id) && self.session.delete(place).is_ok() {
            self.shared.count(|counts| counts.strays += 1);
        }
    }

    /// Returns true if an own rule of this number is at a place, readable or not.
    fn has_cookie(&mut self, place: RulePlace, id: RuleId) -> bool {
        let own = cookie(self.options.owner, id);
        let there = self.session.cookie_at(place);
        there.is_ok_and(|there| there == Some(own))
    }

    /// Looks at interfaces, and takes away the rules that are not right on them any more.
    fn check(&mut self) {
        let before = self.ports.clone();
        if self.ports.refresh(&mut self.session).is_err() {
            self.shared.count(|counts| counts.failed_lists += 1);
            return;
        }
        if self.ports != before {
            self.recheck();
            self.shared.publish_ports(self.ports.clone());
        }
        let before = self.ports.clone();
        if self.prepare().is_err() {
            self.shared.count(|counts| counts.failed_lists += 1);
        }
        if self.ports != before {
            self.shared.publish_ports(self.ports.clone());
        }
        let stuck: Vec<RuleId> = self.stuck.iter().copied().collect();
        for id in stuck {
            self.remove_if_held(id);
        }
        let stuck = self.stuck.len() as u64;
        self.shared.count(|counts| counts.stuck = stuck);
    }

    /// Takes away the rules that are not exact on the interfaces as they are now.
    fn recheck(&mut self) {
        let reason = |held: &Held| match self.ports.translate(&held.flow) {
            Err(reason) => Some(reason.to_string()),
            Ok((interface, rule)) => {
                let is_same = interface == held.place.interface
                    && rule.keys == held.rule.keys
                    && rule.actions == held.rule.actions;
                (!is_same).then(|| "an interface of it is another one now".to_owned())
            }
        };
        let rules = self.rules.iter();
        let wrong: Vec<(RuleId, String)> = rules
            .filter(|(id, _)| !self.stuck.contains(id))
            .filter_map(|(id, held)| Some((*id, reason(held)?)))
            .collect();
        for (id, words) in wrong {
            match self.take_away(id) {
                Some(counts) => {
                    self.forget(id);
                    self.lose(id, counts, &words);
                }
                None => drop(self.stuck.insert(id)),
            }
        }
        let there: BTreeSet<u32> = self.ports.indices().collect();
        self.priorities
            .retain(|interface, _| there.contains(interface));
        self.made.retain(|interface| there.contains(interface));
    }

    /// Makes places for rules where there are none, and notes the priorities of other owners. An
    /// interface's error does not stop the others.
    ///
    /// # Errors
    /// The first error. The interface gets no rules until it is prepared later.
    fn prepare(&mut self) -> Result<(), TcError> {
        let there: BTreeSet<u32> = self.session.prepared()?.into_iter().collect();
        let indices: Vec<u32> = self.ports.indices().collect();
        let mut result = Ok(());
        for interface in indices {
            let prepared = self.prepare_interface(interface, there.contains(&interface));
            result = result.and(prepared);
        }
        result
    }

    fn prepare_interface(&mut self, interface: u32, has_place: bool) -> Result<(), TcError> {
        if !has_place && self.session.prepare(interface)? {
            self.made.insert(interface);
        }
        if !self.priorities.contains_key(&interface) {
            let mut priorities = Priorities::new(self.options.first_priority);
            let side = TcHandle::MIN_INGRESS;
            for filter in self.session.filters(interface, side, None)? {
                priorities.exclude(codec::place_of(&filter).priority);
            }
            self.ask(interface, &priorities);
            self.priorities.insert(interface, priorities);
        }
        Ok(())
    }

    /// Asks whether the driver of an interface takes rules, if they must be in hardware.
    fn ask(&mut self, interface: u32, priorities: &Priorities) {
        let priority = priorities.free();
        if let (RulePlanes::Hardware, Some(priority)) = (self.options.planes, priority) {
            let owner = self.options.owner;
            let refusal = probe::refusal(&mut self.session, interface, priority, owner);
            self.ports.set_refusal(interface, refusal.as_ref());
        }
    }

    /// Removes all rules and the empty places that were made here. An interface's error does not
    /// stop the others.
    ///
    /// # Errors
    /// [`TcError::Stuck`], or the first error about a place.
    fn clear(&mut self) -> Result<(), TcError> {
        let rules: Vec<RuleId> = self.rules.keys().copied().collect();
        for part in rules.chunks(MAX_BATCH) {
            self.round(part.iter().map(|id| Queued::Remove(*id)).collect());
        }
        let mut result = Ok(());
        for interface in std::mem::take(&mut self.made) {
            let mut is_empty = true;
            for side in [TcHandle::MIN_INGRESS, TcHandle::MIN_EGRESS] {
                let filters = self.session.filters(interface, side, None);
                is_empty &= filters.is_ok_and(|filters| filters.is_empty());
            }
            if is_empty {
                let removed = match self.session.unprepare(interface) {
                    Err(error) if error.is_gone() => Ok(()),
                    removed => removed,
                };
                result = result.and(removed);
            }
        }
        match self.rules.is_empty() {
            true => result,
            false => Err(TcError::Stuck(self.rules.len())),
        }
    }
}

/// Returns a rule's counts of both planes. `now` is the owner's time.
pub(super) fn counts_at(now: Nanos, installed: &Installed) -> RuleCounts {
    let counts = &installed.counts;
    let packets = counts.hardware_packets + counts.software_packets;
    let idle = counts.idle_ms.saturating_mul(1_000_000);
    RuleCounts {
        packets,
        bytes: counts.hardware_bytes + counts.software_bytes,
        last_use: (packets > 0).then(|| Nanos(now.0.saturating_sub(idle))),
    }
}

/// Removes the rules of an owner from all interfaces of the network namespace. Returns their
/// number.
///
/// # Errors
/// [`TcError::Stuck`] if rules are still there after several tries.
fn remove_all(session: &mut Session, owner: u32) -> Result<u64, TcError> {
    let (mut removed, mut left) = (0, 0);
    for interface in session.prepared()? {
        let mut places = own_places(session, interface, owner)?;
        let mut seen: HashSet<RulePlace> = places.iter().copied().collect();
        for _ in 0..TRIES {
            if places.is_empty() {
                break;
            }
            for part in places.chunks(MAX_BATCH) {
                let requests = part.iter().map(|place| TcRequest::Delete(*place));
                for answer in session.batch(requests.collect()) {
                    match answer {
                        // The next list says whether it is there.
                        Ok(_) | Err(TcError::Overrun { .. } | TcError::Malformed(_)) => {}
                        Err(error) if error.is_gone() => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            places = own_places(session, interface, owner)?;
            seen.extend(&places);
        }
        left += places.len();
        removed += (seen.len() - places.len()) as u64;
    }
    match left {
        0 => Ok(removed),
        left => Err(TcError::Stuck(left)),
    }
}

/// Returns the places of an owner's rules on an interface.
fn own_places(
    session: &mut Session,
    interface: u32,
    owner: u32,
) -> Result<Vec<RulePlace>, TcError> {
    let filters = session.filters(interface, TcHandle::MIN_INGRESS, None)?;
    let own = filters.iter().filter(|filter| {
        let cookie = codec::cookie_of(filter);
        cookie.is_some_and(|cookie| rule_of(owner, &cookie).is_some())
    });
    Ok(own.map(codec::place_of).collect())
}

/// Error numbers.
const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;

fn is_full(error: &TcError) -> bool {
    error.refusal() == Some(ENOSPC)
}

/// Returns true if another rule has the same keys.
fn is_there(error: &TcError) -> bool {
    error.refusal() == Some(EEXIST)
}

/// Returns true if the kernel may take the rule after other requests.
fn is_in_the_way(error: &TcError) -> bool {
    is_there(error) || is_foreign_priority(error) || is_unprepared(error)
}

fn has_words(error: &TcError, wanted: &[&str]) -> bool {
    let TcError::Refused {
        words: Some(words), ..
    } = error
    else {
        return false;
    };
    wanted.iter().any(|wanted| words.contains(wanted))
}

/// Returns true if the priority has rules of another protocol or classifier: the kernel's words of
/// `tc_new_tfilter`.
fn is_foreign_priority(error: &TcError) -> bool {
    const WORDS: [&str; 2] = [
        "Filter with specified priority/protocol not found",
        "Specified filter kind does not match existing one",
    ];
    has_words(error, &WORDS)
}

/// Returns true if the interface has no place for rules.
fn is_unprepared(error: &TcError) -> bool {
    has_words(
        error,
        &["Parent Qdisc doesn't exists", "Cannot find specified qdisc"],
    )
}
