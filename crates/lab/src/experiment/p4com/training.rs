//! Table II: transmission time of the gradients of models.

use aggregate::{Input, KeyClass, LANES, MAX_BLOCKS, Operator, Shape, ValueClass};
use packet::Nanos;
use support::rng::Rng;

use super::case::{Case, Outcome, Scheme};
use super::fabric_text::{Links, racks};
use super::{Context, head};
use crate::experiment::parts::{Origin, Part, Row};

/// Number of workers.
const WORKERS: usize = 6;

/// Least number of values of a model at a small scale: fewer would show fixed times.
const LEAST: f64 = 1e6;

/// The first switches of both racks reduce.
const TIERS: u16 = 2;

/// Number of epochs: one is sent while another is collected.
const EPOCHS: usize = 8;

const LINKS: Links = Links {
    gigabits: 1,
    loss: 0.0,
    service: Nanos::ZERO,
};

const SHAPE: Shape = Shape {
    operator: Operator::Add,
    keys: KeyClass::Block,
    values: ValueClass::F32,
};

/// A model: parameters, and the paper's reduction of the transmission time in percent.
struct Model {
    name: &'static str,
    parameters: usize,
    paper: f64,
}

const MODELS: [Model; 4] = [
    Model {
        name: "ResNet50",
        parameters: 25_559_081,
        paper: 66.3,
    },
    Model {
        name: "ResNet20",
        parameters: 269_467,
        paper: 62.72,
    },
    Model {
        name: "VGG16",
        parameters: 14_982_987,
        paper: 63.5,
    },
    Model {
        name: "U-Net",
        parameters: 1_850_305,
        paper: 64.29,
    },
];

/// Simulates a step of each model.
///
/// # Errors
/// A simulation fails, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let options = context.options;
    let words = [
        "model",
        "values",
        "direct ms",
        "line rate ms",
        "P4COM ms",
        "less",
        "less than line rate",
        "paper",
    ];
    let mut part = Part {
        title: "Table II: transmission time of gradients",
        rows: Vec::new(),
        table: vec![head(&words)],
        note: format!(
            "Simulated: six workers in two racks, 1 Gbit/s, two tiers, 4 bytes a value both ways. Six TCP connections into one link lose frames and wait; line \
             rate is the time of their bytes alone. Models with more than a million values have {} of their size, \
             but at least a million; --scale 1 has all.",
            options.scale
        ),
        pictures: Vec::new(),
    };
    for (number, model) in MODELS.iter().enumerate() {
        context.tell("table II", number, MODELS.len());
        let values = (model.parameters as f64 * options.scale).max(LEAST) as usize;
        let values = values.min(model.parameters);
        let inputs = gradients(values, options.seed);
        let slots = u32::try_from(values.div_ceil(LANES) / EPOCHS).unwrap_or(u32::MAX);
        let outcome = |scheme| -> Result<Outcome, String> {
            let case = Case {
                scheme,
                fabric: racks(options.seed, LINKS)?,
                shape: SHAPE,
                inputs: &inputs,
                slots: slots.clamp(1, MAX_BLOCKS),
                tiers: TIERS,
            };
            case.run(context)
        };
        let (direct, reduced) = (outcome(Scheme::Direct)?, outcome(Scheme::P4com)?);
        let line_rate = (direct.link_bytes * 8) as f64 / (LINKS.gigabits as f64 * 1e9);
        let less = |than: f64| 100.0 * (1.0 - reduced.seconds / than.max(1e-12));
        part.rows.push(Row::new(
            "table II",
            model.name,
            Origin::Simulated,
            &[
                ("values", values as f64),
                ("direct_seconds", direct.seconds),
                ("seconds", reduced.seconds),
                ("line_rate_seconds", line_rate),
                ("percent_less", less(direct.seconds)),
                ("percent_less_than_line_rate", less(line_rate)),
                ("direct_bytes", direct.link_bytes as f64),
                ("bytes", reduced.link_bytes as f64),
            ],
            format!("{} %", model.paper),
        ));
        part.table.push(vec![
            model.name.to_owned(),
            values.to_string(),
            format!("{:.2}", direct.seconds * 1e3),
            format!("{:.2}", line_rate * 1e3),
            format!("{:.2}", reduced.seconds * 1e3),
            format!("{:.1} %", less(direct.seconds)),
            format!("{:.1} %", less(line_rate)),
            format!("{} %", model.paper),
        ]);
    }
    Ok(part)
}

/// Returns made gradients of each worker: of magnitudes between 2^-24 and 2^-8.
fn gradients(values: usize, seed: u64) -> Vec<Input> {
    let of_worker = |worker: usize| {
        let mut rng = Rng::new(seed.wrapping_mul(31).wrapping_add(worker as u64));
        let mut value = || {
            let bits = rng.bits();
            let fraction = (bits >> 40) as f32 / (1u64 << 24) as f32 - 0.5;
            fraction * (-((bits & 15) as f32) - 7.0).exp2()
        };
        Input::Floats((0..values).map(|_| value()).collect())
    };
    (0..WORKERS).map(of_worker).collect()
}
