//! Measures a table beside updates: a thread looks up in batches while another, by turns, rests and changes entries.
//!
//! Each batch of lookups is made in the newest snapshot, as a worker takes the newest root for each batch of packets. The thread
//! that changes entries publishes a snapshot after every so many updates, and frees those that nobody reads any more, as a device
//! does; it makes them at a pace that is asked for, or as fast as it can. Rest and changes take turns within fractions of a second, so what else disturbs the machine disturbs both; a rate is the
//! median over short stretches of lookups, of which some are disturbed and most are not.

use super::Sample;
use crate::clock::Clock;
use crate::measure::quantile;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use table::{EntryId, EntryIdx, Improved, Lookup, NewEntry, Table};

/// Lookups in a batch.
const BATCH: usize = 64;
/// Batches that are timed together.
const STRETCH: usize = 32;
/// How long entries are changed at a time, or not.
const TURN: Duration = Duration::from_millis(50);
/// How often the thread that rests looks whether it still should.
const NAP: Duration = Duration::from_micros(200);

/// How to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How long, about.
    pub time: Duration,
    /// How entries change: each is measured.
    pub changes: Vec<Changes>,
}

/// How entries change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changes {
    /// Updates between two snapshots.
    pub at_once: usize,
    /// Updates a second; `None`: as many as can be made.
    pub per_s: Option<u32>,
}

/// What was measured of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// Million lookups a second between changes: what those beside changes are a share of.
    pub mlps_between: f64,
    /// The share of the lookups that hit.
    pub hits: f64,
    /// Lookups while entries change.
    pub beside: Vec<Beside>,
}

/// What was measured while entries changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    /// What was asked for.
    pub changes: Changes,
    /// Updates a second that were made, half of them insertions and half of them deletions.
    pub updates_per_s: f64,
    /// Million lookups a second beside them.
    pub mlps: f64,
}

/// Measures lookups in `table`, which the sample has made. `tell` is told how much of the time is over, from 0 to 1.
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

/// The turn in which nothing changes. Others are numbered by the plan's changes, from 1 on.
const REST: usize = 0;

/// What a turn gave.
#[derive(Debug, Clone)]
struct Turn {
    mode: usize,
    updates_per_s: f64,
    /// Ticks of each stretch.
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

/// Million lookups a second, of a stretch that took so many ticks.
pub(super) fn mlps(ticks: f64, clock: &Clock) -> f64 {
    let ticks_per_us = clock.rate().ticks_per_ns * 1e3;
    (STRETCH * BATCH) as f64 * ticks_per_us / ticks
}

/// What both threads see.
pub(super) struct Shared {
    newest: Mutex<Arc<Lookup>>,
    /// How many snapshots there were.
    version: AtomicU64,
    /// The mode that is wanted now, or [`END`].
    wanted: AtomicUsize,
    /// The mode that is now.
    done: AtomicUsize,
    /// Updates so far.
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

    /// Makes a snapshot the newest, and gives the one that was.
    pub(super) fn publish(&self, lookup: Arc<Lookup>) -> Arc<Lookup> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *newest, lookup);
        drop(newest);
        self.version.fetch_add(1, Release);
        old
    }
}

/// Changes entries.
struct Writer {
    table: Table,
    /// Entries that the table has not, and those of its own that they are exchanged for.
    without: VecDeque<NewEntry>,
    within: VecDeque<(EntryId, NewEntry)>,
    /// Snapshots that may still be read.
    retired: Vec<Arc<Lookup>>,
}

impl Writer {
    fn new(sample: &Sample, table: Table) -> Self {
        let mut without = VecDeque::new();
        let mut within = VecDeque::new();
        for entry in &sample.exchanged {
            match table.find(&entry.matches, entry.priority) {
                Some(found) => within.push_back((found.id, entry.clone())),
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

    /// Changes entries as long as this mode is wanted.
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

    /// What a device does when nothing has changed for a while. Rules stay as updates left them: a device waits longer than a turn before it makes an index
    /// for them.
    fn rest(&mut self, shared: &Shared) {
        let has_rules = self.table.spec().shape.needs_priority();
        if !has_rules && self.table.improve(Duration::ZERO) == Improved::Done {
            self.publish(shared);
        }
    }

    /// Inserts an entry if there is one missing, and deletes another if not.
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
        // Not the reader's work: freeing takes time.
        self.retired.retain(|old| Arc::strong_count(old) > 1);
    }
}

/// Whether that time has come; if not, waits some of the time until then.
fn is_due(due: Instant) -> bool {
    match due.saturating_duration_since(Instant::now()) {
        Duration::ZERO => return true,
        left if left > 2 * NAP => std::thread::sleep(NAP),
        // A sleep takes longer.
        _ => std::hint::spin_loop(),
    }
    false
}

/// Looks up.
pub(super) struct Reader<'s> {
    sample: &'s Sample,
    shared: &'s Shared,
    clock: &'s Clock,
    lookup: Arc<Lookup>,
    version: u64,
    /// The next key.
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
        // The first round warms everything up.
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

    /// Batches that are timed together: their ticks, and how many lookups hit.
    pub(super) fn stretch(&mut self) -> (f64, usize) {
        let start = self.clock.ticks();
        let hits = (0..STRETCH).map(|_| self.batch()).sum();
        ((self.clock.ticks() - start) as f64, hits)
    }

    /// One batch of lookups in the newest snapshot; how many hit.
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
