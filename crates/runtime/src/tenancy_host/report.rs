//! Final report of a switch that hosts virtual data planes: ports, controllers, and all present
//! and deleted virtual data planes.

use std::fmt::Write;

use packet::PortId;
use serde::Serialize;
use switch::{Device, Ledger};
use tenancy::{Deleted, Vpdp};

use crate::report::{self, Drops, PortReport};
use crate::tenancy_host::control_loop::ControlLoop;

/// Report of a switch that hosts virtual data planes, as text or as JSON.
#[derive(Serialize)]
pub struct HostReport {
    ports: Vec<HostedPort>,
    controllers: ControllersReport,
    vpdps: Vec<VpdpReport>,
    /// The virtual data planes that were deleted last.
    deleted: Vec<VpdpReport>,
    /// Totals of those that were deleted earlier.
    deleted_before: DeletedBefore,
    /// Dropped packets of all vPDPs, and of none.
    dropped: Vec<Drops>,
}

/// Report of a switch port.
#[derive(Serialize)]
struct HostedPort {
    #[serde(flatten)]
    report: PortReport,
    /// Its packet I/O method.
    io: Option<String>,
}

/// Packet-ins of all virtual data planes.
#[derive(Serialize)]
struct ControllersReport {
    sent: u64,
    /// Lost packets: there was no controller, or its queue was full.
    lost: u64,
}

/// Report of one virtual data plane.
#[derive(Serialize)]
struct VpdpReport {
    id: u16,
    name: String,
    received: u64,
    sent: u64,
    /// Number of all dropped packets.
    dropped: u64,
    /// Dropped packets by reason.
    drops: Vec<Drops>,
}

/// Totals of several virtual data planes.
#[derive(Serialize)]
struct DeletedBefore {
    vpdps: u64,
    received: u64,
    sent: u64,
    dropped: u64,
    drops: Vec<Drops>,
}

impl ControlLoop {
    fn port_reports(&self) -> Vec<HostedPort> {
        let reports = self.crew.port_reports().into_iter();
        let hosted = reports.map(|report| HostedPort {
            io: self.ports.get(&PortId(report.port)).cloned(),
            report,
        });
        hosted.collect()
    }

    /// Returns the counters of the ports, the controllers and the vPDPs.
    pub fn report(&self) -> HostReport {
        let (sent, lost) = self.board.given_and_lost();
        let hypervisor = &self.hypervisor;
        let (vpdps, before) = hypervisor.deleted_before();
        HostReport {
            ports: self.port_reports(),
            controllers: ControllersReport { sent, lost },
            vpdps: hypervisor.vpdps().map(VpdpReport::of).collect(),
            deleted: hypervisor
                .deleted()
                .iter()
                .map(VpdpReport::of_deleted)
                .collect(),
            deleted_before: DeletedBefore {
                vpdps,
                received: before.received,
                sent: before.sent,
                dropped: dropped(&before),
                drops: happened(&before),
            },
            dropped: happened(&hypervisor.ledger()),
        }
    }
}

fn dropped(ledger: &Ledger) -> u64 {
    ledger.drops().map(|(_, packets)| packets).sum()
}

/// Returns drop counts by reason, without reasons that have no packets.
fn happened(ledger: &Ledger) -> Vec<Drops> {
    let mut drops = report::device_drops(ledger);
    drops.retain(|drops| drops.packets > 0);
    drops
}

impl VpdpReport {
    fn of(vpdp: &Vpdp) -> VpdpReport {
        let ledger = vpdp.device().map(Device::ledger).unwrap_or_default();
        VpdpReport::new(vpdp.id().get(), vpdp.name(), &ledger)
    }

    fn of_deleted(deleted: &Deleted) -> VpdpReport {
        VpdpReport::new(deleted.id.get(), &deleted.name, &deleted.ledger)
    }

    fn new(id: u16, name: &str, ledger: &Ledger) -> VpdpReport {
        VpdpReport {
            id,
            name: name.to_owned(),
            received: ledger.received,
            sent: ledger.sent,
            dropped: dropped(ledger),
            drops: happened(ledger),
        }
    }

    fn line(&self, what: &str) -> String {
        let VpdpReport {
            id,
            name,
            received,
            sent,
            dropped,
            drops,
        } = self;
        let reasons = reasons(drops);
        let reasons = match reasons.is_empty() {
            true => reasons,
            false => format!(" ({reasons})"),
        };
        format!(
            "{what} {id} ({name}): {received} received, {sent} sent, {dropped} dropped{reasons}\n"
        )
    }
}

/// Formats drop counts by reason, as in the report of `run`.
fn reasons(drops: &[Drops]) -> String {
    let drops = drops.iter();
    let drops: Vec<String> = drops
        .map(|drops| format!("{} {}", drops.reason, drops.packets))
        .collect();
    drops.join(", ")
}

impl HostReport {
    /// Formats the report as text, with one port or virtual data plane per line.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for HostedPort { report: port, .. } in &self.ports {
            let (number, name) = (port.port, &port.name);
            let (received, sent) = (port.received.packets, port.sent.packets);
            // Writing to a string never fails.
            let _ = write!(
                text,
                "port {number} ({name}): {received} received, {sent} sent"
            );
            if !port.dropped.is_empty() {
                let _ = write!(text, ", dropped {}", reasons(&port.dropped));
            }
            text.push('\n');
        }
        let ControllersReport { sent, lost } = &self.controllers;
        let _ = writeln!(text, "controllers: {sent} sent, {lost} lost");
        for vpdp in &self.vpdps {
            text.push_str(&vpdp.line("vPDP"));
        }
        let before = &self.deleted_before;
        if before.vpdps > 0 {
            let _ = writeln!(
                text,
                "{} vPDPs that were deleted first: {} received, {} sent, {} dropped",
                before.vpdps, before.received, before.sent, before.dropped
            );
        }
        for vpdp in &self.deleted {
            text.push_str(&vpdp.line("deleted vPDP"));
        }
        if !self.dropped.is_empty() {
            let _ = writeln!(text, "all packets: dropped {}", reasons(&self.dropped));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Traffic;

    #[test]
    fn the_text_has_reasons_of_ports_and_of_vpdps_that_are_no_more() {
        let drops = |reason: &str, packets| Drops {
            reason: reason.to_owned(),
            packets,
        };
        let port = PortReport {
            port: 2,
            name: "p2".to_owned(),
            received: Traffic::default(),
            sent: Traffic {
                packets: 1,
                bytes: 64,
            },
            dropped: vec![drops("tx_too_long", 2)],
            up: Some(true),
        };
        let vpdp = |id, dropped: Vec<Drops>| VpdpReport {
            id,
            name: format!("v{id}"),
            received: 4,
            sent: 1,
            dropped: dropped.iter().map(|drops| drops.packets).sum(),
            drops: dropped,
        };
        let report = HostReport {
            ports: vec![HostedPort {
                report: port,
                io: None,
            }],
            controllers: ControllersReport { sent: 0, lost: 0 },
            vpdps: vec![vpdp(1, Vec::new())],
            deleted: vec![vpdp(2, vec![drops("program_drop", 3)])],
            deleted_before: DeletedBefore {
                vpdps: 9,
                received: 1,
                sent: 1,
                dropped: 0,
                drops: Vec::new(),
            },
            dropped: vec![drops("program_drop", 3), drops("unclassified", 1)],
        };
        let expected = "port 2 (p2): 0 received, 1 sent, dropped tx_too_long 2\n\
                        controllers: 0 sent, 0 lost\n\
                        vPDP 1 (v1): 4 received, 1 sent, 0 dropped\n\
                        9 vPDPs that were deleted first: 1 received, 1 sent, 0 dropped\n\
                        deleted vPDP 2 (v2): 4 received, 1 sent, 3 dropped (program_drop 3)\n\
                        all packets: dropped program_drop 3, unclassified 1\n";
        assert_eq!(report.text(), expected);
    }
}
