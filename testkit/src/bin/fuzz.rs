//! `fuzz TARGET SECONDS SEED [--case N] [--limit SECONDS] [--corpus DIR]...`: runs a fuzz target.
//! Fails if it finds a fault.

use std::process::ExitCode;
use std::time::Duration;

use testkit::fuzz::{Options, Target, run};

const USAGE: &str = "usage: fuzz front|packets|engines|ir|entries|messages|text|split|jobs|datagrams|frames|pof|reports|loops|raft|commands|images SECONDS SEED [--case N] [--limit SECONDS] [--corpus DIR]...";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((target, options)) = parse(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let summary = match run(target, &options) {
        Ok(summary) => summary,
        Err(error) => {
            eprintln!("fuzz: cannot write findings: {error}");
            return ExitCode::from(2);
        }
    };
    println!(
        "{} cases, {} accepted, {} findings",
        summary.cases,
        summary.accepted,
        summary.findings.len()
    );
    match summary.findings.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn parse(words: &[String]) -> Option<(Target, Options)> {
    let [target, seconds, seed, rest @ ..] = words else {
        return None;
    };
    let mut options = Options {
        time: Duration::from_secs(seconds.parse().ok()?),
        seed: seed.parse().ok()?,
        only: None,
        cases: u64::MAX,
        corpus: Vec::new(),
        limit: Duration::from_secs(2),
    };
    for pair in rest.chunks(2) {
        let [name, value] = pair else { return None };
        match name.as_str() {
            "--case" => options.only = Some(value.parse().ok()?),
            "--limit" => options.limit = Duration::from_secs(value.parse().ok()?),
            "--corpus" => options.corpus.push(value.into()),
            _ => return None,
        }
    }
    Some((Target::named(target)?, options))
}
