//! Figure 10: latency of ten flows over the offered rate, in software and with all flows in the
//! NIC.

use bench::latency::{Carried, at_rate};
use bench::measure::{Side, measure as measure_sides};
use placement::planes::workload::LATENCY_NIC_US;
use support::tsc_clock::Clock;

use super::bed::{Bed, FRAME, Flows, INGRESS, OnForwarder, engines, forwarder, udp};
use super::{BURST, Context, Origin, Part, Sheet};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Curve, Marks};

/// Number of flows.
const FLOWS: u32 = 10;

/// Source address of the first flow.
const FIRST: u32 = 0x0202_0201;

/// Offered rates, as shares of the largest one of the plane.
const SHARES: [f64; 10] = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.1, 1.25];

/// Share of the offered rate that a plane carries up to its knee.
const CARRIED: f64 = 0.98;

/// Packets of a run at most; a run takes about a millisecond. The queue has room for all of them.
const MAX_PACKETS: usize = 4096;

/// Runs of each rate.
const RUNS: u64 = 30;

/// The paper's latencies in us by offered Mpps.
const PAPER: [(f64, f64); 2] = [(0.447, 50.0), (0.596, 7000.0)];

/// The paper's largest rate in software.
const PAPER_MPPS: f64 = 0.534;

/// Measures the engines at rates below and above their own, and the NIC by its model.
///
/// # Errors
/// A flow is not offloaded, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("figure 10");
    let entries = (0..FLOWS).map(|flow| {
        let source = FIRST + flow;
        format!("flow add mm/0 match src={source:#x} do set_field 240/32=10.2.2.2; output 1\n")
    });
    let text =
        "table add mm/0 size 16 fields src=208/32\n".to_owned() + &entries.collect::<String>();
    let flows = Flows {
        first: FIRST,
        count: FLOWS,
    };
    let mut knees = Vec::new();
    let mut pictures = Vec::new();
    let labels = [
        ("jit (measured)", "pof-figure-10.svg"),
        ("interp (measured)", "pof-figure-10-interp.svg"),
    ];
    for (at, (name, engine)) in engines().into_iter().enumerate() {
        let side = Side {
            name: name.to_owned(),
            forward: Box::new(OnForwarder(forwarder(engine, &text)?)),
        };
        let mut workers = [vec![side]];
        let plan = context.plan();
        let found = measure_sides(&mut workers, &flows, &plan, &Clock::new(), &mut |_| {});
        let most = found.first().map_or(0.0, |measured| measured.mpps);
        let [sides] = &mut workers;
        let side = sides.first_mut().ok_or("a side is missing")?;
        let runs = context.scaled(RUNS, 5);
        let mut knee = [("knee offered Mpps", 0.0), ("knee carried Mpps", 0.0)];
        let mut points = Vec::new();
        for (number, share) in SHARES.into_iter().enumerate() {
            context.tell("figure 10", at * SHARES.len() + number, 2 * SHARES.len())?;
            let offered = most * share;
            let packets = ((offered * 1e3) as usize).clamp(BURST, MAX_PACKETS);
            let carried = at_rate(&mut *side.forward, &flows, offered, (runs, packets, BURST));
            let subject = format!("software, {name}, {:.0} %", share * 100.0);
            let values = values(share, offered, &carried);
            sheet.add(&subject, Origin::Measured, &values);
            points.push((share * 100.0, carried.latency.p50));
            if carried.mpps >= CARRIED * offered {
                knee = [
                    ("knee offered Mpps", offered),
                    ("knee carried Mpps", carried.mpps),
                ];
            }
        }
        let subject = format!("software, {name}");
        sheet.add(&subject, Origin::Measured, &knee);
        sheet.add(&subject, Origin::Measured, &[("most Mpps", most)]);
        let [(_, offered), (_, carried)] = knee;
        knees.push(format!("{name} {carried:.2} of {offered:.2} Mpps"));
        let all = SHARES.map(|share| (share * 100.0, f64::from(LATENCY_NIC_US)));
        let (name, file) = labels[at];
        let curves = [
            (name, plot::HERE, points),
            ("all flows in the NIC (model)", plot::OTHER, all.to_vec()),
        ]
        .map(|(name, colour, points)| Curve {
            marks: Marks::Line,
            name,
            colour,
            points,
        });
        let axes = Axes {
            caption: "Figure 10: latency over the offered rate, ten flows",
            x: "offered, % of the plane's largest rate",
            y: "us, median",
        };
        let svg = plot::curves_below_legend(&axes, &curves)?;
        pictures.push(Picture { file, svg });
    }
    in_nic(&text, &mut sheet)?;
    for (offered, us) in PAPER {
        let values = [("offered Mpps", offered), ("us 50 %", us)];
        sheet.add(&format!("software at {offered}"), Origin::Paper, &values);
    }
    sheet.add("software", Origin::Paper, &[("most Mpps", PAPER_MPPS)]);
    sheet.add("nic", Origin::Paper, &[("us 50 %", 4.0)]);
    let note = format!(
        "Knees, carried of offered, where the offered rate is the largest of which {:.0} % is carried: {}. Measured: one core, runs of a millisecond and at most {MAX_PACKETS} packets in memory, which arrive at fixed times; none is lost, so above the knee \
         a latency is as long as the run makes it, where the paper's is as long as its queues. Offered shares are of the rate of a core that has all packets at once, in bursts of {BURST}. \
         Model: tau 1 at every rate; no packet of the flows comes to software.",
        CARRIED * 100.0,
        knees.join(", ")
    );
    Ok(sheet.part(
        "Figure 10: latency over the offered rate, offload off and on",
        note,
        pictures,
    ))
}

/// Returns the values of a share of the largest rate, which is offered.
fn values(share: f64, offered: f64, carried: &Carried) -> [(&'static str, f64); 5] {
    [
        ("offered %", share * 100.0),
        ("offered Mpps", offered),
        ("carried Mpps", carried.mpps),
        ("us 50 %", carried.latency.p50),
        ("us 99 %", carried.latency.p99),
    ]
}

/// Offloads the flows, and adds how many packets still come to software.
fn in_nic(text: &str, sheet: &mut Sheet) -> Result<(), String> {
    let mut bed = Bed::new(text)?;
    let frames: Vec<Vec<u8>> = (0..FLOWS).map(|flow| udp(FIRST + flow, FRAME)).collect();
    frames.iter().for_each(|frame| bed.observe(frame));
    let commands = bed.decide();
    bed.give(commands);
    bed.settle();
    let mut in_software = 0;
    for number in 0..1000 {
        let sent = bed
            .nic
            .process(bed.now, INGRESS, &frames[number % frames.len()]);
        in_software += u32::from(sent.is_none());
    }
    let values = [
        ("us 50 %", f64::from(LATENCY_NIC_US)),
        ("packets in software of 1000", in_software.into()),
    ];
    sheet.add("nic", Origin::Model, &values);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::latency::Latency;

    #[test]
    fn a_rate_is_shown_as_carried_only_if_it_is() {
        let latency = Latency { p50: 2.0, p99: 3.0 };
        let carried = Carried {
            latency,
            mpps: 25.0,
        };
        let expected = [
            ("offered %", 110.0),
            ("offered Mpps", 28.0),
            ("carried Mpps", 25.0),
            ("us 50 %", 2.0),
            ("us 99 %", 3.0),
        ];
        for ((name, value), expected) in values(1.1, 28.0, &carried).into_iter().zip(expected) {
            assert_eq!(name, expected.0);
            assert!((value - expected.1).abs() < 1e-9, "{name}: {value}");
        }
    }
}
