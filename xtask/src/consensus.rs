//! `cargo xtask consensus`: simulated clusters with faults, or all states of a small one.
//! `cargo xtask reflex-linear`: histories judged by our checker and by porcupine.
//! `cargo xtask reflex-soak`: real processes of members that are killed under load.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Outcome, cargo};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of simulated clusters, each named by its seed.
    #[arg(long, default_value_t = 100_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Explore all states of three nodes instead, within several bounds.
    #[arg(long)]
    explore: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    if options.explore {
        return cargo(&[
            "test",
            "--release",
            "--quiet",
            "--package",
            "consensus",
            "--lib",
            "--",
            "--ignored",
            "--nocapture",
            "all_states",
        ]);
    }
    let parts = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    cargo(&[
        "build",
        "--release",
        "--quiet",
        "--package",
        "consensus",
        "--example",
        "random_clusters",
    ])?;
    // Each process has a range of the seeds.
    let mut children = Vec::new();
    for part in 0..parts {
        let from = options.seeds * part / parts;
        let count = options.seeds * (part + 1) / parts - from;
        let first = options.first.saturating_add(from);
        let child = example()
            .args([first.to_string(), count.to_string()])
            .spawn()
            .map_err(|error| format!("cannot start the simulation: {error}"))?;
        children.push(child);
    }
    let mut failed = false;
    for mut child in children {
        failed |= !child.wait().is_ok_and(|status| status.success());
    }
    match failed {
        true => Err("seeds fail".to_owned()),
        false => Ok(()),
    }
}

fn example() -> Command {
    Command::new(crate::target().join("release/examples/random_clusters"))
}

#[derive(clap::Args)]
pub(crate) struct LinearOptions {
    /// Number of recorded histories.
    #[arg(long, default_value_t = 1_000)]
    histories: u64,
    /// Number of corrupted histories that both must refuse.
    #[arg(long, default_value_t = 100)]
    corrupted: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
}

/// Judges histories of simulated clusters by porcupine too. Without Go or its module the command is
/// reported as skipped.
pub(crate) fn run_linear(root: &Path, options: &LinearOptions) -> Outcome {
    let home = crate::target().join("porcupine");
    std::fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
    let porcupine = match crate::clients::build_go(&root.join("xtask/porcupine"), &home) {
        Ok(program) => program,
        Err(why) => {
            println!("porcupine: skipped: {why}");
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
        "random_clusters",
    ])?;
    let numbers = [options.first, options.histories, options.corrupted];
    let recorded = example()
        .arg("histories")
        .args(numbers.map(|number| number.to_string()))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start the simulation: {error}"))?;
    if !recorded.status.success() {
        return Err("the histories cannot be recorded".to_owned());
    }
    let theirs = judge(&porcupine, recorded.stdout.clone())?;
    let text = String::from_utf8(recorded.stdout).map_err(|error| error.to_string())?;
    let ours: Vec<bool> = text
        .lines()
        .map(|line| line.starts_with(r#"{"linearizable":true"#))
        .collect();
    if ours.len() != theirs.len() {
        let (ours, theirs) = (ours.len(), theirs.len());
        return Err(format!("{ours} histories have {theirs} verdicts"));
    }
    let mut both = ours.iter().zip(&theirs);
    if let Some(at) = both.position(|(one, other)| one != other) {
        let (line, verdict) = (text.lines().nth(at).unwrap_or(""), theirs[at]);
        return Err(format!("porcupine says {verdict} of {line}"));
    }
    let recorded = options.histories as usize;
    let accepted = ours[..recorded].iter().filter(|verdict| **verdict).count();
    let changed = &ours[recorded..];
    let refused = changed.iter().filter(|verdict| !**verdict).count();
    println!(
        "{accepted} of {recorded} recorded histories are linearizable by both checkers; of {} \
         corrupted ones both refuse {refused} and accept {}",
        changed.len(),
        changed.len() - refused
    );
    match accepted == recorded && refused as u64 >= options.corrupted {
        true => Ok(()),
        false => Err("a recorded history is not linearizable".to_owned()),
    }
}

/// Gives histories to porcupine. Returns its verdicts.
fn judge(porcupine: &Path, histories: Vec<u8>) -> Result<Vec<bool>, String> {
    let mut child = Command::new(porcupine)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start porcupine: {error}"))?;
    let mut input = child.stdin.take().ok_or("no standard input")?;
    let writer = std::thread::spawn(move || input.write_all(&histories));
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    let written = writer.join().map_err(|_| "the writer panics")?;
    written.map_err(|error| format!("porcupine stops early: {error}"))?;
    let text = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
    text.lines()
        .map(|line| line.parse().map_err(|_| format!("porcupine says {line}")))
        .collect()
}

#[derive(clap::Args)]
pub(crate) struct PeerOptions {
    /// Number of runs of each, by turns, of which medians are taken.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

/// Builds the programs of raft-rs. Returns their target directory, or why they cannot be built.
///
/// # Errors
/// `cargo` does not start.
pub(crate) fn build_peer(root: &Path) -> Result<Result<PathBuf, String>, String> {
    let home = crate::target().join("raft_peer");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "--locked"])
        .current_dir(root.join("xtask/raft_peer"))
        .env("CARGO_TARGET_DIR", &home)
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if built.status.success() {
        return Ok(Ok(home));
    }
    let text = String::from_utf8_lossy(&built.stderr).into_owned();
    let why = text.lines().find(|line| line.contains("protoc"));
    let why = why.or(text.lines().last()).unwrap_or("it cannot be built");
    Ok(Err(why.trim().to_owned()))
}

/// Measures committed writes here and in raft-rs by turns. Without `protoc`, which raft-rs needs to
/// be built, or without its packages the command is reported as skipped.
pub(crate) fn run_peers(root: &Path, options: &PeerOptions) -> Outcome {
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
        "write_latency",
    ])?;
    let programs = [
        crate::target().join("release/examples/write_latency"),
        home.join("release/raft_peer"),
    ];
    let (mut here, mut there, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let (one, other) = (median_of(&programs[0])?, median_of(&programs[1])?);
        println!("here {one} ns, raft-rs {other} ns");
        here.push(one);
        there.push(other);
        ratios.push(one / other);
    }
    let middle = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!(
        "a write committed by three nodes: here {} ns, raft-rs {} ns, ratio {:.3}; medians of {} runs",
        middle(&mut here),
        middle(&mut there),
        middle(&mut ratios),
        options.rounds
    );
    Ok(())
}

/// Runs a program that prints `median N ns`. Returns the number.
fn median_of(program: &Path) -> Result<f64, String> {
    let output = Command::new(program)
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.split("median ").nth(1).and_then(|rest| {
        let word = rest.split(' ').next()?;
        word.parse().ok()
    });
    number.ok_or_else(|| format!("{} says {text}", program.display()))
}

#[derive(clap::Args)]
pub(crate) struct SoakOptions {
    /// Number of kills, and of stops, for each way of messages: UDP, rings and AF_XDP. A disk is
    /// filled for each twenty of them.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    faults: u32,
}

/// Runs members of a store as processes under faults. Disks are filled only with the right to mount
/// file systems.
pub(crate) fn run_soak(options: &SoakOptions) -> Outcome {
    let words = [
        "test",
        "--release",
        "--package",
        "cli",
        "--test",
        "reflex_soak",
        "--",
        "--include-ignored",
        "--nocapture",
        "--test-threads=1",
        "members_over",
    ];
    let status = Command::new(env!("CARGO"))
        .args(words)
        .env("POLYPLANE_SOAK_FAULTS", options.faults.to_string())
        .current_dir(crate::root())
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => {
            Err("a write is lost, a history is not linearizable, or there is no leader".to_owned())
        }
    }
}
