//! A host's network card: where its TCP/IP stack and the fabric meet.

use std::collections::VecDeque;

use packet::{Frame, FramePool, Nanos};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

use crate::pacer::Pacer;
use crate::topology::LinkSpec;

/// The longest frame that hosts send: an Ethernet header and 1500 bytes.
const LONGEST_FRAME: usize = 1514;

/// The card: at most one frame that has arrived, and frames that leave, each with its time.
pub(super) struct Nic {
    arrived: Option<Frame>,
    out: Outbox,
}

/// Frames that leave one after the other at the link's rate. The host asks its stack for none while the queue is full, so that it drops nothing; answers
/// to what arrives may come on top, at most one for each frame.
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

    /// Moves the card's time on.
    pub(super) fn set_time(&mut self, now: Nanos) {
        self.out.now = now;
    }

    /// Puts a frame where the stack finds it.
    pub(super) fn arrive(&mut self, bytes: &[u8]) {
        let mut frame = self.out.pool.get();
        // What is longer than a frame may be has not come by a link.
        if frame.assign(bytes).is_ok() {
            self.arrived = Some(frame);
        }
    }

    /// Sends a frame that the stack has not made.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.out
            .send(bytes.len(), |frame| frame.copy_from_slice(bytes));
    }

    /// From when on the stack may send, if it may not now.
    pub(super) fn room_at(&mut self) -> Option<Nanos> {
        self.out.pacer.waiting(self.out.now);
        self.known_room_at()
    }

    /// As [`Nic::room_at`], by what was known at the last change.
    pub(super) fn known_room_at(&self) -> Option<Nanos> {
        self.out.pacer.room_at(self.out.depth)
    }

    /// Gives away the frames that leave.
    pub(super) fn drain(&mut self, mut take: impl FnMut(&[u8], Nanos)) {
        while let Some((start, frame)) = self.out.leaving.pop_front() {
            take(frame.bytes(), start);
            self.out.pool.put(frame);
        }
    }

    /// Frames that were sent.
    pub(super) fn sent(&self) -> u64 {
        self.out.sent
    }
}

impl Outbox {
    fn send<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut frame = self.pool.get();
        let filled = match frame.make_space(len) {
            Ok(bytes) => {
                // A buffer that was used before is not to be seen in what the stack leaves out.
                bytes.fill(0);
                fill(bytes)
            }
            // The stack keeps to the card's longest frame, which is shorter; whatever it made is not sent.
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
        capabilities.max_transmission_unit = LONGEST_FRAME;
        capabilities
    }
}

/// A frame that the stack takes.
pub(super) struct Received(Frame);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0.bytes())
    }
}

/// The place of a frame that the stack makes.
pub(super) struct ToSend<'a>(&'a mut Outbox);

impl phy::TxToken for ToSend<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        self.0.send(len, fill)
    }
}
