//! Reports of a device for `run`, `replay` and `demo`, as aligned text or as JSON.

use std::time::Duration;

use port::{DropCounts, PortStats, Reason};
use serde::Serialize;
use switch::Ledger;

use crate::amount;
use crate::worker_thread::Figures;

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Traffic {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Traffic {
    /// Counts one packet of `len` bytes.
    pub(crate) fn count(&mut self, len: usize) {
        self.packets += 1;
        self.bytes += len as u64;
    }
}

/// Number of packets dropped for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Drops {
    pub(crate) reason: String,
    pub(crate) packets: u64,
}

/// Report of one port.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PortReport {
    /// Its number.
    pub(crate) port: u32,
    /// Its interface or files.
    pub(crate) name: String,
    /// Received traffic.
    pub(crate) received: Traffic,
    /// Sent traffic.
    pub(crate) sent: Traffic,
    /// Packets that the port itself dropped, before or after the program.
    pub(crate) dropped: Vec<Drops>,
    /// For a live port: true if its link is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) up: Option<bool>,
}

impl PortReport {
    /// Returns the report of a live port.
    pub(crate) fn new(port: u32, name: &str, stats: &PortStats, up: bool) -> PortReport {
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
            up: Some(up),
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
pub(crate) struct TableReport {
    /// Its control-plane name.
    pub(crate) name: String,
    /// Lookups that found an entry.
    pub(crate) hits: u64,
    /// Lookups that did not.
    pub(crate) misses: u64,
    /// Number of entries, including those that packets added.
    pub(crate) entries: usize,
    /// Maximum number of entries.
    pub(crate) capacity: usize,
}

/// Report of a device.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct DeviceReport {
    pub(crate) tables: Vec<TableReport>,
    /// Packets that the program or the device dropped, by reason.
    pub(crate) dropped: Vec<Drops>,
    /// Number of copies: clones and multicast.
    pub(crate) replicated: u64,
    /// Number of requested copies that were not made, by reason.
    pub(crate) copies_refused: Vec<Drops>,
    /// Number of digests that the program sent.
    pub(crate) digests: u64,
    /// The last digests, as they were shown.
    pub(crate) last_digests: Vec<String>,
    /// Number of idle time-outs of entries.
    pub(crate) idle: u64,
    /// The last idle time-outs, as they were shown.
    pub(crate) last_idle: Vec<String>,
    /// Number of expired entries that packets had added.
    pub(crate) expired: u64,
    /// The last expired entries, as they were shown.
    pub(crate) last_expired: Vec<String>,
    /// Packets still inside the device, in queues.
    pub(crate) held: u64,
    /// Number of traced packets.
    pub(crate) traced: u64,
    /// Number of packets that matched the filter and were not traced, because the queue of traces
    /// was full.
    pub(crate) untraced: u64,
}

/// Report of one worker.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WorkerReport {
    /// Its number.
    pub(crate) worker: usize,
    /// The core that it is pinned to, if any.
    pub(crate) core: Option<usize>,
    /// Number of received packets.
    pub(crate) received: u64,
    /// Number of sent packets.
    pub(crate) sent: u64,
    /// Packets that it dropped, by reason.
    pub(crate) dropped: Vec<Drops>,
    /// Number of rounds with packets.
    pub(crate) bursts: u64,
    /// Number of sleeps.
    pub(crate) sleeps: u64,
    /// Seconds spent on processing packets.
    pub(crate) busy: f64,
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
pub(crate) fn device_drops(ledger: &Ledger) -> Vec<Drops> {
    let drops = ledger.drops().map(|(reason, packets)| Drops {
        reason: reason.name().to_string(),
        packets,
    });
    drops.collect()
}

/// Returns the requested copies that a device did not make, by reason.
pub(crate) fn refused_copies(ledger: &Ledger) -> Vec<Drops> {
    let refused = ledger.refused_copies().map(|(reason, packets)| Drops {
        reason: reason.name().to_string(),
        packets,
    });
    refused.collect()
}

/// Formats workers as text, one per line.
pub(crate) fn workers_text(workers: &[WorkerReport]) -> String {
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
pub(crate) fn text(ports: &[PortReport], device: &DeviceReport) -> String {
    let mut rows: Vec<Vec<String>> = ports.iter().map(port_row).collect();
    rows.extend(device.tables.iter().map(|table| {
        let looked_up = format!(
            "{}, {} missed",
            amount::count(table.hits, "hit"),
            table.misses
        );
        vec![format!("table {}", table.name), looked_up]
    }));
    rows.extend(device.dropped.iter().map(|drops| {
        vec![
            format!("dropped: {}", drops.reason),
            amount::count(drops.packets, "packet"),
        ]
    }));
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

/// Formats rows under a head, with aligned columns.
pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let head = head.iter().map(|&name| name.to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    align(&all)
}

/// Pads a cell to the width of its column. `format!` cannot do it, because its widths end at
/// 65,535.
pub(crate) fn padded(cell: &str, width: usize) -> String {
    let missing = width.saturating_sub(cell.chars().count());
    let spaces = std::iter::repeat_n(' ', missing);
    cell.chars().chain(spaces).collect()
}

/// Formats rows with aligned columns. The last cell of a row does not widen its column. No line
/// ends with a space.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter(|row| row.len() > column + 1);
        cells
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, &width)| padded(cell, width) + "  ")
            .collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
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
            ..DeviceReport::default()
        };
        let expect = "\
port 0 (eth0)          received 1 packet (60 B)  sent 0 packets (0 B)  dropped tx_link_down 2
table ipv4_lpm         1 hit, 0 missed
dropped: mark_to_drop  1 packet
";
        assert_eq!(text(&ports, &device), expect);
    }
}
