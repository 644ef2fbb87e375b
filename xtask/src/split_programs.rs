//! `cargo xtask split-programs`: random packets and changes through split programs, compared with
//! one device.

use std::process::Command;

use clap::Args;

use crate::{Outcome, root};

#[derive(Args)]
pub(crate) struct Options {
    /// Number of seeds for each program.
    #[arg(long, default_value_t = 50)]
    seeds: u64,
    /// Only programs with this in their paths.
    #[arg(long)]
    only: Option<String>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let mut command = Command::new(env!("CARGO"));
    command
        .args([
            "test",
            "--release",
            "--quiet",
            "-p",
            "testkit",
            "--test",
            "split",
            "--test",
            "split_flows",
            "--",
            "--skip",
            "pass_their_tests",
        ])
        .env("SPLIT_SEEDS", options.seeds.to_string())
        .current_dir(root());
    if let Some(only) = &options.only {
        command.env("SPLIT_ONLY", only);
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("a split program differs from one device".to_owned()),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}

#[derive(Args)]
pub(crate) struct FloatOptions {
    /// Number of packets.
    #[arg(long, default_value_t = 1_000_000)]
    packets: u64,
}

/// Sends random floats through P4 and C, and compares with the same C code alone.
pub(crate) fn run_floats(options: &FloatOptions) -> Outcome {
    let mut command = Command::new(env!("CARGO"));
    command
        .args([
            "test",
            "--release",
            "--quiet",
            "-p",
            "testkit",
            "--test",
            "split",
            "--",
            "floats",
        ])
        .env("FLOATS", options.packets.to_string())
        .current_dir(root());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("a float or a result differs".to_owned()),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}
