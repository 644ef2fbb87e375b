//! Measures a table after loading. One thread looks up keys while another improves the index, as
//! an idle device does. Then the rate with the final index is measured, before any entry changes.

use super::Sample;
use super::measure::{Reader, Shared, mlps};
use crate::clock::Clock;
use crate::measure::quantile;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::time::{Duration, Instant};
use table::{Improved, Table};

/// Time after loading at which the early rate is measured, or before if the index is final
/// earlier.
const AT: Duration = Duration::from_secs(2);
/// Duration of that measurement.
const WINDOW: Duration = Duration::from_millis(100);
/// Time that a device spends on an index before it checks for other work.
const BUDGET: Duration = Duration::from_millis(10);

/// Results for a table after loading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loaded {
    /// Million lookups per second two seconds after loading.
    pub mlps_at_2s: f64,
    /// Seconds until the final index was published. 0 if the first index was final.
    pub seconds_to_full: f64,
    /// Million lookups per second with the final index.
    pub mlps: f64,
    /// Interquartile range of `mlps`.
    pub middle_half: (f64, f64),
}

/// Measures lookups in a freshly loaded `table` of the sample while its index is improved. Then
/// measures the final index for `time`.
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
        // On a separate thread, because the caller's thread must not stay pinned.
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

/// Publishes better indexes until there are none. Returns the time of the last publication.
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

/// Looks up keys until the index is final, and then for `time`. Returns the rate after two
/// seconds, and the rates with the final index.
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

/// Returns million lookups per second for each sample interval within `time`, at least one.
fn rates(reader: &mut Reader<'_>, time: Duration, clock: &Clock) -> Vec<f64> {
    let begun = Instant::now();
    let mut rates = vec![mlps(reader.stretch().0, clock)];
    while begun.elapsed() < time {
        rates.push(mlps(reader.stretch().0, clock));
    }
    rates
}
