//! Plans as text, JSON and files.

use fabric::topology::{End, NodeId};
use serde::Serialize;

use super::svg::{draw, range};
use super::{CompileOptions, PlanOptions, Planned, Scheme};
use crate::{Ended, amount, artefacts, out};

#[derive(Serialize)]
struct PlanJson<'a> {
    reductions: Vec<ReductionJson<'a>>,
    switches: Vec<MemoryJson<'a>>,
    links: Vec<LinkJson>,
}

/// Memory of a switch.
#[derive(Serialize)]
struct MemoryJson<'a> {
    name: &'a str,
    slots: u32,
    used_slots: u64,
    state_bytes: u64,
}

/// Predicted bytes of data over a link: if all mappers have the same keys, and if no two have one.
#[derive(Serialize)]
struct LinkJson {
    from: String,
    to: String,
    least_bytes: u64,
    most_bytes: u64,
}

#[derive(Serialize)]
struct ReductionJson<'a> {
    name: &'a str,
    job: u16,
    mappers: Vec<&'a str>,
    reducer: &'a str,
    switches: Vec<SwitchJson<'a>>,
    /// Bytes times hops in both cases.
    least_byte_hops: u64,
    most_byte_hops: u64,
}

#[derive(Serialize)]
struct SwitchJson<'a> {
    name: &'a str,
    level: u16,
    next: &'a str,
    slots: u64,
    why: String,
}

/// Returns the report of a plan.
fn plan_json(planned: &Planned) -> PlanJson<'_> {
    let (topology, plan) = (&planned.topology, &planned.plan);
    let name_of = |node| topology.name_of(node);
    let reductions = plan.reductions.iter().enumerate();
    let reductions = reductions.map(|(number, reduction)| {
        let request = &reduction.request;
        let reducer = name_of(NodeId::Host(request.reducer));
        let switches = reduction.switches.iter().enumerate();
        let switches = switches.map(|(index, switch)| SwitchJson {
            name: name_of(NodeId::Switch(switch.switch)),
            level: switch.place.level,
            next: switch
                .next
                .map_or(reducer, |next| name_of(NodeId::Switch(next))),
            slots: request.needed(),
            why: plan.reason(topology, number, index),
        });
        let mappers = request.mappers.iter();
        ReductionJson {
            name: &request.name,
            job: reduction.job,
            mappers: mappers
                .map(|(host, _)| name_of(NodeId::Host(*host)))
                .collect(),
            reducer,
            switches: switches.collect(),
            least_byte_hops: reduction.byte_hops.least,
            most_byte_hops: reduction.byte_hops.most,
        }
    });
    let memory = planned.switches().map(|(switch, name, slots)| MemoryJson {
        name,
        slots,
        used_slots: plan.used_slots(switch),
        state_bytes: plan.state_bytes(switch),
    });
    let links = plan.predicted_links(topology).into_iter();
    let links = links.map(|link| LinkJson {
        from: topology.end_text(End {
            node: link.from,
            port: link.port,
        }),
        to: name_of(link.to).to_owned(),
        least_bytes: link.bytes.least,
        most_bytes: link.bytes.most,
    });
    PlanJson {
        reductions: reductions.collect(),
        switches: memory.collect(),
        links: links.collect(),
    }
}

pub(super) fn plan(options: &PlanOptions) -> Result<Ended, String> {
    let planned = Planned::new(
        options.input.files(),
        (Scheme::P4com, options.input.placement),
    )?;
    if let Some(file) = &options.svg {
        let drawn = draw(&planned.topology, &planned.plan)?;
        std::fs::write(file, drawn)
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        out::note(&format!("{} is drawn", file.display()));
    }
    let report = plan_json(&planned);
    match options.json {
        true => out::json(&report),
        false => show(&report, &planned),
    }
    Ok(Ended::Well)
}

fn show(report: &PlanJson<'_>, planned: &Planned) {
    for reduction in &report.reductions {
        out::line(&format!(
            "{}: {} to {}; bytes times hops: {} to {}",
            reduction.name,
            reduction.mappers.join(", "),
            reduction.reducer,
            reduction.least_byte_hops,
            reduction.most_byte_hops
        ));
        for switch in &reduction.switches {
            let SwitchJson {
                name, level, why, ..
            } = switch;
            let slots = amount::count(switch.slots, "slot");
            out::line(&format!(
                "  switch {name}, tier {}: {slots}; {why}",
                level + 1
            ));
        }
        if reduction.switches.is_empty() {
            out::line("  no switch reduces: `tiers` is 0");
        }
    }
    for memory in report.switches.iter().filter(|it| it.used_slots > 0) {
        let bytes = amount::bytes(memory.state_bytes);
        let slots = amount::count(memory.slots.into(), "slot");
        let (name, used) = (memory.name, memory.used_slots);
        out::line(&format!(
            "memory of {name}: {used} of {slots}, {bytes} of registers"
        ));
    }
    let links = planned.plan.predicted_links(&planned.topology);
    for (link, of_link) in report.links.iter().zip(links) {
        let (from, to, bytes) = (&link.from, &link.to, range(of_link.bytes));
        out::line(&format!("link {from} to {to}: {bytes} of data"));
    }
}

pub(super) fn compile(options: &CompileOptions) -> Result<Ended, String> {
    let planned = Planned::new(
        options.input.files(),
        (Scheme::P4com, options.input.placement),
    )?;
    let plan = &planned.plan;
    let files = planned.switches().flat_map(|(switch, name, _)| {
        [
            (format!("{name}.p4"), plan.program(switch)),
            (format!("{name}.entries"), plan.entries(switch, 1, 1)),
        ]
    });
    let report = serde_json::to_string_pretty(&plan_json(&planned));
    let report = report.map_err(|error| error.to_string())?;
    let reports = [
        ("plan.json".to_owned(), report + "\n"),
        ("plan.svg".to_owned(), draw(&planned.topology, plan)?),
    ];
    artefacts::write_all(&options.out, files.chain(reports))?;
    Ok(Ended::Well)
}
