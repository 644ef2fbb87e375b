//! `polyplane diff`: shows how a switch's state is migrated when another program replaces the
//! running one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use packet::Nanos;
use serde::Serialize;
use support::text_table;
use switch::{Fate, MayLose, MigrationLine, MigrationMode};

use crate::args::{Preprocess, Setup, Source};
use crate::engine::Choice;
use crate::{Ended, configure, out};

#[derive(Args)]
#[command(
    after_help = "A line tells of one kind of state of one object:\n\n  kept       all of it stays as it is, whatever it is\n  converted  all of it stays, in the new program's \
                  form\n  what fits  what has a place in the new program's form stays\n  lost       none of it has a place\n  new        the object begins as the new \
                  program says\n\nMulticast groups, clone sessions and queues are the switch's own and stay; packets inside finish on the old program.\n\nWith \
                  --entries the old program is filled first, and lines tell how many of their things stay. A switch refuses a program that would lose something \
                  (RECONCILE_AND_COMMIT), unless the user names the objects that may lose it: here with --may-lose, for a controller with the gRPC metadata \
                  polyplane-may-lose. docs/reference/program-change.md has the whole rule.\n\nExit status: 0 when a switch would accept the program, 1 when it would refuse it or \
                  for errors in what was given, 2 for wrong usage.\n\nExamples:\n  polyplane diff router.p4 router2.p4\n  polyplane diff router.p4 router2.p4 \
                  --entries router.entries --json"
)]
pub(crate) struct Options {
    /// The program that runs.
    #[arg(value_name = "OLD.p4")]
    old: PathBuf,
    /// The program that replaces it.
    #[arg(value_name = "NEW.p4")]
    new: PathBuf,
    #[command(flatten)]
    preprocess: Preprocess,
    #[command(flatten)]
    setup: Setup,
    /// An object that may lose state, by its whole name; `*` for all. Give one for each.
    #[arg(long = "may-lose", value_name = "NAME")]
    may_lose: Vec<String>,
    /// Also show objects that are kept unchanged.
    #[arg(long)]
    all: bool,
    /// Write all lines as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Told<'l> {
    object: &'l str,
    state: &'static str,
    fate: &'static str,
    reasons: &'l [String],
    held: u64,
    lost: u64,
    /// True if a switch with this state would refuse the program because of it.
    refused: bool,
}

#[derive(Serialize)]
struct Report<'l> {
    accepted: bool,
    lines: Vec<Told<'l>>,
}

pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    let source = |program: &PathBuf| Source {
        program: program.clone(),
        c_file: None,
        preprocess: options.preprocess.clone(),
    };
    let empty = Setup {
        entries: None,
        ..options.setup.clone()
    };
    let (old, new) = (source(&options.old), source(&options.new));
    let Some(mut device) = configure::load(&old, &options.setup, Choice::INTERP, Nanos::ZERO)?
    else {
        return Ok(Ended::WithErrors);
    };
    let Some(next) = configure::load(&new, &empty, Choice::INTERP, Nanos::ZERO)? else {
        return Ok(Ended::WithErrors);
    };
    // The program change itself, on an idle device, gives the answer.
    let changed = device.adopt(next, MigrationMode::State(MayLose::Anything));
    let migration = changed.map_err(|refused| refused.to_string())?;
    let word = word(&options.may_lose);
    let is_refused = |line: &MigrationLine| line.lost > 0 && !word.covers(&line.name);
    let is_accepted = !migration.lines.iter().any(is_refused);
    let told = migration.lines.iter().map(|line| Told {
        object: &line.name,
        state: line.kind.name(),
        fate: line.fate.name(),
        reasons: &line.reasons,
        held: line.held,
        lost: line.lost,
        refused: is_refused(line),
    });
    if options.json {
        out::json(&Report {
            accepted: is_accepted,
            lines: told.collect(),
        });
    } else {
        show(&migration.lines, options, &is_refused);
    }
    match is_accepted {
        true => Ok(Ended::Well),
        false => Ok(Ended::WithErrors),
    }
}

fn word(names: &[String]) -> MayLose {
    match names.iter().any(|name| name == "*") {
        true => MayLose::Anything,
        false => MayLose::These(names.to_vec()),
    }
}

fn show(lines: &[MigrationLine], options: &Options, is_refused: &dyn Fn(&MigrationLine) -> bool) {
    let counts = options.setup.entries.is_some();
    let is_shown = |line: &&MigrationLine| options.all || line.fate != Fate::Kept;
    let mut rows = Vec::new();
    let mut kept: BTreeMap<&str, u64> = BTreeMap::new();
    for line in lines.iter().filter(|line| !is_shown(line)) {
        *kept.entry(line.kind.name()).or_default() += 1;
    }
    for line in lines.iter().filter(is_shown) {
        let mut reasons = line.reasons.join("; ");
        if is_refused(line) {
            reasons = format!("{reasons}; needs your word: --may-lose {}", line.name);
        }
        let mut row = vec![
            line.name.clone(),
            line.kind.name().to_owned(),
            line.fate.name().to_owned(),
        ];
        if counts {
            row.push(format!("{} of {}", line.held - line.lost, line.held));
        }
        row.push(reasons);
        rows.push(row);
    }
    if !rows.is_empty() {
        let head = match counts {
            true => vec!["object", "state", "fate", "stay", "why"],
            false => vec!["object", "state", "fate", "why"],
        };
        rows.insert(0, head.into_iter().map(str::to_owned).collect());
        out::text(&text_table::align(&rows));
    }
    if !kept.is_empty() {
        let kept = kept
            .iter()
            .map(|(kind, count)| format!("{kind} of {count}"));
        let kept: Vec<String> = kept.collect();
        out::line(&format!("kept as they are: {}", kept.join(", ")));
    }
}
