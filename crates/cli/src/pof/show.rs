//! What `polyplane pof ctl` shows: objects, statistics, news and refusals.

use std::fmt::Write;

use pof::tables::Tables;
use pof::wire::{Body, Counter, ErrorCode, ErrorMessage, Stats};
use serde::Serialize;
use support::text_table::table;

/// Returns the error of a switch with its meaning.
pub(super) fn refusal(failure: &ErrorMessage) -> String {
    let ErrorMessage { kind, code, .. } = failure;
    match ErrorCode::of(*kind, *code) {
        Some(error) => format!("the switch refuses it: {error}: {}", error.meaning()),
        None => format!(
            "the switch refuses it: type {kind}, code {code}: {}",
            failure.text
        ),
    }
}

/// An object of a dump.
#[derive(Serialize)]
pub(super) struct Object {
    kind: &'static str,
    /// The line that makes it.
    pub(super) line: String,
}

impl Object {
    pub(super) fn of(body: &Body, line: String) -> Object {
        let kind = match body {
            Body::TableMod(_) => "table",
            Body::FlowMod(_) => "flow",
            Body::GroupMod(_) => "group",
            Body::MeterMod(_) => "meter",
            _ => "counter",
        };
        Object { kind, line }
    }
}

/// All statistics of a switch.
#[derive(Default, Serialize)]
pub(super) struct SwitchStats {
    ports: Vec<PortStats>,
    tables: Vec<TableStats>,
    flows: Vec<FlowStats>,
    groups: Vec<GroupStats>,
    meters: Vec<MeterStats>,
    pub(super) counters: Vec<CounterStats>,
}

#[derive(Serialize)]
struct PortStats {
    port: u32,
    received_packets: u64,
    received_bytes: u64,
    sent_packets: u64,
    sent_bytes: u64,
}

#[derive(Serialize)]
struct TableStats {
    table: u8,
    entries: u32,
    lookups: u64,
    matched: u64,
}

#[derive(Serialize)]
struct FlowStats {
    packets: u64,
    bytes: u64,
    seconds: f64,
    line: String,
}

#[derive(Serialize)]
struct GroupStats {
    group: u32,
    users: u32,
    packets: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct MeterStats {
    meter: u32,
    users: u32,
    rate: u32,
}

#[derive(Serialize)]
pub(super) struct CounterStats {
    counter: u32,
    packets: u64,
    bytes: u64,
}

impl CounterStats {
    pub(super) fn of(counter: &Counter) -> CounterStats {
        CounterStats {
            counter: counter.id,
            packets: counter.packets,
            bytes: counter.bytes,
        }
    }
}

impl SwitchStats {
    /// Adds one part of an answer.
    pub(super) fn take(&mut self, stats: Stats, tables: &Tables) {
        match stats {
            Stats::Ports(ports) => self.ports.extend(ports.iter().map(|one| PortStats {
                port: one.port,
                received_packets: one.received_packets,
                received_bytes: one.received_bytes,
                sent_packets: one.sent_packets,
                sent_bytes: one.sent_bytes,
            })),
            Stats::Tables(all) => self.tables.extend(all.iter().map(|one| TableStats {
                table: one.table,
                entries: one.entries,
                lookups: one.lookups,
                matched: one.matched,
            })),
            Stats::Flows(flows) => self.flows.extend(flows.into_iter().map(|one| {
                let made = pof::text::remake(&[Body::FlowMod(one.flow)]);
                let mut lines = made
                    .iter()
                    .filter_map(|body| pof::text::write(body, tables));
                FlowStats {
                    packets: one.packets,
                    bytes: one.bytes,
                    seconds: f64::from(one.seconds) + f64::from(one.nanoseconds) / 1e9,
                    line: lines.next().unwrap_or_default(),
                }
            })),
            Stats::Groups(groups) => self.groups.extend(groups.iter().map(|one| GroupStats {
                group: one.group,
                users: one.users,
                packets: one.packets,
                bytes: one.bytes,
            })),
            Stats::Meters(meters) => self.meters.extend(meters.iter().map(|one| MeterStats {
                meter: one.meter,
                users: one.users,
                rate: one.rate,
            })),
        }
    }

    /// Returns one table of text for each kind that there is.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut add = |head: &[&str], rows: Vec<Vec<String>>| {
            if !rows.is_empty() {
                text.push_str(if text.is_empty() { "" } else { "\n" });
                text.push_str(&table(head, rows));
            }
        };
        let row = |cells: &[u64]| cells.iter().map(u64::to_string).collect::<Vec<String>>();
        let ports = self.ports.iter().map(|one| {
            row(&[
                one.port.into(),
                one.received_packets,
                one.received_bytes,
                one.sent_packets,
                one.sent_bytes,
            ])
        });
        add(
            &["port", "received", "bytes", "sent", "bytes"],
            ports.collect(),
        );
        let tables = self.tables.iter().map(|one| {
            row(&[
                one.table.into(),
                one.entries.into(),
                one.lookups,
                one.matched,
            ])
        });
        add(
            &["table", "entries", "lookups", "matched"],
            tables.collect(),
        );
        let groups = self.groups.iter();
        let groups =
            groups.map(|one| row(&[one.group.into(), one.users.into(), one.packets, one.bytes]));
        add(&["group", "users", "packets", "bytes"], groups.collect());
        let meters = self.meters.iter();
        let meters = meters.map(|one| row(&[one.meter.into(), one.users.into(), one.rate.into()]));
        add(&["meter", "users", "kbit/s"], meters.collect());
        let counters = self.counters.iter();
        let counters = counters.map(|one| row(&[one.counter.into(), one.packets, one.bytes]));
        add(&["counter", "packets", "bytes"], counters.collect());
        let flows = self.flows.iter().map(|one| {
            let mut cells = row(&[one.packets, one.bytes]);
            cells.push(format!("{:.0}", one.seconds));
            cells.push(one.line.clone());
            cells
        });
        add(&["packets", "bytes", "seconds", "flow"], flows.collect());
        text
    }
}

/// Something that a switch reports by itself.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum News {
    PacketIn {
        port: u16,
        table: u8,
        reason: u8,
        cookie: u64,
        length: u16,
        data: String,
    },
    FlowRemoved {
        table: u8,
        priority: u16,
        cookie: u64,
        reason: &'static str,
        packets: u64,
        bytes: u64,
    },
    PortStatus {
        port: u16,
        name: String,
        up: bool,
        config: u32,
    },
    Error {
        error: String,
    },
}

impl News {
    /// Returns the news in a message, if it has any.
    pub(super) fn of(body: Body) -> Option<News> {
        Some(match body {
            Body::PacketIn(packet) => News::PacketIn {
                port: packet.port,
                table: packet.table,
                reason: packet.reason,
                cookie: packet.cookie,
                length: packet.length,
                data: hex(&packet.data),
            },
            Body::FlowRemoved(removed) => News::FlowRemoved {
                table: removed.table,
                priority: removed.priority,
                cookie: removed.cookie,
                reason: match removed.reason {
                    0 => "idle",
                    1 => "hard",
                    _ => "deleted",
                },
                packets: removed.packets,
                bytes: removed.bytes,
            },
            Body::PortStatus(status) => News::PortStatus {
                port: status.port.id,
                name: status.port.name.to_string(),
                up: status.port.state & 1 == 0,
                config: status.port.config,
            },
            Body::Error(failure) => News::Error {
                error: failure.text,
            },
            _ => return None,
        })
    }

    pub(super) fn text(&self) -> String {
        match self {
            News::PacketIn {
                port,
                table,
                reason,
                length,
                data,
                ..
            } => format!(
                "packet from port {port}, table {table}, reason {reason}, {length} bytes: {data}"
            ),
            News::FlowRemoved {
                table,
                priority,
                cookie,
                reason,
                packets,
                bytes,
            } => format!(
                "flow removed ({reason}) from table {table}: priority {priority}, cookie {cookie:#x}, {packets} packets, {bytes} bytes"
            ),
            News::PortStatus { port, name, up, .. } => {
                format!(
                    "port {port} ({name}) is {}",
                    if *up { "up" } else { "down" }
                )
            }
            News::Error { error } => format!("error: {error}"),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to text does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
