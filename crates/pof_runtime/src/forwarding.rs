//! Frames on the threads of workers, and what the loop shares with them: the state of ports,
//! packets for the controllers, and frames that the loop sends.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use exec::DropReason;
use offload_runtime::NicFront;
use packet::{Batch, Frame, FramePool, Nanos, PortId};
use pof::{CONTROLLER_PORT, ControlledSwitch, WAITING_PORT};
use port::{MemoryPort, Port};
use runtime::ThreadProcessor;
use switch::{PacketProcessor, Worker, keep_frames};

use crate::mailbox::Mailbox;

/// Packets of a worker for the controllers that wait for the loop, at most. Further ones are lost
/// and counted.
const MAX_REPORTED: usize = 1_024;

/// Frames of the loop that wait for a worker, at most. Further ones are lost and counted.
const MAX_OUTGOING: usize = 4_096;

/// First of the ingress numbers of frames that the loop sends: they count from their ports.
const OUTGOING_PORTS: u32 = 0x4_0000;

/// A port as workers see it.
struct Gate {
    id: PortId,
    /// False while a PORT_MOD forbids to receive.
    is_receiving: AtomicBool,
    /// False while a PORT_MOD forbids to send.
    is_sending: AtomicBool,
    /// Frames that PORT_MOD forbids.
    refused: AtomicU64,
}

/// State that the loop and the workers share.
pub(crate) struct Shared {
    /// In the order of their numbers.
    gates: Vec<Gate>,
    /// True if a PORT_MOD forbids something.
    is_restricted: AtomicBool,
    /// True while frames are flooded instead of forwarded.
    is_flooding: AtomicBool,
    flooded: AtomicU64,
    /// Packets that the NIC has processed, by worker.
    offloaded: Vec<AtomicU64>,
    /// Packets for the controllers that were lost since the loop was slower than they came.
    reports_lost: AtomicU64,
    outgoing: Mutex<Outgoing>,
    has_outgoing: AtomicBool,
    wake: OnceLock<Arc<dyn Fn() + Send + Sync>>,
}

/// Frames that the loop sends.
#[derive(Default)]
struct Outgoing {
    frames: VecDeque<Frame>,
    free: FramePool,
}

impl Shared {
    pub(crate) fn new(switch: &ControlledSwitch, workers: usize) -> Shared {
        let gates = switch.ports().map(|port| Gate {
            id: PortId(port.id.into()),
            is_receiving: AtomicBool::new(true),
            is_sending: AtomicBool::new(true),
            refused: AtomicU64::new(0),
        });
        let shared = Shared {
            gates: gates.collect(),
            is_restricted: AtomicBool::new(false),
            is_flooding: AtomicBool::new(false),
            flooded: AtomicU64::new(0),
            offloaded: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            reports_lost: AtomicU64::new(0),
            outgoing: Mutex::default(),
            has_outgoing: AtomicBool::new(false),
            wake: OnceLock::new(),
        };
        shared.take_ports(switch);
        shared
    }

    /// Takes over what the ports may do.
    pub(crate) fn take_ports(&self, switch: &ControlledSwitch) {
        let mut is_restricted = false;
        for (gate, port) in self.gates.iter().zip(switch.ports()) {
            let (receives, sends) = (switch.receives(port.id), switch.sends(port.id));
            gate.is_receiving.store(receives, Relaxed);
            gate.is_sending.store(sends, Relaxed);
            is_restricted |= !(receives && sends);
        }
        self.is_restricted.store(is_restricted, Release);
    }

    pub(crate) fn set_flooding(&self, is_flooding: bool) {
        self.is_flooding.store(is_flooding, Relaxed);
    }

    /// Returns the number of packets that were flooded.
    pub(crate) fn flooded(&self) -> u64 {
        self.flooded.load(Relaxed)
    }

    /// Returns the number of packets that the NIC has processed.
    pub(crate) fn offloaded(&self) -> u64 {
        self.offloaded.iter().map(|taken| taken.load(Relaxed)).sum()
    }

    /// Returns the number of packets for the controllers that were lost before the loop had them.
    pub(crate) fn reports_lost(&self) -> u64 {
        self.reports_lost.load(Relaxed)
    }

    /// Returns the number of a port's frames that PORT_MOD forbids.
    pub(crate) fn refused(&self, port: PortId) -> u64 {
        let gate = self.gate(port);
        gate.map_or(0, |gate| gate.refused.load(Relaxed))
    }

    fn gate(&self, port: PortId) -> Option<&Gate> {
        let at = self.gates.binary_search_by_key(&port, |gate| gate.id);
        Some(&self.gates[at.ok()?])
    }

    /// Returns true if a frame may come in at a port.
    fn admits(&self, port: PortId) -> bool {
        self.may_pass(port, |gate| &gate.is_receiving)
    }

    /// Returns true if a frame may leave by a port.
    fn releases(&self, port: PortId) -> bool {
        !self.is_restricted.load(Acquire) || self.may_pass(port, |gate| &gate.is_sending)
    }

    fn may_pass(&self, port: PortId, way: impl Fn(&Gate) -> &AtomicBool) -> bool {
        let Some(gate) = self.gate(port) else {
            return true;
        };
        let may_pass = way(gate).load(Relaxed);
        gate.refused.fetch_add(u64::from(!may_pass), Relaxed);
        may_pass
    }

    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame of the loop by a worker. Returns false if too many wait.
    pub(crate) fn send(&self, port: u16, bytes: &[u8]) -> bool {
        {
            let mut outgoing = self.outgoing();
            if outgoing.frames.len() >= MAX_OUTGOING {
                return false;
            }
            let mut frame = outgoing.free.get();
            // The device sends no frame that is longer than the longest one.
            if frame.assign(bytes).is_err() {
                return false;
            }
            frame.ingress = PortId(OUTGOING_PORTS + u32::from(port));
            outgoing.frames.push_back(frame);
        }
        self.has_outgoing.store(true, Release);
        if let Some(wake) = self.wake.get() {
            wake();
        }
        true
    }

    /// Moves frames of the loop to a batch. Returns their number.
    fn take_outgoing(&self, batch: &mut Batch) -> usize {
        if !self.has_outgoing.load(Acquire) {
            return 0;
        }
        let before = batch.len();
        let mut outgoing = self.outgoing();
        while !outgoing.frames.is_empty() {
            let Some(place) = batch.push() else { break };
            if let Some(mut frame) = outgoing.frames.pop_front() {
                std::mem::swap(place, &mut frame);
                outgoing.free.put(frame);
            }
        }
        self.has_outgoing
            .store(!outgoing.frames.is_empty(), Release);
        batch.len() - before
    }
}

/// Forwards the frames of one thread.
pub(crate) struct PofWorker {
    number: usize,
    worker: Worker,
    front: Option<NicFront>,
    shared: Arc<Shared>,
    /// Packets for the controllers.
    reported: MemoryPort,
    mailbox: Arc<Mailbox>,
    /// A frame that the NIC sends, or that is flooded.
    frame: Frame,
    /// Number of frames of the loop, which are the last ones of the batch.
    outgoing: usize,
}

impl PofWorker {
    /// Returns a worker, and the end at which the loop receives its packets for the controllers.
    pub(crate) fn new(
        (number, worker): (usize, Worker),
        front: Option<NicFront>,
        shared: &Arc<Shared>,
        mailbox: &Arc<Mailbox>,
    ) -> (PofWorker, MemoryPort) {
        let port = PortId(CONTROLLER_PORT);
        let (reported, of_loop) = MemoryPort::pair(port, port, MAX_REPORTED);
        let worker = PofWorker {
            number,
            worker,
            front,
            shared: Arc::clone(shared),
            reported,
            mailbox: Arc::clone(mailbox),
            frame: Frame::default(),
            outgoing: 0,
        };
        (worker, of_loop)
    }

    /// Sends frames to all ports but their own.
    fn flood(
        &mut self,
        frames: &[Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        for received in frames {
            for gate in &self.shared.gates {
                if gate.id != received.ingress && self.shared.releases(gate.id) {
                    self.frame.copy_from(received);
                    sent(gate.id, &mut self.frame, now);
                }
            }
        }
        let count = frames.len() as u64;
        self.shared.flooded.fetch_add(count, Relaxed);
    }

    /// Lets the NIC take its frames. Returns the number of the others, which are at the front then.
    fn offload(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) -> usize {
        let Some(front) = &mut self.front else {
            return frames.len();
        };
        let mut burst = front.begin(now);
        let (out, shared) = (&mut self.frame, &self.shared);
        let kept = keep_frames(frames, |frame| {
            !burst.takes(frame.ingress, frame.bytes(), |port, bytes| {
                // A flow has no edit that makes a frame longer than the longest one.
                if shared.releases(port) && out.assign(bytes).is_ok() {
                    sent(port, out, now);
                }
            })
        });
        drop(burst);
        let taken = &self.shared.offloaded[self.number];
        taken.store(front.taken(), Relaxed);
        kept
    }
}

impl PacketProcessor for PofWorker {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let own = frames.len() - std::mem::take(&mut self.outgoing);
        let (frames, outgoing) = frames.split_at_mut(own);
        for frame in outgoing {
            let port = PortId(frame.ingress.0 - OUTGOING_PORTS);
            if self.shared.releases(port) {
                sent(port, frame, now);
            }
        }
        let mut kept = frames.len();
        if self.shared.is_restricted.load(Acquire) {
            kept = keep_frames(frames, |frame| self.shared.admits(frame.ingress));
        }
        if self.shared.is_flooding.load(Relaxed) {
            self.flood(&frames[..kept], now, &mut sent);
            kept = 0;
        }
        kept = self.offload(&mut frames[..kept], now, &mut sent);
        let (shared, reported) = (&self.shared, &mut self.reported);
        let (mut waiting, mut has_reports) = (0, false);
        self.worker
            .forward(&mut frames[..kept], now, |port, frame, time| match port.0 {
                CONTROLLER_PORT => {
                    has_reports = true;
                    if reported.tx(std::slice::from_ref(frame)).sent == 0 {
                        shared.reports_lost.fetch_add(1, Relaxed);
                    }
                }
                // No output asked for these: they carried the others to ingress.
                WAITING_PORT => waiting += 1,
                _ if shared.releases(port) => sent(port, frame, time),
                _ => {}
            });
        (0..waiting).for_each(|_| self.worker.count_drop(DropReason::Egress));
        if has_reports {
            self.mailbox.wakeup().wake();
        }
    }

    fn next_time(&self) -> Option<Nanos> {
        self.worker.next_time()
    }
}

impl ThreadProcessor for PofWorker {
    fn arrive(&mut self, batch: &mut Batch, _now: Nanos) {
        if self.number == 0 {
            self.outgoing = self.shared.take_outgoing(batch);
        }
    }

    fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(wake);
        if self.number == 0 {
            // There is one worker of this number.
            let _ = self.shared.wake.set(Arc::clone(&wake));
        }
        self.worker.wake_by(move || wake());
    }

    fn count_drop(&mut self, reason: DropReason) {
        self.worker.count_drop(reason);
    }
}
