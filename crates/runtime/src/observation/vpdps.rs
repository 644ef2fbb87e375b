//! Observation of the packets of virtual data planes, on one worker.

use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, Nanos, PortId};
use port::FrameDirection;
use tenancy::{ObservedPacket, VpdpId, VpdpObserver};

use super::{Observer, Observers, PacketObservers, SeenFrame, Wish, wall_clock};
use crate::trace_filter::{TracedPacket, TracedPlane};

/// The observers of all vPDPs.
pub(crate) struct ObserverOfVpdps {
    worker: usize,
    control: Arc<PacketObservers>,
    seen: u64,
    all: Observers,
    /// Bit set of the observers that take the present packet, and the time since 1970 then.
    takers: u64,
    time: Nanos,
}

impl ObserverOfVpdps {
    pub(crate) fn new(worker: usize, control: &Arc<PacketObservers>) -> ObserverOfVpdps {
        ObserverOfVpdps {
            worker,
            control: Arc::clone(control),
            seen: 0,
            all: Arc::default(),
            takers: 0,
            time: Nanos::ZERO,
        }
    }

    fn takers(&self) -> impl Iterator<Item = &Arc<Observer>> {
        let numbered = self.all.iter().enumerate();
        let takers = numbered.filter(|(number, _)| self.takers & 1 << number != 0);
        takers.map(|(_, observer)| observer)
    }
}

/// Returns the numbers of the observers of a vPDP that take a frame at this port, as a bit set.
fn takers(all: &Observers, vpdp: VpdpId, port: PortId, bytes: &[u8], is_sent: bool) -> u64 {
    let mut takers = 0;
    for (number, observer) in all.iter().enumerate() {
        if observer.vpdp == Some(vpdp)
            && (observer.wants_frames() || !is_sent)
            && observer.matches(port, bytes)
            && observer.takes(wall_clock())
        {
            takers |= 1 << number;
        }
    }
    takers
}

impl VpdpObserver for ObserverOfVpdps {
    fn update(&mut self) -> bool {
        let Some(all) = self.control.changed_since(&mut self.seen) else {
            return false;
        };
        self.all = all;
        true
    }

    fn observes(&self, vpdp: VpdpId) -> bool {
        let mut all = self.all.iter();
        all.any(|observer| observer.vpdp == Some(vpdp))
    }

    fn takes(&mut self, vpdp: VpdpId, frame: &Frame) -> bool {
        self.takers = takers(&self.all, vpdp, frame.ingress, frame.bytes(), false);
        if self.takers == 0 {
            return false;
        }
        self.time = wall_clock();
        true
    }

    fn give_back(&mut self) {
        self.takers().for_each(|taker| taker.budget.forget());
    }

    fn observe(&mut self, packet: ObservedPacket<'_>) {
        let time = self.time;
        for taker in self.takers() {
            match &taker.wish {
                Wish::Frames { .. } => taker.capture(SeenFrame {
                    port: packet.port,
                    direction: FrameDirection::Received,
                    time,
                    bytes: packet.bytes,
                    dropped: packet.dropped.map(DropReason::name),
                }),
                Wish::Paths(table) => {
                    let length = packet.bytes.len();
                    table.count(packet.program, packet.port, length, &packet.steps);
                    taker.budget.delivered();
                }
                Wish::Traces(deliver) => {
                    let traced = TracedPacket {
                        plane: TracedPlane::Software,
                        program: Arc::clone(packet.program),
                        worker: self.worker,
                        time: packet.time,
                        port: packet.port,
                        bytes: packet.bytes.to_vec(),
                        events: packet.steps.clone(),
                    };
                    deliver(traced, &taker.budget);
                }
            }
        }
    }

    fn see_sent(&mut self, vpdp: VpdpId, port: PortId, frame: &Frame) {
        let takers = takers(&self.all, vpdp, port, frame.bytes(), true);
        for (number, observer) in self.all.iter().enumerate() {
            if takers & 1 << number != 0 {
                observer.capture(SeenFrame {
                    port,
                    direction: FrameDirection::Sent,
                    time: wall_clock(),
                    bytes: frame.bytes(),
                    dropped: None,
                });
            }
        }
    }
}
