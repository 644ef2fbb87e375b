//! Checks that compile time and memory grow linearly. Twice as much of any construct takes about
//! twice as much time and memory, or is refused by a diagnostic with a location.
//!
//! `cargo xtask scale` runs the ignored test, which measures larger programs and prints a table.

use std::time::{Duration, Instant};

use exec::Engine;
use testkit::scale::{CONSTRUCTS, Construct, STEPS, Times, load, on_large_stack};

/// Maximum factor of memory when the size doubles.
const MAX_MEMORY: f64 = 2.5;
/// Maximum factor of time when the size doubles.
const MAX_TIME: f64 = 2.5;
/// Shorter times are not compared.
const NOISE: Duration = Duration::from_micros(1500);

/// Loads the program of a size. Returns the times and the maximum number of bytes held.
fn measure(construct: &Construct, n: usize, engine: &dyn Engine) -> Result<(Times, u64), String> {
    let text = (construct.program)(n);
    let mut times = Err(String::new());
    let allocated = allocation_counter::measure(|| times = load(&text, engine));
    times.map(|times| (times, allocated.bytes_max))
}

/// Returns the steps that exceed the limit when the size doubles. The shortest of several times is
/// used.
fn too_slow(construct: &Construct, n: usize, engine: &dyn Engine) -> Vec<String> {
    let mut best = [Times([Duration::MAX; STEPS.len()]); 2];
    let mut slow = Vec::new();
    for _ in 0..6 {
        for (best, n) in best.iter_mut().zip([n, 2 * n]) {
            let Ok((times, _)) = measure(construct, n, engine) else {
                return Vec::new();
            };
            for (best, time) in best.0.iter_mut().zip(times.0) {
                *best = (*best).min(time);
            }
        }
        let [one, two] = &best;
        slow = (0..STEPS.len())
            .filter(|&step| two.0[step] > one.0[step].max(NOISE).mul_f64(MAX_TIME))
            .map(|step| {
                let (one, two) = (one.0[step], two.0[step]);
                format!(
                    "{}: {} of size {n} take {one:?}, twice as many {two:?}",
                    STEPS[step], construct.name
                )
            })
            .collect();
        if slow.is_empty() {
            break;
        }
    }
    slow
}

#[test]
fn compilation_takes_time_and_memory_in_proportion_to_each_construct() {
    let found = on_large_stack(|| {
        let mut found = Vec::new();
        for construct in CONSTRUCTS
            .iter()
            .filter(|c| !c.name.starts_with("doubling"))
        {
            let n = construct.size / 2;
            let [one, two] = [n, 2 * n].map(|n| measure(construct, n, &interp::Interp));
            match (&one, &two) {
                (Ok((_, one)), Ok((_, two))) => {
                    if *two as f64 > (*one).max(1 << 16) as f64 * MAX_MEMORY {
                        found.push(format!(
                            "{}: {one} bytes for {n}, {two} for twice as many",
                            construct.name
                        ));
                    }
                }
                (Err(error), _) | (_, Err(error)) => {
                    found.push(format!("{}: {error}", construct.name))
                }
            }
            // Other processes may slow down the larger size. A step that is really superlinear is
            // also slow at twice the sizes.
            if !too_slow(construct, n, &interp::Interp).is_empty() {
                found.extend(too_slow(construct, 2 * n, &interp::Interp));
            }
        }
        found
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_grows_too_large_is_refused_with_its_place_and_at_once() {
    on_large_stack(|| {
        for construct in CONSTRUCTS {
            let mut refused = None;
            for n in [construct.size * 4, 60, 127, 300] {
                if !construct.name.starts_with("doubling") && !construct.name.contains("nest") {
                    continue;
                }
                let started = Instant::now();
                match measure(construct, n, &interp::Interp) {
                    Ok(_) => {}
                    Err(error) => refused = Some((n, error, started.elapsed())),
                }
            }
            if let Some((n, error, time)) = refused {
                assert!(
                    error.starts_with("scaled.p4:") && error.contains(": error[E"),
                    "{} of {n}: {error}",
                    construct.name
                );
                assert!(
                    time < Duration::from_secs(10),
                    "{} of {n}: {time:?}",
                    construct.name
                );
            }
        }
    });
}

/// Measures sizes up to 100,000 or `SCALE_MOST`. The engine is `SCALE_ENGINE`.
#[test]
#[ignore = "takes minutes: cargo xtask scale"]
fn table_of_all_constructs() {
    let given = |name: &str| std::env::var(name).ok();
    let most: usize = given("SCALE_MOST")
        .and_then(|n| n.parse().ok())
        .unwrap_or(100_000);
    let only = given("SCALE_ONLY");
    let name = given("SCALE_ENGINE").unwrap_or_else(|| "interp".to_owned());
    let engines = testkit::engines();
    let engine = engines
        .iter()
        .find(|engine| engine.name() == name)
        .expect("an engine's name");
    println!(
        "{:32} {:>7}  {:>9}  {:>9}  step that takes longest, or the limit",
        "construct", "size", "time", "memory"
    );
    on_large_stack(|| {
        for construct in CONSTRUCTS.iter().filter(|c| {
            only.as_ref()
                .is_none_or(|only| c.name.contains(only.as_str()))
        }) {
            let mut n = construct.size;
            let mut before: Option<(Times, u64)> = None;
            while n <= most {
                let started = Instant::now();
                match measure(construct, n, engine.as_ref()) {
                    Ok((times, bytes)) => {
                        let longest = (0..STEPS.len())
                            .max_by_key(|&step| times.0[step])
                            .unwrap_or(0);
                        let ratio = before.map_or(String::new(), |(old, old_bytes)| {
                            format!(
                                "{} x{:.1} time, x{:.1} memory",
                                STEPS[longest],
                                times.0[longest].as_secs_f64() / old.0[longest].as_secs_f64(),
                                bytes as f64 / old_bytes as f64,
                            )
                        });
                        println!(
                            "{:32} {n:>7}  {:>7.1}ms  {:>7.1}MB  {ratio}",
                            construct.name,
                            times.total().as_secs_f64() * 1e3,
                            bytes as f64 / 1e6
                        );
                        before = Some((times, bytes));
                    }
                    Err(error) => {
                        println!(
                            "{:32} {n:>7}  {:>7.1}ms  {:>9}  {}",
                            construct.name,
                            started.elapsed().as_secs_f64() * 1e3,
                            "refused",
                            error.lines().take(2).collect::<Vec<_>>().join(" ")
                        );
                        break;
                    }
                }
                if started.elapsed() > Duration::from_secs(20) {
                    break;
                }
                n *= 2;
            }
        }
    });
}
