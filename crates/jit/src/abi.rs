//! How native code is entered, and what it sees: one [`Invocation`], whose first fields it reads and writes by their offsets.
//!
//! Native code gets nothing but a pointer to the invocation. What it may touch is behind the pointers at its front: the packet's limbs, its bytes,
//! the memory of what is emitted, and the parameters of the action that runs. It calls functions of [`crate::helpers`] for all else; those see the
//! invocation as Rust does.

use bits::IdVec;
use exec::slots::Slot;
use exec::slots::call::ExternCall;
use exec::slots::header::{HeaderCopy, HeaderSite, Lookahead, StackSite};
use exec::slots::table::{Params, TableSite};
use exec::slots::wide::WideStep;
use exec::{DropReason, PacketContext, ParserErrors, State};
use ir::TableId;
use packet::{Nanos, PortId};

/// A packet's run through one block. Native code knows the offsets of the fields that [`offset`] names.
#[repr(C)]
pub(crate) struct Invocation<'i> {
    /// The first of the packet's limbs.
    limbs_at: *mut u64,
    /// The first of the packet's bytes.
    bytes_at: *const u8,
    /// How many bits these are.
    bits: u64,
    /// Bits that the parser has consumed.
    cursor: u64,
    /// Units of work left.
    work: u64,
    /// The memory of what is emitted, how many bits of it are, and how many there may be before it must grow.
    emitted_at: *mut u8,
    emitted: u64,
    emitted_room: u64,
    /// The parameters of the action that the last table chose.
    params_at: *const u64,
    /// For a pass: the port that the packet came in by, its length, the time, and how many ports are busy.
    ingress: u64,
    length: u64,
    nanos: u64,
    micros: u64,
    busy: u64,
    /// For a pass: the port that the packet is to leave by, when it leaves the pass.
    egress: u64,
    /// Ports that are busy, for helpers.
    pub(crate) busy_ports: &'i [u32],
    /// The same for helpers.
    pub(crate) params: Params<'i>,
    pub(crate) limbs: &'i mut [u64],
    pub(crate) packet: &'i mut PacketContext,
    pub(crate) state: &'i State,
    pub(crate) code: &'i Code,
}

/// Where native code finds the fields of an [`Invocation`].
pub(crate) mod offset {
    use super::Invocation;
    use std::mem::offset_of;

    pub(crate) const LIMBS: i32 = offset_of!(Invocation<'_>, limbs_at) as i32;
    pub(crate) const BYTES: i32 = offset_of!(Invocation<'_>, bytes_at) as i32;
    pub(crate) const BITS: i32 = offset_of!(Invocation<'_>, bits) as i32;
    pub(crate) const CURSOR: i32 = offset_of!(Invocation<'_>, cursor) as i32;
    pub(crate) const WORK: i32 = offset_of!(Invocation<'_>, work) as i32;
    pub(crate) const EMITTED_AT: i32 = offset_of!(Invocation<'_>, emitted_at) as i32;
    pub(crate) const EMITTED: i32 = offset_of!(Invocation<'_>, emitted) as i32;
    pub(crate) const EMITTED_ROOM: i32 = offset_of!(Invocation<'_>, emitted_room) as i32;
    pub(crate) const INGRESS: i32 = offset_of!(Invocation<'_>, ingress) as i32;
    pub(crate) const LENGTH: i32 = offset_of!(Invocation<'_>, length) as i32;
    pub(crate) const NANOS: i32 = offset_of!(Invocation<'_>, nanos) as i32;
    pub(crate) const MICROS: i32 = offset_of!(Invocation<'_>, micros) as i32;
    pub(crate) const BUSY: i32 = offset_of!(Invocation<'_>, busy) as i32;
    pub(crate) const EGRESS: i32 = offset_of!(Invocation<'_>, egress) as i32;
    pub(crate) const PARAMS: i32 = offset_of!(Invocation<'_>, params_at) as i32;
}

/// What helpers need to know of the program; native code names its elements by their positions.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) tables: IdVec<TableId, TableSite>,
    pub(crate) headers: Vec<HeaderSite>,
    pub(crate) stacks: Vec<StackSite>,
    pub(crate) lookaheads: Vec<Lookahead>,
    pub(crate) header_copies: Vec<HeaderCopy>,
    pub(crate) calls: Vec<ExternCall>,
    pub(crate) wides: Vec<WideStep>,
    pub(crate) constants: Vec<Box<[u64]>>,
    pub(crate) errors: ParserErrors,
    /// The first slot of the scratch of wide operations.
    pub(crate) wide_scratch: Slot,
    /// Limbs of frame and scratch together.
    pub(crate) limbs: usize,
}

/// How native code ended, in the number that it returns: one of these in the upper half, what belongs to it in the lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// At its end.
    Done,
    /// A parser rejected with this error.
    Reject(u32),
    /// The packet must be dropped.
    Drop(DropReason),
}

const REJECT: u64 = 1;
const DROP: u64 = 2;

impl Outcome {
    /// The number that means this.
    pub(crate) fn number(self) -> u64 {
        match self {
            Outcome::Done => 0,
            Outcome::Reject(error) => Outcome::REJECT_FLAG | u64::from(error),
            Outcome::Drop(reason) => Outcome::DROP_FLAG | reason.index() as u64,
        }
    }

    /// What to put around the index of a reason to drop the packet.
    pub(crate) const DROP_FLAG: u64 = DROP << 32;

    /// What to put around an error's number.
    pub(crate) const REJECT_FLAG: u64 = REJECT << 32;

    fn of(number: u64) -> Outcome {
        match number >> 32 {
            0 => Outcome::Done,
            REJECT => Outcome::Reject(number as u32),
            _ => {
                let reason = DropReason::ALL.get(number as u32 as usize);
                Outcome::Drop(reason.copied().unwrap_or(DropReason::Aborted))
            }
        }
    }
}

/// How a pass ended, in the number that it returns: a reason to drop as in [`Outcome`], or one of the following.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The packet is to be sent by this port.
    Sent(PortId),
    /// It must be dropped.
    Dropped(DropReason),
    /// It left the pass at a step, having passed the queue of a port.
    Left { step: u32, egress: PortId },
}

const SENT: u64 = 3;
const LEFT: u64 = 4;

impl Ended {
    /// What to put around a port.
    pub(crate) const SENT_FLAG: u64 = SENT << 32;

    /// What to put around a step's number.
    pub(crate) const LEFT_FLAG: u64 = LEFT << 32;

    fn of(number: u64, egress: u64) -> Ended {
        let low = number as u32;
        match number >> 32 {
            SENT => Ended::Sent(PortId(low)),
            LEFT => Ended::Left {
                step: low,
                egress: PortId(egress as u32),
            },
            _ => match Outcome::of(number) {
                Outcome::Drop(reason) => Ended::Dropped(reason),
                _ => Ended::Dropped(DropReason::Aborted),
            },
        }
    }
}

/// What a pass is told of a packet, beside its context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassInputs<'b> {
    pub(crate) now: Nanos,
    pub(crate) ingress: PortId,
    pub(crate) busy: &'b [u32],
}

/// A function that was compiled.
pub(crate) type Native = unsafe extern "C" fn(&mut Invocation<'_>) -> u64;

/// No cursor of a packet is behind this, so that native code adds the bits of a header without overflow.
const MAX_CURSOR: usize = 1 << 48;

/// Runs a compiled parser or control of `code` on a packet.
pub(crate) fn run(
    native: Native,
    packet: &mut PacketContext,
    state: &State,
    code: &Code,
) -> Outcome {
    let inputs = PassInputs {
        now: packet.now,
        ingress: PortId(0),
        busy: &[],
    };
    Outcome::of(enter(native, packet, state, code, inputs).0)
}

/// Runs a compiled pass of `code` on a packet.
pub(crate) fn run_pass(
    native: Native,
    packet: &mut PacketContext,
    state: &State,
    code: &Code,
    inputs: PassInputs<'_>,
) -> Ended {
    let (number, egress) = enter(native, packet, state, code, inputs);
    Ended::of(number, egress)
}

/// The number that a compiled function of `code` returns, and the egress port that it leaves behind.
fn enter(
    native: Native,
    packet: &mut PacketContext,
    state: &State,
    code: &Code,
    inputs: PassInputs<'_>,
) -> (u64, u64) {
    let mut limbs = std::mem::take(&mut packet.limbs);
    assert!(limbs.len() >= code.limbs, "a context of another program");
    packet.cursor = packet.cursor.min(MAX_CURSOR);
    let mut invocation = Invocation {
        limbs_at: limbs.as_mut_ptr(),
        bytes_at: packet.bytes.bytes().as_ptr(),
        bits: packet.bytes.len() as u64 * 8,
        cursor: packet.cursor as u64,
        work: packet.work_left.into(),
        emitted_at: std::ptr::null_mut(),
        emitted: 0,
        emitted_room: 0,
        params_at: std::ptr::null(),
        ingress: inputs.ingress.0.into(),
        length: packet.length.into(),
        nanos: inputs.now.0,
        micros: inputs.now.as_micros(),
        busy: inputs.busy.len() as u64,
        egress: 0,
        busy_ports: inputs.busy,
        params: Params::Of(&[]),
        limbs: &mut limbs,
        packet,
        state,
        code,
    };
    invocation.show_emitted();
    // SAFETY: the function was compiled from a verified program for this `code`. All that it touches by pointers is behind those at the front of the
    // invocation: slots below `code.limbs`, which are there as was asserted; bytes of the packet below `bits`, compared before; emitted bits below
    // `emitted_room` and eight bytes behind; parameters as many as the table's action has, as `TableSite::apply` made sure.
    let number = unsafe { native(&mut invocation) };
    invocation.take_back();
    let egress = invocation.egress;
    packet.atomic.leave_all(&state.atomic);
    packet.limbs = limbs;
    (number, egress)
}

impl Invocation<'_> {
    /// The packet gets what native code has changed.
    pub(crate) fn take_back(&mut self) {
        self.packet.cursor = self.cursor as usize;
        self.packet.work_left = self.work as u32;
        self.packet.emitted.set_bits(self.emitted as usize);
    }

    /// Native code sees where the packet's cursor is now.
    pub(crate) fn show_cursor(&mut self) {
        self.cursor = self.packet.cursor as u64;
    }

    /// Native code sees how much work is left.
    pub(crate) fn show_work(&mut self) {
        self.work = self.packet.work_left.into();
    }

    /// Native code sees the packet's bytes as they are now.
    pub(crate) fn show_bytes(&mut self) {
        self.bytes_at = self.packet.bytes.bytes().as_ptr();
        self.bits = self.packet.bytes.len() as u64 * 8;
    }

    /// Native code sees what is emitted now.
    pub(crate) fn show_emitted(&mut self) {
        self.emitted = self.packet.emitted.bits() as u64;
        let (memory, room) = self.packet.emitted.storage();
        self.emitted_at = memory.as_mut_ptr();
        // What is longer than a frame is for helpers, which tell that it is.
        self.emitted_room = room.min(packet::MAX_FRAME * 8) as u64;
    }
}

impl<'i> Invocation<'i> {
    /// Native code sees the parameters of an action.
    pub(crate) fn show_params(&mut self, params: Params<'i>) {
        self.params = params;
        self.params_at = params.limbs(&self.packet.learned_params).as_ptr();
    }
}

/// A table's outcome as native code sees it: the position of the action that runs, or [`NO_ACTION`], and above it whether the table was hit.
pub(crate) fn applied_number(position: Option<u32>, hit: bool) -> u64 {
    u64::from(hit) << 32 | position.map_or(NO_ACTION, u64::from)
}

/// The position of no action.
pub(crate) const NO_ACTION: u64 = u32::MAX as u64;
