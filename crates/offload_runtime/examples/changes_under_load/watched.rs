//! The model NIC with a record of what it was asked for.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use offload::{Flow, NotOffloadable, RuleCapacity, RuleId, Target, TargetEvent};
use offload_runtime::SharedNic;
use packet::Nanos;

/// Record of the requests to a target.
#[derive(Default)]
pub(crate) struct Seen {
    flows: HashMap<RuleId, Arc<Flow>>,
    /// Matches and effects of rules that were removed.
    removed: HashSet<String>,
    /// Rules that were added after the same rule had been removed.
    pub(crate) flaps: u64,
    /// Rules that replaced the same ones.
    pub(crate) needless: u64,
    /// Time of the last replacement, and that at which its last rule was there.
    pub(crate) replaced: Option<Instant>,
    pub(crate) added: Option<Instant>,
    awaited: Option<RuleId>,
}

/// The model NIC with its record.
pub(crate) struct Watched {
    pub(crate) nic: SharedNic,
    pub(crate) seen: Arc<Mutex<Seen>>,
}

pub(crate) fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().expect("no panic")
}

/// Returns what a rule matches and does.
fn rule_text(flow: &Flow) -> String {
    format!("{:?} {:?} {:?}", flow.ingress, flow.matched, flow.steps)
}

impl Target for Watched {
    fn name(&self) -> &str {
        self.nic.name()
    }

    fn capacity(&self) -> RuleCapacity {
        self.nic.capacity()
    }

    fn counts_delay(&self) -> Nanos {
        self.nic.counts_delay()
    }

    fn can(&self, flow: &Flow) -> Result<(), NotOffloadable> {
        self.nic.can(flow)
    }

    fn add(&mut self, now: Nanos, rules: Vec<(RuleId, Arc<Flow>)>) {
        let mut seen = lock(&self.seen);
        for (id, flow) in &rules {
            seen.flaps += u64::from(seen.removed.remove(&rule_text(flow)));
            seen.flows.insert(*id, Arc::clone(flow));
        }
        self.nic.add(now, rules);
    }

    fn replace(&mut self, now: Nanos, rules: Vec<(RuleId, RuleId, Arc<Flow>)>) {
        let mut seen = lock(&self.seen);
        for (old, new, flow) in &rules {
            let before = seen.flows.remove(old);
            let is_same = before.is_some_and(|before| rule_text(&before) == rule_text(flow));
            seen.needless += u64::from(is_same);
            seen.flows.insert(*new, Arc::clone(flow));
            seen.awaited = Some(*new);
        }
        seen.replaced = Some(Instant::now());
        self.nic.replace(now, rules);
    }

    fn remove(&mut self, now: Nanos, rules: &[RuleId]) {
        let mut seen = lock(&self.seen);
        for id in rules {
            if let Some(flow) = seen.flows.remove(id) {
                seen.removed.insert(rule_text(&flow));
            }
        }
        self.nic.remove(now, rules);
    }

    fn read(&mut self, now: Nanos, rules: &[RuleId]) {
        self.nic.read(now, rules);
    }

    fn poll(&mut self, now: Nanos, events: &mut Vec<TargetEvent>) {
        let from = events.len();
        self.nic.poll(now, events);
        let mut seen = lock(&self.seen);
        for event in &events[from..] {
            if let TargetEvent::Added(id, _) = event
                && seen.awaited == Some(*id)
            {
                seen.added = Some(Instant::now());
            }
        }
    }

    fn next_time(&self) -> Option<Nanos> {
        self.nic.next_time()
    }
}
