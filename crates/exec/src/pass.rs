//! The usual way of a packet through an architecture, as data: in by one port, out by one port, never copied.
//!
//! An architecture describes that way as a [`Pass`]; an engine that can makes one function of it ([`Fused`]), which takes a burst of frames through
//! parser, controls and deparser without a context each. A packet that asks for anything else *leaves* the pass at a numbered step, with everything
//! that it has done so far in a [`PacketContext`], and the architecture's own code takes it on from there. So a pass changes speed, never the
//! result.

use std::sync::Arc;

use ir::{ControlId, FieldId, ParserId};
use packet::{Frame, Nanos, PortId};
use table::Lane;

use crate::{Derived, DropReason, PacketContext, State, WorkBudget};

/// The way, step by step. The first step finds all fields zero, nothing parsed and nothing asked; the last one is [`PassStep::Send`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// The steps, in order.
    pub steps: Vec<PassStep>,
}

/// A step of a [`Pass`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassStep {
    /// Tells the program something.
    Set(FieldId, PassInput),
    /// Copies a field to another one of its type.
    Copy {
        /// What is copied.
        from: FieldId,
        /// Where it is put.
        to: FieldId,
    },
    /// Runs a parser.
    Parse {
        /// Which.
        parser: ParserId,
        /// Fields that get the error of a rejected packet, which goes on; after `accept` they are 0, `error.NoError`, whatever the parser
        /// wrote.
        errors: Vec<FieldId>,
    },
    /// Runs a control.
    Control(ControlId),
    /// Runs a deparser, after which the frame is what it emitted, followed by what was not parsed, cut to
    /// [`crate::Requests::truncate`]. A frame that gets too long is dropped.
    Deparse(ControlId),
    /// All fields become zero, but for those that are carried from one to the other; the frame is parsed anew from its first byte, and no checksum of it is
    /// known to be wrong.
    Carry(Vec<(FieldId, FieldId)>),
    /// Drops the packet.
    DropIf(PassTest, DropReason),
    /// The packet leaves the pass here.
    LeaveIf(PassTest),
    /// The packet is to leave by this port. It leaves the pass here if that port's queues are not free ([`Owner::busy_ports`]).
    Enqueue(PassPort),
    /// The packet goes out by the port of the last [`PassStep::Enqueue`].
    Send,
}

/// Where an architecture reads the port that a packet is to leave by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassPort {
    /// This field, of at most 32 bits.
    Field(FieldId),
    /// [`crate::Requests::destination`] (PNA): none drops the packet as `NoDestination`, `Drop` as `Ingress`.
    Destination,
}

/// What an architecture tells a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassInput {
    /// A number.
    Constant(u64),
    /// The port that the packet came in by.
    IngressPort,
    /// Whether that port is a host port ([`State::is_host_port`]).
    IsHostPort,
    /// The port of the last [`PassStep::Enqueue`].
    EgressPort,
    /// Bytes of the frame as it came.
    ReceivedLength,
    /// Bytes of the frame as the last [`PassStep::Deparse`] left it.
    Length,
    /// [`Burst::now`] in nanoseconds.
    Nanos,
    /// [`Burst::now`] in microseconds.
    Micros,
    /// Whether a checksum did not verify ([`crate::Requests::checksum_error`]).
    ChecksumError,
}

/// What an architecture asks of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassTest {
    /// The field, of at most 64 bits, has this value.
    Equals(FieldId, u64),
    /// The field, of at most 64 bits, has another value.
    Differs(FieldId, u64),
    /// The program has asked something of the device: any of [`crate::Requests`] but `checksum_error`, `destination` and
    /// `mark` ([`PacketContext::has_asked`]).
    Asked,
}

/// Frames that a pass takes at once, at most.
pub const BURST: usize = 64;

/// The order of frames that go as they lie.
pub const AS_THEY_LIE: [u32; BURST] = {
    let mut order = [0; BURST];
    let mut at = 0;
    while at < BURST {
        order[at] = at as u32;
        at += 1;
    }
    order
};

/// Frames to take through a pass: at most [`BURST`], of one device after the other.
pub struct Burst<'b> {
    /// The frames, and others; each knows the port that it came in by.
    pub frames: &'b mut [Frame],
    /// Which of these they are, in the order in which they go: each is there.
    pub order: &'b [u32],
    /// What became of each, as far as the pass has come: as many as go.
    pub outcomes: &'b mut [PackedOutcome],
    /// The devices' time.
    pub now: Nanos,
    /// Whose frames they are, in their order: at most as many lots as frames.
    pub lots: &'b [Lot<'b>],
}

/// The frames of a burst that are one device's.
#[derive(Clone, Copy)]
pub struct Lot<'b> {
    /// How many they are.
    pub frames: usize,
    /// The number, for random numbers, of the first frame's packet; the next ones follow.
    pub first_packet: u64,
    /// Whose they are. What they see is what [`Owner::derived`] was made of.
    pub owner: &'b Owner,
}

/// A device as its packets find it on one worker, beside its state.
#[derive(Debug)]
pub struct Owner {
    /// What [`Fused::derive`] has made of the state.
    pub derived: Derived,
    /// Where packets are counted.
    pub lane: Lane,
    /// What each of them may do.
    pub work: WorkBudget,
    /// What random numbers depend on: the device's seed.
    pub seed: u64,
    /// Ports whose queues are shaped or not empty, ascending.
    pub busy_ports: Vec<u32>,
}

impl Owner {
    /// What its packets see, unless nothing was derived yet.
    #[inline]
    pub fn state(&self) -> Option<&State> {
        self.derived.state(self.lane)
    }
}

impl<'b> Lot<'b> {
    /// What they see.
    ///
    /// # Panics
    /// Nothing was derived of it for the owner's lane.
    #[inline]
    pub fn state(&self) -> &'b State {
        let state = self.owner.state();
        state.expect("what packets see is derived before they come")
    }
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassOutcome {
    /// Nothing yet.
    #[default]
    Waiting,
    /// It is to be sent by this port.
    Sent(PortId),
    /// It was dropped.
    Dropped(DropReason),
    /// It left the pass at the step of this number; its bytes and all that is known of it are in the context.
    Left {
        /// The step.
        step: u32,
        /// The port of the last [`PassStep::Enqueue`] that it passed; port 0 before.
        egress: PortId,
    },
}

/// A [`PassOutcome`] as one number, which native code writes by itself: what it is in bits 32 to 39, a step from bit 40 on, and a port or the index of a
/// [`DropReason`] in the lower half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct PackedOutcome(u64);

impl PackedOutcome {
    /// What to put around the index of a reason to drop the packet.
    pub const DROPPED: u64 = 2 << 32;
    /// What to put around the port that the packet is to be sent by.
    pub const SENT: u64 = 3 << 32;
    /// What to put around the port of the last [`PassStep::Enqueue`] of a packet that left, beside the step.
    pub const LEFT: u64 = 4 << 32;
    /// Where a step's number begins.
    pub const STEP_SHIFT: u32 = 40;

    /// The port that the packet is to be sent by, if it is, as most are.
    #[inline]
    pub fn sent(self) -> Option<PortId> {
        // Halves are compared: masks of 64 bits would be made anew where each packet leaves.
        let is_sent = self.0 >> 32 == PackedOutcome::SENT >> 32;
        is_sent.then_some(PortId(self.0 as u32))
    }

    /// What it says; what no engine should have written is [`PassOutcome::Waiting`].
    #[inline]
    pub fn unpack(self) -> PassOutcome {
        let low = self.0 as u32;
        match self.0 & 0xff << 32 {
            PackedOutcome::SENT => PassOutcome::Sent(PortId(low)),
            PackedOutcome::DROPPED => match DropReason::ALL.get(low as usize) {
                Some(&reason) => PassOutcome::Dropped(reason),
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

/// What bursts read of a state: each can be asked for when the one before is there, the first one when what was made of the state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Tables that are searched, and what packets change of any table.
    Tables,
    /// What packets see of tables that are searched.
    Lookups,
    /// What lookups in them begin with.
    Entries,
}

/// A pass as an engine made it one function.
pub trait Fused: Send + Sync {
    /// Makes what the engine needs of a state for packets that are counted on this lane, unless it is there; and says so ([`Derived::is_made_of`]), whether it needs anything or not: packets see
    /// that state.
    fn derive(&self, state: &Arc<State>, lane: Lane, derived: &mut Derived);

    /// Asks the processor for memory that a burst reads of a state and of what was made of it, whatever its packets are.
    fn ask_for(&self, what: Ahead, owner: &Owner);

    /// Takes the frames through the pass, in order, until all are through, or one has left or told something, and says how many of them have an outcome now: the last of
    /// them is the one that has left, if one has.
    ///
    /// `context` is one of this program's; what is in it counts only after a packet has left. Then its `bytes` are the packet's frame (the burst's has
    /// the context's former buffer) and all else is as after the same steps by [`crate::Loaded`]: fields, cursor, requests, work, random stream,
    /// messages and digests that nobody has taken. A packet that has told something (digest, message) ends the run too when it is sent or dropped in its
    /// pass: messages and digests count then, for the device to take them.
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
