//! `aggregate run --scheme paper`: the paper's algorithm as printed, in a simulated fabric.

use aggregate::{SequenceReading, WrongKeys};
use command::reductions;
use packet::Nanos;
use runtime::ProcessSetup;
use serde::Serialize;

use super::{JobOptions, Planned, Reading};
use crate::{Ended, amount, out};

#[derive(Serialize)]
struct PaperJson<'a> {
    name: &'a str,
    is_complete: bool,
    keys: usize,
    seconds: f64,
    pairs: u64,
    repeats: u64,
    reducer_link_bytes: u64,
    /// With `--verify`: keys that are missing or have too little, and keys with too much.
    missing_keys: Option<usize>,
    doubled_keys: Option<usize>,
}

/// Runs the paper's algorithm, and counts its wrong keys.
pub(super) fn run(
    planned: &Planned,
    options: &JobOptions,
    early: &ProcessSetup,
) -> Result<Ended, String> {
    if options.real {
        return Err("the scheme `paper` is for simulated fabrics: leave out --real".to_owned());
    }
    let mut reducers = planned.job.reducers.iter();
    if let Some(reducer) = reducers.find(|reducer| reducer.shape.is_vector()) {
        let name = &reducer.name;
        return Err(format!(
            "{name}: the scheme `paper` reduces pairs; take p4com or direct"
        ));
    }
    let inputs = reductions::map(&planned.job, &planned.directory)?;
    let reading = match options.reading {
        Reading::AddsOne => SequenceReading::AddsOne,
        Reading::TakesNumber => SequenceReading::TakesNumber,
    };
    let end = Nanos::from_secs(options.seconds);
    let (topology, plan) = (&planned.topology, &planned.plan);
    let job = reductions::simulate_paper(topology, plan, &inputs, (reading, end), &|| {
        early.take_signal()
    })?;
    if let Some(signal) = job.signal {
        return Err(format!("interrupted by {signal}"));
    }
    let mut is_well = true;
    let mut all = Vec::new();
    for ((reduction, outcome), inputs) in plan.reductions.iter().zip(&job.outcomes).zip(&inputs) {
        let request = &reduction.request;
        let reducer = &topology.hosts[request.reducer.0].name;
        let links = job.report.links.iter().filter(|link| link.to == *reducer);
        let wrong = WrongKeys::of(request.shape.operator, inputs, &outcome.result);
        is_well &= outcome.is_complete && !(options.verify && wrong != WrongKeys::default());
        all.push(PaperJson {
            name: &request.name,
            is_complete: outcome.is_complete,
            keys: outcome.result.len(),
            seconds: outcome.ended_at.as_secs_f64(),
            pairs: outcome.pairs,
            repeats: outcome.repeats,
            reducer_link_bytes: links.map(|link| link.bytes).sum(),
            missing_keys: options.verify.then_some(wrong.missing),
            doubled_keys: options.verify.then_some(wrong.doubled),
        });
    }
    if options.json {
        out::json(&all);
    } else {
        all.iter().for_each(show_paper);
    }
    Ok(if is_well {
        Ended::Well
    } else {
        Ended::WithErrors
    })
}

fn show_paper(outcome: &PaperJson<'_>) {
    let PaperJson {
        name,
        is_complete,
        keys,
        seconds,
        pairs,
        repeats,
        reducer_link_bytes,
        missing_keys,
        doubled_keys,
    } = outcome;
    match is_complete {
        true => out::line(&format!(
            "{name}: {keys} keys in {seconds:.6} s of simulated time, by the paper's algorithm"
        )),
        false => out::line(&format!(
            "{name}: not complete; --seconds gives it more time"
        )),
    }
    let repeats = amount::count(*repeats, "repeated message");
    out::line(&format!("  {pairs} pairs sent, {repeats}"));
    let bytes = amount::bytes(*reducer_link_bytes);
    out::line(&format!("  {bytes} on the reducer's link"));
    if let (Some(missing), Some(doubled)) = (missing_keys, doubled_keys) {
        out::line(&format!(
            "  {missing} keys missing or with pairs missing, {doubled} with pairs counted twice"
        ));
    }
}
