//! Output of measurements, as a table for people or as JSON.

use serde::Serialize;
use support::text_table;
use terminal::out;

/// Writes rows as a table under a head, or as JSON.
pub(super) fn show<R: Serialize, const N: usize>(
    is_json: bool,
    head: [&str; N],
    rows: &[R],
    cells: impl FnMut(&R) -> Vec<String>,
) {
    if is_json {
        return out::json(&rows);
    }
    out::text(&text_table::table(&head, rows.iter().map(cells)));
}

/// Measurement of one side of one program under one kind of traffic.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) program: String,
    pub(super) engine: String,
    pub(super) flows: &'static str,
    pub(super) workers: usize,
    /// Bytes of a packet at ingress.
    pub(super) packet_bytes: f64,
    pub(super) mpps: f64,
    /// Cycles of the time stamp counter on one worker. `None` on machines without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cycles_per_packet: Option<f64>,
    /// The rate relative to the hand-written loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) of_hand: Option<f64>,
    /// First and third quartile of the rates of the rounds.
    pub(super) mpps_middle_half: (f64, f64),
    /// Number of sent packets per received packet.
    pub(super) sent: f64,
    pub(super) rounds: usize,
}

/// Collects rows, and writes them as one table at the end.
pub(super) struct Report {
    is_json: bool,
    rows: Vec<Row>,
}

impl Report {
    pub(super) fn new(is_json: bool) -> Report {
        Report {
            is_json,
            rows: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, rows: Vec<Row>) {
        self.rows.extend(rows);
    }

    /// Returns the rows added so far.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(super) fn finish(&self) {
        let head = [
            "program",
            "flows",
            "engine",
            "workers",
            "bytes",
            "Mpps",
            "middle half",
            "cycles",
            "of hand",
            "",
        ];
        show(self.is_json, head, &self.rows, line);
    }
}

fn line(row: &Row) -> Vec<String> {
    let (low, high) = row.mpps_middle_half;
    let optional = |value: Option<f64>, digits: usize| match value {
        Some(value) => format!("{value:.digits$}"),
        None => String::new(),
    };
    let note = match row.sent {
        sent if (sent - 1.0).abs() < 1e-9 => String::new(),
        sent => format!("{sent:.2} packets left for each that came"),
    };
    vec![
        row.program.clone(),
        row.flows.to_string(),
        row.engine.clone(),
        row.workers.to_string(),
        format!("{:.0}", row.packet_bytes),
        format!("{:.2}", row.mpps),
        format!("{low:.2} to {high:.2}"),
        optional(row.cycles_per_packet, 1),
        optional(row.of_hand, 3),
        note,
    ]
}
