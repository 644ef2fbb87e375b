//! A worker of the hypervisor on its station, and how packets go between virtual data planes and their controllers.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};

use exec::DropReason;
use p4rt::{CpuPort, ToControllers};
use packet::{Batch, Frame, Nanos, PortId};
use tenancy::{VpdpId, Worker};

use crate::carrier::Carrier;

/// The switch's ports from here on are those of virtual data planes' controllers: this number and the vPDP's.
pub(crate) const CONTROLLERS: u32 = 61_000;

/// The port of the switch to which a vPDP's port for controllers is connected.
pub(super) fn controllers_of(id: VpdpId) -> PortId {
    PortId(CONTROLLERS + u32::from(id.get()))
}

/// Ways to controllers, by port. Only packets for controllers look.
type Ways = Arc<RwLock<HashMap<PortId, ToControllers>>>;

/// A change of which vPDPs have controllers.
enum Change {
    Come(PortId, CpuPort),
    Go(PortId),
}

/// The office's end: tells stations of controllers.
pub(super) struct Switchboard {
    ways: Ways,
    changes: Sender<Change>,
}

impl Switchboard {
    /// Controllers of a vPDP come; instead of those that it had.
    pub(super) fn connect(&self, id: VpdpId, cpu: CpuPort) {
        let port = controllers_of(id);
        let mut ways = self.ways.write().unwrap_or_else(PoisonError::into_inner);
        ways.insert(port, cpu.to_controllers());
        // The first station takes them as long as it runs.
        let _ = self.changes.send(Change::Come(port, cpu));
    }

    /// A vPDP has no controllers any more.
    pub(super) fn disconnect(&self, id: VpdpId) {
        let port = controllers_of(id);
        let mut ways = self.ways.write().unwrap_or_else(PoisonError::into_inner);
        ways.remove(&port);
        let _ = self.changes.send(Change::Go(port));
    }
}

/// What takes packets of controllers in: the first station's.
struct Takes {
    changes: Receiver<Change>,
    ports: Vec<(PortId, CpuPort)>,
}

/// A worker on its station.
pub(super) struct Tenants {
    worker: Worker,
    ways: Ways,
    takes: Option<Takes>,
}

/// Puts workers on stations. The first one takes packets of controllers in.
pub(super) fn stations(workers: Vec<Worker>) -> (Vec<Tenants>, Switchboard) {
    let ways = Ways::default();
    let (tell, changes) = channel();
    let mut takes = Some(Takes {
        changes,
        ports: Vec::new(),
    });
    let tenants = workers.into_iter().map(|worker| Tenants {
        worker,
        ways: Arc::clone(&ways),
        takes: takes.take(),
    });
    let tenants = tenants.collect();
    let board = Switchboard {
        ways,
        changes: tell,
    };
    (tenants, board)
}

impl Takes {
    fn take_changes(&mut self) {
        while let Ok(change) = self.changes.try_recv() {
            let (Change::Come(gone, _) | Change::Go(gone)) = &change;
            self.ports.retain(|(port, _)| port != gone);
            if let Change::Come(port, cpu) = change {
                self.ports.push((port, cpu));
            }
        }
    }
}

impl Carrier for Tenants {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let ways = &self.ways;
        self.worker.forward(frames, now, |port, frame, time| {
            if port.0 < CONTROLLERS {
                return sent(port, frame, time);
            }
            let ways = ways.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(way) = ways.get(&port) {
                // What finds no room is counted by who takes it.
                way.give(frame.bytes());
            }
        });
    }

    fn arrive(&mut self, batch: &mut Batch, now: Nanos) {
        let Some(takes) = &mut self.takes else {
            return;
        };
        takes.take_changes();
        for (port, cpu) in &mut takes.ports {
            while batch.room() > 0 {
                let Some(bytes) = cpu.take() else { break };
                let Some(frame) = batch.push() else { break };
                // The server checks lengths.
                if frame.assign(&bytes).is_err() {
                    batch.pop();
                    continue;
                }
                frame.ingress = *port;
                frame.arrival = now;
            }
        }
    }

    fn next_time(&self) -> Option<Nanos> {
        self.worker.next_time()
    }

    fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.worker.wake_by(wake);
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        let takes = self.takes.iter();
        let ports = takes.flat_map(|takes| &takes.ports);
        ports.map(|(_, cpu)| cpu.wake_fd()).collect()
    }

    /// No virtual port is connected to a port that the switch does not have.
    fn count_drop(&mut self, _reason: DropReason) {}
}
