//! `polyplane nanopu run IMAGE --topo TOPO.toml`: a program in the nanoPUs of a topology, with its
//! switches and links.

use std::path::Path;
use std::sync::Arc;

use command::topology::{read, run_simulation};
use fabric::{Report, Simulation, Topology};
use nanopu::Cost;
use packet::Nanos;
use runtime::ProcessSetup;
use serde::Serialize;

use super::{
    CostRow, NO_ANSWERS, OTHER_COSTS, RunOptions, cost_rows, read_whole_image, set_costs_text,
};
use crate::fabric::{report, routing};
use crate::{Ended, out};

/// A report as JSON, with the costs of each nanoPU.
#[derive(Serialize)]
struct Json<'a> {
    /// Always `model`: nothing here is measured.
    kind: &'static str,
    #[serde(flatten)]
    report: &'a Report,
    costs: Vec<NanopuCosts>,
}

/// Costs of a nanoPU.
#[derive(Serialize)]
struct NanopuCosts {
    nanopu: String,
    costs: Vec<CostRow>,
}

pub(super) fn run(options: &RunOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let Some(path) = &options.topology else {
        return Err("a topology is missing: give --topo".to_owned());
    };
    let mut topology = prepared(path, options)?;
    let costs: Vec<NanopuCosts> = topology
        .nanopus
        .iter()
        .map(|nanopu| NanopuCosts {
            nanopu: nanopu.host.name.clone(),
            costs: cost_rows(&nanopu.costs),
        })
        .collect();
    for text in costs_without_effect(&options.program.costs.costs) {
        out::note(&format!(
            "warning: the cost {text} has no effect in a topology; give the [[link]] a delay and a \
             queue, and the [[switch]] a service"
        ));
    }
    let mut maker = routing(options.choice, &mut topology)?;
    let simulation = Simulation::new(topology, &mut |spec| maker.make(spec));
    let mut simulation = simulation.map_err(|error| error.to_string())?;
    let end = Nanos::from_millis(options.milliseconds);
    let (signal, took) = run_simulation(&mut simulation, end, &|| early.take_signal())?;
    let balanced = simulation.check_conservation();
    balanced.map_err(|unbalanced| unbalanced.to_string())?;
    let results = simulation.report();
    if options.program.costs.json {
        out::json(&Json {
            kind: "model",
            report: &results,
            costs,
        });
    } else {
        report::write(&results, &simulation.progress(), took, false);
        for NanopuCosts { nanopu, costs } in &costs {
            let text = set_costs_text(costs);
            if !text.is_empty() {
                out::text(&format!("\nnanoPU {nanopu}\n{text}"));
            }
        }
        out::text(OTHER_COSTS);
    }
    if results.requests.iter().all(|it| it.answered == 0) {
        out::note(NO_ANSWERS);
    }
    if let Some(signal) = signal {
        return Err(format!("interrupted by {signal}"));
    }
    let mut cores = results.nanopus.iter().flat_map(|nanopu| &nanopu.cores);
    Ok(match cores.any(|core| core.fault.is_some()) {
        true => Ended::WithErrors,
        false => Ended::Well,
    })
}

/// Returns those of the costs that are set which a topology has as properties of its links and
/// switches.
fn costs_without_effect(costs: &[String]) -> impl Iterator<Item = &str> {
    let names = [Cost::Link, Cost::Switch, Cost::SwitchQueue].map(Cost::name);
    let of = costs.iter().map(String::as_str);
    of.filter(move |text| {
        let name = text.split_once('=').map_or(*text, |(name, _)| name);
        names.contains(&name.trim())
    })
}

/// Returns the topology with the program in each nanoPU, and the costs of the options.
fn prepared(path: &Path, options: &RunOptions) -> Result<Topology, String> {
    let mut topology = read(path)?;
    if topology.nanopus.is_empty() || topology.requests.is_empty() {
        return Err(format!(
            "{} has no nanoPU, or no requests to one; add [[nanopu]] and [[requests]] sections",
            path.display()
        ));
    }
    for nanopu in &mut topology.nanopus {
        let image = read_whole_image(&options.program, nanopu.memory_bytes);
        nanopu.image = Some(Arc::new(image?));
        for text in &options.program.costs.costs {
            let set = nanopu.costs.set_text(text);
            set.map_err(|error| error.to_string())?;
        }
    }
    Ok(topology)
}
