//! Reports of a switch, for people and programs.

use std::fmt::Write;

use serde::Serialize;

/// Counts and states of a switch.
#[derive(Clone, Debug, Serialize)]
pub struct PofReport {
    /// Seconds since its start.
    pub seconds: f64,
    /// Its ports.
    pub ports: Vec<PortReport>,
    /// Its controllers that are connected.
    pub controllers: Vec<ControllerReport>,
    /// Its tables.
    pub tables: Vec<TableReport>,
    /// Entries of all tables.
    pub entries: u64,
    /// Programs that were made: the first one, and one for each new shape of an entry.
    pub programs: u64,
    /// Connections that controllers have had.
    pub connections: u64,
    /// Packets for controllers that were lost since none was connected.
    pub packet_ins_without_controller: u64,
    /// Packets for controllers that were lost since one did not read.
    pub packet_ins_dropped: u64,
    /// Other reports that were lost since a controller did not read.
    pub reports_dropped: u64,
    /// Packets that were flooded since no controller was connected.
    pub flooded: u64,
    /// Packets that the model NIC has processed; `null` without offload.
    pub offloaded: Option<u64>,
    /// Packets that an instruction has ended: a field outside, a jump, a length, too many outputs.
    pub faults: [u64; 4],
    /// Times at which changes could not be stored.
    pub state_failures: u64,
}

/// A port.
#[derive(Clone, Debug, Serialize)]
pub struct PortReport {
    /// Its number.
    pub port: u16,
    /// Its interface.
    pub name: String,
    /// True if its link is up.
    pub up: bool,
    /// Packets received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that were received and lost.
    pub receive_dropped: u64,
    /// Packets that were not sent.
    pub send_dropped: u64,
    /// Packets that a PORT_MOD forbids.
    pub refused: u64,
}

/// A controller.
#[derive(Clone, Debug, Serialize)]
pub struct ControllerReport {
    /// Its address.
    pub address: String,
    /// `equal`, `master` or `slave`.
    pub role: &'static str,
}

/// A table.
#[derive(Clone, Debug, Serialize)]
pub struct TableReport {
    /// Its number among those of all types.
    pub table: u8,
    /// Its name.
    pub name: String,
    /// Its entries.
    pub entries: u64,
    /// Entries that it may have.
    pub size: u32,
    /// Packets that matched an entry.
    pub hits: u64,
    /// Packets that did not.
    pub misses: u64,
}

impl PofReport {
    /// Returns the report as lines for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to text does not fail.
        let _ = writeln!(text, "ran for {:.1} s", self.seconds);
        for port in &self.ports {
            let state = if port.up { "" } else { ", down" };
            let _ = writeln!(
                text,
                "port {} ({}{state}): received {}, sent {}, dropped {}",
                port.port,
                port.name,
                port.received,
                port.sent,
                port.receive_dropped + port.send_dropped + port.refused,
            );
        }
        for table in &self.tables {
            let _ = writeln!(
                text,
                "table {} {:?}: {} entries, {} hits, {} misses",
                table.table, table.name, table.entries, table.hits, table.misses
            );
        }
        for controller in &self.controllers {
            let _ = writeln!(
                text,
                "controller {}: {}",
                controller.address, controller.role
            );
        }
        for (count, what) in [
            (
                self.packet_ins_without_controller,
                "packets for controllers lost: none was connected",
            ),
            (
                self.packet_ins_dropped,
                "packets for controllers lost: a controller did not read",
            ),
            (
                self.reports_dropped,
                "reports lost: a controller did not read",
            ),
            (self.flooded, "packets flooded without a controller"),
            (
                self.offloaded.unwrap_or_default(),
                "packets processed by the model NIC",
            ),
            (
                self.faults.iter().sum(),
                "packets ended by an instruction that failed",
            ),
            (self.state_failures, "failures to store changes"),
        ] {
            if count > 0 {
                let _ = writeln!(text, "{count} {what}");
            }
        }
        text
    }
}
