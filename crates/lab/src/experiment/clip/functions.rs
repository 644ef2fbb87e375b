//! Table III and figure 11: functions split over both halves, beside the whole program.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::bench::latency::one_by_one;
use ::bench::measure::{Plan, Side, measure as measure_sides};
use ::bench::split::{self, SplitFunction};
use ::bench::{Forward, SentFrames};
use command::captures::{Captures, Input};
use packet::{Batch, PortId};
use placement::{Nesting, Policy};
use support::tsc_clock::Clock;

use super::placements::simulate;
use super::simulated::{Case, Keys};
use super::{Context, Number, Origin, Part, Row, TableNumber, Times, head};
use crate::bench::split::{Bed, FlowTraffic, placement};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Bars, HERE, NATIVE, OTHER, PAPER};

const ALPHA: f64 = 0.99;

/// Rate of the paper's links.
const LINK_GBPS: f64 = 100.0;

/// Time of the measurement of one mix.
const TIME: Duration = Duration::from_millis(600);

/// Packets of the latencies.
const PACKETS: u64 = 50_000;

/// Sizes of packets with their frequencies.
struct Mix {
    name: String,
    sizes: Vec<(usize, u32)>,
}

impl Mix {
    fn mean(&self) -> f64 {
        let all: u32 = self.sizes.iter().map(|(_, weight)| weight).sum();
        let bytes: f64 = self
            .sizes
            .iter()
            .map(|(size, weight)| *size as f64 * f64::from(*weight))
            .sum();
        bytes / f64::from(all.max(1))
    }
}

/// Returns six mixes of our own with the names of the paper's traces. In each group of three, large
/// packets are more frequent from one to the next.
fn own_mixes() -> Vec<Mix> {
    let weights = [
        ("AP", [55, 20, 10, 5, 5, 5]),
        ("BB", [40, 12, 8, 5, 5, 30]),
        ("DC", [25, 10, 10, 5, 5, 45]),
        ("IM", [60, 25, 10, 3, 1, 1]),
        ("WS", [35, 10, 5, 5, 10, 35]),
        ("VS", [10, 3, 2, 2, 3, 80]),
    ];
    let sizes = [64, 128, 256, 512, 1024, 1500];
    let mix = |(name, weights): (&str, [u32; 6])| Mix {
        name: name.to_owned(),
        sizes: sizes.into_iter().zip(weights).collect(),
    };
    weights.into_iter().map(mix).collect()
}

/// Returns the mixes of captures.
fn traces(texts: &[String]) -> Result<Vec<Mix>, String> {
    let trace = |text: &String| {
        let form = || format!("--trace \"{text}\": write NAME=FILE.pcap");
        let (name, file) = text.split_once('=').ok_or_else(form)?;
        let input = Input {
            port: PortId(0),
            file: PathBuf::from(file),
        };
        let captures = Captures::open(std::slice::from_ref(&input));
        let mut captures = captures.map_err(|error| error.to_string())?;
        let mut counts = std::collections::BTreeMap::<usize, u32>::new();
        while let Some((_, frame)) = captures.next_packet() {
            *counts.entry(frame.len()).or_default() += 1;
        }
        if let Some(error) = captures.errors().first() {
            return Err(error.to_string());
        }
        if counts.is_empty() {
            return Err(format!("{file} has no packet"));
        }
        Ok(Mix {
            name: name.to_owned(),
            sizes: counts.into_iter().collect(),
        })
    };
    texts.iter().map(trace).collect()
}

/// Values of the paper for a function.
struct Paper {
    name: &'static str,
    split: &'static str,
    software: &'static str,
    throughput: &'static str,
    picture: &'static str,
    caption: &'static str,
}

const FUNCTIONS: [Paper; 2] = [
    Paper {
        name: "snat",
        split: "7.37 ± 1.92 us",
        software: "22.71 ± 11.00 us (FastClick)",
        throughput: "1.36 to 4.05 times FastClick",
        picture: "clip-figure-11b.svg",
        caption: "Figure 11 (b): throughput of snat",
    },
    Paper {
        name: "fib",
        split: "7.14 ± 1.05 us",
        software: "25.06 ± 15.06 us (FastClick)",
        throughput: "2.85 to 16.06 times FastClick",
        picture: "clip-figure-11c.svg",
        caption: "Figure 11 (c): throughput of fib",
    },
];

/// Measures the functions.
///
/// # Errors
/// A half cannot be loaded, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut rows = Vec::new();
    let mut pictures = Vec::new();
    let mut table = vec![head(&[
        "place",
        "function",
        "mix",
        "side",
        "source",
        "Mpps",
        "Gbit/s",
        "of unsplit",
        "us",
        "±",
        "paper",
    ])];
    let mixes = match context.options.traces.as_slice() {
        [] => own_mixes(),
        texts => traces(texts)?,
    };
    if context.options.has_table(TableNumber::Functions) {
        for paper in &FUNCTIONS {
            let function = split::find(paper.name).ok_or("a function is missing")?;
            latencies(context, &*function, paper, &mut rows, &mut table)?;
        }
    }
    if context.options.has_figure(Number::Sizes) {
        pictures.push(sizes(&mixes)?);
        for paper in &FUNCTIONS {
            let function = split::find(paper.name).ok_or("a function is missing")?;
            let picture = throughputs(context, &*function, paper, &mixes, (&mut rows, &mut table))?;
            pictures.push(picture);
        }
    }
    Ok(Part {
        title: "Table III and figure 11: functions over both halves",
        rows,
        table,
        note: "Measured: in memory, alpha 0.99, 10,000 flows of which the switch holds 1,000 (policy threshold), a core for each half. \"line-rate switch\" is the rate \
               at which the server's core is full, at most 100 Gbit/s; \"both halves\" is one core for both. Copies and links are not in it. The mixes are ours; \
               packets of fib have at least 92 bytes. Simulated latencies are those of a table like the function's, with links of 1 us and 9 us at a server; \
               the whole program is there at the servers."
            .to_owned(),
        pictures,
    })
}

/// Adds latencies of a function.
fn latencies(
    context: &mut Context<'_>,
    function: &dyn SplitFunction,
    paper: &Paper,
    rows: &mut Vec<Row>,
    table: &mut Vec<Vec<String>>,
) -> Result<(), String> {
    context.tell("table III", 0.0)?;
    let keys = match paper.name {
        "fib" => Keys::Prefixes(Nesting::Cover),
        _ => Keys::Exact,
    };
    let case = |policy| Case {
        keys,
        policy,
        alpha: ALPHA,
        flows: super::simulated::FLOWS,
        top: 1000,
        packets: 0,
    };
    let simulated = simulate(
        context,
        "table III",
        &[case(Policy::Threshold), case(Policy::None)],
    )?;
    let mut add = |side: &str, measured: Origin, times: &Times, said: &str| {
        let values = [
            ("mean_us", times.mean),
            ("deviation_us", times.deviation),
            ("p50_us", times.p50),
            ("p90_us", times.p90),
            ("p99_us", times.p99),
        ];
        let word = measured.name();
        table.push(vec![
            "table III".to_owned(),
            function.name().to_owned(),
            "-".to_owned(),
            side.to_owned(),
            word.to_owned(),
            "-".to_owned(),
            "-".to_owned(),
            "-".to_owned(),
            format!("{:.2}", times.mean),
            format!("{:.2}", times.deviation),
            said.to_owned(),
        ]);
        let subject = format!("{}, {side}", function.name());
        rows.push(Row::new("table III", subject, measured, &values, said));
    };
    for (outcome, side, said) in [
        (&simulated[0], "split", paper.split),
        (&simulated[1], "whole at servers", paper.software),
    ] {
        add(side, Origin::Simulated, &Times::new(&outcome.times), said);
    }
    let bed = Bed::new(function)?;
    let flows = function.flows();
    let top = flows / 10;
    let traffic = FlowTraffic::new(function, flows, ALPHA, &[(function.min_bytes(), 1)]);
    let mut halves = bed.halves(placement(Policy::Threshold, top, ALPHA), 1, &traffic)?;
    let split = one_by_one(&traffic, PACKETS, |frame, now| {
        halves.run(std::slice::from_mut(frame), now, |_, _| {});
    });
    add("split", Origin::Measured, &Times::new(&split), paper.split);
    let mut out = SentFrames::new();
    let mut unsplit = bed.unsplit()?;
    let whole = one_by_one(&traffic, PACKETS, |frame, now| {
        unsplit.forward(std::slice::from_mut(frame), now, &mut out);
    });
    add(
        "unsplit",
        Origin::Measured,
        &Times::new(&whole),
        paper.software,
    );
    if let Some(mut hand) = bed.hand()? {
        out.flush();
        let hand = one_by_one(&traffic, PACKETS, |frame, now| {
            hand.forward(std::slice::from_mut(frame), now, &mut out);
        });
        add("hand", Origin::Measured, &Times::new(&hand), paper.software);
    }
    Ok(())
}

/// Draws the sizes of the mixes.
fn sizes(mixes: &[Mix]) -> Result<Picture, String> {
    let bounds = [64, 128, 256, 512, 1024, usize::MAX];
    let names = ["to 64", "to 128", "to 256", "to 512", "to 1024", "larger"];
    let groups: Vec<String> = mixes.iter().map(|mix| mix.name.clone()).collect();
    let colours = [NATIVE, PAPER, HERE, OTHER].into_iter().cycle();
    let mut from = 0;
    let kinds = bounds.into_iter().zip(names).zip(colours);
    let kinds = kinds.map(|((bound, name), colour)| {
        let range = from + 1..=bound;
        from = bound;
        let share = |mix: &Mix| {
            let own = mix.sizes.iter().filter(|(size, _)| range.contains(size));
            let all: u32 = mix.sizes.iter().map(|(_, weight)| weight).sum();
            f64::from(own.map(|(_, weight)| weight).sum::<u32>()) / f64::from(all.max(1))
        };
        Bars {
            name,
            colour,
            values: mixes.iter().map(|mix| Some(share(mix) * 100.0)).collect(),
        }
    });
    let kinds: Vec<Bars> = kinds.collect();
    let axes = Axes {
        caption: "Figure 11 (a): sizes of packets",
        x: "mix",
        y: "% of packets",
    };
    Ok(Picture {
        file: "clip-figure-11a.svg",
        svg: plot::bars(&axes, &groups, &kinds)?,
    })
}

/// Adds throughputs of a function over the mixes, and draws them.
fn throughputs(
    context: &mut Context<'_>,
    function: &dyn SplitFunction,
    paper: &Paper,
    mixes: &[Mix],
    (rows, table): (&mut Vec<Row>, &mut Vec<Vec<String>>),
) -> Result<Picture, String> {
    let bed = Bed::new(function)?;
    let flows = function.flows();
    let top = flows / 10;
    let clock = Clock::new();
    let names = [
        "hand",
        "unsplit",
        "both halves, one core",
        "line-rate switch",
    ];
    let mut curves: [Vec<Option<f64>>; 4] = Default::default();
    for (number, mix) in mixes.iter().enumerate() {
        context.tell(
            &format!("figure 11, {}", function.name()),
            number as f64 / mixes.len() as f64,
        )?;
        let least = function.min_bytes();
        let sizes: Vec<(usize, u32)> = mix
            .sizes
            .iter()
            .map(|(size, weight)| ((*size).max(least), *weight))
            .collect();
        let mix = Mix {
            name: mix.name.clone(),
            sizes,
        };
        let traffic = FlowTraffic::new(function, flows, ALPHA, &mix.sizes);
        let halves = bed.halves(placement(Policy::Threshold, top, ALPHA), 1, &traffic)?;
        let cost = Arc::clone(halves.cost());
        let mut sides = vec![
            Side {
                name: "unsplit".to_owned(),
                forward: Box::new(bed.unsplit()?),
            },
            Side {
                name: "both halves".to_owned(),
                forward: Box::new(halves),
            },
        ];
        if let Some(hand) = bed.hand()? {
            sides.push(Side {
                name: "hand".to_owned(),
                forward: hand,
            });
        }
        let plan = Plan {
            time: TIME,
            burst: Batch::DEFAULT,
            seed: 1,
        };
        let measured = measure_sides(&mut [sides], &traffic, &plan, &clock, &mut |_| {});
        let rate = |name: &str| {
            let side = measured.iter().find(|side| side.name == name);
            side.map_or(0.0, |side| side.mpps)
        };
        let gbps = |mpps: f64| mpps * mix.mean() * 8.0 / 1e3;
        let link = LINK_GBPS * 1e3 / 8.0 / mix.mean();
        let full = clock.rate().ticks_per_ns * 1e3 / cost.server_ticks();
        let unsplit = rate("unsplit");
        let found = [rate("hand"), unsplit, rate("both halves"), full.min(link)];
        for ((name, mpps), curve) in names.iter().zip(found).zip(&mut curves) {
            curve.push(Some(gbps(mpps)));
            let values = [
                ("mean_bytes", mix.mean()),
                ("mpps", mpps),
                ("gbps", gbps(mpps)),
                ("of_unsplit", mpps / unsplit),
                ("share_in_switch", cost.share_in_switch()),
                ("server_cycles_per_packet", cost.server_ticks()),
                ("switch_cycles_per_packet", cost.switch_ticks()),
            ];
            table.push(vec![
                "figure 11".to_owned(),
                function.name().to_owned(),
                mix.name.clone(),
                (*name).to_owned(),
                "measured".to_owned(),
                format!("{mpps:.2}"),
                format!("{:.1}", gbps(mpps)),
                format!("{:.2}", mpps / unsplit),
                "-".to_owned(),
                "-".to_owned(),
                paper.throughput.to_owned(),
            ]);
            let subject = format!("{}, {}, {name}", function.name(), mix.name);
            let said = paper.throughput;
            rows.push(Row::new(
                "figure 11",
                subject,
                Origin::Measured,
                &values,
                said,
            ));
        }
    }
    let groups: Vec<String> = mixes.iter().map(|mix| mix.name.clone()).collect();
    let colours = [OTHER, NATIVE, PAPER, HERE];
    let kinds: Vec<Bars> = names
        .into_iter()
        .zip(colours)
        .zip(curves)
        .map(|((name, colour), values)| Bars {
            name,
            colour,
            values,
        })
        .collect();
    let axes = Axes {
        caption: paper.caption,
        x: "mix of sizes",
        y: "Gbit/s",
    };
    Ok(Picture {
        file: paper.picture,
        svg: plot::bars(&axes, &groups, &kinds)?,
    })
}
