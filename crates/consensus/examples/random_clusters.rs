//! Runs seeds of the simulation: `cargo run -p consensus --example random_clusters -- FIRST COUNT`.
//!
//! With `histories FIRST COUNT CORRUPTED` it writes histories of keys as JSON lines instead: this
//! many recorded ones, then corrupted ones until this many are not linearizable. Each line has this
//! crate's verdict.

use std::io::Write;
use std::process::ExitCode;

#[path = "../src/sim/mod.rs"]
mod sim;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (is_record, numbers) = match words.split_first() {
        Some((first, rest)) if first == "histories" => (true, rest),
        _ => (false, &words[..]),
    };
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|word| word.parse()).collect();
    let outcome = match (is_record, numbers.as_deref()) {
        (true, Ok([first, count, corrupted])) => write_histories(*first, *count, *corrupted),
        (false, Ok([first, count])) => run_seeds(*first, *count),
        (false, Ok([])) => run_seeds(0, 100),
        _ => Err(
            "usage: random FIRST COUNT: two numbers, the first seed and how many\n       \
             random histories FIRST COUNT CORRUPTED"
                .to_owned(),
        ),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run_seeds(first: u64, count: u64) -> Result<(), String> {
    let mut failures = 0;
    let mut all = sim::Report::default();
    for seed in first..first.saturating_add(count) {
        match sim::run(seed, sim::Variant::default()) {
            Ok(report) => all.add(&report),
            Err(error) => {
                println!("{error}");
                failures += 1;
            }
        }
    }
    println!("{count} seeds, {failures} failures: {all:#?}");
    match failures {
        0 => Ok(()),
        _ => Err(format!("{failures} of {count} seeds fail")),
    }
}

fn write_histories(first: u64, count: u64, corrupted: u64) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    let mut write = |line: &str| writeln!(out, "{line}").map_err(|error| error.to_string());
    let mut recorder = sim::Recorder::new(first);
    let text = |error: sim::RecorderError| error.to_string();
    for _ in 0..count {
        write(&recorder.next().map_err(text)?.0)?;
    }
    let mut refused = 0;
    while refused < corrupted {
        let (line, is_linearizable) = recorder.next_corrupted().map_err(text)?;
        refused += u64::from(!is_linearizable);
        write(&line)?;
    }
    Ok(())
}
