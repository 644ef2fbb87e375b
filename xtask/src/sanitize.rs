//! `cargo xtask sanitize miri|address`: runs the tests of the rooms that hold `unsafe`, or what it hands out, under Miri or AddressSanitizer.
//!
//! Miri interprets Rust only: it sees the memory of packets and tables, not system calls and not native code. AddressSanitizer sees what Rust does
//! with frames, rings and the memory of compiled code, in real system calls too. Both need a nightly compiler
//! (`rustup toolchain install nightly --component miri,rust-src`).

use std::path::Path;
use std::process::Command;

use crate::Outcome;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(value_enum)]
    with: Sanitizer,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Sanitizer {
    /// The memory of packets, values and tables.
    Miri,
    /// Ports, native code and the programs of `testkit` on it.
    Address,
}

/// What Miri can interpret: packages, and which tests.
const INTERPRETED: &[&[&str]] = &[
    &["-p", "packet"],
    &["-p", "table", "--lib"],
    &["-p", "exec", "--lib"],
];

/// What runs with AddressSanitizer.
const INSTRUMENTED: &[&[&str]] = &[
    &["-p", "packet", "-p", "table", "-p", "jit"],
    &["-p", "port"],
    &[
        "-p", "testkit", "--test", "programs", "--test", "engines", "--test", "bursts", "--test",
        "workers",
    ],
];

pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    match options.with {
        Sanitizer::Miri => INTERPRETED.iter().try_for_each(|words| {
            // Proptest asks where its files are; cases take a thousand times as long as without Miri.
            let settings = [
                ("MIRIFLAGS", "-Zmiri-disable-isolation"),
                ("PROPTEST_CASES", "2"),
            ];
            nightly(root, &[&["miri", "test"], *words].concat(), &settings)
        }),
        Sanitizer::Address => INSTRUMENTED.iter().try_for_each(|words| {
            // A target that is named keeps build scripts out of it.
            let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
            let settings = [("RUSTFLAGS", "-Zsanitizer=address")];
            nightly(
                root,
                &[&["test", "--target", &target], *words].concat(),
                &settings,
            )
        }),
    }
}

/// Runs a nightly cargo in a target folder of its own.
fn nightly(root: &Path, words: &[&str], settings: &[(&str, &str)]) -> Outcome {
    let status = Command::new("rustup")
        .args(["run", "nightly", "cargo"])
        .args(words)
        .envs(settings.iter().copied())
        .env("CARGO_TARGET_DIR", root.join("target/sanitize"))
        // The compiler of the cargo that runs this is another one.
        .env_remove("RUSTC")
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN")
        .current_dir(root)
        .status()
        .map_err(|error| format!("cannot start rustup: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{} failed", words.join(" "))),
    }
}
