//! Measures program changes under traffic.

use std::sync::Arc;
use std::time::Duration;

use bench::OnDevice;
use bench::swap::{Fates, Spread, SwapPlan, SwapReport, measure_swaps};
use bench::workloads::{large_sai, sai_versions};
use command::Ended;
use exec::{Engine, ExternState};
use interp::Interp;
use jit::Jit;
use serde::Serialize;
use support::text_table;
use switch::{Device, DeviceConfig};
use terminal::live::{LiveLine, bar};
use terminal::out;

/// Load, as a share of the maximum rate.
const LOAD: f64 = 0.9;

/// Percentiles in microseconds.
#[derive(Serialize)]
struct Times {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl From<Spread> for Times {
    fn from(spread: Spread) -> Times {
        let Spread {
            p50,
            p99,
            p999,
            max,
        } = spread;
        Times {
            p50,
            p99,
            p999,
            max,
        }
    }
}

#[derive(Serialize)]
struct Packets {
    taken: u64,
    lost: u64,
    reordered: u64,
    missed: u64,
}

impl From<Fates> for Packets {
    fn from(fates: Fates) -> Packets {
        let Fates {
            taken,
            lost,
            reordered,
            missed,
        } = fates;
        Packets {
            taken,
            lost,
            reordered,
            missed,
        }
    }
}

/// Result of the measurement; times in microseconds.
#[derive(Serialize)]
struct Figures {
    swaps: usize,
    entries_before: usize,
    entries_after: usize,
    mpps_reached: f64,
    mpps_load: f64,
    pause: Times,
    burst_that_swaps: Times,
    other_bursts: Times,
    gaps_with_swaps: Times,
    gaps_without: Times,
    own_gaps_with_swaps: Times,
    own_gaps_without: Times,
    take_over: Times,
    compile: Times,
    packets_with_swaps: Packets,
    packets_without: Packets,
    /// Packets counted by each of the two programs, and packets sent. The first two sum to the
    /// third.
    treated_by: [u64; 2],
    sent: u64,
}

pub(super) fn run(swaps: usize, is_json: bool, time: Duration) -> Result<Ended, String> {
    let mut line = LiveLine::new();
    line.show("fills tables");
    let workload = large_sai();
    let engine = Jit::new(Arc::new(Interp));
    let [first, second] = sai_versions();
    let program = Arc::new(driver::compile_text("sai.p4", &first)?);
    let loaded = OnDevice::load(&program, &engine, &*workload);
    let OnDevice(mut device) = loaded.map_err(|error| error.to_string())?;
    while device.improve(Duration::MAX) != switch::Improved::NoMore {}
    let plan = SwapPlan {
        swaps,
        load: LOAD,
        time,
    };
    let mut make = |number: usize| {
        let text = [&second, &first][number % 2];
        let program = Arc::new(driver::compile_text("sai.p4", text)?);
        let made = Device::new(program, &engine as &dyn Engine, &DeviceConfig::default());
        made.map_err(|error| error.to_string())
    };
    let mut tell = |share: f64| {
        if line.is_due() {
            line.show(&format!("swaps: {}", bar((share * 100.0) as u64, 100, 20)));
        }
    };
    let measured = measure_swaps(&mut device, &*workload, &plan, &mut make, &mut tell)?;
    line.clear();
    let figures = figures(&measured, &device);
    match is_json {
        true => out::json(&figures),
        false => show(&figures),
    }
    Ok(Ended::Well)
}

fn figures(measured: &SwapReport, device: &Device) -> Figures {
    let cells = device.configuration().cells.iter();
    let version = cells.filter(|(id, _)| device.program().externs[*id].name.ends_with("version"));
    let counts = version.filter_map(|(_, cells)| match cells {
        ExternState::Counter(counters) => Some(counters.iter().map(|reading| reading.packets)),
        _ => None,
    });
    let counts: Vec<u64> = counts.flatten().collect();
    Figures {
        swaps: measured.swaps,
        entries_before: measured.entries.0,
        entries_after: measured.entries.1,
        mpps_reached: measured.mpps,
        mpps_load: measured.load_mpps,
        pause: measured.pause.into(),
        burst_that_swaps: measured.swap_burst.into(),
        other_bursts: measured.other_burst.into(),
        gaps_with_swaps: measured.gaps.into(),
        gaps_without: measured.quiet_gaps.into(),
        own_gaps_with_swaps: measured.own_gaps.into(),
        own_gaps_without: measured.quiet_own_gaps.into(),
        take_over: measured.adopt.into(),
        compile: measured.compile.into(),
        packets_with_swaps: measured.fates.into(),
        packets_without: measured.quiet_fates.into(),
        treated_by: [0, 1].map(|version| counts.get(version).copied().unwrap_or(0)),
        sent: device.ledger().sent,
    }
}

fn show(figures: &Figures) {
    out::line(&format!(
        "{} swaps of `sai` with {} entries ({} after), {:.3} Mpps of {:.3} that one worker reaches",
        figures.swaps,
        figures.entries_before,
        figures.entries_after,
        figures.mpps_load,
        figures.mpps_reached
    ));
    let head = ["microseconds", "p50", "p99", "p99.9", "max"];
    let mut lines = vec![head.map(String::from).to_vec()];
    let rows = [
        (
            "pause: thread time of the burst that swaps, beyond its packets'",
            &figures.pause,
        ),
        (
            "thread time of the burst that swaps",
            &figures.burst_that_swaps,
        ),
        ("thread time of other bursts", &figures.other_bursts),
        (
            "wall time from burst to burst, with swaps",
            &figures.gaps_with_swaps,
        ),
        (
            "wall time from burst to burst, without",
            &figures.gaps_without,
        ),
        (
            "thread time from burst to burst, with swaps",
            &figures.own_gaps_with_swaps,
        ),
        (
            "thread time from burst to burst, without",
            &figures.own_gaps_without,
        ),
        ("take over and publish (control thread)", &figures.take_over),
        ("compile and load (control thread)", &figures.compile),
    ];
    for (what, times) in rows {
        let times = [times.p50, times.p99, times.p999, times.max];
        let times = times.map(|time| format!("{time:.1}"));
        lines.push(std::iter::once(what.to_owned()).chain(times).collect());
    }
    out::text(&text_table::align(&lines));
    for (what, packets) in [
        ("with swaps", &figures.packets_with_swaps),
        ("without", &figures.packets_without),
    ] {
        out::line(&format!(
            "packets {what}: {} taken, {} lost, {} reordered; {} more found the ring full",
            packets.taken, packets.lost, packets.reordered, packets.missed
        ));
    }
    let [first, second] = figures.treated_by;
    out::line(&format!(
        "packets by program: {first} and {second}, together {}; sent {}",
        first + second,
        figures.sent
    ));
}
