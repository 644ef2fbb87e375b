//! `polyplane experiment clip`: figures and tables of CLIP (programs over a switch and servers),
//! beside the paper's values.
//!
//! Rows are simulated with both halves of a program, on the selected engine: links of 1 us, a
//! server that takes 9 us for a request, 1.5 ms until an entry works in the switch.

mod simulated;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use command::Ended;
use command::engine::Choice;
use port::Signal;
use serde::Serialize;
use support::text_table;
use terminal::out;

use super::{Progress, head, write};
use placement::{Nesting, Policy};
use simulated::{Case, Keys, Outcome};

/// Exponents of Zipf's distribution in figures 7 to 9.
const ALPHAS: [f64; 5] = [0.5, 0.8, 0.9, 0.95, 0.99];

/// Number of flows.
const FLOWS: u32 = 10_000;

#[derive(Args)]
pub(super) struct Clip {
    /// The figures.
    #[arg(long, value_name = "N", value_delimiter = ',', value_enum, default_values = ["7", "8", "9", "10"])]
    figures: Vec<Number>,
    /// The tables.
    #[arg(long, value_name = "N", value_delimiter = ',', value_enum, default_values = ["1"])]
    tables: Vec<TableNumber>,
    /// Share of the packets: 1 is a million for each row.
    #[arg(long, value_name = "F", default_value_t = 0.2, value_parser = command::topology::share)]
    scale: f64,
    /// Directory for tables; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    choice: Choice,
    /// Write the rows as JSON.
    #[arg(long)]
    json: bool,
}

/// The available figures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Number {
    /// Reports and packets by policy.
    #[value(name = "7")]
    Reports,
    /// Share of packets in the switch, exact keys.
    #[value(name = "8")]
    Shares,
    /// Share of packets in the switch, prefixes.
    #[value(name = "9")]
    Prefixes,
    /// Distribution of latencies.
    #[value(name = "10")]
    Latencies,
}

/// The available tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum TableNumber {
    /// Latencies by policy.
    #[value(name = "1")]
    Latencies,
}

/// One row. Values that it does not have are null.
#[derive(Serialize)]
struct Row {
    /// The figure or table.
    place: &'static str,
    keys: &'static str,
    policy: &'static str,
    alpha: f64,
    flows: u32,
    top: u64,
    packets: u64,
    /// Kind of measurement.
    measured: &'static str,
    ran: &'static str,
    #[serde(flatten)]
    outcome: Outcome,
    paper: &'static str,
}

/// Measures the figures and tables.
///
/// # Errors
/// A simulation fails, or a file cannot be written.
pub(super) fn run(
    options: &Clip,
    take_signal: &dyn Fn() -> Option<Signal>,
) -> Result<Ended, String> {
    std::fs::create_dir_all(&options.out)
        .map_err(|error| format!("cannot make {}: {error}", options.out.display()))?;
    let packets = ((1e6 * options.scale) as u64).max(1000);
    let mut progress = Progress::new();
    let cases = cases(options);
    let mut rows = Vec::new();
    for (done, (place, case)) in cases.iter().enumerate() {
        progress.tell("clip", done as f64 / cases.len() as f64);
        let case = Case { packets, ..*case };
        rows.push(Row {
            place,
            keys: case.keys.name(),
            policy: case.policy.name(),
            alpha: case.alpha,
            flows: case.flows,
            top: case.top,
            packets,
            measured: "simulated",
            ran: "both halves",
            outcome: simulated::run(&case, options.choice, take_signal)?,
            paper: paper(place, &case),
        });
    }
    drop(progress);
    let text = text(&rows);
    let json = serde_json::to_string_pretty(&rows);
    let json = json.map_err(|error| format!("cannot write rows as JSON: {error}"))?;
    write(&options.out.join("clip.json"), &json)?;
    write(&options.out.join("clip.txt"), &text)?;
    match options.json {
        true => out::json(&rows),
        false => out::text(&text),
    }
    Ok(Ended::Well)
}

/// Returns the place and the setting of each row. The paper's policies R and H take 1 - alpha of
/// the flows.
fn cases(options: &Clip) -> Vec<(&'static str, Case)> {
    let case = |keys, policy, alpha, top| Case {
        keys,
        policy,
        alpha,
        flows: FLOWS,
        top,
        packets: 0,
    };
    let mut cases = Vec::new();
    let has = |number| options.figures.contains(&number);
    if has(Number::Reports) || has(Number::Shares) {
        for alpha in ALPHAS {
            let top = ((1.0 - alpha) * f64::from(FLOWS)).round() as u64;
            let all = Policy::ALL.map(|policy| case(Keys::Exact, policy, alpha, top));
            cases.extend(all.map(|case| ("figures 7, 8", case)));
        }
    }
    if has(Number::Prefixes) {
        for alpha in ALPHAS {
            let top = ((1.0 - alpha) * f64::from(FLOWS)).round() as u64;
            let keys = Keys::Prefixes(Nesting::Cover);
            let all = Policy::ALL.map(|policy| case(keys, policy, alpha, top));
            cases.extend(all.map(|case| ("figure 9", case)));
        }
    }
    if has(Number::Latencies) || options.tables.contains(&TableNumber::Latencies) {
        for top in [1000, 5000] {
            let all = Policy::ALL.map(|policy| case(Keys::Exact, policy, 0.9, top));
            cases.extend(all.map(|case| ("table I, figure 10", case)));
        }
        for nesting in [Nesting::Leaf, Nesting::Cover] {
            let keys = Keys::Prefixes(nesting);
            let all = Policy::ALL.map(|policy| case(keys, policy, 0.9, 1000));
            cases.extend(all.map(|case| ("table I, figure 10", case)));
        }
    }
    cases
}

/// Returns what the paper says of a row.
fn paper(place: &str, case: &Case) -> &'static str {
    match (place, case.keys, case.policy) {
        ("table I, figure 10", Keys::Exact, Policy::None) => "17.92 ± 5.94 us",
        ("table I, figure 10", Keys::Exact, Policy::Random) => "7.45 ± 7.62 us",
        ("table I, figure 10", Keys::Exact, Policy::Threshold) => "3.07 ± 3.06 us; 90 % below 8 us",
        ("table I, figure 10", Keys::Exact, Policy::Heap) => "2.74 ± 1.93 us",
        ("table I, figure 10", _, Policy::None) => "18.92 ± 5.77 us",
        ("table I, figure 10", _, Policy::Random) => "17.02 ± 7.38 us",
        ("table I, figure 10", _, Policy::Threshold) => "12.11 ± 8.94 us; 37 % below 8 us",
        ("table I, figure 10", _, Policy::Heap) => "9.78 ± 8.13 us",
        (_, _, Policy::None) => "all packets at servers",
        (_, _, Policy::Random | Policy::Heap) => "1 - alpha of the flows selected",
        (_, _, Policy::Threshold) => "56.7 to 99.2 % fewer reports than H",
    }
}

fn text(rows: &[Row]) -> String {
    let mut table = vec![head(&[
        "place", "keys", "policy", "alpha", "top", "share %", "exact %", "reports", "us", "±",
        "90 %", "< 8 us %", "paper",
    ])];
    table.extend(rows.iter().map(|row| {
        let found = &row.outcome;
        vec![
            row.place.to_owned(),
            row.keys.to_owned(),
            row.policy.to_owned(),
            row.alpha.to_string(),
            row.top.to_string(),
            format!("{:.1}", found.share_percent),
            format!("{:.1}", found.exact_share_percent),
            format!("{:.0}", found.reports_in_window),
            format!("{:.2}", found.mean_us),
            format!("{:.2}", found.deviation_us),
            format!("{:.2}", found.p90_us),
            format!("{:.1}", found.below_8_us_percent),
            row.paper.to_owned(),
        ]
    }));
    format!(
        "CLIP: simulated, both halves; shares and latencies of the second half of the packets\n\n{}",
        text_table::align(&table)
    )
}
