//! Figure 8: time to move flows into the NIC and out of it, by part and number of flows.

use std::fmt::Write as _;
use std::time::Instant;

use offload::{Flow, OffloadCommand, OffloaderOptions, Override};

use super::bed::{Bed, FRAME, udp};
use super::tc_target::{TcNic, rule_text};
use super::{Context, Origin, Part, Sheet};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Bars};

/// Numbers of flows. The last one is the paper's capacity.
const FLOWS: [u32; 5] = [1, 10, 100, 1000, 4800];

/// Rounds of each number of flows.
const ROUNDS: u64 = 20;

/// Source address of the first flow.
const FIRST: u32 = 0x0A00_0000;

/// Times of the paper in ms: into the NIC and out of it.
const PAPER: [f64; 2] = [22.5, 25.3];

/// Names of the two directions.
const DIRECTIONS: [&str; 2] = ["in", "out"];

/// Times in ms of a round, for each direction.
#[derive(Clone, Copy, Default)]
struct Times {
    /// The flows of packets are found.
    trace: f64,
    decide: [f64; 2],
    /// Rules of flower are made.
    translate: f64,
    nic: [f64; 2],
    /// Requests of the kernel, with its answers.
    kernel: [f64; 2],
    has_kernel: bool,
}

/// Moves flows in and out, in rounds.
///
/// # Errors
/// A flow is not offloaded, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("figure 8");
    let mut kernel = TcNic::open(&context.options.target)?;
    let rounds = context.scaled(ROUNDS, 1);
    let mut decided = [Vec::new(), Vec::new()];
    let mut modelled = [Vec::new(), Vec::new()];
    let all = FLOWS.len();
    for (number, flows) in FLOWS.into_iter().enumerate() {
        let mut text = format!("table add mm/0 size {flows} fields src=208/32\n");
        for flow in 0..flows {
            let _ = writeln!(
                text,
                "flow add mm/0 match src={:#x} do set_field 0/48={flow}; output 1",
                FIRST + flow
            );
        }
        let mut taken = Vec::new();
        for _ in 0..rounds {
            context.tell("figure 8", number, all)?;
            taken.push(round(&text, flows, kernel.as_mut())?);
        }
        let mean = |of: &dyn Fn(&Times) -> f64| taken.iter().map(of).sum::<f64>() / rounds as f64;
        for direction in [0, 1] {
            let subject = format!("{flows} {}", DIRECTIONS[direction]);
            let mut values = Vec::new();
            if direction == 0 {
                values.push(("trace ms", mean(&|times| times.trace)));
                values.push(("rules ms", mean(&|times| times.translate)));
            }
            let decide = mean(&|times| times.decide[direction]);
            values.push(("decide ms", decide));
            if taken.iter().any(|times| times.has_kernel) {
                values.push((
                    "netlink and driver ms",
                    mean(&|times| times.kernel[direction]),
                ));
            }
            sheet.add(&subject, Origin::Measured, &values);
            let nic = mean(&|times| times.nic[direction]);
            sheet.add(&subject, Origin::Model, &[("nic ms", nic)]);
            sheet.add(&subject, Origin::Paper, &[("all ms", PAPER[direction])]);
            decided[direction].push(Some(decide));
            modelled[direction].push(Some(nic));
        }
    }
    let [decided_in, decided_out] = decided;
    let [model_in, model_out] = modelled;
    let bars = [
        ("decide in (measured)", plot::HERE, decided_in),
        ("decide out (measured)", plot::NATIVE, decided_out),
        ("NIC in (model)", plot::OTHER, model_in),
        (
            "NIC out (model)",
            plotters::style::RGBColor(190, 190, 190),
            model_out,
        ),
        ("all in (paper)", plot::PAPER, vec![Some(PAPER[0]); all]),
    ]
    .map(|(name, colour, values)| Bars {
        name,
        colour,
        values,
    });
    let axes = Axes {
        caption: "Figure 8: time to move flows",
        x: "flows",
        y: "ms",
    };
    let svg = plot::bars(&axes, &FLOWS.map(|flows| flows.to_string()), &bars)?;
    let file = "pof-figure-8.svg";
    let note = format!(
        "Means of {rounds} rounds. Trace: the flow of one packet of each entry is found; rules: each as a rule of TC flower; decide: a period of the offloader, without a sweep. \
         The model takes 22.5 ms for a batch in and 25.3 for one out whatever its size: that is the paper's value, no result. --target tc:IF measures a kernel's."
    );
    Ok(sheet.part(
        "Figure 8: time to move flows into the NIC and out of it",
        note,
        vec![Picture { file, svg }],
    ))
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Moves all flows in, and then out.
fn round(text: &str, flows: u32, mut kernel: Option<&mut TcNic>) -> Result<Times, String> {
    let mut times = Times::default();
    // A sweep traces flows again, which is no part of a move.
    let options = OffloaderOptions {
        sweep: 0,
        ..OffloaderOptions::default()
    };
    let mut bed = Bed::with(text, options)?;
    let frames: Vec<Vec<u8>> = (0..flows).map(|flow| udp(FIRST + flow, FRAME)).collect();
    let begin = Instant::now();
    frames.iter().for_each(|frame| bed.observe(frame));
    times.trace = millis(begin);
    for direction in [0, 1] {
        let begin = Instant::now();
        let commands = bed.decide();
        times.decide[direction] = millis(begin);
        let moves: Vec<OffloadCommand> = commands
            .into_iter()
            .filter(|command| !matches!(command, OffloadCommand::Read(_)))
            .collect();
        if direction == 0 {
            let moved: Vec<&Flow> = moves
                .iter()
                .filter_map(|command| match command {
                    OffloadCommand::Add(rules) => Some(rules.iter().map(|(_, flow)| &**flow)),
                    _ => None,
                })
                .flatten()
                .collect();
            let begin = Instant::now();
            moved
                .iter()
                .try_for_each(|flow| rule_text(flow).map(drop))?;
            times.translate = millis(begin);
            if let Some(kernel) = kernel.as_deref_mut() {
                let (rules, into) = kernel.add(&moved)?;
                let out = kernel.remove(&rules)?;
                times.kernel = [into, out].map(|time| time.as_secs_f64() * 1e3);
                times.has_kernel = true;
            }
        }
        let rules = bed.give(moves);
        if rules != flows as usize {
            return Err(format!("{rules} of {flows} flows move"));
        }
        times.nic[direction] = bed.settle().0 as f64 / 1e6;
        let tables: Vec<_> = bed
            .offloader
            .flows()
            .flat_map(|report| report.flow.met.lookups.first().map(|met| met.table))
            .collect();
        for table in tables {
            bed.offloader
                .set_table_override(table, Some(Override::Never));
        }
        bed.now += packet::Nanos::from_secs(1);
    }
    Ok(times)
}
