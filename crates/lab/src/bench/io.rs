//! Measures packet I/O over virtual interfaces, against a bare loop.

use std::time::Duration;

use bench::io::{Ports, Way};
use command::Ended;
use serde::Serialize;
use support::text_table;
use terminal::live::{LiveLine, bar};
use terminal::out;

/// Frame lengths: the minimum, a medium one, the maximum.
const BYTES: [usize; 3] = [60, 590, 1514];

/// Measurement of one packet I/O method.
#[derive(Debug, Clone, Serialize)]
struct Row {
    io: &'static str,
    packet_bytes: usize,
    mpps: f64,
    mpps_middle_half: (f64, f64),
    ns_per_packet: f64,
    /// The rate relative to the bare loop.
    of_bare: f64,
    rounds: usize,
}

/// Measures all packet I/O methods with frames of several lengths.
///
/// # Errors
/// This machine does not allow it.
pub(super) fn run(is_json: bool, time: Duration) -> Result<Ended, String> {
    let cannot = |error: bench::io::IoError| {
        format!(
            "ports cannot be measured here: {error}; `bench --io` needs root and Linux 5.10 or later"
        )
    };
    let mut line = LiveLine::new();
    line.show("lays cables");
    let mut ports = Ports::open().map_err(cannot)?;
    let mut rows = Vec::new();
    for bytes in BYTES {
        let mut tell = |share: f64| {
            if line.is_due() {
                let bar = bar((share * 100.0) as u64, 100, 20);
                line.show(&format!("frames of {bytes} bytes: {bar}"));
            }
        };
        let measured = ports.measure(bytes, time, &mut tell).map_err(cannot)?;
        let bare = measured.iter().find(|carried| carried.way == Way::Bare);
        let bare = bare.map_or(0.0, |bare| bare.mpps);
        rows.extend(measured.iter().map(|carried| Row {
            io: carried.way.name(),
            packet_bytes: bytes,
            mpps: carried.mpps,
            mpps_middle_half: carried.middle_half,
            ns_per_packet: 1e3 / carried.mpps,
            of_bare: carried.mpps / bare,
            rounds: carried.rounds,
        }));
    }
    line.clear();
    show(&rows, is_json);
    Ok(Ended::Well)
}

fn show(rows: &[Row], is_json: bool) {
    if is_json {
        return out::json(&rows);
    }
    let head = [
        "ports",
        "bytes",
        "Mpps",
        "middle half",
        "ns a packet",
        "of bare",
    ];
    let mut lines = vec![head.map(String::from).to_vec()];
    lines.extend(rows.iter().map(|row| {
        let (low, high) = row.mpps_middle_half;
        vec![
            row.io.to_string(),
            row.packet_bytes.to_string(),
            format!("{:.3}", row.mpps),
            format!("{low:.3} to {high:.3}"),
            format!("{:.0}", row.ns_per_packet),
            format!("{:.2}", row.of_bare),
        ]
    }));
    out::text(&text_table::align(&lines));
}
