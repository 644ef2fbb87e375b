//! Figures 1 and 2: a message to another thread and back, by shared memory and by UDP. Both ends
//! poll.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use support::quantile::quantile;

use super::links::{poll, sockets};
use super::model::{add_model, wire_to_wire};
use super::{Context, Origin, Part, ROUNDS, Sheet, median};
use nanopu::CostTable;

/// Words of a message: 96 bytes.
const WORDS: usize = 12;

/// A place for one message, and its number.
#[derive(Debug, Default)]
struct Place {
    number: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Place {
    fn put(&self, number: u64, words: &[u64; WORDS]) {
        for (place, word) in self.words.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        self.number.store(number, Ordering::Release);
    }

    /// Returns the message with this number if it is there.
    fn take(&self, number: u64) -> Option<[u64; WORDS]> {
        let is_there = self.number.load(Ordering::Acquire) == number;
        is_there.then(|| {
            self.words
                .each_ref()
                .map(|word| word.load(Ordering::Relaxed))
        })
    }
}

/// Returns the times of round trips by shared memory in ns.
fn memory(count: u64) -> Result<Vec<f64>, String> {
    let places: Arc<[Place; 2]> = Arc::default();
    let far = Arc::clone(&places);
    let echo = std::thread::spawn(move || {
        for number in 1..=count {
            // The other end says that there is no answer.
            let Ok(mut words) = poll(|| far[0].take(number)) else {
                return;
            };
            words[0] += 1;
            far[1].put(number, &words);
        }
    });
    let mut times = Vec::with_capacity(count as usize);
    let mut wrong = 0;
    for number in 1..=count {
        let start = Instant::now();
        places[0].put(number, &[number; WORDS]);
        let words = poll(|| places[1].take(number))?;
        times.push(start.elapsed().as_nanos() as f64);
        wrong += u64::from(words[0] != number + 1);
    }
    echo.join().map_err(|_| "the other thread panics")?;
    match wrong {
        0 => Ok(times),
        _ => Err(format!("{wrong} messages are damaged: a defect")),
    }
}

/// Returns the times of round trips by UDP over the loopback in ns.
fn udp(count: u64) -> Result<Vec<f64>, String> {
    let words = |error: std::io::Error| format!("UDP over the loopback: {error}");
    let (near, far) = sockets()?;
    let ends = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ends);
    let echo = std::thread::spawn(move || {
        let mut bytes = [0; 8 * WORDS];
        while !seen.load(Ordering::Relaxed) {
            match far.recv(&mut bytes) {
                Ok(length) => {
                    bytes[0] = bytes[0].wrapping_add(1);
                    // A full buffer loses it: the other end sends again.
                    let _ = far.send(&bytes[..length]);
                }
                Err(_) => std::thread::yield_now(),
            }
        }
    });
    let mut times = Vec::with_capacity(count as usize);
    let mut bytes = [0; 8 * WORDS];
    let mut outcome = Ok(());
    for _ in 0..count {
        let start = Instant::now();
        outcome = near.send(&bytes).map(drop).map_err(words);
        if outcome.is_err() {
            break;
        }
        outcome = poll(|| near.recv(&mut bytes).ok()).map(drop);
        if outcome.is_err() {
            break;
        }
        times.push(start.elapsed().as_nanos() as f64);
    }
    ends.store(true, Ordering::Relaxed);
    echo.join().map_err(|_| "the other thread panics")?;
    outcome.map(|()| times)
}

/// Adds the row of the model: the program of figure 2 in all phases of its loop.
fn model_row(sheet: &mut Sheet, subject: &str) -> Result<(), String> {
    let mut times = wire_to_wire(&CostTable::default(), 200)?;
    let values = [
        ("wire to wire ns", median(&times)),
        ("p99 ns", quantile(&mut times, 0.99).unwrap_or(0.0)),
    ];
    let measure = |costs: &CostTable| Ok(median(&wire_to_wire(costs, 60)?));
    add_model(sheet, subject, &values, &measure)
}

/// Measures round trips.
///
/// # Errors
/// A message is damaged, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("figures 1 and 2");
    let count = context.choose(100_000, 200);
    type Trips = fn(u64) -> Result<Vec<f64>, String>;
    let kinds: [(&str, Trips); 2] = [
        ("shared memory between two threads", memory),
        ("UDP over the loopback", udp),
    ];
    let mut found: [[Vec<f64>; 2]; 2] = Default::default();
    for round in 0..ROUNDS {
        for ((_, trips), found) in kinds.iter().zip(&mut found) {
            context.tell("figures 1 and 2", round, ROUNDS)?;
            let mut times = trips(count)?;
            found[0].push(median(&times));
            found[1].push(quantile(&mut times, 0.99).unwrap_or(0.0));
        }
    }
    for ((name, _), [middles, tails]) in kinds.iter().zip(&found) {
        let values = [("median ns", median(middles)), ("p99 ns", median(tails))];
        sheet.add(name, Origin::Measured, &values);
    }
    let loopback = "nanoPU, loopback and increment";
    sheet.add(loopback, Origin::Paper, &[("wire to wire ns", 65.0)]);
    model_row(&mut sheet, loopback)?;
    let note = format!(
        "Measured: 96 bytes to another thread that polls, and back with one number incremented; medians of {ROUNDS} rounds. Where both threads share a core, it is the scheduler that is measured. \
         Paper: one way in and out of a core."
    );
    Ok(sheet.part(
        "Figures 1 and 2: a message and its answer",
        note,
        Vec::new(),
    ))
}
