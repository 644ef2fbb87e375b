//! Figures 6 and 7: bytes on the reducer's link, and times of jobs, over the number of mappers.

use aggregate::SequenceReading;
use packet::Nanos;

use super::case::{Case, Outcome, Scheme, distinct_keys, ideal_bytes};
use super::data::DataSet;
use super::fabric_text::{Links, racks};
use super::{Context, head};
use crate::experiment::Picture;
use crate::experiment::parts::{Origin, Part, Row};
use crate::experiment::plot::{self, Axes, Bars, HERE, NATIVE, OTHER, PAPER};

/// Mappers for each reducer.
const RATIOS: [usize; 3] = [3, 6, 12];

const LINKS: Links = Links {
    gigabits: 1,
    loss: 0.0,
    service: Nanos::ZERO,
};

/// Room of a switch for keys of an epoch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// Twice the number of keys: a key has two slots, which others may have.
    AllKeys,
    TenthOfKeys,
}

impl Memory {
    fn slots(self, keys: usize) -> u32 {
        let slots = match self {
            Memory::AllKeys => keys * 2,
            Memory::TenthOfKeys => keys / 10,
        };
        u32::try_from(slots)
            .unwrap_or(u32::MAX)
            .clamp(1, aggregate::MAX_SLOTS)
    }

    fn name(self) -> &'static str {
        match self {
            Memory::AllKeys => "all keys",
            Memory::TenthOfKeys => "a tenth",
        }
    }
}

/// A simulated variant of a set and a ratio.
#[derive(Clone, Copy)]
struct Variant {
    scheme: Scheme,
    memory: Memory,
    tiers: u16,
}

const fn p4com(memory: Memory, tiers: u16) -> Variant {
    Variant {
        scheme: Scheme::P4com,
        memory,
        tiers,
    }
}

const fn other(scheme: Scheme) -> Variant {
    Variant {
        scheme,
        memory: Memory::AllKeys,
        tiers: 1,
    }
}

/// The first two are drawn, beside the ideal and P4COM with room for all keys.
const VARIANTS: [Variant; 6] = [
    other(Scheme::Direct),
    other(Scheme::Paper(SequenceReading::TakesNumber)),
    p4com(Memory::AllKeys, 1),
    p4com(Memory::AllKeys, 2),
    p4com(Memory::TenthOfKeys, 1),
    p4com(Memory::TenthOfKeys, 2),
];

const DIRECT: usize = 0;
const PRINTED: usize = 1;
const DRAWN: usize = 2;

impl Variant {
    fn name(self) -> String {
        match self.scheme {
            Scheme::Direct => "direct (TCP)".to_owned(),
            Scheme::Paper(_) => "paper's algorithm".to_owned(),
            Scheme::P4com => {
                let tiers = support::amount::count(self.tiers.into(), "tier");
                format!("P4COM, {tiers}, room for {}", self.memory.name())
            }
        }
    }
}

/// Simulates both figures.
///
/// # Errors
/// A simulation fails, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let options = context.options;
    let words = [
        "data",
        "mappers",
        "scheme",
        "kB",
        "of ideal",
        "of direct",
        "ms",
        "of direct",
        "dropped",
    ];
    let mut part = Part {
        title: "Figures 6 and 7: bytes on the reducer's link, and time of the job",
        rows: Vec::new(),
        table: vec![head(&words)],
        note: format!(
            "Simulated: two racks of six hosts, 1 Gbit/s, no loss. A mapper has a twelfth of {} of each data set at every ratio. \
             The ideal is each key once, in full frames. Dropped: frames that found the queue of the reducer's link full. \
             The paper prints no values of these figures; its formula is 1 / (N rho) of the direct bytes.",
            options.scale
        ),
        pictures: Vec::new(),
    };
    let mut groups = Vec::new();
    let mut drawn: Vec<[Outcome; 3]> = Vec::new();
    let mut ideals = Vec::new();
    let all = DataSet::ALL.len() * RATIOS.len() * VARIANTS.len();
    let mut done = 0;
    for set in DataSet::ALL {
        let inputs = set.inputs(options.scale, RATIOS[RATIOS.len() - 1], options.seed);
        for ratio in RATIOS {
            let inputs = &inputs[..ratio];
            let keys = distinct_keys(inputs);
            let ideal = ideal_bytes(set.shape(), keys);
            let mut outcomes = [Outcome::default(); VARIANTS.len()];
            for (variant, outcome) in VARIANTS.iter().zip(&mut outcomes) {
                context.tell("figures 6 and 7", done, all);
                let case = Case {
                    scheme: variant.scheme,
                    fabric: racks(options.seed, LINKS)?,
                    shape: set.shape(),
                    inputs,
                    slots: variant.memory.slots(keys),
                    tiers: variant.tiers,
                };
                *outcome = case.run(context)?;
                done += 1;
            }
            for (variant, outcome) in VARIANTS.iter().zip(&outcomes) {
                let subject = format!("{}, {ratio} to 1, {}", set.name(), variant.name());
                add(&mut part, &subject, outcome, (ideal, &outcomes[DIRECT]));
            }
            groups.push(format!("{} {ratio}", set.name()));
            drawn.push([outcomes[DIRECT], outcomes[PRINTED], outcomes[DRAWN]]);
            ideals.push(ideal);
        }
    }
    part.pictures = pictures(&groups, &drawn, &ideals)?;
    Ok(part)
}

/// Adds the rows of a case.
fn add(part: &mut Part, subject: &str, outcome: &Outcome, (ideal, direct): (u64, &Outcome)) {
    let bytes = outcome.link_bytes as f64;
    let of_ideal = bytes / ideal.max(1) as f64;
    let of_direct = bytes / direct.link_bytes.max(1) as f64;
    let time_of_direct = outcome.seconds / direct.seconds.max(1e-12);
    let wrong = (outcome.wrong.missing + outcome.wrong.doubled) as f64;
    part.rows.push(Row::new(
        "figure 6",
        subject,
        Origin::Simulated,
        &[
            ("bytes", bytes),
            ("of_ideal", of_ideal),
            ("of_direct", of_direct),
            ("wrong_keys", wrong),
        ],
        "no values",
    ));
    part.rows.push(Row::new(
        "figure 7",
        subject,
        Origin::Simulated,
        &[
            ("seconds", outcome.seconds),
            ("of_direct", time_of_direct),
            ("dropped_frames", outcome.overflowed as f64),
        ],
        "no values",
    ));
    let mut cells: Vec<String> = subject.splitn(3, ", ").map(str::to_owned).collect();
    cells.extend([
        format!("{:.1}", bytes / 1e3),
        format!("{of_ideal:.3}"),
        format!("{of_direct:.3}"),
        format!("{:.3}", outcome.seconds * 1e3),
        format!("{time_of_direct:.3}"),
        outcome.overflowed.to_string(),
    ]);
    part.table.push(cells);
}

fn pictures(
    groups: &[String],
    drawn: &[[Outcome; 3]],
    ideals: &[u64],
) -> Result<Vec<Picture>, String> {
    let names = [
        ("direct", OTHER),
        ("paper's algorithm", PAPER),
        ("P4COM", HERE),
    ];
    let bars = |of: &dyn Fn(&Outcome, &Outcome) -> f64| {
        let kinds = names.iter().enumerate();
        let kinds = kinds.map(|(at, (name, colour))| Bars {
            name,
            colour: *colour,
            values: drawn
                .iter()
                .map(|outcomes| Some(of(&outcomes[at], &outcomes[DIRECT])))
                .collect(),
        });
        kinds.collect::<Vec<Bars>>()
    };
    let mut bytes = bars(&|own, direct| own.link_bytes as f64 / direct.link_bytes.max(1) as f64);
    let ideals = drawn.iter().zip(ideals);
    bytes.push(Bars {
        name: "ideal",
        colour: NATIVE,
        values: ideals
            .map(|(outcomes, ideal)| {
                Some(*ideal as f64 / outcomes[DIRECT].link_bytes.max(1) as f64)
            })
            .collect(),
    });
    let times = bars(&|own, direct| own.seconds / direct.seconds.max(1e-12));
    let axes = |caption| Axes {
        caption,
        x: "data, mappers to one reducer",
        y: "share of direct",
    };
    Ok(vec![
        Picture {
            file: "figure6.svg",
            svg: plot::bars(&axes("Bytes on the reducer's link"), groups, &bytes)?,
        },
        Picture {
            file: "figure7.svg",
            svg: plot::bars(&axes("Time of the job"), groups, &times)?,
        },
    ])
}
