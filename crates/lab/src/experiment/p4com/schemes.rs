//! Table I: properties of schemes, measured under loss.

use aggregate::SequenceReading;
use packet::Nanos;

use super::case::{Case, Scheme, distinct_keys};
use super::data::DataSet;
use super::fabric_text::{Links, racks};
use super::{Context, head};
use crate::experiment::parts::{Origin, Part, Row};

/// Number of mappers.
const MAPPERS: usize = 6;

const LINKS: Links = Links {
    gigabits: 1,
    loss: 0.01,
    service: Nanos::ZERO,
};

/// Scheme, its name, and the paper's marks.
const SCHEMES: [(Scheme, &str, &str); 4] = [
    (Scheme::Direct, "direct (TCP)", "Hadoop: fault tolerant"),
    (
        Scheme::Paper(SequenceReading::AddsOne),
        "paper's algorithm, adds one",
        "P4COM: fault tolerant",
    ),
    (
        Scheme::Paper(SequenceReading::TakesNumber),
        "paper's algorithm, takes the number",
        "P4COM: fault tolerant",
    ),
    (Scheme::P4com, "P4COM", "P4COM: fault tolerant"),
];

/// Simulates the schemes over links that lose 1 % of the frames.
///
/// # Errors
/// A simulation fails, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let options = context.options;
    let set = DataSet::Words;
    let inputs = set.inputs(options.scale, MAPPERS, options.seed);
    let keys = distinct_keys(&inputs);
    let words = [
        "scheme",
        "missing keys",
        "doubled keys",
        "keys",
        "ms",
        "paper",
    ];
    let mut part = Part {
        title: "Table I: fault tolerance of schemes",
        rows: Vec::new(),
        table: vec![head(&words)],
        note: "Simulated: words, 6 to 1, two racks, 1 % loss. Missing: keys without all their values; doubled: keys with a value counted twice. \
               Switches have room for a tenth of the keys. TCP itself is exact."
            .to_owned(),
        pictures: Vec::new(),
    };
    for (number, (scheme, name, paper)) in SCHEMES.into_iter().enumerate() {
        context.tell("table I", number, SCHEMES.len());
        let case = Case {
            scheme,
            fabric: racks(options.seed, LINKS)?,
            shape: set.shape(),
            inputs: &inputs,
            slots: u32::try_from(keys / 10)
                .unwrap_or(u32::MAX)
                .clamp(1, aggregate::MAX_SLOTS),
            tiers: 1,
        };
        let outcome = case.run(context)?;
        let (missing, doubled) = (outcome.wrong.missing, outcome.wrong.doubled);
        part.rows.push(Row::new(
            "table I",
            name,
            Origin::Simulated,
            &[
                ("missing_keys", missing as f64),
                ("doubled_keys", doubled as f64),
                ("keys", keys as f64),
                ("seconds", outcome.seconds),
            ],
            paper,
        ));
        part.table.push(vec![
            name.to_owned(),
            missing.to_string(),
            doubled.to_string(),
            keys.to_string(),
            format!("{:.3}", outcome.seconds * 1e3),
            paper.to_owned(),
        ]);
    }
    Ok(part)
}
