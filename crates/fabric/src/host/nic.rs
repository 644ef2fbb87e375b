//! Network card of a simulated host, between its TCP/IP stack and the fabric.

use std::collections::VecDeque;

use packet::{Frame, FramePool, Nanos};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

use crate::pacer::Pacer;
use crate::topology::LinkSpec;

/// Maximum length of frames sent by hosts: an Ethernet header and 1500 bytes.
const MAX_FRAME: usize = 1514;

/// The network card: at most one received frame, and transmitted frames with their times.
pub(super) struct Nic {
    arrived: Option<Frame>,
    out: Outbox,
}

/// Transmit queue, paced at the link's rate. While it is full, the host does not poll its stack,
/// so no frame is dropped. Replies to received frames may exceed the depth, at most one per frame.
struct Outbox {
    pacer: Pacer,
    depth: usize,
    leaving: VecDeque<(Nanos, Frame)>,
    pool: FramePool,
    now: Nanos,
    sent: u64,
}

impl Nic {
    pub(super) fn new() -> Nic {
        Nic {
            arrived: None,
            out: Outbox {
                pacer: Pacer::new(None),
                depth: 1,
                leaving: VecDeque::new(),
                pool: FramePool::default(),
                now: Nanos::ZERO,
                sent: 0,
            },
        }
    }

    pub(super) fn attach(&mut self, link: &LinkSpec) {
        self.out.pacer = Pacer::new(link.rate);
        self.out.depth = link.queue;
    }

    /// Advances the card's clock.
    pub(super) fn set_time(&mut self, now: Nanos) {
        self.out.now = now;
    }

    /// Stores a received frame for the stack.
    pub(super) fn arrive(&mut self, bytes: &[u8]) {
        let mut frame = self.out.pool.get();
        // Frames on links never exceed the maximum length.
        if frame.assign(bytes).is_ok() {
            self.arrived = Some(frame);
        }
    }

    /// Sends a frame that the stack did not make.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.out
            .send(bytes.len(), |frame| frame.copy_from_slice(bytes));
    }

    /// Returns the time from which the stack may send again, or `None` if it may send now.
    pub(super) fn room_at(&mut self) -> Option<Nanos> {
        self.out.pacer.waiting(self.out.now);
        self.known_room_at()
    }

    /// Returns the same as [`Nic::room_at`], as of the last update.
    pub(super) fn known_room_at(&self) -> Option<Nanos> {
        self.out.pacer.room_at(self.out.depth)
    }

    /// Passes the transmitted frames to `take` and removes them.
    pub(super) fn drain(&mut self, mut take: impl FnMut(&[u8], Nanos)) {
        while let Some((start, frame)) = self.out.leaving.pop_front() {
            take(frame.bytes(), start);
            self.out.pool.put(frame);
        }
    }

    /// Returns the number of frames sent.
    pub(super) fn sent(&self) -> u64 {
        self.out.sent
    }
}

impl Outbox {
    fn send<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut frame = self.pool.get();
        let filled = match frame.make_space(len) {
            Ok(bytes) => {
                // The buffer is reused. Bytes that the stack does not write must be zero.
                bytes.fill(0);
                fill(bytes)
            }
            // Not reached, because the stack respects the card's MTU. If it did not, its frame
            // would be discarded.
            Err(_) => return fill(&mut vec![0; len]),
        };
        let start = self.pacer.place(len, self.now).start;
        self.leaving.push_back((start, frame));
        self.sent += 1;
        filled
    }
}

impl phy::Device for Nic {
    type RxToken<'a> = Received;
    type TxToken<'a> = ToSend<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, ToSend<'_>)> {
        let frame = self.arrived.take()?;
        Some((Received(frame), ToSend(&mut self.out)))
    }

    fn transmit(&mut self, _: Instant) -> Option<ToSend<'_>> {
        Some(ToSend(&mut self.out))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MAX_FRAME;
        capabilities
    }
}

/// Receive token: a frame for the stack.
pub(super) struct Received(Frame);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0.bytes())
    }
}

/// Transmit token, by which the stack writes a frame.
pub(super) struct ToSend<'a>(&'a mut Outbox);

impl phy::TxToken for ToSend<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        self.0.send(len, fill)
    }
}
