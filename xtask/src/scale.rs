//! `cargo xtask scale`: time and memory of compilations as programs grow, by construct.

use std::process::Command;

use clap::Args;

use crate::{Outcome, root};

#[derive(Args)]
pub(crate) struct Options {
    /// Maximum size.
    #[arg(long, default_value_t = 100_000)]
    most: usize,
    /// Only constructs with this in their names.
    #[arg(long)]
    only: Option<String>,
    /// The engine that loads the programs: `interp`, or `jit` for native code.
    #[arg(long, default_value = "interp")]
    engine: String,
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
            "scale",
            "--",
        ])
        .args(["--ignored", "--nocapture", "table_of_all_constructs"])
        .env("SCALE_MOST", options.most.to_string())
        .env("SCALE_ENGINE", &options.engine)
        .current_dir(root());
    if let Some(only) = &options.only {
        command.env("SCALE_ONLY", only);
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the measurement failed".to_owned()),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}
