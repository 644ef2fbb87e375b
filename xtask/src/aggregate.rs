//! `cargo xtask aggregate`: random reductions with faults, compared with plain maps; or all
//! schedules of a small reduction.

use crate::{Outcome, cargo};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of random jobs, each named by its seed.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Explore all schedules of two mappers with three messages each and one change of epoch, with
    /// faults.
    #[arg(long)]
    explore: bool,
}

/// Losses, duplicates, loads of the switch with empty registers, and loads that keep them.
const BOUNDS: [[&str; 4]; 2] = [["2", "2", "1", "0"], ["1", "1", "0", "1"]];

pub(crate) fn run(options: &Options) -> Outcome {
    if options.explore {
        return BOUNDS
            .iter()
            .try_for_each(|bounds| run_example("explore", bounds));
    }
    let (first, seeds) = (options.first.to_string(), options.seeds.to_string());
    run_example("random_jobs", &[&first, &seeds])
}

fn run_example(name: &str, words: &[&str]) -> Outcome {
    let mut all = vec![
        "run",
        "--profile",
        "checked",
        "--quiet",
        "--package",
        "aggregate",
        "--example",
        name,
        "--",
    ];
    all.extend(words);
    cargo(&all)
}
