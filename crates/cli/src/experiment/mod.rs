//! `polyplane experiment`: figures of papers, measured here and set beside what the papers say.
//!
//! Each figure is a module that gives [`Row`]s and draws them.

mod figure17;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use crate::early::Early;
use crate::engine::Choice;
use crate::{Ended, out};

#[derive(Args)]
#[command(subcommand_required = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// HyperVDP (virtual data planes): its figures in form.
    #[command(
        after_help = "Figure 17 is simulated (docs/FABRIC.md): completion times of mice and throughputs of elephants over the fat-tree of \
                      examples/fabric/fat_tree. The paper's elephants of 100 MB take long; --scale 0.01 gives them a hundredth.\n\nExample:\n  \
                      polyplane experiment hypervdp --figures 17 --out out/ --scale 0.01"
    )]
    Hypervdp(Hypervdp),
}

#[derive(Args)]
struct Hypervdp {
    /// Which figures.
    #[arg(long, value_name = "N", value_delimiter = ',', value_enum, default_values = ["17"])]
    figures: Vec<Figure>,
    /// Where tables and plots are written; it is made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Figure 17: the topology.
    #[arg(
        long,
        value_name = "TOPO.toml",
        default_value = "examples/fabric/fat_tree/fat_tree.toml"
    )]
    fabric: PathBuf,
    /// Figure 17: which share of their bytes the elephants have.
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = crate::fabric::share)]
    scale: f64,
    #[command(flatten)]
    choice: Choice,
    /// Write the rows as JSON.
    #[arg(long)]
    json: bool,
}

/// The figures that there are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Figure {
    /// Completion times and throughputs over a fat-tree.
    #[value(name = "17")]
    FatTree,
}

/// One line of a figure's table.
#[derive(Serialize)]
struct Row {
    figure: u32,
    /// What runs: a policy, or a fabric's compositions.
    policy: &'static str,
    /// How many virtual data planes share a switch; none where the programs run alone.
    vpdps: u32,
    /// What was measured, with its unit.
    measure: &'static str,
    /// How many values.
    count: usize,
    p10: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    /// What the paper says of it.
    paper: &'static str,
}

pub(crate) fn run(options: &Options, early: &Early) -> Result<Ended, String> {
    let Command::Hypervdp(options) = &options.command;
    std::fs::create_dir_all(&options.out)
        .map_err(|error| format!("cannot make {}: {error}", options.out.display()))?;
    let mut figures = options.figures.clone();
    figures.sort_unstable();
    figures.dedup();
    let mut rows = Vec::new();
    for figure in figures {
        rows.extend(match figure {
            Figure::FatTree => figure17::measure(options, early)?,
        });
    }
    let table = table(&rows);
    write(&options.out.join("hypervdp.txt"), &table)?;
    match options.json {
        true => out::json(&rows),
        false => out::text(&table),
    }
    Ok(Ended::Well)
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>6}  {:22}  {:>5}  {:26}  {:>6}  {:>9}  {:>9}  {:>9}  {:>9}  paper\n",
        "figure", "policy", "vPDPs", "measure", "count", "10 %", "50 %", "90 %", "99 %"
    );
    for row in rows {
        text += &format!(
            "{:>6}  {:22}  {:>5}  {:26}  {:>6}  {:>9.3}  {:>9.3}  {:>9.3}  {:>9.3}  {}\n",
            row.figure,
            row.policy,
            row.vpdps,
            row.measure,
            row.count,
            row.p10,
            row.p50,
            row.p90,
            row.p99,
            row.paper
        );
    }
    text
}
