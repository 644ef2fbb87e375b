//! `polyplane reflex`: loops from telemetry reports to changes of switches.
//!
//! The crate `reflex` has the plane, `reflex_runtime` its process. This module reads files, runs
//! the plane in a simulated fabric, over captures or on real sources, and prints decisions.

mod control;
mod live;
mod measured;
mod programs;
mod replay;
mod run;
mod show;

use std::path::{Path, PathBuf};

use ::reflex::{Loops, MAX_FILE_BYTES, ReflexPlane};
use clap::{Args, Subcommand};
use command::args::read_text;
use command::topology::read as read_topology;
use packet::Nanos;
use runtime::ProcessSetup;

use crate::engine::Choice;
use crate::{Ended, out};

#[derive(Args)]
#[command(
    subcommand_required = true,
    after_help = "A loop file says which reports concern which monitor, and what a monitor may change. A decision is committed by the replicas of a store, then the \
                  switch gets it.\n\nExamples:\n  \
                  polyplane reflex check examples/reflex/slow_link/loops.toml\n  \
                  polyplane reflex run examples/reflex/slow_link/loops.toml --fabric examples/reflex/slow_link/fabric.toml --capture collector=reports.pcap\n  \
                  polyplane reflex replay examples/reflex/slow_link/loops.toml --in collector=reports.pcap\n  \
                  polyplane reflex run loops.toml --control plane.sock      sources and switches that are real\n  \
                  polyplane reflex member loops.toml --name a --control a.sock   one of several processes\n  \
                  polyplane reflex kv put threshold 20 --control plane.sock\n\n\
                  docs/reference/reflex.md has the file. Exit status: 0, also if there is no decision; 1 for errors in what was given, and for changes that are at no switch at the end of a real run; 2 for wrong usage."
)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check a loop file and print what it declares.
    Check(CheckOptions),
    /// Run loops on real sources and switches, or in a simulated fabric, and print the decisions.
    Run(run::Options),
    /// Run one node of a store in several processes, with its plane.
    Member(live::MemberOptions),
    /// Run loops over captured reports by the captures' times and print the decisions.
    Replay(replay::Options),
    /// Print the state of a running plane.
    Show(control::ShowOptions),
    /// Print what a running plane does, until it ends.
    Watch(control::WatchOptions),
    /// Read or change a key of the store of a running plane.
    Kv(control::KeyOptions),
    /// Read or change thresholds, limits and links of a running plane, in its store.
    Set(control::SetOptions),
    /// Load the P4 program of a monitor of a running plane again, with its state.
    Reload(control::ReloadOptions),
    /// Replace a node of a store in several processes while it runs.
    Replace(control::ReplaceOptions),
}

#[derive(Args)]
struct CheckOptions {
    /// The loop file.
    #[arg(value_name = "LOOPS.toml")]
    loops: PathBuf,
    #[command(flatten)]
    choice: Choice,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    match &options.command {
        Command::Check(options) => {
            let loops = read(&options.loops)?;
            programs::devices(&loops, &options.loops, options.choice, Nanos::ZERO)?;
            match options.json {
                true => out::json(&show::Declared::new(&loops)),
                false => out::text(&show::declared(&loops)),
            }
            Ok(Ended::Well)
        }
        Command::Run(options) => run::run(options, early),
        Command::Member(options) => live::member(options, early),
        Command::Show(options) => control::show(options),
        Command::Watch(options) => control::watch(options, early),
        Command::Kv(options) => control::key(options),
        Command::Set(options) => control::set(options),
        Command::Reload(options) => control::reload(options),
        Command::Replace(options) => control::replace(options),
        Command::Replay(options) => replay::run(options, early),
    }
}

/// Returns the file of each source from texts as `collector=reports.pcap`.
fn by_source(loops: &Loops, given: &[String]) -> Result<Vec<Option<PathBuf>>, String> {
    let mut files = vec![None; loops.sources.len()];
    for text in given {
        let Some((host, file)) = text.split_once('=').filter(|(_, file)| !file.is_empty()) else {
            return Err(format!(
                "\"{text}\" is no source with a file: write SOURCE=FILE, as in collector=reports.pcap"
            ));
        };
        let mut sources = loops.sources.iter();
        let Some(source) = sources.position(|source| source.listen.to_string() == host) else {
            let all = loops.sources.iter().map(|it| it.listen.to_string());
            return Err(format!(
                "no source is at {host}; sources are at {}",
                all.collect::<Vec<_>>().join(", ")
            ));
        };
        if files[source].replace(PathBuf::from(file)).is_some() {
            return Err(format!("source {host} is given twice"));
        }
    }
    Ok(files)
}

/// Creates the plane of a loop file, with the programs of its monitors on this engine.
fn plane(loops: Loops, file: &Path, choice: Choice, start: Nanos) -> Result<ReflexPlane, String> {
    let mut plane = ReflexPlane::new(loops, start);
    prepare(&mut plane, file, choice, start)?;
    Ok(plane)
}

/// Gives a plane the topology of its loop file and the programs of its monitors.
fn prepare(
    plane: &mut ReflexPlane,
    file: &Path,
    choice: Choice,
    start: Nanos,
) -> Result<(), String> {
    set_topology(plane, file)?;
    programs::set(plane, file, choice, start)
}

/// Has detours checked against the topology of the loop file, if it names one.
fn set_topology(plane: &mut ReflexPlane, file: &Path) -> Result<(), String> {
    let Some(topology) = &plane.loops().topology else {
        return Ok(());
    };
    let path = file.with_file_name("").join(topology);
    let read = read_topology(&path).map_err(|error| {
        // The line of the key, for a message only.
        let text = read_text(file, MAX_FILE_BYTES).unwrap_or_default();
        let mut lines = text.lines();
        let line = lines.position(|line| line.trim_start().starts_with("topology"));
        format!(
            "{}:{}: topology: {error}\n  = hint: copy the topology to the folder of the loop file, or remove the line: then detours are not checked",
            file.display(),
            line.map_or(0, |line| line + 1)
        )
    });
    let set = plane.set_topology(&read?);
    set.map_err(|element| {
        let name = &plane.loops().elements[element.0].name;
        format!(
            "{}: there is no switch for the element {name}",
            path.display()
        )
    })
}

/// Reads a loop file.
fn read(path: &Path) -> Result<Loops, String> {
    let text = read_text(path, MAX_FILE_BYTES)?;
    let file = path.display().to_string();
    Loops::read(&file, &text).map_err(|error| error.to_string())
}
