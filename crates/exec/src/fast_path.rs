//! The fast path of a packet through an architecture, as data: received at one port, sent at one
//! port, never copied.
//!
//! An architecture describes its fast path as a [`FastPath`]. An engine may compile it to one
//! function ([`CompiledFastPath`]) that takes a burst of frames through parser, controls and
//! deparser, without a context for each frame. A packet that needs anything else *exits* the fast
//! path at a numbered step. Its state so far is then in a [`PacketContext`], and the architecture's
//! general code continues from that step. So the fast path changes speed, never results.

use std::sync::Arc;

use ir::{ControlId, FieldId, ParserId};
use packet::{Frame, Nanos, PortId};
use table::CounterShard;

use crate::{Derived, DropReason, PacketContext, State, WorkBudget};

/// Fast path of an architecture, step by step. Before the first step all fields are zero, nothing
/// is parsed, and there are no requests. The last step is [`FastPathStep::Send`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FastPath {
    /// The steps, in order.
    pub steps: Vec<FastPathStep>,
}

/// Step of a [`FastPath`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastPathStep {
    /// Sets a field to an input of the architecture.
    Set(FieldId, PassInput),
    /// Copies a field to another field of the same type.
    Copy {
        /// The source.
        from: FieldId,
        /// The destination.
        to: FieldId,
    },
    /// Runs a parser.
    Parse {
        /// The parser.
        parser: ParserId,
        /// Fields that receive the error of a rejected packet, which is not dropped. After `accept`
        /// they are set to 0 (`error.NoError`), whatever the parser wrote to them.
        errors: Vec<FieldId>,
    },
    /// Runs a control.
    Control(ControlId),
    /// Runs a deparser. The frame becomes the emitted bytes followed by the unparsed ones, cut to
    /// [`crate::Requests::truncate`]. A frame that gets too long is dropped.
    Deparse(ControlId),
    /// Copies each first field of a pair to the second, and sets all other fields to zero. The next
    /// parser starts at the first byte of the frame, and the checksum error is cleared.
    Carry(Vec<(FieldId, FieldId)>),
    /// Drops the packet if the test holds.
    DropIf(FastPathTest, DropReason),
    /// The packet exits the fast path if the test holds.
    LeaveIf(FastPathTest),
    /// Sends the packet as the frame that the program has requested ([`crate::Requests::frame`]),
    /// to the port of the request. A frame that gets too long is dropped. Other packets go on.
    SendFrame,
    /// Selects the egress port. The packet exits the fast path if that port's queues are busy
    /// ([`DeviceView::busy_ports`]).
    Enqueue(FastPathPort),
    /// Sends the packet to the port of the last [`FastPathStep::Enqueue`].
    Send,
}

/// Source of the egress port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastPathPort {
    /// A field of at most 32 bits.
    Field(FieldId),
    /// [`crate::Requests::destination`] (PNA). No destination drops the packet as `NoDestination`,
    /// `Drop` drops it as `Ingress`.
    Destination,
}

/// Value that an architecture passes to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassInput {
    /// A constant.
    Constant(u64),
    /// The ingress port.
    IngressPort,
    /// 1 if the ingress port is a host port ([`State::is_host_port`]), else 0.
    IsHostPort,
    /// The port of the last [`FastPathStep::Enqueue`].
    EgressPort,
    /// Length in bytes of the frame as received.
    ReceivedLength,
    /// Length in bytes of the frame after the last [`FastPathStep::Deparse`].
    Length,
    /// [`Burst::now`] in nanoseconds.
    Nanos,
    /// [`Burst::now`] in microseconds.
    Micros,
    /// 1 if a checksum failed to verify ([`crate::Requests::checksum_error`]), else 0.
    ChecksumError,
}

/// Test of a packet by its architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastPathTest {
    /// The field, of at most 64 bits, has this value.
    Equals(FieldId, u64),
    /// The field, of at most 64 bits, has another value.
    Differs(FieldId, u64),
    /// The program has made a request to the device: any of [`crate::Requests`] except
    /// `checksum_error`, `destination` and `mark` ([`PacketContext::has_asked`]).
    Asked,
}

/// Maximum number of frames in a burst.
pub const BURST: usize = 64;

/// Identity order: frames are processed in the order in which they are stored.
pub const IDENTITY_ORDER: [u32; BURST] = {
    let mut order = [0; BURST];
    let mut at = 0;
    while at < BURST {
        order[at] = at as u32;
        at += 1;
    }
    order
};

/// Burst of at most [`BURST`] frames, grouped by device.
pub struct Burst<'b> {
    /// Frame buffer. May hold frames that are not part of this burst. Each frame holds its ingress
    /// port.
    pub frames: &'b mut [Frame],
    /// Indices into `frames`: the packets of the burst, in processing order. Every index is in
    /// range.
    pub order: &'b [u32],
    /// Outcomes, in the order of `order`. Has one element for each packet of the burst.
    pub outcomes: &'b mut [PackedOutcome],
    /// Current time of the devices.
    pub now: Nanos,
    /// Segments of the burst by device, in processing order. There are at most as many as frames.
    pub segments: &'b [BurstSegment<'b>],
}

/// Burst segment: the consecutive frames of one device in a burst.
#[derive(Clone, Copy)]
pub struct BurstSegment<'b> {
    /// Number of frames.
    pub frames: usize,
    /// Packet number of the first frame, an input of the random stream. The following frames have
    /// consecutive numbers.
    pub first_packet: u64,
    /// View of the device. Its packets read the state from which [`DeviceView::derived`] was made.
    pub owner: &'b DeviceView,
}

/// A worker's view of a device, apart from the device's state.
#[derive(Debug)]
pub struct DeviceView {
    /// Data that [`CompiledFastPath::derive`] made from the state.
    pub derived: Derived,
    /// Counter shard of the worker.
    pub lane: CounterShard,
    /// Work budget of each packet.
    pub work: WorkBudget,
    /// Seed of the device's random streams.
    pub seed: u64,
    /// Numbers of the ports that have a shaped or non-empty queue, ascending.
    pub busy_ports: Vec<u32>,
}

impl DeviceView {
    /// Returns the state that the device's packets read, or `None` if nothing was derived yet.
    #[inline]
    pub fn state(&self) -> Option<&State> {
        self.derived.state(self.lane)
    }
}

impl<'b> BurstSegment<'b> {
    /// Returns the state that the packets of the segment read.
    ///
    /// # Panics
    /// Nothing was derived for the owner's counter shard.
    #[inline]
    pub fn state(&self) -> &'b State {
        let state = self.owner.state();
        state.expect("what packets see is derived before they come")
    }
}

/// Outcome of a frame on the fast path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassOutcome {
    /// Not processed yet.
    #[default]
    Waiting,
    /// Must be sent to this port.
    Sent(PortId),
    /// Dropped.
    Dropped(DropReason),
    /// Exited the fast path. Its bytes and its state are in the context.
    Left {
        /// Number of the step at which it exited.
        step: u32,
        /// Port of the last [`FastPathStep::Enqueue`] before the exit, or port 0.
        egress: PortId,
    },
}

/// [`PassOutcome`] packed into 64 bits, as native code writes it. Bits 32 to 39 hold the kind. Bits
/// from 40 on hold the step. The low half holds a port or the index of a [`DropReason`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct PackedOutcome(u64);

impl PackedOutcome {
    /// Kind of a dropped packet; the low half is the index of the drop reason.
    pub const DROPPED: u64 = 2 << 32;
    /// Kind of a packet to send; the low half is the egress port.
    pub const SENT: u64 = 3 << 32;
    /// Kind of a packet that exited; the low half is the port of the last
    /// [`FastPathStep::Enqueue`].
    pub const LEFT: u64 = 4 << 32;
    /// Position of the step's number.
    pub const STEP_SHIFT: u32 = 40;

    /// Returns the egress port if the packet must be sent, the most common outcome.
    #[inline]
    pub fn sent(self) -> Option<PortId> {
        // Compares 32-bit halves: constants of 64 bits would be materialized again for each packet.
        let is_sent = self.0 >> 32 == PackedOutcome::SENT >> 32;
        is_sent.then_some(PortId(self.0 as u32))
    }

    /// Returns the unpacked outcome. An invalid value gives [`PassOutcome::Waiting`].
    #[inline]
    pub fn unpack(self) -> PassOutcome {
        let low = self.0 as u32;
        match self.0 & 0xff << 32 {
            PackedOutcome::SENT => PassOutcome::Sent(PortId(low)),
            PackedOutcome::DROPPED => match DropReason::from_index(low as usize) {
                Some(reason) => PassOutcome::Dropped(reason),
                None => PassOutcome::Waiting,
            },
            PackedOutcome::LEFT => PassOutcome::Left {
                step: (self.0 >> PackedOutcome::STEP_SHIFT) as u32,
                egress: PortId(low),
            },
            _ => PassOutcome::Waiting,
        }
    }
}

impl From<PassOutcome> for PackedOutcome {
    fn from(outcome: PassOutcome) -> PackedOutcome {
        PackedOutcome(match outcome {
            PassOutcome::Waiting => 0,
            PassOutcome::Sent(port) => PackedOutcome::SENT | u64::from(port.0),
            PassOutcome::Dropped(reason) => PackedOutcome::DROPPED | reason.index() as u64,
            PassOutcome::Left { step, egress } => {
                let step = u64::from(step) << PackedOutcome::STEP_SHIFT;
                PackedOutcome::LEFT | step | u64::from(egress.0)
            }
        })
    }
}

/// Prefetch stage of a device's state. The addresses of a stage are read from the data of the stage
/// before. Those of the first stage are read from the derived data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchStage {
    /// Tables that are searched, and cells that packets write in any table.
    Tables,
    /// Lookup structures of the searched tables.
    Lookups,
    /// Memory at which lookups in these structures start.
    Entries,
}

/// Fast path compiled to one function.
pub trait CompiledFastPath: Send + Sync {
    /// Derives what the engine needs from a state, for packets that count in this shard, unless it
    /// is already there. Always sets the state as the current one ([`Derived::is_made_of`]), even
    /// if the engine needs nothing: packets read that state.
    fn derive(&self, state: &Arc<State>, lane: CounterShard, derived: &mut Derived);

    /// Prefetches memory of a state and its derived data that every burst reads, independent of its
    /// packets.
    fn prefetch(&self, what: PrefetchStage, owner: &DeviceView);

    /// Processes the frames in order. Stops after a packet that exits the fast path or has written
    /// a digest or a message. Returns the number of frames that have an outcome. If a packet has
    /// exited, it is the last of these.
    ///
    /// `context` is a context of this program. Its contents are valid only after a packet has
    /// exited. Then its `bytes` are the packet's frame, and the burst's frame holds the context's
    /// former buffer. Everything else is as after the same steps with [`crate::Loaded`]: fields,
    /// cursor, requests, work, random stream, messages and digests not yet taken. For a packet that
    /// was sent or dropped with messages or digests, only these are valid in the context. The
    /// device takes them.
    fn run(&self, burst: &mut Burst<'_>, context: &mut PacketContext) -> usize;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_what_was_packed() {
        let port = PortId(u32::MAX);
        let outcomes = [
            PassOutcome::Waiting,
            PassOutcome::Sent(port),
            PassOutcome::Dropped(DropReason::FrameTooLong),
            PassOutcome::Left {
                step: 77,
                egress: port,
            },
        ];
        for outcome in outcomes {
            assert_eq!(PackedOutcome::from(outcome).unpack(), outcome);
        }
    }
}
