//! Metrics snapshots.

use offload_runtime::OffloadStats;
use p4rt::Figures;
use switch::Ledger;
use tenancy::{CompileFigures, Quotas};

use crate::control_loop::DeviceSample;
use crate::report::{DeviceReport, Drops, PortReport, TableReport, WorkerReport};

/// Label names and values.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// Metrics snapshot of a device, of a switch that hosts virtual data planes, or of one of these.
/// Each kind fills some of the fields.
#[derive(Debug, Default)]
pub(crate) struct MetricsSnapshot {
    /// Labels that identify the source.
    pub(crate) labels: Labels,
    pub(crate) ports: Vec<PortReport>,
    pub(crate) workers: Vec<WorkerReport>,
    pub(crate) device: Option<DeviceReport>,
    pub(crate) digests: Option<u64>,
    /// Number of events (packets, digests, notifications) that wait for the server, and of those
    /// lost because the server was too slow.
    pub(crate) events: Option<(usize, u64)>,
    /// Counters of the P4Runtime server, if controllers are served.
    pub(crate) control: Option<Figures>,
    pub(crate) switch: Option<SwitchShot>,
    pub(crate) vpdp: Option<VpdpShot>,
    pub(crate) offload: Option<OffloadStats>,
    pub(crate) pof: Option<PofSample>,
}

/// Metrics of a POF switch at one time.
#[derive(Clone, Debug, Default)]
pub struct PofSample {
    /// Its ports.
    pub ports: Vec<PortReport>,
    /// Its tables.
    pub tables: Vec<TableReport>,
    /// Controllers that are connected.
    pub controllers: u64,
    /// Connections that controllers have had.
    pub connections: u64,
    /// Programs that were made.
    pub programs: u64,
    /// Packets with an outcome that no entry asked for, by its name.
    pub packets: Vec<(&'static str, u64)>,
    /// Times at which changes could not be stored.
    pub state_failures: u64,
}

/// Values of a hosting switch besides ports and workers.
#[derive(Debug)]
pub(crate) struct SwitchShot {
    pub(crate) vpdps: usize,
    pub(crate) dropped: Vec<Drops>,
    /// Numbers of packets sent to controllers and of those lost.
    pub(crate) to_controllers: (u64, u64),
}

/// Values of a virtual data plane besides those of devices.
#[derive(Debug)]
pub(crate) struct VpdpShot {
    pub(crate) ledger: Ledger,
    pub(crate) has_program: bool,
    pub(crate) is_suspended: bool,
    /// Number of its ports that are connected to switch ports.
    pub(crate) ports: usize,
    /// Number of its links.
    pub(crate) links: usize,
    /// Usage that counts against the quotas of the same names.
    pub(crate) entries: u64,
    pub(crate) state_bytes: u64,
    pub(crate) stages: u64,
    pub(crate) quotas: Quotas,
    pub(crate) compilations: CompileFigures,
}

impl MetricsSnapshot {
    pub(super) fn of_pof(id: u64, sample: PofSample) -> MetricsSnapshot {
        MetricsSnapshot {
            labels: vec![("device", id.to_string())],
            ports: sample.ports.clone(),
            pof: Some(sample),
            ..MetricsSnapshot::default()
        }
    }

    /// Returns the tables of a device or of a POF switch.
    pub(super) fn tables(&self) -> impl Iterator<Item = &TableReport> {
        let device = self.device.iter().flat_map(|device| &device.tables);
        device.chain(self.pof.iter().flat_map(|pof| &pof.tables))
    }

    pub(super) fn of_device(
        id: u64,
        sample: DeviceSample,
        control: Option<Figures>,
    ) -> MetricsSnapshot {
        MetricsSnapshot {
            labels: vec![("device", id.to_string())],
            ports: sample.ports,
            workers: sample.workers,
            digests: Some(sample.device.digests),
            device: Some(sample.device),
            events: Some(sample.events),
            control,
            ..MetricsSnapshot::default()
        }
    }
}
