//! Trace events of a packet.

use bits::Value;
use ir::{
    ActionId, BlockRole, Call, ControlId, FieldId, HeaderId, Loc, ParserId, StageId, StateId,
    StepId,
};
use ir::{ExternId, TableId, Target};
use table::EntryId;

use crate::DropReason;

/// Receiver of a packet's trace events, in order.
pub trait Tracer {
    /// Receives one event.
    fn event(&mut self, event: TraceEvent);
}

impl<F: FnMut(TraceEvent)> Tracer for F {
    fn event(&mut self, event: TraceEvent) {
        self(event);
    }
}

impl Tracer for Vec<TraceEvent> {
    fn event(&mut self, event: TraceEvent) {
        self.push(event);
    }
}

/// Trace event. Ids are those of the program. Values have their fields' widths.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceEvent {
    /// The device received a packet.
    Received {
        /// The ingress port.
        port: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The architecture set input fields of the next block.
    Given {
        /// The fields and their values.
        fields: Vec<(FieldId, Value)>,
    },
    /// A block starts.
    Block {
        /// The step of the chain to which the block belongs.
        step: StepId,
        /// The block's role in its architecture.
        role: BlockRole,
    },
    /// A parser entered a state.
    State {
        /// The parser.
        parser: ParserId,
        /// The state.
        state: StateId,
    },
    /// A header was extracted.
    Extracted {
        /// The header.
        header: HeaderId,
        /// Position of its first bit, from the start of the packet.
        offset: usize,
        /// Number of bits.
        bits: usize,
        /// Its fields and the extracted values.
        fields: Vec<(FieldId, Value)>,
    },
    /// The parser skipped bits.
    Advanced {
        /// Number of bits.
        bits: u64,
    },
    /// A select compared its keys.
    Select {
        /// The keys' values.
        keys: Vec<Value>,
        /// Index of the matching case, from 0; `None` means `error.NoMatch`.
        case: Option<usize>,
        /// The target of the transition.
        target: Target,
    },
    /// The parser failed or rejected the packet.
    Rejected {
        /// The error's number.
        error: u32,
    },
    /// The parser accepted the packet.
    Accepted {
        /// Number of bits consumed.
        consumed: usize,
    },
    /// A stage starts.
    Stage {
        /// The control.
        control: ControlId,
        /// The stage.
        stage: StageId,
    },
    /// A condition stage was evaluated.
    Condition {
        /// The result.
        holds: bool,
    },
    /// A table was looked up.
    Lookup {
        /// The table.
        table: TableId,
        /// The values of its matched keys.
        key: Vec<Value>,
        /// True for a hit.
        hit: bool,
        /// The entry that was hit.
        entry: Option<EntryId>,
        /// The selected member of the action profile.
        member: Option<u32>,
        /// The selected group of the action selector.
        group: Option<u32>,
    },
    /// An action starts.
    Action {
        /// The action.
        action: ActionId,
        /// Its parameters.
        params: Vec<Value>,
    },
    /// A field was written.
    Written {
        /// The field.
        field: FieldId,
        /// Its value before.
        old: Value,
        /// Its value now.
        new: Value,
        /// The statement.
        loc: Option<Loc>,
    },
    /// An extern function or method was called.
    Call {
        /// The call, from the program.
        call: Box<Call>,
        /// The values of its `In` and data operands, in order.
        arguments: Vec<Value>,
        /// The values of its destinations, in order, followed by the computed checksum if the call
        /// verifies one.
        results: Vec<Value>,
        /// The statement.
        loc: Option<Loc>,
    },
    /// An iteration of a loop starts.
    Round {
        /// The loop.
        of: u32,
        /// Number of the iteration, from 1.
        number: u64,
        /// The loop's statement.
        loc: Option<Loc>,
    },
    /// A loop ended by its condition or a `break`.
    LoopLeft {
        /// The loop.
        of: u32,
    },
    /// A deparser emitted a header.
    Emitted {
        /// The header.
        header: HeaderId,
        /// Number of bits.
        bits: usize,
    },
    /// A deparser skipped an invalid header.
    NotEmitted {
        /// The header.
        header: HeaderId,
    },
    /// The program executed `exit`.
    Exit,
    /// The deparsed packet.
    Deparsed {
        /// Its bytes, payload included.
        bytes: Vec<u8>,
    },
    /// The program wrote a message.
    Message {
        /// Its text.
        text: String,
    },
    /// The program sent a digest.
    Digest {
        /// The digest.
        digest: ExternId,
        /// The values of its fields.
        values: Vec<Value>,
    },
    /// A copy was made.
    Copied {
        /// The reason for the copy.
        why: &'static str,
        /// The egress port of the copy.
        port: u32,
        /// Its instance (`egress_rid`).
        instance: u32,
    },
    /// Copies were requested but not made.
    CopiesRefused {
        /// Number of copies.
        copies: u32,
        /// The limit that was exceeded.
        reason: DropReason,
    },
    /// A clone was requested for a session that is not configured.
    NoCloneSession {
        /// The session.
        session: u32,
    },
    /// The packet was enqueued.
    Queued {
        /// The port.
        port: u32,
        /// The priority.
        priority: u8,
        /// Number of packets in the queue before it.
        depth: u32,
    },
    /// The packet was dequeued. The following events are about it.
    Dequeued {
        /// The port.
        port: u32,
    },
    /// The packet is processed again from the start.
    Again {
        /// `resubmit` or `recirculate`.
        why: &'static str,
    },
    /// The packet was sent.
    Sent {
        /// The port.
        port: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The packet was dropped.
    Dropped {
        /// The drop reason.
        reason: DropReason,
        /// More detail.
        detail: DropDetail,
    },
}

/// Turns steps of sending into drops. `lost` has the ports by which packets were sent in vain, each
/// with the drop reason, in order.
pub fn drop_lost(steps: &mut [TraceEvent], lost: &[(u32, DropReason)]) {
    for (lost_port, reason) in lost.iter().rev() {
        let is_lost = |step: &&mut TraceEvent| match step {
            TraceEvent::Sent { port, .. } => port == lost_port,
            _ => false,
        };
        // Limits drop the later ones.
        if let Some(step) = steps.iter_mut().rev().find(is_lost) {
            *step = TraceEvent::Dropped {
                reason: *reason,
                detail: DropDetail::Number(*lost_port),
            };
        }
    }
}

/// Detail of a drop that its reason does not include.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DropDetail {
    /// No detail.
    #[default]
    None,
    /// The port or multicast group.
    Number(u32),
    /// The number of the parser error.
    ParserError(u32),
}
