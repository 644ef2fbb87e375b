//! `cargo xtask fuzz TARGET --seconds S`: runs one of the fuzz targets in `testkit` for some time.
//!
//! A seeded generator drives the targets, so they need no nightly compiler. They are built with
//! optimizations and all checks. A finding is printed with its seed and input.

use std::path::Path;
use std::process::Command;

use crate::Outcome;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// `front` (P4 text to IR), `packets` (random packets and entries through programs), `engines`
    /// (random programs on all engines), `ir` (mutated IR text), `entries` (mutated entries files),
    /// `messages` (P4Runtime requests with changed bytes), `text` (random programs printed as P4
    /// text), `split` (random programs over a switch and servers), `jobs` (mutated job files of
    /// reductions), `datagrams` (messages of reductions), `frames` (frames of engines), `pof`
    /// (messages of POF controllers), `reports` (telemetry reports), `loops` (mutated loop files),
    /// `raft` (messages of the members of a store), `commands` (changes of elements) or `images`
    /// (images of RISC-V programs).
    target: String,
    /// Seconds to run.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Seed of the random stream. Every finding is printed with it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let status = Command::new(env!("CARGO"))
        .args([
            "run",
            "--profile",
            "checked",
            "--quiet",
            "--package",
            "testkit",
            "--bin",
            "fuzz",
            "--",
        ])
        .args([
            &options.target,
            &options.seconds.to_string(),
            &options.seed.to_string(),
        ])
        .current_dir(root)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!(
            "the fuzz target {} found something",
            options.target
        ))
    }
}
