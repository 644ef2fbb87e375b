//! What the owner of a target and its threads share: requests, results, and the time.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use packet::Nanos;

use super::ports::Ports;
use super::session::{RulePlace, TcError};
use crate::flow::Flow;
use crate::target::{RuleId, TargetEvent};

/// Numbers of what a [`TcTarget`](super::TcTarget) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcCounts {
    /// Own rules of an earlier process that were removed when the target was opened.
    pub removed_at_start: u64,
    /// Rules that were added or replaced.
    pub added: u64,
    /// Rules that were refused, by the kernel, a driver or the translation.
    pub refused: u64,
    /// Rules for which there was no room.
    pub full: u64,
    /// Rules that another owner, the kernel or a change of an interface took away.
    pub lost: u64,
    /// Answers of the kernel that did not fit in the receive queue. The rules were read instead.
    pub overruns: u64,
    /// Lists of rules that could not be read. They are read again.
    pub failed_lists: u64,
    /// Rules that are being removed: the kernel has refused it so far, and is asked each second.
    pub stuck: u64,
    /// Priorities that were left to another owner's rules.
    pub priorities_left: u64,
    /// Own rules that no one knew, and that were removed.
    pub strays: u64,
}

/// A request of the owner, or of the thread that reads counts.
#[derive(Debug)]
pub(super) enum Queued {
    Add(RuleId, Arc<Flow>),
    Replace(RuleId, RuleId, Arc<Flow>),
    Remove(RuleId),
    /// The rule was not in a list, which can be incomplete.
    Check(RuleId),
    /// A list had an own rule of this number. It may be one that no one knows.
    Stray(RuleId, RulePlace),
}

impl Queued {
    /// Returns the rules on which the request depends or that it makes.
    fn rules(&self) -> [RuleId; 2] {
        match self {
            Queued::Add(id, _) | Queued::Remove(id) | Queued::Check(id) | Queued::Stray(id, _) => {
                [*id, *id]
            }
            Queued::Replace(old, new, _) => [*old, *new],
        }
    }
}

/// State that is shared, with the wake-ups of both threads.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    writer: Condvar,
    reader: Condvar,
    /// There are results or other ports than those that the owner has seen.
    is_news: AtomicBool,
    /// Number of calls of [`Shared::read`] that are done.
    done_reads: AtomicU64,
}

pub(super) struct Inner {
    /// Changes and removals: they come first, since rules are wrong until they are done.
    urgent: VecDeque<Queued>,
    /// Additions, and what depends on one of them.
    additions: VecDeque<Queued>,
    /// Rules of `additions`, with their numbers of requests.
    adding: HashMap<RuleId, u32>,
    reads: BTreeSet<RuleId>,
    /// Number of calls of [`Shared::read`].
    asked_reads: u64,
    events: Vec<TargetEvent>,
    pub(super) ports: Arc<Ports>,
    pub(super) counts: TcCounts,
    /// The owner's time at an instant.
    clock: (Nanos, Instant),
    is_stopped: bool,
    /// Error with which the writer has ended.
    pub(super) error: Option<TcError>,
}

/// Work for the thread that writes rules.
pub(super) struct Round {
    pub(super) urgent: Vec<Queued>,
    pub(super) additions: Vec<Queued>,
}

/// Work for the thread that reads counts.
pub(super) struct Reading {
    pub(super) rules: BTreeSet<RuleId>,
    pub(super) interfaces: Vec<u32>,
    /// Number of calls of [`Shared::read`] that it answers, with those before.
    pub(super) number: u64,
}

impl Shared {
    pub(super) fn new(ports: Arc<Ports>, counts: TcCounts) -> Shared {
        let inner = Inner {
            urgent: VecDeque::new(),
            additions: VecDeque::new(),
            adding: HashMap::new(),
            reads: BTreeSet::new(),
            asked_reads: 0,
            events: Vec::new(),
            ports,
            counts,
            clock: (Nanos::ZERO, Instant::now()),
            is_stopped: false,
            error: None,
        };
        Shared {
            inner: Mutex::new(inner),
            writer: Condvar::new(),
            reader: Condvar::new(),
            is_news: AtomicBool::new(true),
            done_reads: AtomicU64::new(0),
        }
    }

    /// Locks what is shared. No system call is made under the lock.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives requests to the writer. Additions beyond `most` that wait come back.
    pub(super) fn push(
        &self,
        now: Nanos,
        requests: impl IntoIterator<Item = Queued>,
        most: usize,
    ) -> Vec<Queued> {
        let mut inner = self.lock();
        inner.clock = (now, Instant::now());
        let mut rejected = Vec::new();
        for request in requests {
            let waits = request
                .rules()
                .iter()
                .any(|id| inner.adding.contains_key(id));
            if matches!(request, Queued::Add(..)) || waits {
                if matches!(request, Queued::Add(..)) && inner.additions.len() >= most {
                    rejected.push(request);
                    continue;
                }
                for id in request.rules() {
                    *inner.adding.entry(id).or_default() += 1;
                }
                inner.additions.push_back(request);
            } else {
                inner.urgent.push_back(request);
            }
        }
        drop(inner);
        self.writer.notify_one();
        rejected
    }

    /// Asks for counts. Returns the number of the call; see [`Shared::done_reads`].
    pub(super) fn read(&self, now: Nanos, rules: &[RuleId]) -> u64 {
        let mut inner = self.lock();
        inner.clock = (now, Instant::now());
        inner.reads.extend(rules);
        inner.asked_reads += 1;
        let number = inner.asked_reads;
        drop(inner);
        self.reader.notify_one();
        number
    }

    /// Returns the number of the last call of [`Shared::read`] that is done.
    pub(super) fn done_reads(&self) -> u64 {
        self.done_reads.load(Ordering::Acquire)
    }

    /// Notes that a reading is done: its results are published.
    pub(super) fn end_reading(&self, number: u64) {
        self.done_reads.store(number, Ordering::Release);
    }

    /// Waits for work of the writer, up to a time. `None` when it must end.
    pub(super) fn next_round(
        &self,
        wait: Duration,
        most: usize,
        additions: usize,
    ) -> Option<Round> {
        let mut inner = self.lock();
        if inner.urgent.is_empty() && inner.additions.is_empty() && !inner.is_stopped {
            let waited = self.writer.wait_timeout(inner, wait);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if inner.is_stopped {
            return None;
        }
        let inner = &mut *inner;
        let urgent = independent(&mut inner.urgent, most);
        let additions = independent(&mut inner.additions, additions);
        for id in additions.iter().flat_map(Queued::rules) {
            if let Some(requests) = inner.adding.get_mut(&id) {
                *requests -= 1;
                if *requests == 0 {
                    inner.adding.remove(&id);
                }
            }
        }
        Some(Round { urgent, additions })
    }

    /// Waits for rules to read. `None` when the reader must end.
    pub(super) fn next_reading(&self) -> Option<Reading> {
        let mut inner = self.lock();
        while inner.asked_reads == self.done_reads() && !inner.is_stopped {
            let waited = self.reader.wait(inner);
            inner = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if inner.is_stopped {
            return None;
        }
        Some(Reading {
            rules: std::mem::take(&mut inner.reads),
            interfaces: inner.ports.indices().collect(),
            number: inner.asked_reads,
        })
    }

    /// Gives results to the owner.
    pub(super) fn publish(&self, events: &mut Vec<TargetEvent>) {
        if events.is_empty() {
            return;
        }
        self.lock().events.append(events);
        self.is_news.store(true, Ordering::Release);
    }

    /// Gives the owner the ports as they are now.
    pub(super) fn publish_ports(&self, ports: Ports) {
        self.lock().ports = Arc::new(ports);
        self.is_news.store(true, Ordering::Release);
    }

    /// Takes the results since the last time, and the ports. `None` without news.
    pub(super) fn news(&self) -> Option<(Vec<TargetEvent>, Arc<Ports>)> {
        if !self.is_news.swap(false, Ordering::AcqRel) {
            return None;
        }
        let mut inner = self.lock();
        let events = std::mem::take(&mut inner.events);
        Some((events, Arc::clone(&inner.ports)))
    }

    /// Ends both threads.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.writer.notify_one();
        self.reader.notify_one();
    }

    /// Returns the owner's time.
    pub(super) fn now(&self) -> Nanos {
        let (now, instant) = self.lock().clock;
        let passed = u64::try_from(instant.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Nanos(now.0.saturating_add(passed))
    }

    /// Changes the numbers of what was done.
    pub(super) fn count(&self, change: impl FnOnce(&mut TcCounts)) {
        change(&mut self.lock().counts);
    }
}

impl Inner {
    /// Returns the number of requests that wait.
    pub(super) fn waiting(&self) -> usize {
        self.urgent.len() + self.additions.len() + self.reads.len()
    }
}

/// Takes requests from the front that depend on different rules.
fn independent(queue: &mut VecDeque<Queued>, most: usize) -> Vec<Queued> {
    let mut met = HashSet::new();
    let mut taken = Vec::new();
    while let Some(first) = queue.front()
        && taken.len() < most
        && !first.rules().iter().any(|id| met.contains(id))
    {
        met.extend(first.rules());
        taken.extend(queue.pop_front());
    }
    taken
}
