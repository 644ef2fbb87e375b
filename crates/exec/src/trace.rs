//! What a traced packet tells, step by step.

use bits::Value;
use ir::{
    ActionId, BlockRole, Call, ControlId, FieldId, HeaderId, Loc, ParserId, StageId, StateId,
    StepId,
};
use ir::{ExternId, TableId, Target};
use table::EntryId;

use crate::DropReason;

/// Receives the steps of a packet, in order.
pub trait Tracer {
    /// One step.
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

/// A step. Ids are the program's; values have their fields' widths.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceEvent {
    /// The device received a packet.
    Received {
        /// The port.
        port: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The architecture set fields that the next block is told.
    Given {
        /// The fields and their values.
        fields: Vec<(FieldId, Value)>,
    },
    /// A block starts.
    Block {
        /// The step that it belongs to, in a chain.
        step: StepId,
        /// What it is in its architecture.
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
        /// First bit, from the start of the packet.
        offset: usize,
        /// Bits.
        bits: usize,
        /// Its fields and what they got.
        fields: Vec<(FieldId, Value)>,
    },
    /// The parser skipped bits.
    Advanced {
        /// How many.
        bits: u64,
    },
    /// A select compared its keys.
    Select {
        /// The keys' values.
        keys: Vec<Value>,
        /// Which case held, from 0; none: `error.NoMatch`.
        case: Option<usize>,
        /// Where it goes.
        target: Target,
    },
    /// The parser failed or rejected the packet.
    Rejected {
        /// The error's number.
        error: u32,
    },
    /// The parser accepted the packet.
    Accepted {
        /// Bits that it consumed.
        consumed: usize,
    },
    /// A stage starts.
    Stage {
        /// The control.
        control: ControlId,
        /// The stage.
        stage: StageId,
    },
    /// A condition stage decided.
    Condition {
        /// Whether it held.
        holds: bool,
    },
    /// A table was looked up.
    Lookup {
        /// The table.
        table: TableId,
        /// The values of its matched keys.
        key: Vec<Value>,
        /// Whether an entry was hit.
        hit: bool,
        /// The entry.
        entry: Option<EntryId>,
        /// The member of the action profile.
        member: Option<u32>,
        /// The group of the action selector.
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
        /// The call as the program has it.
        call: Box<Call>,
        /// The values of its operands that are values or data, in order.
        arguments: Vec<Value>,
        /// What its destinations get, in order; behind them what a checksum that is verified was found to be.
        results: Vec<Value>,
        /// The statement.
        loc: Option<Loc>,
    },
    /// A round of a loop starts.
    Round {
        /// The loop.
        of: u32,
        /// Which round, from 1.
        number: u64,
        /// The loop's statement.
        loc: Option<Loc>,
    },
    /// A loop was left by its own condition or a `break`.
    LoopLeft {
        /// The loop.
        of: u32,
    },
    /// A deparser emitted a header.
    Emitted {
        /// The header.
        header: HeaderId,
        /// Bits.
        bits: usize,
    },
    /// A deparser passed over an invalid header.
    NotEmitted {
        /// The header.
        header: HeaderId,
    },
    /// The program left the control early.
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
        /// Why.
        why: &'static str,
        /// Where the copy goes.
        port: u32,
        /// Its instance (`egress_rid`).
        instance: u32,
    },
    /// Copies were asked for, and are not made.
    CopiesRefused {
        /// How many.
        copies: u32,
        /// What the packet and its copies have used up.
        reason: DropReason,
    },
    /// A clone was asked for with a session that is not configured.
    NoCloneSession {
        /// The session.
        session: u32,
    },
    /// The packet waits in a queue.
    Queued {
        /// The port.
        port: u32,
        /// The priority.
        priority: u8,
        /// Packets in that queue before it.
        depth: u32,
    },
    /// The packet leaves its queue; what follows is about it.
    Dequeued {
        /// The port.
        port: u32,
    },
    /// The packet starts over.
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
        /// Why.
        reason: DropReason,
        /// More on it.
        detail: DropDetail,
    },
}

/// What a drop's reason does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DropDetail {
    /// Nothing.
    #[default]
    None,
    /// The port or multicast group.
    Number(u32),
    /// The parser's error, by number.
    ParserError(u32),
}
