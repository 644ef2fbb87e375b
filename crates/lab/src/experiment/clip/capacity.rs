//! Figure 5: capacity and latency of the way over servers, without a function.

use ::bench::latency::one_by_one;
use ::bench::measure::{Plan, Side, measure as measure_sides};
use ::bench::split;
use ::bench::{Forward, SentFrames};
use packet::Batch;
use placement::Policy;
use std::sync::Arc;
use std::time::Duration;
use support::rng::Rng;
use support::tsc_clock::Clock;

use super::placements::simulate;
use super::simulated::{Case, Keys};
use super::{Context, Origin, Part, Row, Times, distribution, head};
use crate::bench::split::{Bed, FlowTraffic, placement};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Curve, HERE, Marks, NATIVE, OTHER, PAPER};

const SIZES: [usize; 7] = [64, 128, 256, 512, 768, 1024, 1500];
const FLOWS: u32 = 1000;
/// Time of the measurement of one size.
const TIME: Duration = Duration::from_millis(400);
/// Packets of the latencies, as in the paper.
const PACKETS: u64 = 10_000;

/// Measures both parts of the figure.
///
/// # Errors
/// The halves cannot be loaded, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let function = split::find("ports").ok_or("a function is missing")?;
    let bed = Bed::new(&*function)?;
    let mut rows = Vec::new();
    let mut table = vec![head(&[
        "part",
        "packets",
        "servers",
        "source",
        "Gbit/s",
        "Mpps",
        "with this switch Gbit/s",
        "us",
        "90 %",
        "paper",
    ])];
    let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); 4];
    let clock = Clock::new();
    let mut alone = bed.switch_half(FLOWS)?;
    for (number, size) in SIZES.into_iter().enumerate() {
        context.tell("figure 5", number as f64 / SIZES.len() as f64)?;
        let traffic = FlowTraffic::new(&*function, FLOWS, 0.0, &[(size, 1)]);
        let halves = bed.halves(placement(Policy::None, 0, 0.5), 1, &traffic)?;
        let cost = Arc::clone(halves.cost());
        let sides = vec![
            Side {
                name: "switch".to_owned(),
                forward: Box::new(bed.switch_half(FLOWS)?),
            },
            Side {
                name: "server".to_owned(),
                forward: Box::new(halves),
            },
        ];
        let plan = Plan {
            time: TIME,
            burst: Batch::DEFAULT,
            seed: 1,
        };
        let measured = measure_sides(&mut [sides], &traffic, &plan, &clock, &mut |_| {});
        let ideal = measured.first().map_or(0.0, |side| side.mpps);
        let ticks_per_us = clock.rate().ticks_per_ns * 1e3;
        let server = ticks_per_us / cost.server_ticks();
        let switch = ticks_per_us / cost.switch_ticks();
        let gbps = |mpps: f64| mpps * size as f64 * 8.0 / 1e3;
        for servers in 0..=2u32 {
            let (mpps, both) = match servers {
                0 => (ideal, ideal),
                count => {
                    let all = server * f64::from(count);
                    (all, all.min(switch))
                }
            };
            let paper = match (servers, size) {
                (0, 512..) => "near 100 Gbps from 512 to 1500 B",
                (1, 1024) => "50 Gbps at 1024 B",
                (0, _) => "packets of the generator's three cores",
                _ => "fixed packet rate of a core: Gbps grows with the size",
            };
            curves[servers as usize].push((size as f64, gbps(mpps)));
            if servers == 1 {
                curves[3].push((size as f64, gbps(both)));
            }
            let values = [
                ("bytes", size as f64),
                ("servers", servers.into()),
                ("gbps", gbps(mpps)),
                ("mpps", mpps),
                ("with_this_switch_gbps", gbps(both)),
                ("with_this_switch_mpps", both),
            ];
            let subject = format!("{size} bytes, {servers} servers");
            table.push(vec![
                "(a)".to_owned(),
                format!("{size} bytes"),
                servers.to_string(),
                "measured".to_owned(),
                format!("{:.1}", gbps(mpps)),
                format!("{mpps:.2}"),
                format!("{:.1}", gbps(both)),
                "-".to_owned(),
                "-".to_owned(),
                paper.to_owned(),
            ]);
            rows.push(Row::new(
                "figure 5 (a)",
                subject,
                Origin::Measured,
                &values,
                paper,
            ));
        }
    }
    // Sizes at random, one packet at a time.
    let sizes: Vec<(usize, u32)> = {
        let mut choices = Rng::new(1);
        (0..64)
            .map(|_| (choices.between(64, 1500) as usize, 1))
            .collect()
    };
    let traffic = FlowTraffic::new(&*function, FLOWS, 0.0, &sizes);
    let mut halves = bed.halves(placement(Policy::None, 0, 0.5), 1, &traffic)?;
    let mut out = SentFrames::new();
    // The first packets warm up both.
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..2 {
        runs[0] = one_by_one(&traffic, PACKETS, |frame, now| {
            alone.forward(std::slice::from_mut(frame), now, &mut out);
        });
        out.flush();
        runs[1] = one_by_one(&traffic, PACKETS, |frame, now| {
            halves.run(std::slice::from_mut(frame), now, |_, _| {});
        });
    }
    let packets = std::mem::replace(&mut context.packets, PACKETS);
    let case = |policy| Case {
        keys: Keys::Exact,
        policy,
        alpha: 0.0,
        flows: FLOWS,
        top: u64::from(FLOWS),
        packets: 0,
    };
    // After two windows the heap has all flows in the switch: the second half of the packets.
    context.packets = 2 * PACKETS.max(40_000);
    let simulated = simulate(
        context,
        "figure 5",
        &[case(Policy::Heap), case(Policy::None)],
    );
    context.packets = packets;
    let simulated = simulated?;
    let mut drawn = Vec::new();
    let all = [
        (0, Origin::Measured, &runs[0]),
        (1, Origin::Measured, &runs[1]),
        (0, Origin::Simulated, &simulated[0].times),
        (1, Origin::Simulated, &simulated[1].times),
    ];
    for (servers, measured, times) in all {
        let of_all = Times::new(times);
        let paper = match servers {
            0 => "90 % within 7 us",
            _ => "90 % within 16 us, 9 us more than without; TEA 2 us",
        };
        let word = measured.name();
        let values = [
            ("servers", f64::from(servers)),
            ("mean_us", of_all.mean),
            ("deviation_us", of_all.deviation),
            ("p50_us", of_all.p50),
            ("p90_us", of_all.p90),
            ("p99_us", of_all.p99),
        ];
        table.push(vec![
            "(b)".to_owned(),
            "64 to 1500 bytes".to_owned(),
            servers.to_string(),
            word.to_owned(),
            "-".to_owned(),
            "-".to_owned(),
            "-".to_owned(),
            format!("{:.2}", of_all.mean),
            format!("{:.2}", of_all.p90),
            paper.to_owned(),
        ]);
        let subject = format!("latency, {servers} servers");
        rows.push(Row::new("figure 5 (b)", subject, measured, &values, paper));
        let (name, colour) = match (servers, measured) {
            (0, Origin::Measured) => ("switch, in memory", NATIVE),
            (_, Origin::Measured) => ("server, in memory", HERE),
            (0, _) => ("switch, simulated", OTHER),
            _ => ("server, simulated", PAPER),
        };
        drawn.push(Curve {
            marks: Marks::Line,
            name,
            colour,
            points: distribution(times)
                .into_iter()
                .map(|(time, share)| (time.min(16.0), share))
                .collect(),
        });
    }
    let names = [
        ("switch alone, one core", NATIVE),
        ("one server, one core", HERE),
        ("two servers, a core each", PAPER),
        ("one server with this switch", OTHER),
    ];
    let curves: Vec<Curve> = curves
        .into_iter()
        .zip(names)
        .map(|(points, (name, colour))| Curve {
            marks: Marks::Line,
            name,
            colour,
            points,
        })
        .collect();
    let capacity = Axes {
        caption: "Figure 5 (a): forwarding capacity",
        x: "bytes of a packet",
        y: "Gbit/s",
    };
    let latency = Axes {
        caption: "Figure 5 (b): latency of one packet at a time",
        x: "us",
        y: "share of packets",
    };
    let pictures = vec![
        Picture {
            file: "clip-figure-5a.svg",
            svg: plot::curves(&capacity, &curves)?,
        },
        Picture {
            file: "clip-figure-5b.svg",
            svg: plot::curves(&latency, &drawn)?,
        },
    ];
    Ok(Part {
        title: "Figure 5: capacity and latency without a function",
        rows,
        table,
        note: "Measured: in memory, a core for each half. The rate of servers is that of their own cycles, as beside a line-rate switch; \"with this switch\" it \
               is at most what a core of the switch half passes twice. Nothing copies a packet, so Gbit/s grow with the size beyond any link. Simulated: links \
               of 1 us, 9 us at a server."
            .to_owned(),
        pictures,
    })
}
