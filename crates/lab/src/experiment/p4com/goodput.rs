//! Figure 8: goodput of mappers at 10 Gbit/s.

use packet::Nanos;

use super::case::{Case, Scheme, bytes_of, distinct_keys};
use super::data::DataSet;
use super::fabric_text::{Links, SERVERS, star};
use super::{Context, head};
use crate::experiment::Picture;
use crate::experiment::parts::{Origin, Part, Row};
use crate::experiment::plot::{self, Axes, Bars, HERE, NATIVE, OTHER, PAPER};

/// Mappers of a server, with the paper's goodput of a mapper in Gbit/s.
const MAPPERS: [(usize, f64); 3] = [(1, 9.13), (2, 4.26), (4, 2.31)];

/// Probabilities of loss.
const LOSSES: [f64; 3] = [0.0, 0.001, 0.01];

/// Simulates the figure.
///
/// # Errors
/// A simulation fails, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let options = context.options;
    let services = [Nanos::ZERO, Nanos(options.service_ns)];
    let set = DataSet::Words;
    let words = [
        "mappers of a server",
        "service ns",
        "loss",
        "Gbit/s of a mapper",
        "paper",
    ];
    let mut part = Part {
        title: "Figure 8: goodput of mappers",
        rows: Vec::new(),
        table: vec![head(&words)],
        note: "Simulated: three servers with mappers and one with the reducer at a switch, 10 Gbit/s. Goodput: bytes of a mapper's pairs over the time \
               of the job. The paper's switch is an ASIC: the rows without service time are its like."
            .to_owned(),
        pictures: Vec::new(),
    };
    let mut measured = Vec::new();
    let mut done = 0;
    for (mappers, paper) in MAPPERS {
        let inputs = set.inputs(options.scale, mappers * SERVERS, options.seed);
        let keys = distinct_keys(&inputs);
        let slots = u32::try_from(keys * 2).unwrap_or(u32::MAX);
        for service in services {
            for loss in LOSSES {
                context.tell(
                    "figure 8",
                    done,
                    MAPPERS.len() * services.len() * LOSSES.len(),
                );
                done += 1;
                let links = Links {
                    gigabits: 10,
                    loss,
                    service,
                };
                let case = Case {
                    scheme: Scheme::P4com,
                    fabric: star(options.seed, links)?,
                    shape: set.shape(),
                    inputs: &inputs,
                    slots: slots.clamp(1, aggregate::MAX_SLOTS),
                    tiers: 1,
                };
                let outcome = case.run(context)?;
                let sent: u64 = inputs.iter().map(|own| bytes_of(set.shape(), own)).sum();
                let bits = (sent * 8) as f64 / inputs.len() as f64;
                let gigabits = bits / outcome.seconds.max(1e-12) / 1e9;
                part.rows.push(Row::new(
                    "figure 8",
                    format!("m = {mappers}"),
                    Origin::Simulated,
                    &[
                        ("service_ns", service.0 as f64),
                        ("loss", loss),
                        ("gigabits_per_second", gigabits),
                        ("seconds", outcome.seconds),
                    ],
                    format!("{paper} Gbit/s"),
                ));
                part.table.push(vec![
                    mappers.to_string(),
                    service.0.to_string(),
                    loss.to_string(),
                    format!("{gigabits:.2}"),
                    match loss == 0.0 {
                        true => paper.to_string(),
                        false => "-".to_owned(),
                    },
                ]);
                if loss == 0.0 {
                    measured.push(gigabits);
                }
            }
        }
    }
    part.pictures.push(picture(&measured, services[1])?);
    Ok(part)
}

/// Draws the goodputs without loss: of each number of mappers, without and with service time.
fn picture(measured: &[f64], service: Nanos) -> Result<Picture, String> {
    let groups: Vec<String> = MAPPERS.iter().map(|(m, _)| format!("m = {m}")).collect();
    let every_second = |first: usize| measured.iter().skip(first).step_by(2);
    let bars = [
        Bars {
            name: "no service time",
            colour: HERE,
            values: every_second(0).copied().map(Some).collect(),
        },
        Bars {
            name: "with service time",
            colour: if service == Nanos::ZERO {
                OTHER
            } else {
                NATIVE
            },
            values: every_second(1).copied().map(Some).collect(),
        },
        Bars {
            name: "paper",
            colour: PAPER,
            values: MAPPERS.iter().map(|(_, paper)| Some(*paper)).collect(),
        },
    ];
    let axes = Axes {
        caption: "Goodput of a mapper",
        x: "mappers of a server",
        y: "Gbit/s",
    };
    Ok(Picture {
        file: "figure8.svg",
        svg: plot::bars(&axes, &groups, &bars)?,
    })
}
