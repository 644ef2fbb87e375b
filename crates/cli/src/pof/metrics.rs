//! The metrics of a POF switch: its report in the form of the metrics server.

use pof_runtime::PofReport;
use runtime::PofSample;
use runtime::report::{Drops, PortReport, TableReport, Traffic};

/// Names of the faults, in the order of the report.
const FAULTS: [&str; 4] = ["fault_field", "fault_jump", "fault_length", "fault_outputs"];

pub(super) fn sample(report: &PofReport) -> PofSample {
    let ports = report.ports.iter().map(|port| {
        let drops = [
            ("receive", port.receive_dropped),
            ("send", port.send_dropped),
            ("port_mod", port.refused),
        ];
        let drops = drops.into_iter().filter(|(_, packets)| *packets > 0);
        PortReport {
            port: port.port.into(),
            name: port.name.clone(),
            received: Traffic {
                packets: port.received,
                bytes: port.received_bytes,
            },
            sent: Traffic {
                packets: port.sent,
                bytes: port.sent_bytes,
            },
            dropped: drops
                .map(|(reason, packets)| Drops {
                    reason: reason.to_owned(),
                    packets,
                })
                .collect(),
            up: Some(port.up),
        }
    });
    // Names need not be different.
    let tables = report.tables.iter().map(|table| TableReport {
        name: table.table.to_string(),
        hits: table.hits,
        misses: table.misses,
        entries: table.entries as usize,
        capacity: table.size as usize,
    });
    let mut packets = vec![
        ("no_controller", report.packet_ins_without_controller),
        ("controller_full", report.packet_ins_dropped),
        ("flooded", report.flooded),
    ];
    packets.extend(FAULTS.into_iter().zip(report.faults));
    PofSample {
        ports: ports.collect(),
        tables: tables.collect(),
        controllers: report.controllers.len() as u64,
        connections: report.connections,
        programs: report.programs,
        packets,
        state_failures: report.state_failures,
    }
}
