//! Figure 3 as a service: keys to another thread that classifies, and its answers back, by a ring
//! and by UDP, with and without changes of rules.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bench::lookups::{Sample, Subject};
use generators::Kind;
use support::quantile::quantile;
use table::{EntryIdx, Improved, Lookup, NewEntry, Table};

use super::links::{Link, Turns, Way, poll};
use super::{Context, Origin, ROUNDS, Sheet, median, ratio};

const KEYS: usize = 1 << 16;
/// Keys of a request, and requests under way, of the rows of a load.
const BATCH: usize = 64;
const OUTSTANDING: usize = 8;
const IMPROVE: Duration = Duration::from_secs(30);
/// Changes of rules a second.
const CHANGES: u64 = 1_000;
/// Rules that are exchanged.
const EXCHANGED: usize = 256;
/// An answer has 4 bytes for each key: 0, or the entry's number from 1.
const ANSWER: usize = 4;

/// The newest rules, and the number of changes.
struct Shared {
    newest: Mutex<Arc<Lookup>>,
    version: AtomicU64,
    stops: AtomicBool,
}

impl Shared {
    fn new(lookup: Arc<Lookup>) -> Arc<Shared> {
        Arc::new(Shared {
            newest: Mutex::new(lookup),
            version: AtomicU64::new(0),
            stops: AtomicBool::new(false),
        })
    }

    fn newest(&self) -> Arc<Lookup> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&newest)
    }

    fn publish(&self, lookup: Arc<Lookup>) -> Arc<Lookup> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *newest, lookup);
        self.version.fetch_add(1, Ordering::Release);
        old
    }
}

/// Answers requests until it is stopped: a number of 8 bytes, then keys.
fn serve(mut link: Link, shared: &Shared, limbs: usize) {
    let mut turns = Turns::default();
    let mut lookup = shared.newest();
    let mut version = shared.version.load(Ordering::Acquire);
    let (mut keys, mut out) = (Vec::new(), Vec::new());
    let mut found = [None; BATCH];
    let mut ends = Vec::new();
    while !shared.stops.load(Ordering::Relaxed) {
        let newest = shared.version.load(Ordering::Acquire);
        if newest != version {
            (lookup, version) = (shared.newest(), newest);
        }
        out.clear();
        ends.clear();
        let taken = link.receive(|request| {
            let Some((number, rest)) = request.split_first_chunk::<8>() else {
                return;
            };
            keys.clear();
            let words = rest.as_chunks::<8>().0.iter();
            keys.extend(words.map(|word| u64::from_le_bytes(*word)));
            let count = keys.len() / limbs;
            if count > BATCH {
                return;
            }
            match count {
                1 => found[0] = lookup.find(&keys[..limbs]),
                _ => lookup.find_batch(&keys[..count * limbs], &mut found[..count]),
            }
            out.extend(number);
            for one in &found[..count] {
                out.extend(EntryIdx::record_of(*one).to_le_bytes());
            }
            ends.push(out.len());
        });
        let mut begin = 0;
        for end in &ends {
            link.send(&out[begin..*end]);
            begin = *end;
        }
        link.flush();
        if taken == 0 {
            turns.idle();
        }
    }
}

/// Exchanges rules at a rate until it is stopped, and publishes after each change. Returns the
/// table as it was, and the number of changes.
fn change(mut table: Table, shared: &Shared) -> (Table, u64) {
    let step = (table.len() / EXCHANGED).max(1);
    let chosen: Vec<_> = table.iter().step_by(step).collect();
    let mut within: VecDeque<_> = chosen
        .iter()
        .map(|entry| {
            let mut new = NewEntry::new(entry.matches.to_vec(), entry.action.clone());
            new.priority = entry.priority;
            (entry.id, new)
        })
        .collect();
    let mut without: Option<NewEntry> = None;
    // Snapshots that the service may still use are freed here: it takes time.
    let mut retired: Vec<Arc<Lookup>> = Vec::new();
    let interval = Duration::from_nanos(1_000_000_000 / CHANGES);
    let (mut due, mut count) = (Instant::now(), 0);
    while !shared.stops.load(Ordering::Relaxed) || without.is_some() {
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::sleep(left);
            continue;
        }
        due += interval;
        match without.take() {
            Some(entry) => {
                if let Ok(id) = table.insert(entry.clone(), 0) {
                    within.push_back((id, entry));
                }
            }
            None => {
                if let Some((id, entry)) = within.pop_front() {
                    without = table.delete(id).ok().map(|_| entry);
                }
            }
        }
        retired.push(shared.publish(table.snapshot()));
        retired.retain(|old| Arc::strong_count(old) > 1);
        count += 1;
    }
    (table, count)
}

/// A client of the service.
struct Client<'s> {
    sample: &'s Sample,
    link: Link,
    request: Vec<u8>,
    next: usize,
    sent: u64,
}

impl Client<'_> {
    /// Sends the next keys.
    fn send(&mut self, count: usize) {
        let limbs = self.sample.limbs();
        let words = self.sample.keys();
        if (self.next + count) * limbs > words.len() {
            self.next = 0;
        }
        let keys = &words[self.next * limbs..(self.next + count) * limbs];
        self.next += count;
        self.sent += 1;
        self.request.clear();
        self.request.extend(self.sent.to_le_bytes());
        for word in keys {
            self.request.extend(word.to_le_bytes());
        }
        self.link.send(&self.request);
        self.link.flush();
    }

    /// Waits for answers. Returns the numbers of keys and of matches.
    fn receive(&mut self) -> Result<(usize, usize), String> {
        let (mut keys, mut hits) = (0, 0);
        poll(|| {
            self.link.receive(|answer| {
                let numbers = answer.get(8..).unwrap_or_default().as_chunks::<ANSWER>().0;
                keys += numbers.len();
                hits += numbers.iter().filter(|it| **it != [0; ANSWER]).count();
            });
            (keys > 0).then_some(())
        })?;
        Ok((keys, hits))
    }

    /// Classifies keys one at a time. Returns the times in ns.
    fn single(&mut self, count: usize) -> Result<Vec<f64>, String> {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            self.send(1);
            let (_, hits) = self.receive()?;
            times.push(start.elapsed().as_nanos() as f64);
            if hits != 1 {
                return Err("a key that matches has no rule: a defect".to_owned());
            }
        }
        Ok(times)
    }

    /// Classifies batches, some at once. Returns million keys a second, and the part of them that
    /// match.
    fn batches(&mut self, count: usize) -> Result<(f64, f64), String> {
        let start = Instant::now();
        let (mut sent, mut keys, mut hits) = (0, 0, 0);
        while keys < count * BATCH {
            while sent < count && sent * BATCH < keys + OUTSTANDING * BATCH {
                self.send(BATCH);
                sent += 1;
            }
            let (more, more_hits) = self.receive()?;
            keys += more;
            hits += more_hits;
        }
        let seconds = start.elapsed().as_secs_f64();
        Ok((keys as f64 / seconds / 1e6, hits as f64 / keys as f64))
    }
}

/// Values of one round of a way.
#[derive(Clone, Default)]
struct Found {
    singles: Vec<f64>,
    tails: Vec<f64>,
    rates: Vec<f64>,
    changed: Vec<f64>,
    changes: Vec<f64>,
}

/// Returns ns of one lookup and million lookups a second without a service.
fn in_memory(sample: &Sample, lookup: &Lookup) -> (f64, f64) {
    let (limbs, keys) = (sample.limbs(), sample.keys());
    let start = Instant::now();
    let mut hits = 0;
    for key in keys.chunks_exact(limbs) {
        hits += usize::from(lookup.find(key).is_some());
    }
    let single = start.elapsed().as_nanos() as f64 / (keys.len() / limbs) as f64;
    let mut found = [None; BATCH];
    let start = Instant::now();
    for batch in keys.chunks_exact(limbs * BATCH) {
        lookup.find_batch(batch, &mut found);
        hits += found.iter().flatten().count();
    }
    let count = keys.len() / limbs / BATCH * BATCH;
    debug_assert!(hits > 0);
    (single, count as f64 / start.elapsed().as_secs_f64() / 1e6)
}

/// Runs the service for one round of a way. With `table` rules change meanwhile.
fn round(
    (sample, way): (&Sample, Way),
    lookup: Arc<Lookup>,
    table: Option<Table>,
    (singles, batches): (usize, usize),
    found: &mut Found,
) -> Result<Option<Table>, String> {
    let (near, far) = Link::pair(way)?;
    let shared = Shared::new(lookup);
    let limbs = sample.limbs();
    let server = Arc::clone(&shared);
    let server = std::thread::spawn(move || serve(far, &server, limbs));
    let is_changed = table.is_some();
    let writer = table.map(|table| {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || change(table, &shared))
    });
    let mut client = Client {
        sample,
        link: near,
        request: Vec::new(),
        next: 0,
        sent: 0,
    };
    let begin = Instant::now();
    let outcome = if is_changed {
        client
            .batches(batches)
            .map(|(rate, _)| found.changed.push(rate))
    } else {
        client.single(singles).and_then(|mut times| {
            found.singles.push(median(&times));
            found.tails.push(quantile(&mut times, 0.99).unwrap_or(0.0));
            let (rate, matches) = client.batches(batches)?;
            found.rates.push(rate);
            match matches == 1.0 {
                true => Ok(()),
                false => Err("keys that match have no rules: a defect".to_owned()),
            }
        })
    };
    let seconds = begin.elapsed().as_secs_f64();
    shared.stops.store(true, Ordering::Relaxed);
    server.join().map_err(|_| "the service panics")?;
    let changed = writer.map(|writer| writer.join().map_err(|_| "the writer panics"));
    let changed = changed.transpose()?;
    outcome?;
    Ok(changed.map(|(table, count)| {
        found.changes.push(count as f64 / seconds);
        table
    }))
}

/// Adds the rows of the service with rules of `acl`.
///
/// # Errors
/// An answer is wrong or missing, or a signal arrived.
pub(super) fn rows(context: &mut Context<'_>, sheet: &mut Sheet) -> Result<(), String> {
    let rules = context.choose(100_000, 1_000);
    let counts = context.choose((20_000, 20_000), (10, 20));
    let sample = Subject::Ternary(Kind::Acl).sample(rules, KEYS);
    let mut table = sample.table();
    let start = Instant::now();
    while start.elapsed() < IMPROVE && table.improve(Duration::from_millis(10)) != Improved::NoMore
    {
    }
    let mut table = Some(table);
    let (mut single, mut rate) = (Vec::new(), Vec::new());
    let mut found = [Found::default(), Found::default()];
    for turn in 0..=ROUNDS {
        context.tell("classification service", turn, ROUNDS + 1)?;
        let mut warm = [Found::default(), Found::default()];
        // The first round warms.
        let found = if turn == 0 { &mut warm } else { &mut found };
        for (way, found) in Way::BOTH.into_iter().zip(found) {
            let mut own = table.take().ok_or("the table is lost: a defect")?;
            let lookup = own.snapshot();
            let (one, many) = in_memory(&sample, &lookup);
            if turn > 0 && way == Way::Ring {
                single.push(one);
                rate.push(many);
            }
            round((&sample, way), Arc::clone(&lookup), None, counts, found)?;
            table = round((&sample, way), lookup, Some(own), counts, found)?;
        }
    }
    let memory = [
        ("rules", rules as f64),
        ("one at a time ns", median(&single)),
        ("at once M/s", median(&rate)),
    ];
    sheet.add(
        "acl, in memory beside the service",
        Origin::Measured,
        &memory,
    );
    for (way, found) in Way::BOTH.into_iter().zip(&found) {
        let values = [
            ("rules", rules as f64),
            ("median ns", median(&found.singles)),
            ("p99 ns", median(&found.tails)),
            ("at once M/s", median(&found.rates)),
            ("of memory", ratio(&found.rates, &rate)),
            ("changes/s", median(&found.changes)),
            (
                "with changes, of without",
                ratio(&found.changed, &found.rates),
            ),
        ];
        let subject = format!("service over {}", way.name());
        sheet.add(&subject, Origin::Measured, &values);
    }
    Ok(())
}
