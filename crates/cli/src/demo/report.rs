//! Final report of the demo.

use std::time::Duration;

use serde::Serialize;

use super::traffic::{Carried, Echoes, Seen, Transfer};
use crate::{Ended, amount, out};
use runtime::report::{self, DeviceReport, PortReport};
use support::text_table;

/// Content of the report.
pub(super) struct Report<'a> {
    /// Results of the traffic, if it was completed.
    pub(super) carried: Option<&'a Carried>,
    pub(super) ports: Vec<PortReport>,
    pub(super) device: DeviceReport,
}

/// The report as JSON.
#[derive(Serialize)]
struct Json<'a> {
    intact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ping: Option<Ping>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfer: Option<TransferJson<'a>>,
    ports: &'a [PortReport],
    #[serde(flatten)]
    device: &'a DeviceReport,
}

#[derive(Serialize)]
struct Ping {
    sent: u32,
    lost: u32,
    /// Minimum, mean and maximum in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    round_trip_us: Option<[f64; 3]>,
}

#[derive(Serialize)]
struct TransferJson<'a> {
    sent: &'a Seen,
    received: &'a Seen,
    seconds: f64,
    goodput_bits_per_second: f64,
}

/// Returns the exit status for data that arrived intact, or not.
pub(super) fn verdict(is_intact: bool) -> Ended {
    if is_intact {
        Ended::Well
    } else {
        Ended::WithErrors
    }
}

impl Report<'_> {
    /// Writes the report to standard output.
    pub(super) fn write(&self, json: bool) {
        if json {
            out::json(&self.json());
        } else {
            if let Some(carried) = self.carried {
                out::text(&text_table::align(&rows(carried)));
            }
            out::text(&report::text(&self.ports, &self.device));
            if let Some(carried) = self.carried {
                out::line(said(carried.transfer.is_intact()));
            }
        }
    }

    fn json(&self) -> Json<'_> {
        let ping = |echoes: &Echoes| Ping {
            sent: echoes.sent,
            lost: echoes.lost(),
            round_trip_us: echoes.round_trip().map(|times| times.map(microseconds)),
        };
        Json {
            intact: self
                .carried
                .is_some_and(|carried| carried.transfer.is_intact()),
            ping: self.carried.map(|carried| ping(&carried.echoes)),
            transfer: self.carried.map(|Carried { transfer, .. }| TransferJson {
                sent: &transfer.sent,
                received: &transfer.received,
                seconds: transfer.took.as_secs_f64(),
                goodput_bits_per_second: transfer.goodput(),
            }),
            ports: &self.ports,
            device: &self.device,
        }
    }
}

/// Returns the final sentence of the report.
pub(super) fn said(is_intact: bool) -> &'static str {
    if is_intact {
        "data arrived intact"
    } else {
        "data did NOT arrive intact"
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn rows(carried: &Carried) -> Vec<Vec<String>> {
    let Carried { echoes, transfer } = carried;
    vec![
        vec!["ping".to_owned(), ping_row(echoes)],
        vec!["TCP".to_owned(), transfer_row(transfer)],
        vec!["SHA-256 sent".to_owned(), transfer.sent.sha256.clone()],
        vec![
            "SHA-256 received".to_owned(),
            transfer.received.sha256.clone(),
        ],
    ]
}

fn ping_row(echoes: &Echoes) -> String {
    let loss = f64::from(echoes.lost()) * 100.0 / f64::from(echoes.sent.max(1));
    let requests = amount::count(u64::from(echoes.sent), "request");
    let times = match echoes.round_trip() {
        Some(times) => {
            let [min, mean, max] = times.map(amount::time);
            format!(", round trip min {min}, mean {mean}, max {max}")
        }
        None => String::new(),
    };
    format!("{requests}, {} lost ({loss:.0}%){times}", echoes.lost())
}

fn transfer_row(transfer: &Transfer) -> String {
    let bytes = amount::bytes(transfer.received.bytes);
    let time = amount::time(transfer.took);
    let goodput = amount::bit_rate(transfer.goodput());
    format!("{bytes} in {time}: {goodput}")
}
