//! Reports of a device and its ports, as aligned text or as JSON.

use std::time::Duration;

use port::{DropCounts, PortStats, Reason};
use serde::Serialize;
use support::amount;
use support::text_table::align;
use switch::{Device, Ledger};

use crate::observation::SampledDrops;
pub use crate::specialiser::SpecialisationStatus;
use crate::worker_thread::Figures;

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Number of packets.
    pub packets: u64,
    /// Sum of their lengths.
    pub bytes: u64,
}

impl Traffic {
    /// Counts one packet of `len` bytes.
    pub fn count(&mut self, len: usize) {
        self.packets += 1;
        self.bytes += len as u64;
    }
}

/// Number of packets dropped for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drops {
    /// Name of the drop reason.
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
}

/// Report of one port.
#[derive(Clone, Debug, Serialize)]
pub struct PortReport {
    /// Its number.
    pub port: u32,
    /// Its interface or files.
    pub name: String,
    /// Received traffic.
    pub received: Traffic,
    /// Sent traffic.
    pub sent: Traffic,
    /// Packets that the port itself dropped, before or after the program.
    pub dropped: Vec<Drops>,
    /// For a live port: true if its link is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
}

impl PortReport {
    /// Returns the report of a port. A port that was removed has no link state.
    pub(crate) fn new(port: u32, name: &str, stats: &PortStats, up: Option<bool>) -> PortReport {
        let mut dropped = reasons(&stats.rx_dropped);
        dropped.extend(reasons(&stats.tx_dropped));
        PortReport {
            port,
            name: name.to_owned(),
            received: Traffic {
                packets: stats.rx_frames,
                bytes: stats.rx_bytes,
            },
            sent: Traffic {
                packets: stats.tx_frames,
                bytes: stats.tx_bytes,
            },
            dropped,
            up,
        }
    }
}

fn reasons<R: Reason>(counts: &DropCounts<R>) -> Vec<Drops> {
    let happened = counts.iter().filter(|(_, packets)| *packets > 0);
    happened
        .map(|(reason, packets)| Drops {
            reason: reason.name().to_owned(),
            packets,
        })
        .collect()
}

/// Report of one table.
#[derive(Clone, Debug, Serialize)]
pub struct TableReport {
    /// Its control-plane name.
    pub name: String,
    /// Lookups that found an entry.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Number of entries, including those that packets added.
    pub entries: usize,
    /// Maximum number of entries.
    pub capacity: usize,
}

/// Report of a device.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeviceReport {
    /// Lookups and entries by table.
    pub tables: Vec<TableReport>,
    /// Packets that the program or the device dropped, by reason.
    pub dropped: Vec<Drops>,
    /// Samples of these packets, by table and action of the last lookup.
    pub sampled_drops: Vec<SampledDrops>,
    /// Number of copies: clones and multicast.
    pub replicated: u64,
    /// Number of requested copies that were not made, by reason.
    pub copies_refused: Vec<Drops>,
    /// Number of digests that the program sent.
    pub digests: u64,
    /// The last digests, as they were shown.
    pub last_digests: Vec<String>,
    /// Number of idle time-outs of entries.
    pub idle: u64,
    /// The last idle time-outs, as they were shown.
    pub last_idle: Vec<String>,
    /// Number of expired entries that packets had added.
    pub expired: u64,
    /// The last expired entries, as they were shown.
    pub last_expired: Vec<String>,
    /// Packets still inside the device, in queues.
    pub held: u64,
    /// Number of traced packets.
    pub traced: u64,
    /// Number of packets that matched the filter and were not traced, because the queue of traces
    /// was full.
    pub untraced: u64,
    /// Version of the program's code that packets run, of a switch that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specialisation: Option<SpecialisationStatus>,
}

impl DeviceReport {
    /// Returns the report of a device.
    pub fn of(device: &Device) -> DeviceReport {
        let program = device.program();
        let configuration = device.configuration();
        let tables = device.table_hits().into_iter().map(|counted| {
            let table = &configuration.tables[counted.table];
            let learned = configuration.learned[counted.table].as_ref();
            TableReport {
                name: program.tables[counted.table].name.clone(),
                hits: counted.hits,
                misses: counted.misses,
                entries: table.len() + learned.map_or(0, |learned| learned.len()),
                capacity: table.spec().capacity,
            }
        });
        let ledger = device.ledger();
        DeviceReport {
            tables: tables.collect(),
            dropped: device_drops(&ledger),
            replicated: ledger.replicated,
            copies_refused: refused_copies(&ledger),
            held: device.held() as u64,
            ..DeviceReport::default()
        }
    }
}

/// Report of one worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerReport {
    /// Its number.
    pub worker: usize,
    /// The core that it is pinned to, if any.
    pub core: Option<usize>,
    /// Number of received packets.
    pub received: u64,
    /// Number of sent packets.
    pub sent: u64,
    /// Packets that it dropped, by reason.
    pub dropped: Vec<Drops>,
    /// Number of rounds with packets.
    pub bursts: u64,
    /// Number of sleeps.
    pub sleeps: u64,
    /// Seconds spent on processing packets.
    pub busy: f64,
}

impl WorkerReport {
    pub(crate) fn new(worker: usize, figures: &Figures, ledger: &Ledger) -> WorkerReport {
        WorkerReport {
            worker,
            core: figures.core,
            received: ledger.received,
            sent: ledger.sent,
            dropped: device_drops(ledger),
            bursts: figures.bursts,
            sleeps: figures.sleeps,
            busy: Duration::from(figures.busy).as_secs_f64(),
        }
    }
}

/// Returns the packets that a device dropped, by reason.
pub fn device_drops(ledger: &Ledger) -> Vec<Drops> {
    let drops = ledger.drops().map(|(reason, packets)| Drops {
        reason: reason.name().to_string(),
        packets,
    });
    drops.collect()
}

/// Returns the requested copies that a device did not make, by reason.
pub fn refused_copies(ledger: &Ledger) -> Vec<Drops> {
    let refused = ledger.refused_copies().map(|(reason, packets)| Drops {
        reason: reason.name().to_string(),
        packets,
    });
    refused.collect()
}

/// Formats workers as text, one per line.
pub fn workers_text(workers: &[WorkerReport]) -> String {
    let row = |worker: &WorkerReport| {
        let core = worker
            .core
            .map_or(String::new(), |core| format!(" (core {core})"));
        let dropped: u64 = worker.dropped.iter().map(|drops| drops.packets).sum();
        vec![
            format!("worker {}{core}", worker.worker),
            format!("received {}", amount::count(worker.received, "packet")),
            format!("sent {}", amount::count(worker.sent, "packet")),
            format!("dropped {}", amount::count(dropped, "packet")),
        ]
    };
    align(&workers.iter().map(row).collect::<Vec<_>>())
}

/// Formats the ports and the device as text, with one port, table or count per line.
pub fn text(ports: &[PortReport], device: &DeviceReport) -> String {
    let mut rows: Vec<Vec<String>> = ports.iter().map(port_row).collect();
    rows.extend(device.tables.iter().map(|table| {
        let looked_up = format!(
            "{}, {} missed",
            amount::count(table.hits, "hit"),
            table.misses
        );
        vec![format!("table {}", table.name), looked_up]
    }));
    for drops in &device.dropped {
        rows.push(vec![
            format!("dropped: {}", drops.reason),
            amount::count(drops.packets, "packet"),
        ]);
        let samples = device.sampled_drops.iter();
        let samples = samples.filter(|sample| sample.reason == drops.reason);
        rows.extend(samples.filter_map(sample_row));
    }
    rows.extend(device.copies_refused.iter().map(|refused| {
        vec![
            format!("copies refused: {}", refused.reason),
            match refused.packets {
                1 => "1 copy".to_owned(),
                copies => format!("{copies} copies"),
            },
        ]
    }));
    let counts = [
        ("replicated", device.replicated, "packet"),
        ("digests", device.digests, "message"),
        ("idle", device.idle, "time-out"),
        ("expired", device.expired, "time-out"),
        ("still queued", device.held, "packet"),
        ("traced", device.traced, "packet"),
        ("not traced", device.untraced, "packet"),
    ];
    for (name, n, noun) in counts {
        if n > 0 {
            rows.push(vec![name.to_owned(), amount::count(n, noun)]);
        }
    }
    align(&rows)
}

/// Returns the row of a place of drops; `None` if no table was looked up before.
fn sample_row(sample: &SampledDrops) -> Option<Vec<String>> {
    let place = match (sample.table.as_str(), sample.action.as_str()) {
        ("", _) => return None,
        (table, "") => format!("  at {table}"),
        (table, action) => format!("  at {table}, {action}"),
    };
    let samples = match sample.packets {
        1 => "1 sample".to_owned(),
        samples => format!("{samples} samples"),
    };
    Some(vec![place, samples])
}

fn port_row(port: &PortReport) -> Vec<String> {
    let traffic = |verb: &str, t: &Traffic| {
        let packets = amount::count(t.packets, "packet");
        format!("{verb} {packets} ({})", amount::bytes(t.bytes))
    };
    let mut row = vec![
        format!("port {} ({})", port.port, port.name),
        traffic("received", &port.received),
        traffic("sent", &port.sent),
    ];
    if !port.dropped.is_empty() {
        let drops: Vec<String> = port
            .dropped
            .iter()
            .map(|drops| format!("{} {}", drops.reason, drops.packets))
            .collect();
        row.push(format!("dropped {}", drops.join(", ")));
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_its_columns_under_each_other() {
        let ports = [PortReport {
            port: 0,
            name: "eth0".into(),
            received: Traffic {
                packets: 1,
                bytes: 60,
            },
            sent: Traffic::default(),
            dropped: vec![Drops {
                reason: "tx_link_down".into(),
                packets: 2,
            }],
            up: Some(false),
        }];
        let device = DeviceReport {
            tables: vec![TableReport {
                name: "ipv4_lpm".into(),
                hits: 1,
                misses: 0,
                entries: 1,
                capacity: 1024,
            }],
            dropped: vec![Drops {
                reason: "mark_to_drop".into(),
                packets: 1,
            }],
            sampled_drops: vec![SampledDrops {
                reason: "mark_to_drop".into(),
                table: "acl".into(),
                action: "deny".into(),
                packets: 1,
            }],
            ..DeviceReport::default()
        };
        let expect = "\
port 0 (eth0)          received 1 packet (60 B)  sent 0 packets (0 B)  dropped tx_link_down 2
table ipv4_lpm         1 hit, 0 missed
dropped: mark_to_drop  1 packet
  at acl, deny         1 sample
";
        assert_eq!(text(&ports, &device), expect);
    }
}
