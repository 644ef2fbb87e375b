//! Packets and digests between planes and the controllers of the whole device.
//!
//! A packet of a controller enters the CPU port of the switch; packets that leave there, and
//! digests of all planes, go to the controllers. Packets and digests beyond a bound are lost, as
//! P4Runtime allows.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use ir::ExternKind;
use p4info::p4::v1 as rt;
use packet::{Batch, Frame};
use port::Port;
use switch::Digest;

use crate::control::CoordinatorLoop;

/// Maximum number of packets that go to the switch at a time.
const BATCH: usize = 32;

/// CPU port of the whole device, at the controllers' end.
pub(crate) struct ControllerPackets {
    port: Box<dyn Port>,
    batch: Batch,
}

impl ControllerPackets {
    pub(crate) fn new(port: Box<dyn Port>) -> ControllerPackets {
        ControllerPackets {
            port,
            batch: Batch::with_capacity(BATCH),
        }
    }

    /// Returns the descriptor that becomes readable when a controller sends a packet.
    pub(crate) fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.poll_fd()
    }
}

impl CoordinatorLoop {
    /// Sends the packets of controllers to the switch. Without a connection they are lost. Returns
    /// true if more may wait.
    pub(crate) fn send_packets(&mut self) -> bool {
        let now = self.now();
        let ControllerPackets { port, batch } = &mut self.packets;
        batch.clear();
        // The port is a queue: it has no errors.
        let received = port.rx(batch, now).unwrap_or(0);
        for frame in batch.frames() {
            let encoder = self.switch.encoder();
            let packet = encoder.and_then(|encoder| encoder.packet_out(frame.bytes()));
            if let Some(packet) = packet {
                self.switch.connection.send_packet(packet);
            }
        }
        received > 0
    }

    /// Sends a packet of the switch to the controllers.
    pub(crate) fn take_packet(&mut self, packet: &rt::PacketIn) {
        let encoder = self.switch.encoder();
        let bytes = encoder.and_then(|encoder| encoder.packet_in(packet));
        if let Some(frame) = bytes.and_then(|bytes| Frame::from_bytes(&bytes).ok()) {
            self.packets.port.tx(&[frame]);
        }
    }

    /// Sends digest messages of a plane to the controllers.
    pub(crate) fn take_digests(&mut self, plane: Option<u16>, list: &rt::DigestList) {
        let encoder = self.plane_mut(plane).and_then(|plane| plane.encoder());
        let Some((name, messages)) = encoder.and_then(|encoder| encoder.digest_messages(list))
        else {
            return;
        };
        let program = self.coordinator.whole().program();
        let mut digests = program.externs.iter();
        let is_it = |kind: &ExternKind| matches!(kind, ExternKind::Digest { .. });
        let found = digests.find(|(_, found)| found.name == name && is_it(&found.kind));
        let Some((digest, _)) = found else {
            return;
        };
        for limbs in messages {
            self.inbox.digest(Digest {
                program: Arc::clone(program),
                digest,
                limbs,
                time: self.now(),
            });
        }
    }
}
