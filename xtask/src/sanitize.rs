//! `cargo xtask sanitize miri|address`: runs the tests of crates with `unsafe` code, and of their
//! users, under Miri or AddressSanitizer.
//!
//! Miri interprets Rust only. It checks the memory of packets and tables, the provenance of
//! addresses (`-Zmiri-strict-provenance`) and data races. It does not run system calls or native
//! code. It is about a thousand times slower. So tests have other sizes under `cfg!(miri)`
//! (`table`'s `test_size.rs`), a property is tried in two cases, and tests that need many rules or
//! rows are ignored with a reason. Its processor has only baseline instructions, so `table`'s
//! `prefetch.rs` and `compare.rs` use their portable code.
//!
//! AddressSanitizer checks accesses of Rust to frames, rings and the memory of compiled code, also
//! in real system calls (`port`'s tests need root for these). It does not check native code.
//!
//! Both need a nightly compiler (`rustup toolchain install nightly --component miri,rust-src`).

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

/// Arguments for cargo that name packages and their tests.
type Tests = &'static [&'static str];

impl Sanitizer {
    /// Returns the packages and tests that the tool can check.
    fn tests(self) -> &'static [Tests] {
        match self {
            Self::Miri => &[
                &["-p", "packet"],
                &["-p", "table", "--lib"],
                &["-p", "exec", "--lib"],
                // Both sides of a ring's queues, with the reorderings of a weak memory model.
                &["-p", "port", "--lib", "ring::lane"],
            ],
            Self::Address => &[
                &["-p", "packet", "-p", "table", "-p", "jit"],
                &["-p", "port"],
                &[
                    "-p", "testkit", "--test", "programs", "--test", "engines", "--test", "bursts",
                    "--test", "workers", "--test", "hashed", "--test", "lookups", "--test",
                    "steady",
                ],
            ],
        }
    }

    /// Returns cargo's subcommand and target. With an explicit target, build scripts run outside of
    /// the tool.
    fn cargo_words(self, target: &str) -> Vec<&str> {
        match self {
            Self::Miri => vec!["miri", "test"],
            Self::Address => vec!["test", "--target", target],
        }
    }

    /// Returns environment variables for cargo, the compiler and the tests.
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Miri => &[
                // Proptest looks for its regression files.
                (
                    "MIRIFLAGS",
                    "-Zmiri-disable-isolation -Zmiri-strict-provenance",
                ),
                // Cases take a thousand times as long as without Miri.
                ("PROPTEST_CASES", "2"),
            ],
            Self::Address => &[
                ("RUSTFLAGS", "-Zsanitizer=address"),
                // Each access is checked, and optimized code has fewer.
                ("CARGO_PROFILE_DEV_OPT_LEVEL", "1"),
            ],
        }
    }
}

pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let with = options.with;
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let words = with.cargo_words(&target);
    let mut tests = with.tests().iter();
    tests.try_for_each(|tests| nightly(root, &[&words[..], *tests].concat(), with.settings()))
}

/// Runs a nightly cargo with a target folder of its own.
fn nightly(root: &Path, words: &[&str], settings: &[(&str, &str)]) -> Outcome {
    let status = Command::new("rustup")
        .args(["run", "nightly", "cargo"])
        .args(words)
        .envs(settings.iter().copied())
        .env("CARGO_TARGET_DIR", root.join("target/sanitize"))
        // The cargo that runs this sets another compiler.
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
