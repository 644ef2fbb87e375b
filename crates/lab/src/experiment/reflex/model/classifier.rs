//! `classifier.elf` with classifier images of access control lists, and a client that sends keys
//! of their rules (paper, 3.2.1).

use bench::lookups::Subject;
use generators::Kind;
use nanopu::{CoreState, Cost, CostTable, Device, Image, LinkFaults, Network, Picos, RpcMessage};
use support::quantile::quantile;
use support::rng::Rng;

use super::super::{Context, Origin, Part, Sheet, median};
use super::add_model;
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Curve, Marks};

const PROGRAM: &[u8] = include_bytes!("../../../../../../examples/nanopu/classifier.elf");
/// Bytes of memory of the device: the image of 100,000 rules has 8 MB.
const MEMORY: usize = 1 << 26;
const DEVICE: u32 = 0x0a00_0001;
const CLIENT: u32 = 0x0a00_0101;
/// Keys, which are sent by turns.
const KEYS: usize = 1 << 13;
/// Time at which the program polls.
const START: Picos = Picos::from_nanos(10_000);
/// Rate at which no key waits for another one, in keys a second.
const LOW: f64 = 50e3;
/// Rules of the paper's value.
const FEW: usize = 100;

/// Times from a key to its rule in ns.
struct ClassifyTimes {
    median: f64,
    p99: f64,
}

/// A rule set as image, with keys.
struct Classifier {
    image: Image,
    /// Bytes of the image.
    bytes: usize,
    /// Keys as messages, each with the answer.
    requests: Vec<(Vec<u8>, u64)>,
}

impl Classifier {
    /// Creates the image of an access control list of some rules.
    ///
    /// # Errors
    /// The image does not fit into memory.
    fn new(rules: usize) -> Result<Self, String> {
        let sample = Subject::Ternary(Kind::Acl).sample(rules, KEYS);
        let mut table = sample.table();
        let bytes = table.classifier_image().map_err(|it| it.to_string())?;
        let lookup = table.snapshot();
        let request = |key: &[u64]| {
            let found = lookup.find(key);
            let answer = found.map_or(u64::MAX, |idx| lookup.entry_id(idx).0);
            let message = key.iter().flat_map(|limb| limb.to_be_bytes());
            (message.collect(), answer)
        };
        let image = Image::parse(PROGRAM, MEMORY);
        let image = image.and_then(|image| image.with_data(&bytes, MEMORY));
        Ok(Self {
            image: image.map_err(|error| error.to_string())?,
            bytes: bytes.len(),
            requests: sample
                .keys()
                .chunks_exact(sample.limbs())
                .map(request)
                .collect(),
        })
    }

    /// Sends as many keys to warm the caches and then the keys that are timed, both at a rate with
    /// random times between them (a Poisson process). The links have the latency of the costs in
    /// each direction, and there is no switch.
    ///
    /// # Errors
    /// An answer is wrong or missing.
    fn times(
        &self,
        costs: &CostTable,
        per_second: f64,
        keys: usize,
    ) -> Result<ClassifyTimes, String> {
        let mut costs = costs.clone();
        let link = costs.get(Cost::Link).div_ceil(2);
        for (cost, value) in [(Cost::Link, link), (Cost::Switch, 0)] {
            costs.set(cost, value).map_err(|error| error.to_string())?;
        }
        let mut network = Network::new(&costs, LinkFaults::default());
        let device = Device::new(&self.image, MEMORY, 1, DEVICE, &costs);
        let device = network.add_device(DEVICE, device);
        let client = network.add_client(CLIENT);
        let mut chance = Rng::new(1);
        let mut at = START;
        let mut starts = Vec::with_capacity(2 * keys);
        for number in 0..2 * keys {
            // 53 bits of a number above 0 and up to 1.
            let uniform = ((chance.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            at += Picos((-uniform.ln() * 1e12 / per_second) as u64);
            let (bytes, _) = &self.requests[number % self.requests.len()];
            let message = RpcMessage {
                context: number as u16,
                peer: DEVICE,
                peer_context: 0,
                bytes: bytes.clone(),
            };
            network.plan(client, at, message);
            starts.push(at);
        }
        network.run(at + Picos::from_nanos(50_000_000));
        if let Some(device) = network.device(device) {
            for state in device.states() {
                if let CoreState::Faulted(fault) = state {
                    return Err(format!("the classifier has a fault: {fault}"));
                }
            }
        }
        let mut times = Vec::with_capacity(keys);
        let mut answered = 0;
        for received in network.take_received(client) {
            let number = usize::from(received.message.context);
            let wanted = self.requests[number % self.requests.len()].1;
            if received.message.bytes != wanted.to_be_bytes() {
                return Err(format!("key {number} finds another rule than a lookup"));
            }
            answered += 1;
            if number >= keys {
                times.push(received.time.since(starts[number]).as_nanos());
            }
        }
        if answered != 2 * keys {
            return Err(format!("{answered} of {} keys are answered", 2 * keys));
        }
        Ok(ClassifyTimes {
            median: median(&times),
            p99: quantile(&mut times, 0.99).unwrap_or(0.0),
        })
    }
}

/// Rates in million keys a second.
const LOADS: [f64; 8] = [0.05, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0];

/// Returns figure 3: classification under load.
///
/// # Errors
/// The model fails, or a signal arrived.
pub(in super::super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("figure 3, model");
    let costs = CostTable::default();
    let sizes = [
        (100, "100 rules (model)", plot::HERE),
        (1_000, "1,000 rules (model)", plot::NATIVE),
        (10_000, "10,000 rules (model)", plot::MODEL),
        (100_000, "100,000 rules (model)", plot::OTHER),
    ];
    let sizes = context.choose(&sizes[..], &sizes[..1]);
    let loads = context.choose(&LOADS[..], &LOADS[..2]);
    let keys = context.choose(4_000, 200);
    let few = format!("nanoPU, {FEW}");
    sheet.add(&few, Origin::Paper, &[("p99 ns", 1_000.0)]);
    let values = [("p99 ns", classify_ns(&costs)?)];
    add_model(&mut sheet, &few, &values, &classify_ns)?;
    let mut curves = Vec::new();
    let all = sizes.len() * loads.len();
    for (number, (size, name, colour)) in sizes.iter().copied().enumerate() {
        let classifier = Classifier::new(size)?;
        let kilobytes = [("image KB", classifier.bytes as f64 / 1e3)];
        sheet.add(&format!("acl, {size}"), Origin::Model, &kilobytes);
        let mut points = Vec::new();
        for (at, load) in loads.iter().copied().enumerate() {
            context.tell("figure 3, model", number * loads.len() + at, all)?;
            let times = classifier.times(&costs, load * 1e6, keys)?;
            let values = [("median ns", times.median), ("p99 ns", times.p99)];
            sheet.add(&format!("acl, {size}, {load} M/s"), Origin::Model, &values);
            points.push((load, times.p99 / 1e3));
        }
        // Beyond what the core can do, the queue grows for as long as keys come.
        points.retain(|(_, micros)| *micros <= MAX_SHOWN);
        curves.push(Curve {
            marks: Marks::Line,
            name,
            colour,
            points,
        });
    }
    curves.push(Curve {
        marks: Marks::Crosses,
        name: "100 rules, low load (paper)",
        colour: plot::PAPER,
        points: vec![(LOADS[0], 1.0)],
    });
    let axes = Axes {
        caption: "Figure 3: classification on the nanoPU",
        x: "million keys a second",
        y: "99th percentile, us",
    };
    let svg = plot::curves_below_legend(&axes, &curves)?;
    let note = format!(
        "Model: one core, classifier images of rule sets `acl`, {keys} keys that match, from a client and back over links of 43 ns in each direction without a switch, random times between keys. \
         All answers are those of a lookup in the table. At high load keys wait for each other; the picture has no times above {MAX_SHOWN} us. \
         Paper: the text has the value at low load with {FEW} rules only."
    );
    let pictures = vec![Picture {
        file: "reflex-figure-3-model.svg",
        svg,
    }];
    Ok(sheet.part("Figure 3 of the model: classification", note, pictures))
}

/// Times in us up to which the picture shows points.
const MAX_SHOWN: f64 = 12.0;

/// Returns the 99th percentile of a rule set of [`FEW`] rules at low load in ns.
///
/// # Errors
/// The model fails.
pub(super) fn classify_ns(costs: &CostTable) -> Result<f64, String> {
    Ok(Classifier::new(FEW)?.times(costs, LOW, 400)?.p99)
}

/// Returns the median of the same in ns.
///
/// # Errors
/// The model fails.
pub(super) fn classify_median_ns(costs: &CostTable) -> Result<f64, String> {
    Ok(Classifier::new(FEW)?.times(costs, LOW, 400)?.median)
}
