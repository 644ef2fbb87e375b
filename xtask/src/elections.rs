//! `cargo xtask reflex-elections`: schedules of elections here and in raft-rs. In each one in which
//! raft-rs gets a leader, so do we.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use support::rng::Rng;

use crate::consensus::build_peer;
use crate::{Outcome, cargo};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of schedules made by chance, beside those of `xtask/elections.txt`.
    #[arg(long, default_value_t = 1_000)]
    schedules: u64,
    /// The seed of the first one.
    #[arg(long, default_value_t = 0)]
    first: u64,
}

/// Runs the schedules. Without `protoc`, which raft-rs needs to be built, or without its packages
/// the command is reported as skipped.
pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let home = match build_peer(root)? {
        Ok(home) => home,
        Err(why) => {
            println!("raft-rs: skipped: {why}");
            return Ok(());
        }
    };
    cargo(&[
        "build",
        "--release",
        "--quiet",
        "--package",
        "consensus",
        "--example",
        "elections",
    ])?;
    let file = root.join("xtask/elections.txt");
    let mut text =
        std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    for number in 0..options.schedules {
        text.push_str(&schedule(options.first.saturating_add(number)));
    }
    let ours = answers(&crate::target().join("release/examples/elections"), &text)?;
    let theirs = answers(&home.join("release/elections"), &text)?;
    let (ours, theirs) = (ours.lines(), theirs.lines());
    let (mut both, mut only_ours, mut none) = (0, 0, 0);
    let mut missing = Vec::new();
    for (one, other) in ours.zip(theirs) {
        let leads = [one, other].map(|line| line.ends_with(" true"));
        match leads {
            [true, true] => both += 1,
            [true, false] => only_ours += 1,
            [false, false] => none += 1,
            [false, true] => missing.push(other),
        }
    }
    println!(
        "of {} questions both have a leader at {both}, only we at {only_ours}, only raft-rs at {}, none at {none}",
        text.lines().filter(|line| *line == "ask").count(),
        missing.len()
    );
    let asked = text.lines().filter(|line| *line == "ask").count();
    match missing.first() {
        Some(line) => Err(format!("no leader here: schedule and question {line}")),
        None if both + only_ours + none != asked => Err("a program ends early".to_owned()),
        None => Ok(()),
    }
}

/// Runs a program with schedules as input. Returns its output.
fn answers(program: &Path, text: &str) -> Result<String, String> {
    let words = |error: std::io::Error| format!("{}: {error}", program.display());
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(words)?;
    // The programs read all before they answer.
    let mut input = child.stdin.take().ok_or("no standard input")?;
    input.write_all(text.as_bytes()).map_err(words)?;
    drop(input);
    let output = child.wait_with_output().map_err(words)?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(|error| error.to_string()),
        false => Err(format!("{} fails", program.display())),
    }
}

/// Returns a schedule of a seed: faults, and questions ten election timeouts after them.
fn schedule(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let nodes = 3 + 2 * rng.below(2);
    let mut text = format!("schedule seed-{seed} {nodes}\n");
    let node = |rng: &mut Rng| 1 + rng.below(nodes);
    for _ in 0..rng.between(2, 5) {
        for _ in 0..rng.between(1, 4) {
            let (one, other) = (node(&mut rng), node(&mut rng));
            let line = match rng.below(8) {
                0 => format!("stop {one}"),
                1 => format!("start {one}"),
                2 => "heal".to_owned(),
                3 => format!("only {one} {}", rng.between(1, 40)),
                4 => "propose".to_owned(),
                5 if one != other => format!("cut {one} {other}\ncut {other} {one}"),
                6 if one != other => format!("cut {one} {other}"),
                _ => format!("run {}", rng.between(1, 30)),
            };
            let _ = writeln!(text, "{line}");
        }
        text.push_str("run 100\nask\n");
    }
    text
}
