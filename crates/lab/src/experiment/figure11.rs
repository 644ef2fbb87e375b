//! Figure 11: throughput of an L2 switch by packet size, alone and in a virtual data plane, on
//! one core and in memory.

use std::sync::Arc;

use bench::tenants::Entry;
use runtime::tenancy_host::ROUND;
use serde::Serialize;

use super::plot::{self, Axes, Curve, Marks};
use super::policy::Policy;
use super::{Figure, Hypervdp, More, Picture, Progress, Row, cell, head};

const BYTES: [u16; 6] = [64, 128, 256, 512, 1024, 1500];

/// The paper's rates for 64-byte packets, given in its text, on four cores and 40 Gbit/s of
/// network cards: HyperVDP, Open vSwitch, PISCES.
const PAPER_MPPS: (f64, f64, f64) = (42.14, 45.71, 45.95);

/// Result for one packet size.
#[derive(Serialize)]
pub(super) struct Size {
    bytes: u16,
    native_gbps: f64,
    vpdp_gbps: f64,
    paper_mpps: Option<f64>,
    paper_open_vswitch_mpps: Option<f64>,
    paper_pisces_mpps: Option<f64>,
}

/// Runs the measurement.
///
/// # Errors
/// The function refuses its entries, or a picture cannot be drawn.
pub(super) fn measure(options: &Hypervdp) -> Result<Figure, String> {
    let plan = options.plan()?;
    let mut policy = Policy::new(1)?;
    let mut progress = Progress::new();
    let mut rows = Vec::new();
    for bytes in BYTES {
        policy = policy.padded(bytes.into());
        let engine = Arc::from(options.choice.engine());
        let name = format!("figure 11, {bytes} bytes");
        let mut tell = |share| progress.tell(&name, share);
        let report = policy.measure(engine, 1, Entry::Whole, &plan, &mut tell)?;
        let gbps = |mpps: f64| mpps * f64::from(bytes) * 8.0 / 1e3;
        let (native, hosted) = report.middle;
        let paper = |mpps| (bytes == 64).then_some(mpps);
        let (hypervdp, open_vswitch, pisces) = PAPER_MPPS;
        let size = Size {
            bytes,
            native_gbps: gbps(native.mpps),
            vpdp_gbps: gbps(hosted.mpps),
            paper_mpps: paper(hypervdp),
            paper_open_vswitch_mpps: paper(open_vswitch),
            paper_pisces_mpps: paper(pisces),
        };
        rows.push(Row::measured("11", "Pol. 1", 1, &report, More::Size(size)));
    }
    drop(progress);
    let words = [
        "bytes",
        "native Mpps",
        "vPDP Mpps",
        "ratio",
        "native Gbit/s",
        "vPDP Gbit/s",
        "HyperVDP Mpps (4 cores)",
    ];
    let mut table = vec![head(&words)];
    table.extend(rows.iter().filter_map(line));
    Ok(Figure {
        title: "Figure 11: throughput of L2_SW over packet sizes",
        table,
        note: format!(
            "Here: one core, packets in memory, rounds of {ROUND}, as many as a worker of `polyplane host` takes at once, \
             whole ports that are full. The paper: four cores, four 10G ports, so large packets are at the line rate of \
               40 Gbit/s; of 64 bytes Open vSwitch forwards 45.71 and PISCES 45.95 Mpps, which makes HyperVDP's ratio to Open vSwitch 0.92."
        ),
        pictures: pictures(&rows)?,
        rows,
    })
}

fn size(row: &Row) -> Option<&Size> {
    match &row.more {
        More::Size(size) => Some(size),
        _ => None,
    }
}

fn line(row: &Row) -> Option<Vec<String>> {
    let size = size(row)?;
    let two = |value: f64| format!("{value:.2}");
    Some(vec![
        size.bytes.to_string(),
        cell(row.native_mpps.map(two)),
        cell(row.vpdp_mpps.map(two)),
        cell(row.ratio.map(two)),
        two(size.native_gbps),
        two(size.vpdp_gbps),
        cell(size.paper_mpps.map(two)),
    ])
}

fn pictures(rows: &[Row]) -> Result<Vec<Picture>, String> {
    let curve = |name, colour, marks, y: fn(&Row, &Size) -> Option<f64>| Curve {
        marks,
        name,
        colour,
        points: rows
            .iter()
            .filter_map(|row| {
                let size = size(row)?;
                Some((size.bytes.into(), y(row, size)?))
            })
            .collect(),
    };
    let mpps = Axes {
        caption: "Throughput of L2_SW, one core",
        x: "bytes of a packet",
        y: "Mpps",
    };
    let of_mpps = [
        curve("native", plot::NATIVE, Marks::Line, |row, _| {
            row.native_mpps
        }),
        curve("vPDP", plot::HERE, Marks::Line, |row, _| row.vpdp_mpps),
        curve(
            "HyperVDP, four cores",
            plot::PAPER,
            Marks::Crosses,
            |_, size| size.paper_mpps,
        ),
    ];
    let gbps = Axes {
        y: "Gbit/s",
        ..mpps
    };
    let of_gbps = [
        curve("native", plot::NATIVE, Marks::Line, |_, size| {
            Some(size.native_gbps)
        }),
        curve("vPDP", plot::HERE, Marks::Line, |_, size| {
            Some(size.vpdp_gbps)
        }),
    ];
    Ok(vec![
        Picture {
            file: "figure11a.svg",
            svg: plot::curves(&mpps, &of_mpps)?,
        },
        Picture {
            file: "figure11b.svg",
            svg: plot::curves(&gbps, &of_gbps)?,
        },
    ])
}
