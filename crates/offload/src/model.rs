//! A NIC in memory, with a clock, a capacity, latencies and faults: the target of tests and
//! experiments.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use packet::{Nanos, PortId};
use support::rng::Rng;

#[cfg(target_os = "linux")]
use crate::flow::Step;
use crate::flow::{Flow, NotOffloadable};
use crate::index::FlowIndex;
use crate::target::{Placed, RuleCapacity, RuleCounts, RuleId, Target, TargetEvent};
#[cfg(target_os = "linux")]
use crate::tc::{TranslateOptions, translate};

/// Properties of a [`ModelNic`].
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// Number of rules that it holds.
    pub rules: u32,
    /// Time of a batch of additions (τadd), and of each rule in it.
    pub add: BatchTime,
    /// Time of a batch of removals (τdel), and of each rule in it.
    pub remove: BatchTime,
    /// Time until counts that were asked for arrive.
    pub read: Nanos,
    /// Period in which packets are added to the counts that can be read.
    pub counts_period: Nanos,
    /// Faults.
    pub faults: Faults,
    /// Seed of the faults.
    pub seed: u64,
    /// Largest number of steps of a flow.
    pub most_steps: usize,
    /// If set, the NIC refuses the flows for which there is no rule of TC flower under these facts,
    /// as an interface of the kernel does.
    #[cfg(target_os = "linux")]
    pub as_tc: Option<TranslateOptions>,
}

/// Time of a batch: the batch itself and each of its rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTime {
    /// Once.
    pub batch: Nanos,
    /// For each rule.
    pub each: Nanos,
}

/// Faults: how many of a thousand rules have each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The rule is refused.
    pub refused: u32,
    /// The rule is refused long after the request, at [`LATE`] times the usual time.
    pub refused_late: u32,
    /// The rule is accepted, and the hardware does not have it.
    pub not_in_hardware: u32,
    /// The rule is accepted, and matches no packet.
    pub dead: u32,
    /// The rule is removed some time after it was added, with an event.
    pub evicted: u32,
    /// The rule is removed some time after it was added, without an event.
    pub evicted_silently: u32,
}

/// Factor of the time after which a late refusal comes.
pub const LATE: u64 = 20;

impl Default for ModelConfig {
    /// OVS-POF-TC's NIC: 4,800 rules, 22.5 ms for a batch in and 25.3 ms for a batch out.
    fn default() -> ModelConfig {
        ModelConfig {
            rules: 4_800,
            add: BatchTime {
                batch: Nanos::from_micros(22_500),
                each: Nanos::ZERO,
            },
            remove: BatchTime {
                batch: Nanos::from_micros(25_300),
                each: Nanos::ZERO,
            },
            read: Nanos::from_millis(1),
            counts_period: Nanos::ZERO,
            faults: Faults::default(),
            seed: 1,
            most_steps: 64,
            #[cfg(target_os = "linux")]
            as_tc: None,
        }
    }
}

/// A fault of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Refused,
    RefusedLate,
    NotInHardware,
    Dead,
    Evicted,
    EvictedSilently,
}

/// A rule that the NIC has.
#[derive(Debug)]
struct Rule {
    flow: Arc<Flow>,
    placed: Placed,
    is_dead: bool,
    counts: RuleCounts,
    /// Counts that can be read, and the period in which they were noted.
    shown: RuleCounts,
    period: u64,
}

/// Work that the NIC does at a time.
#[derive(Debug)]
enum Work {
    Add(RuleId, Arc<Flow>, Fault),
    Replace(RuleId, RuleId, Arc<Flow>, Fault),
    Remove(RuleId),
    Refuse(RuleId),
    Evict(RuleId, bool),
    Read(RuleId),
}

/// A batch of work.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    time: BatchTime,
    begin: Nanos,
    end: Nanos,
}

/// A NIC in memory.
#[derive(Debug)]
pub struct ModelNic {
    config: ModelConfig,
    rng: Rng,
    rules: BTreeMap<RuleId, Rule>,
    /// The rules that match packets.
    index: FlowIndex<RuleId>,
    /// Work by its time, in order of the requests.
    due: BTreeMap<Nanos, VecDeque<Work>>,
    /// The last batch. Requests of the same times join it as long as it has not begun, so that a
    /// stream of small requests does not take the time of a batch each.
    last: Batch,
    /// Rules that are being added.
    adding: u32,
}

impl ModelConfig {
    /// Checks whether a NIC of this kind can have a rule for a flow.
    ///
    /// # Errors
    /// A reason if it cannot.
    pub fn can(&self, flow: &Flow) -> Result<(), NotOffloadable> {
        #[cfg(target_os = "linux")]
        if let Some(options) = &self.as_tc {
            let outputs = flow.steps.iter().filter_map(|step| match step {
                Step::Output(port) => Some(*port),
                Step::Edit(_) => None,
            });
            // Each port has an interface of its own.
            let interfaces = outputs.zip(1..).collect();
            translate(flow, &interfaces, options)?;
        }
        match flow.steps.len() <= self.most_steps {
            true => Ok(()),
            false => Err(NotOffloadable::Target(format!(
                "the model NIC has room for {} steps of a flow, and this one has {}",
                self.most_steps,
                flow.steps.len()
            ))),
        }
    }
}

impl ModelNic {
    /// Creates a NIC without rules.
    pub fn new(config: ModelConfig) -> ModelNic {
        ModelNic {
            rng: Rng::new(config.seed),
            config,
            rules: BTreeMap::new(),
            index: FlowIndex::default(),
            due: BTreeMap::new(),
            last: Batch::default(),
            adding: 0,
        }
    }

    /// Processes a packet at a time up to which [`Target::poll`] has run. Returns what is sent, or
    /// `None` if no rule matches it: then it is for the software.
    pub fn process(
        &mut self,
        now: Nanos,
        ingress: PortId,
        frame: &[u8],
    ) -> Option<Vec<(PortId, Vec<u8>)>> {
        let period = self.period(now);
        // Of a rule and its successor the older one counts.
        let fits = |id: &RuleId| self.rules[id].flow.matches(ingress, frame);
        let id = self.index.candidates(ingress, frame).filter(fits).min()?;
        let rule = self.rules.get_mut(&id)?;
        rule.show(period);
        rule.counts.packets += 1;
        rule.counts.bytes += frame.len() as u64;
        rule.counts.last_use = Some(now);
        Some(rule.flow.apply(frame))
    }

    /// Returns the rules that match packets.
    pub fn active(&self) -> impl Iterator<Item = (RuleId, &Arc<Flow>)> {
        let rules = self.rules.iter().filter(|(_, rule)| rule.is_active());
        rules.map(|(id, rule)| (*id, &rule.flow))
    }

    /// Removes a rule at once without an event. Returns true if there was one.
    pub fn evict_silently(&mut self, id: RuleId) -> bool {
        self.drop_rule(id).is_some()
    }

    fn period(&self, now: Nanos) -> u64 {
        now.0
            .checked_div(self.config.counts_period.0)
            .unwrap_or(now.0)
    }

    fn fault(&mut self) -> Fault {
        let faults = self.config.faults;
        let all = [
            (faults.refused, Fault::Refused),
            (faults.refused_late, Fault::RefusedLate),
            (faults.not_in_hardware, Fault::NotInHardware),
            (faults.dead, Fault::Dead),
            (faults.evicted, Fault::Evicted),
            (faults.evicted_silently, Fault::EvictedSilently),
        ];
        let mut draw = self.rng.below(1_000) as u32;
        for (times, fault) in all {
            if draw < times {
                return fault;
            }
            draw -= times;
        }
        Fault::None
    }

    /// Schedules a batch: each work at its time.
    fn batch(&mut self, now: Nanos, time: BatchTime, works: impl IntoIterator<Item = Work>) {
        let joins = now < self.last.begin && self.last.time == time;
        if !joins {
            let begin = self.last.end.max(now);
            let end = begin + time.batch;
            self.last = Batch { time, begin, end };
        }
        let mut at = self.last.end;
        for work in works {
            at += time.each;
            let is_late = match &work {
                Work::Add(_, _, fault) | Work::Replace(_, _, _, fault) => {
                    *fault == Fault::RefusedLate
                }
                _ => false,
            };
            let taken = at.0.saturating_sub(now.0).max(1);
            let at = if is_late {
                Nanos(now.0 + LATE * taken)
            } else {
                at
            };
            self.due.entry(at).or_default().push_back(work);
        }
        self.last.end = at;
    }

    fn run(&mut self, now: Nanos, work: Work, events: &mut Vec<TargetEvent>) {
        match work {
            Work::Add(id, flow, fault) => {
                self.adding -= 1;
                self.put(now, id, flow, fault, events);
            }
            Work::Replace(old, new, flow, fault) => {
                self.adding -= 1;
                let has_room = (self.rules.len() as u32) < self.config.rules;
                if !has_room {
                    self.take(old, events);
                }
                if self.put(now, new, flow, fault, events) && has_room {
                    self.take(old, events);
                }
            }
            Work::Remove(id) => {
                if !self.take(id, events) {
                    events.push(TargetEvent::Removed(id, RuleCounts::default()));
                }
            }
            Work::Refuse(id) => events.push(TargetEvent::Refused(id, words())),
            Work::Evict(id, is_silent) => {
                if let Some(rule) = self.drop_rule(id)
                    && !is_silent
                {
                    events.push(TargetEvent::Evicted(id, rule.counts));
                }
            }
            Work::Read(id) => {
                let period = self.period(now);
                let counts = self.rules.get_mut(&id).map(|rule| {
                    rule.show(period);
                    rule.shown
                });
                // A rule that was evicted silently still answers, as drivers do.
                let counts = counts.unwrap_or_default();
                events.push(TargetEvent::Counts(id, now, counts));
            }
        }
    }

    /// Adds a rule. Returns true if it is there then.
    fn put(
        &mut self,
        now: Nanos,
        id: RuleId,
        flow: Arc<Flow>,
        fault: Fault,
        events: &mut Vec<TargetEvent>,
    ) -> bool {
        if matches!(fault, Fault::Refused | Fault::RefusedLate) {
            self.run(now, Work::Refuse(id), events);
            return false;
        }
        if self.rules.len() as u32 >= self.config.rules {
            events.push(TargetEvent::Full(id));
            return false;
        }
        let placed = match fault {
            Fault::NotInHardware => Placed::NotInHardware,
            _ => Placed::InHardware,
        };
        let rule = Rule {
            flow,
            placed,
            is_dead: fault == Fault::Dead,
            counts: RuleCounts::default(),
            shown: RuleCounts::default(),
            period: self.period(now),
        };
        if rule.is_active() {
            self.index.insert(&rule.flow, id);
        }
        self.rules.insert(id, rule);
        events.push(TargetEvent::Added(id, placed));
        if matches!(fault, Fault::Evicted | Fault::EvictedSilently) {
            let after = Nanos(now.0 + 1 + self.rng.below(2_000_000_000));
            let work = Work::Evict(id, fault == Fault::EvictedSilently);
            self.due.entry(after).or_default().push_back(work);
        }
        true
    }

    fn drop_rule(&mut self, id: RuleId) -> Option<Rule> {
        let rule = self.rules.remove(&id)?;
        self.index.remove(&rule.flow, id);
        Some(rule)
    }

    /// Removes a rule. Returns true if it was there.
    fn take(&mut self, id: RuleId, events: &mut Vec<TargetEvent>) -> bool {
        let rule = self.drop_rule(id);
        if let Some(rule) = &rule {
            events.push(TargetEvent::Removed(id, rule.counts));
        }
        rule.is_some()
    }
}

fn words() -> String {
    "the model NIC refuses this rule".to_owned()
}

impl Rule {
    /// Returns true if it matches packets.
    fn is_active(&self) -> bool {
        self.placed == Placed::InHardware && !self.is_dead
    }

    /// Makes the counts of earlier periods readable.
    fn show(&mut self, period: u64) {
        if period > self.period {
            self.period = period;
            self.shown = self.counts;
        }
    }
}

impl Target for ModelNic {
    fn name(&self) -> &str {
        "model"
    }

    fn capacity(&self) -> RuleCapacity {
        RuleCapacity {
            rules: Some(self.config.rules),
            used: self.rules.len() as u32 + self.adding,
        }
    }

    fn counts_delay(&self) -> Nanos {
        self.config.read + self.config.counts_period
    }

    fn can(&self, flow: &Flow) -> Result<(), NotOffloadable> {
        self.config.can(flow)
    }

    fn add(&mut self, now: Nanos, rules: Vec<(RuleId, Arc<Flow>)>) {
        self.adding += rules.len() as u32;
        let works: Vec<Work> = rules
            .into_iter()
            .map(|(id, flow)| Work::Add(id, flow, self.fault()))
            .collect();
        self.batch(now, self.config.add, works);
    }

    fn replace(&mut self, now: Nanos, rules: Vec<(RuleId, RuleId, Arc<Flow>)>) {
        self.adding += rules.len() as u32;
        let works: Vec<Work> = rules
            .into_iter()
            .map(|(old, new, flow)| Work::Replace(old, new, flow, self.fault()))
            .collect();
        self.batch(now, self.config.add, works);
    }

    fn remove(&mut self, now: Nanos, rules: &[RuleId]) {
        let works = rules.iter().map(|id| Work::Remove(*id));
        self.batch(now, self.config.remove, works);
    }

    fn read(&mut self, now: Nanos, rules: &[RuleId]) {
        let works = rules.iter().map(|id| Work::Read(*id));
        let at = now + self.config.read;
        self.due.entry(at).or_default().extend(works);
    }

    fn poll(&mut self, now: Nanos, events: &mut Vec<TargetEvent>) {
        while let Some(mut first) = self.due.first_entry().filter(|first| *first.key() <= now) {
            let at = *first.key();
            match first.get_mut().pop_front() {
                Some(work) => self.run(at, work, events),
                None => {
                    first.remove();
                }
            }
        }
    }

    fn next_time(&self) -> Option<Nanos> {
        self.due.keys().next().copied()
    }
}
