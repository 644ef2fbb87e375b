//! Measures a table that has just been loaded: a thread looks up while another makes the index faster, as a device does that has nothing else to do, and
//! then, before any entry changes, how fast that index is.

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
    /// Million lookups a second in that index.
    pub mlps: f64,
    /// The middle half of the stretches: the least and the greatest of its `mlps`.
    pub middle_half: (f64, f64),
}

/// Measures lookups in `table`, which the sample has just made, makes its index as fast as it gets, and measures that one for so long.
pub fn measure_loaded(sample: &Sample, table: &mut Table, time: Duration, clock: &Clock) -> Loaded {
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
        let looking = scope.spawn(move || look_up(reader, is_full, (start, time), clock));
        let (early, mut full) = looking.join().unwrap_or_default();
        Loaded {
            mlps_at_2s: early,
            seconds_to_full: improving.join().unwrap_or_default().as_secs_f64(),
            mlps: quantile(&mut full, 0.5),
            middle_half: (quantile(&mut full, 0.25), quantile(&mut full, 0.75)),
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

/// Looks up until the index is as fast as it gets, and then for so long: the rate after two seconds, and that of each stretch at last.
fn look_up(
    mut reader: Reader<'_>,
    is_full: &AtomicBool,
    (start, time): (Instant, Duration),
    clock: &Clock,
) -> (f64, Vec<f64>) {
    #[cfg(target_os = "linux")]
    let _ = port::pin_to_core(0);
    while !is_full.load(Acquire) && start.elapsed() < AT - WINDOW {
        reader.stretch();
    }
    let early = quantile(&mut rates(&mut reader, WINDOW, clock), 0.5);
    while !is_full.load(Acquire) {
        reader.stretch();
    }
    (early, rates(&mut reader, time.max(WINDOW), clock))
}

/// Million lookups a second, of each stretch in this time, and of one at least.
fn rates(reader: &mut Reader<'_>, time: Duration, clock: &Clock) -> Vec<f64> {
    let begun = Instant::now();
    let mut rates = vec![mlps(reader.stretch().0, clock)];
    while begun.elapsed() < time {
        rates.push(mlps(reader.stretch().0, clock));
    }
    rates
}
