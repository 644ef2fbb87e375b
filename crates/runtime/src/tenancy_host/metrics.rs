//! Metrics snapshots of the switch and its virtual data planes. They contain only counters that
//! are kept anyway.

use switch::{Device, Ledger};
use tenancy::{Connection, Vpdp};

use crate::cpu_port::DEFAULT_CPU;
use crate::metrics::{MetricsSnapshot, SwitchShot, VpdpShot};
use crate::report::{self, DeviceReport};
use crate::tenancy_host::control_loop::ControlLoop;

impl ControlLoop {
    /// Returns the snapshots of the switch and then of its vPDPs.
    pub(super) fn shots(&self) -> Vec<MetricsSnapshot> {
        let vpdps = self.hypervisor.vpdps().map(|vpdp| self.shot(vpdp));
        std::iter::once(self.shot_of_switch())
            .chain(vpdps)
            .collect()
    }

    fn shot_of_switch(&self) -> MetricsSnapshot {
        MetricsSnapshot {
            ports: self.crew.port_reports(),
            workers: self.crew.worker_reports(),
            switch: Some(SwitchShot {
                vpdps: self.hypervisor.vpdps().count(),
                dropped: report::device_drops(&self.hypervisor.ledger()),
                to_controllers: self.board.given_and_lost(),
            }),
            ..MetricsSnapshot::default()
        }
    }

    /// Returns the snapshot of a vPDP. A vPDP is a P4Runtime device with the vPDP's number. Its
    /// tables are left out: their number and names are chosen by its owner.
    fn shot(&self, vpdp: &Vpdp) -> MetricsSnapshot {
        let id = vpdp.id();
        let inbox = self.tenants.get(&id).map(|tenant| &tenant.inbox);
        let ledger = vpdp.device().map(Device::ledger).unwrap_or_default();
        MetricsSnapshot {
            labels: vec![
                ("device", id.to_string()),
                ("vpdp", vpdp.name().to_owned()),
                ("owner", vpdp.owner().to_owned()),
            ],
            device: Some(DeviceReport {
                dropped: report::device_drops(&ledger),
                replicated: ledger.replicated,
                copies_refused: report::refused_copies(&ledger),
                held: vpdp.device().map_or(0, Device::held) as u64,
                ..DeviceReport::default()
            }),
            events: inbox.map(|inbox| (inbox.waiting_events(), inbox.lost_events())),
            control: self.server.figures(id.get().into()),
            vpdp: Some(self.shot_of_vpdp(vpdp, ledger)),
            ..MetricsSnapshot::default()
        }
    }

    fn shot_of_vpdp(&self, vpdp: &Vpdp, ledger: Ledger) -> VpdpShot {
        let device = vpdp.device();
        let program = device.filter(|_| !self.runs_nothing(vpdp));
        let program = program.map(Device::program);
        let ports = self.hypervisor.ports(vpdp.id());
        let own = ports.iter().take(DEFAULT_CPU as usize);
        let are = |is: fn(&Connection) -> bool| own.clone().filter(|to| is(to)).count();
        VpdpShot {
            ledger,
            has_program: program.is_some(),
            is_suspended: vpdp.is_suspended(),
            ports: are(|to| matches!(to, Connection::Physical(_))),
            links: are(|to| matches!(to, Connection::Link(_))),
            entries: device.map_or(0, Device::entries),
            state_bytes: program.map_or(0, |program| exec::state_bytes(program)),
            stages: program.map_or(0, |program| switch::stages(program)),
            quotas: vpdp.quotas().clone(),
            compilations: vpdp.compile_figures(),
        }
    }
}
