//! Measures a table that has just been loaded: a thread looks up while another makes the index faster, as a device does that has nothing else to do.

use super::Sample;
use super::measure::{Reader, Shared, mlps};
use crate::clock::Clock;
use crate::measure::quantile;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::time::{Duration, Instant};
use table::{Improved, Table};

/// How long after loading lookups are measured at last; they are earlier where the index is as fast as it gets before.
const AT: Duration = Duration::from_secs(2);
/// How long they are measured.
const WINDOW: Duration = Duration::from_millis(100);
/// How long a device works on an index before it looks for something else to do.
const BUDGET: Duration = Duration::from_millis(10);

/// What was measured of a table after it was loaded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loaded {
    /// Million lookups a second, two seconds after.
    pub mlps_at_2s: f64,
    /// After how many seconds packets had the fastest index; 0 if it was the first one.
    pub seconds_to_full: f64,
}

/// Measures lookups in `table`, which the sample has just made, and makes its index as fast as it gets.
pub fn measure_loaded(sample: &Sample, table: &mut Table, clock: &Clock) -> Loaded {
    let shared = Shared::new(table.snapshot());
    let is_full = AtomicBool::new(false);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let (shared, is_full) = (&shared, &is_full);
        let improving = scope.spawn(move || {
            let last = improve(table, shared, start);
            is_full.store(true, Release);
            last
        });
        let reader = Reader::new(sample, shared, clock);
        // Neither on the caller's thread, which must not stay pinned.
        let looking = scope.spawn(move || look_up(reader, is_full, start, clock));
        Loaded {
            mlps_at_2s: looking.join().unwrap_or_default(),
            seconds_to_full: improving.join().unwrap_or_default().as_secs_f64(),
        }
    })
}

/// Publishes faster indexes until there are none; when the last one was.
fn improve(table: &mut Table, shared: &Shared, start: Instant) -> Duration {
    #[cfg(target_os = "linux")]
    let _ = port::pin_to_core(1);
    let mut last = Duration::ZERO;
    loop {
        match table.improve(BUDGET) {
            Improved::UnderWay => {}
            Improved::Done => {
                shared.publish(table.snapshot());
                last = start.elapsed();
            }
            Improved::NoMore => return last,
        }
    }
}

/// Looks up until there is something to tell of the rate.
fn look_up(mut reader: Reader<'_>, is_full: &AtomicBool, start: Instant, clock: &Clock) -> f64 {
    #[cfg(target_os = "linux")]
    let _ = port::pin_to_core(0);
    while !is_full.load(Acquire) && start.elapsed() < AT - WINDOW {
        reader.stretch();
    }
    let begun = Instant::now();
    let mut rates = Vec::new();
    while begun.elapsed() < WINDOW {
        rates.push(mlps(reader.stretch().0, clock));
    }
    quantile(&mut rates, 0.5)
}
