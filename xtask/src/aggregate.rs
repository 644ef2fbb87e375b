//! `cargo xtask aggregate --seeds N`: random reductions with faults, compared with plain maps.

use crate::{Outcome, cargo};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of random jobs, each named by its seed.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let (first, seeds) = (options.first.to_string(), options.seeds.to_string());
    cargo(&[
        "run",
        "--profile",
        "checked",
        "--quiet",
        "--package",
        "aggregate",
        "--example",
        "random",
        "--",
        &first,
        &seeds,
    ])
}
