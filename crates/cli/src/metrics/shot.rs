//! Figures at one time, of which metrics are told.

use p4rt::Figures;
use switch::Ledger;
use tenancy::{CompileFigures, Quotas};

use crate::forward::Sample;
use crate::report::{DeviceReport, Drops, PortReport, WorkerReport};

/// Names of labels, and what they are.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// The figures of a device, of a switch that hosts virtual data planes, or of one of these: each has a part of them.
#[derive(Debug, Default)]
pub(crate) struct Shot {
    /// Whose they are.
    pub(crate) labels: Labels,
    pub(crate) ports: Vec<PortReport>,
    pub(crate) workers: Vec<WorkerReport>,
    pub(crate) device: Option<DeviceReport>,
    pub(crate) digests: Option<u64>,
    /// Packets, digests and notifications that wait for the server, and those that it did not take in time.
    pub(crate) events: Option<(usize, u64)>,
    /// If controllers are let in.
    pub(crate) control: Option<Figures>,
    pub(crate) switch: Option<SwitchShot>,
    pub(crate) vpdp: Option<VpdpShot>,
}

/// What a switch that hosts has beside ports and workers.
#[derive(Debug)]
pub(crate) struct SwitchShot {
    pub(crate) vpdps: usize,
    pub(crate) dropped: Vec<Drops>,
    /// Packets that went to controllers, and those that were lost on the way.
    pub(crate) to_controllers: (u64, u64),
}

/// What a virtual data plane has beside what devices have.
#[derive(Debug)]
pub(crate) struct VpdpShot {
    pub(crate) ledger: Ledger,
    pub(crate) has_program: bool,
    pub(crate) is_suspended: bool,
    /// Its ports that are connected to ports of the switch.
    pub(crate) ports: usize,
    /// Those that are linked.
    pub(crate) links: usize,
    /// What counts against the quotas of the same names.
    pub(crate) entries: u64,
    pub(crate) state_bytes: u64,
    pub(crate) stages: u64,
    pub(crate) quotas: Quotas,
    pub(crate) compilations: CompileFigures,
}

impl Shot {
    pub(super) fn of_device(id: u64, sample: Sample, control: Option<Figures>) -> Shot {
        Shot {
            labels: vec![("device", id.to_string())],
            ports: sample.ports,
            workers: sample.workers,
            digests: Some(sample.device.digests),
            device: Some(sample.device),
            events: Some(sample.events),
            control,
            ..Shot::default()
        }
    }
}
