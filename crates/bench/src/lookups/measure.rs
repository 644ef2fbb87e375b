//! Measures table lookups with concurrent updates. One thread looks up keys in batches. A second
//! thread alternates between idle periods and updates.
//!
//! Each batch uses the newest snapshot, as a worker uses the newest data plane snapshot for each
//! burst. The updating thread publishes a snapshot after a number of updates, and frees old ones
//! that have no readers, as a device does. It makes updates at a given rate, or as fast as
//! possible. Idle and update periods alternate within fractions of a second, so that disturbances
//! of the machine affect both. A rate is the median over short sample intervals, of which most are
//! undisturbed.

use super::Sample;
use crate::measure::quantile;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use support::tsc_clock::Clock;
use table::{EntryId, EntryIdx, Improved, Lookup, NewEntry, Table};

/// Number of lookups per batch.
const BATCH: usize = 64;
/// Number of batches per sample interval.
const STRETCH: usize = 32;
/// Duration of an idle or update period.
const TURN: Duration = Duration::from_millis(50);
/// Sleep time of the idle updating thread between two checks for a new mode.
const NAP: Duration = Duration::from_micros(200);

/// Configuration of a measurement.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Approximate duration.
    pub time: Duration,
    /// Update patterns, each of which is measured.
    pub changes: Vec<Changes>,
}

/// An update pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changes {
    /// Number of updates between two snapshots.
    pub at_once: usize,
    /// Updates per second. `None` means as many as possible.
    pub per_s: Option<u32>,
}

/// Results for a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// Million lookups per second in idle periods: the baseline for the rates with updates.
    pub mlps_between: f64,
    /// Fraction of lookups that hit.
    pub hits: f64,
    /// Results of each update pattern.
    pub beside: Vec<Beside>,
}

/// Results of one update pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    /// The update pattern.
    pub changes: Changes,
    /// Updates per second. Half are insertions, half are deletions.
    pub updates_per_s: f64,
    /// Million lookups per second.
    pub mlps: f64,
}

/// Measures lookups in `table`, which the sample has created. `tell` is called with the progress
/// from 0 to 1.
pub fn measure(
    sample: &Sample,
    table: Table,
    plan: &Plan,
    clock: &Clock,
    tell: &mut (dyn FnMut(f64) + Send),
) -> Rates {
    let mut writer = Writer::new(sample, table);
    let shared = Shared::new(writer.table.snapshot());
    let changes = &plan.changes[..];
    let mut turns = Vec::new();
    std::thread::scope(|scope| {
        let shared = &shared;
        scope.spawn(move || writer.work(changes, shared));
        let reader = Reader::new(sample, shared, clock);
        // Not on the caller's thread, which must not stay pinned.
        turns = scope
            .spawn(move || reader.work(plan, tell))
            .join()
            .unwrap_or_default();
    });
    summary(plan, turns, clock)
}

/// Mode of idle periods. Mode `n` from 1 on is the plan's `n`-th update pattern.
const REST: usize = 0;

/// Results of one period.
#[derive(Debug, Clone)]
struct Turn {
    mode: usize,
    updates_per_s: f64,
    /// Ticks of each sample interval.
    ticks: Vec<f64>,
    hits: usize,
}

fn summary(plan: &Plan, turns: Vec<Turn>, clock: &Clock) -> Rates {
    let rates = |mode: usize| {
        let turns = turns.iter().filter(|turn| turn.mode == mode);
        let stretches = turns.flat_map(|turn| &turn.ticks);
        let rates = stretches.map(|&ticks| mlps(ticks, clock));
        rates.collect::<Vec<_>>()
    };
    let mut rest = rates(REST);
    let beside = |(mode, &changes): (usize, &Changes)| {
        let turns = turns.iter().filter(|turn| turn.mode == mode);
        let mut updates_per_s: Vec<f64> = turns.map(|turn| turn.updates_per_s).collect();
        Beside {
            changes,
            updates_per_s: quantile(&mut updates_per_s, 0.5),
            mlps: quantile(&mut rates(mode), 0.5),
        }
    };
    let rested = turns.iter().filter(|turn| turn.mode == REST);
    let hits: usize = rested.map(|turn| turn.hits).sum();
    let lookups = (rest.len() * STRETCH * BATCH).max(1);
    Rates {
        mlps_between: quantile(&mut rest, 0.5),
        hits: hits as f64 / lookups as f64,
        beside: (1..).zip(&plan.changes).map(beside).collect(),
    }
}

/// Returns million lookups per second for a sample interval of this number of ticks.
pub(super) fn mlps(ticks: f64, clock: &Clock) -> f64 {
    let ticks_per_us = clock.rate().ticks_per_ns * 1e3;
    (STRETCH * BATCH) as f64 * ticks_per_us / ticks
}

/// State shared by both threads.
pub(super) struct Shared {
    newest: Mutex<Arc<Lookup>>,
    /// Number of snapshots published.
    version: AtomicU64,
    /// The requested mode, or [`END`].
    wanted: AtomicUsize,
    /// The current mode.
    done: AtomicUsize,
    /// Total number of updates.
    updates: AtomicU64,
}

const END: usize = usize::MAX;

impl Shared {
    pub(super) fn new(first: Arc<Lookup>) -> Self {
        Self {
            newest: Mutex::new(first),
            version: AtomicU64::new(0),
            wanted: AtomicUsize::new(REST),
            done: AtomicUsize::new(REST),
            updates: AtomicU64::new(0),
        }
    }

    fn newest(&self) -> Arc<Lookup> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.clone()
    }

    /// Publishes a snapshot. Returns the previous one.
    pub(super) fn publish(&self, lookup: Arc<Lookup>) -> Arc<Lookup> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *newest, lookup);
        drop(newest);
        self.version.fetch_add(1, Release);
        old
    }
}

/// The updating thread.
struct Writer {
    table: Table,
    /// Entries not in the table, and entries in the table, which are exchanged for each other.
    without: VecDeque<NewEntry>,
    within: VecDeque<(EntryId, NewEntry)>,
    /// Old snapshots that may still have readers.
    retired: Vec<Arc<Lookup>>,
}

impl Writer {
    fn new(sample: &Sample, table: Table) -> Self {
        let mut without = VecDeque::new();
        let mut within = VecDeque::new();
        for entry in &sample.exchanged {
            match table.find_id(&entry.matches, entry.priority) {
                Some(found) => within.push_back((found, entry.clone())),
                None => without.push_back(entry.clone()),
            }
        }
        Self {
            table,
            without,
            within,
            retired: Vec::new(),
        }
    }

    fn work(&mut self, changes: &[Changes], shared: &Shared) {
        #[cfg(target_os = "linux")]
        let _ = port::pin_to_core(1);
        loop {
            let wanted = shared.wanted.load(Acquire);
            shared.done.store(wanted, Release);
            match wanted {
                END => return,
                REST => {
                    self.rest(shared);
                    std::thread::sleep(NAP);
                }
                mode => self.change(changes[mode - 1], mode, shared),
            }
        }
    }

    /// Makes updates while this mode is requested.
    fn change(&mut self, changes: Changes, mode: usize, shared: &Shared) {
        let count = changes.at_once;
        let step = changes
            .per_s
            .map(|per_s| Duration::from_secs_f64(count as f64 / f64::from(per_s.max(1))));
        let mut due = Instant::now();
        while shared.wanted.load(Acquire) == mode {
            if let Some(step) = step {
                if !is_due(due) {
                    continue;
                }
                due += step;
            }
            (0..count).for_each(|_| self.update());
            self.publish(shared);
            shared.updates.fetch_add(count as u64, Release);
        }
    }

    /// Improves the index, as a device does when nothing has changed for a while. Rule tables are
    /// left as they are: a device waits longer than an idle period before it builds an index for
    /// them.
    fn rest(&mut self, shared: &Shared) {
        let has_rules = self.table.spec().shape.needs_priority();
        if !has_rules && self.table.improve(Duration::ZERO) == Improved::Done {
            self.publish(shared);
        }
    }

    /// Inserts an entry if the table is not full, otherwise deletes one.
    fn update(&mut self) {
        if self.table.len() == self.table.spec().capacity {
            if let Some((id, entry)) = self.within.pop_front() {
                let _ = self.table.delete(id);
                self.without.push_back(entry);
            }
        } else if let Some(entry) = self.without.pop_front()
            && let Ok(id) = self.table.insert(entry.clone(), 0)
        {
            self.within.push_back((id, entry));
        }
    }

    fn publish(&mut self, shared: &Shared) {
        let old = shared.publish(self.table.snapshot());
        self.retired.push(old);
        // Free snapshots here: it takes time, and the reader must not spend it.
        self.retired.retain(|old| Arc::strong_count(old) > 1);
    }
}

/// Returns true if the time has come. Otherwise waits for a part of the remaining time.
fn is_due(due: Instant) -> bool {
    match due.saturating_duration_since(Instant::now()) {
        Duration::ZERO => return true,
        left if left > 2 * NAP => std::thread::sleep(NAP),
        // Too short for a sleep.
        _ => std::hint::spin_loop(),
    }
    false
}

/// The reading thread.
pub(super) struct Reader<'s> {
    sample: &'s Sample,
    shared: &'s Shared,
    clock: &'s Clock,
    lookup: Arc<Lookup>,
    version: u64,
    /// Index of the next key.
    at: usize,
    found: [Option<EntryIdx>; BATCH],
}

impl<'s> Reader<'s> {
    pub(super) fn new(sample: &'s Sample, shared: &'s Shared, clock: &'s Clock) -> Self {
        Self {
            sample,
            shared,
            clock,
            lookup: shared.newest(),
            version: 0,
            at: 0,
            found: [None; BATCH],
        }
    }

    fn work(mut self, plan: &Plan, tell: &mut dyn FnMut(f64)) -> Vec<Turn> {
        #[cfg(target_os = "linux")]
        let _ = port::pin_to_core(0);
        let modes = 1 + plan.changes.len();
        let count = plan.time.as_secs_f64() / TURN.as_secs_f64();
        let count = (count as usize).max(2 * modes);
        let mut turns = Vec::with_capacity(count);
        // The first round warms the caches.
        for number in 0..count + modes {
            let turn = self.turn(number % modes);
            if number >= modes {
                turns.push(turn);
            }
            tell(number as f64 / (count + modes) as f64);
        }
        self.shared.wanted.store(END, Release);
        turns
    }

    fn turn(&mut self, mode: usize) -> Turn {
        self.shared.wanted.store(mode, Release);
        while self.shared.done.load(Acquire) != mode {
            std::thread::sleep(NAP / 4);
        }
        let (start, before) = (Instant::now(), self.shared.updates.load(Acquire));
        let mut turn = Turn {
            mode,
            updates_per_s: 0.0,
            ticks: Vec::new(),
            hits: 0,
        };
        while start.elapsed() < TURN {
            let (ticks, hits) = self.stretch();
            turn.hits += hits;
            turn.ticks.push(ticks);
        }
        let made = self.shared.updates.load(Acquire) - before;
        turn.updates_per_s = made as f64 / start.elapsed().as_secs_f64();
        turn
    }

    /// Runs one sample interval. Returns its ticks and the number of hits.
    pub(super) fn stretch(&mut self) -> (f64, usize) {
        let start = self.clock.ticks();
        let hits = (0..STRETCH).map(|_| self.batch()).sum();
        ((self.clock.ticks() - start) as f64, hits)
    }

    /// Looks up one batch in the newest snapshot. Returns the number of hits.
    fn batch(&mut self) -> usize {
        let version = self.shared.version.load(Acquire);
        if version != self.version {
            self.lookup = self.shared.newest();
            self.version = version;
        }
        let limbs = self.sample.shape.limbs();
        let keys = &self.sample.keys[self.at * limbs..(self.at + BATCH) * limbs];
        self.at += BATCH;
        if (self.at + BATCH) * limbs > self.sample.keys.len() {
            self.at = 0;
        }
        self.lookup.find_batch(keys, &mut self.found);
        self.found.iter().flatten().count()
    }
}
