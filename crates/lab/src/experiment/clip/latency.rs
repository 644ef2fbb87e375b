//! Table I and figure 10: latencies by policy.

use ::bench::latency::one_by_one;
use ::bench::split::{self, SplitFunction};
use placement::{Nesting, Policy};

use super::placements::{colour, letter, simulate};
use super::simulated::{Case, FLOWS, Keys};
use super::{Context, Origin, Part, Row, Times, distribution, head};
use crate::bench::split::{Bed, FlowTraffic, placement};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Curve, Marks};

const ALPHA: f64 = 0.9;

/// Packets that a wall-clock row measures at most.
const WALL_PACKETS: u64 = 100_000;

/// Simulates the policies, and measures them in memory.
///
/// # Errors
/// A simulation fails, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut cases = Vec::new();
    let kinds = [
        (Keys::Exact, 1000),
        (Keys::Exact, 5000),
        (Keys::Prefixes(Nesting::Leaf), 1000),
        (Keys::Prefixes(Nesting::Cover), 1000),
    ];
    for (keys, top) in kinds {
        cases.extend(Policy::ALL.map(|policy| Case {
            keys,
            policy,
            alpha: ALPHA,
            flows: FLOWS,
            top,
            packets: 0,
        }));
    }
    let outcomes = simulate(context, "table I, figure 10", &cases)?;
    let mut rows = Vec::new();
    let mut table = vec![head(&[
        "keys",
        "N",
        "policy",
        "source",
        "us",
        "±",
        "50 %",
        "90 %",
        "99 %",
        "< 8 us %",
        "below BL %",
        "in switch %",
        "paper",
    ])];
    for (case, found) in cases.iter().zip(&outcomes) {
        let base = cases.iter().zip(&outcomes).find(|(other, _)| {
            other.keys == case.keys && other.top == case.top && other.policy == Policy::None
        });
        let below = base.map_or(0.0, |(_, base)| {
            (1.0 - found.mean_us / base.mean_us) * 100.0
        });
        let times = Times::new(&found.times);
        let values = [
            ("alpha", case.alpha),
            ("flows", case.flows.into()),
            ("top", case.top as f64),
            ("packets", context.packets as f64),
            ("mean_us", found.mean_us),
            ("deviation_us", found.deviation_us),
            ("p50_us", times.p50),
            ("p90_us", found.p90_us),
            ("p99_us", times.p99),
            ("below_8_us_percent", found.below_8_us_percent),
            ("below_bl_percent", below),
            ("exact_mean_us", found.exact_mean_us),
            ("share_percent", found.share_percent),
            ("exact_share_percent", found.exact_share_percent),
        ];
        let paper = paper(case.keys, case.policy);
        let subject = format!(
            "{}, N {}, {}",
            case.keys.name(),
            case.top,
            case.policy.name()
        );
        table.push(line(
            [
                case.keys.name(),
                &case.top.to_string(),
                letter(case.policy),
                "simulated",
            ],
            &times,
            (found.below_8_us_percent, below, found.share_percent),
            paper,
        ));
        let place = "table I, figure 10";
        rows.push(Row::new(place, subject, Origin::Simulated, &values, paper));
    }
    for (name, keys) in [
        ("snat", Keys::Exact),
        ("fib", Keys::Prefixes(Nesting::Cover)),
    ] {
        let function = split::find(name).ok_or("a function is missing")?;
        wall(context, (&*function, keys), &mut rows, &mut table)?;
    }
    let mut pictures = Vec::new();
    for (keys, top, file, caption) in [
        (
            Keys::Exact,
            5000,
            "clip-figure-10a.svg",
            "Figure 10 (a): latency, exact keys",
        ),
        (
            Keys::Prefixes(Nesting::Leaf),
            1000,
            "clip-figure-10b.svg",
            "Figure 10 (b): latency, prefixes",
        ),
    ] {
        let own = cases.iter().zip(&outcomes);
        let own = own.filter(|(case, _)| case.keys == keys && case.top == top);
        let curves: Vec<Curve> = own
            .map(|(case, found)| Curve {
                marks: Marks::Line,
                name: letter(case.policy),
                colour: colour(case.policy),
                points: distribution(&found.times)
                    .into_iter()
                    .map(|(time, share)| (time.min(30.0), share))
                    .collect(),
            })
            .collect();
        let axes = Axes {
            caption,
            x: "us, simulated",
            y: "share of packets",
        };
        pictures.push(Picture {
            file,
            svg: plot::curves(&axes, &curves)?,
        });
    }
    Ok(Part {
        title: "Table I and figure 10: latencies by policy, alpha 0.9, 10,000 flows",
        rows,
        table,
        note: "Simulated: links of 1 us, 9 us at a server, no time in the switch; a hit takes 2 us and a way over a server 13 us and its wait. Measured: one \
               packet at a time through both halves in memory (snat, fib), without links and waits; there a server costs as much as the switch."
            .to_owned(),
        pictures,
    })
}

fn line(
    [keys, top, policy, measured]: [&str; 4],
    times: &Times,
    (below_8, below, share): (f64, f64, f64),
    paper: &str,
) -> Vec<String> {
    vec![
        keys.to_owned(),
        top.to_owned(),
        policy.to_owned(),
        measured.to_owned(),
        format!("{:.2}", times.mean),
        format!("{:.2}", times.deviation),
        format!("{:.2}", times.p50),
        format!("{:.2}", times.p90),
        format!("{:.2}", times.p99),
        format!("{below_8:.1}"),
        format!("{below:.1}"),
        format!("{share:.1}"),
        paper.to_owned(),
    ]
}

fn paper(keys: Keys, policy: Policy) -> &'static str {
    match (keys, policy) {
        (Keys::Exact, Policy::None) => "17.92 ± 5.94 us",
        (Keys::Exact, Policy::Random) => "7.45 ± 7.62 us",
        (Keys::Exact, Policy::Threshold) => "3.07 ± 3.06 us; 90 % below 8 us",
        (Keys::Exact, Policy::Heap) => "2.74 ± 1.93 us",
        (_, Policy::None) => "18.92 ± 5.77 us",
        (_, Policy::Random) => "17.02 ± 7.38 us",
        (_, Policy::Threshold) => "12.11 ± 8.94 us; 37 % below 8 us",
        (_, Policy::Heap) => "9.78 ± 8.13 us",
    }
}

/// Measures the policies of a function, one packet at a time.
fn wall(
    context: &mut Context<'_>,
    (function, keys): (&dyn SplitFunction, Keys),
    rows: &mut Vec<Row>,
    table: &mut Vec<Vec<String>>,
) -> Result<(), String> {
    let bed = Bed::new(function)?;
    let flows = function.flows();
    let top = flows / 10;
    let traffic = FlowTraffic::new(function, flows, ALPHA, &[(function.min_bytes(), 1)]);
    let mut base = 0.0;
    for (number, policy) in Policy::ALL.into_iter().enumerate() {
        context.tell("table I, wall", number as f64 / 4.0)?;
        let mut halves = bed.halves(placement(policy, top, ALPHA), 1, &traffic)?;
        let packets = context.packets.min(WALL_PACKETS);
        let times = one_by_one(&traffic, packets, |frame, now| {
            halves.run(std::slice::from_mut(frame), now, |_, _| {});
        });
        let share = halves.cost().share_in_switch() * 100.0;
        let of_all = Times::new(&times);
        if policy == Policy::None {
            base = of_all.mean;
        }
        let below = (1.0 - of_all.mean / base) * 100.0;
        let below_8 = times.iter().filter(|time| **time < 8.0).count() as f64;
        let below_8 = below_8 / times.len().max(1) as f64 * 100.0;
        let values = [
            ("alpha", ALPHA),
            ("flows", flows.into()),
            ("top", top.into()),
            ("packets", packets as f64),
            ("mean_us", of_all.mean),
            ("deviation_us", of_all.deviation),
            ("p50_us", of_all.p50),
            ("p90_us", of_all.p90),
            ("p99_us", of_all.p99),
            ("below_8_us_percent", below_8),
            ("below_bl_percent", below),
            ("share_percent", share),
        ];
        let subject = format!("{}, N {top}, {}", function.name(), policy.name());
        let paper = paper(keys, policy);
        table.push(line(
            [
                function.name(),
                &top.to_string(),
                letter(policy),
                "measured",
            ],
            &of_all,
            (below_8, below, share),
            paper,
        ));
        rows.push(Row::new(
            "table I",
            subject,
            Origin::Measured,
            &values,
            paper,
        ));
    }
    Ok(())
}
