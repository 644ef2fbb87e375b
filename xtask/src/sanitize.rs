//! `cargo xtask sanitize miri|address`: runs the tests of the rooms that hold `unsafe`, or what it hands out, under Miri or AddressSanitizer.
//!
//! Miri interprets Rust only: it sees the memory of packets and tables, where addresses that are handed out come from (`-Zmiri-strict-provenance`), and
//! what threads do to each other's memory; not system calls and not native code. It takes about a thousand times as long, so sizes of tests are others
//! where `cfg!(miri)` holds (`table`'s `test_size.rs`), a property is tried for two cases, and tests that need many rules or rows say why they are ignored.
//! Its processor has no instructions beyond what all have, so what `table`'s `prefetch.rs` and `compare.rs` do with more of them is done without there.
//!
//! AddressSanitizer sees what Rust does with frames, rings and the memory of compiled code, in real system calls too (`port`'s tests want root for these),
//! but not what native code reads and writes by itself.
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

/// Words for cargo that name packages, and which of their tests.
type Tests = &'static [&'static str];

impl Sanitizer {
    /// What it can see something of.
    fn tests(self) -> &'static [Tests] {
        match self {
            Self::Miri => &[
                &["-p", "packet"],
                &["-p", "table", "--lib"],
                &["-p", "exec", "--lib"],
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

    /// How cargo runs tests with it. A target that is named keeps build scripts out of it.
    fn cargo_words(self, target: &str) -> Vec<&str> {
        match self {
            Self::Miri => vec!["miri", "test"],
            Self::Address => vec!["test", "--target", target],
        }
    }

    /// What cargo, the compiler and the tests are told by the environment.
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Miri => &[
                // Proptest asks where its files are.
                (
                    "MIRIFLAGS",
                    "-Zmiri-disable-isolation -Zmiri-strict-provenance",
                ),
                // They take a thousand times as long as without Miri.
                ("PROPTEST_CASES", "2"),
            ],
            Self::Address => &[
                ("RUSTFLAGS", "-Zsanitizer=address"),
                // Each access is checked: a little optimised there are fewer.
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
