//! Flat code: instructions over slots, and the side tables to which they refer.

use bits::IdVec;
use exec::ParserErrors;
use exec::slots::Slot;
use exec::slots::call::ExternCall;
use exec::slots::header::{HeaderCopy, HeaderSite, Lookahead, StackSite};
use exec::slots::table::TableSite;
use exec::slots::wide::WideStep;
use ir::{ActionId, ControlId, FieldId, Loc, ParserId, StageId, StateId, TableId, Target};

/// Index into [`Code::insts`]; a label during compilation.
pub(crate) type Pc = u32;

/// Absent slot or field, for optional operands.
pub(crate) const NONE: u32 = u32::MAX;

/// Value of an address slot after an index was out of range.
pub(crate) const OUT_OF_RANGE: u64 = u64::MAX;

/// Instruction. `d` is written; `a`, `b`, `c` are read; `w` is a width of at most 64 bits; `to` is
/// a jump target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inst {
    Copy {
        d: Slot,
        a: Slot,
    },
    CopyN {
        d: Slot,
        a: Slot,
        n: u32,
    },
    Add {
        d: Slot,
        a: Slot,
        b: Slot,
        w: u8,
    },
    Sub {
        d: Slot,
        a: Slot,
        b: Slot,
        w: u8,
    },
    Mul {
        d: Slot,
        a: Slot,
        b: Slot,
        w: u8,
    },
    Div {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Mod {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    AddSaturating {
        d: Slot,
        a: Slot,
        b: Slot,
        w: u8,
    },
    SubSaturating {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    AddSaturatingSigned {
        d: Slot,
        a: Slot,
        b: Slot,
        w: u8,
    },
    SubSaturatingSigned {
        d: Slot,
        a: Slot,
        b: Slot,
        w: u8,
    },
    And {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Or {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Xor {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Shl {
        d: Slot,
        a: Slot,
        b: Slot,
        w: u8,
    },
    Shr {
        d: Slot,
        a: Slot,
        b: Slot,
        w: u8,
    },
    ShrSigned {
        d: Slot,
        a: Slot,
        b: Slot,
        w: u8,
    },
    Neg {
        d: Slot,
        a: Slot,
        w: u8,
    },
    Complement {
        d: Slot,
        a: Slot,
        w: u8,
    },
    Eq {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Ne {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Lt {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Le {
        d: Slot,
        a: Slot,
        b: Slot,
    },
    LtSigned {
        d: Slot,
        a: Slot,
        b: Slot,
        w: u8,
    },
    LeSigned {
        d: Slot,
        a: Slot,
        b: Slot,
        w: u8,
    },
    Concat {
        d: Slot,
        a: Slot,
        b: Slot,
        w: u8,
    },
    Slice {
        d: Slot,
        a: Slot,
        lo: u8,
        w: u8,
    },
    SignExtend {
        d: Slot,
        a: Slot,
        from: u8,
        w: u8,
    },
    /// Overwrites `w` bits of `d` from `lo` on.
    Deposit {
        d: Slot,
        a: Slot,
        lo: u8,
        w: u8,
    },
    /// Operation on numbers of more than one limb ([`Code::wides`]).
    Wide(u32),
    /// `d = all n limbs of a equal those of b`
    EqN {
        d: Slot,
        a: Slot,
        b: Slot,
        n: u32,
    },
    /// Adds an index to an address. Its bounds are in [`Code::strides`].
    Index {
        d: Slot,
        a: Slot,
        stride: u32,
    },
    /// Reads the element at an address relative to `base`.
    LoadAt {
        d: Slot,
        base: Slot,
        at: Slot,
    },
    /// Writes the element at an address relative to `base`.
    StoreAt {
        base: Slot,
        at: Slot,
        a: Slot,
    },
    /// The same with several limbs.
    LoadAtN(u32),
    StoreAtN(u32),
    Jump {
        to: Pc,
    },
    JumpIf {
        a: Slot,
        to: Pc,
    },
    JumpIfNot {
        a: Slot,
        to: Pc,
    },
    JumpEq {
        a: Slot,
        b: Slot,
        to: Pc,
    },
    JumpNe {
        a: Slot,
        b: Slot,
        to: Pc,
    },
    JumpLt {
        a: Slot,
        b: Slot,
        to: Pc,
    },
    JumpGe {
        a: Slot,
        b: Slot,
        to: Pc,
    },
    /// `@atomic` code begins.
    EnterAtomic,
    /// `@atomic` code ends.
    LeaveAtomic,
    /// Charges work units ([`ir::work`]). Drops the packet if it has too few left.
    Work {
        units: u32,
    },
    /// Runs an action. Its parameters are already stored.
    CallAction {
        action: u32,
    },
    /// Returns to the caller of the action.
    Return {
        a: Slot,
    },
    /// Looks up a table with the stored key, and runs the action of the entry.
    Apply {
        table: u32,
    },
    /// After `Apply`: jumps if no entry was hit.
    JumpIfMiss {
        to: Pc,
    },
    /// After `Apply`: jumps to the target for the action that ran ([`Code::switches`]).
    SwitchAction(u32),
    /// After `Apply`: `d = hit`.
    StoreHit {
        d: Slot,
    },
    /// After `Apply`: `d = position of the action`.
    StoreActionRun {
        d: Slot,
    },
    /// The control ends, or the parser accepts.
    End,
    /// The parser rejects.
    Reject {
        error: u32,
    },
    /// The parser rejects with the error in a slot.
    RejectWith {
        a: Slot,
    },
    /// `d = the key from slot a on is in the value set`
    InValueSet {
        d: Slot,
        a: Slot,
        set: u32,
    },
    /// Extracts a header. `at` is an address or `NONE`; `size` holds the varbit's bits or is
    /// `NONE`.
    Extract {
        header: u32,
        at: Slot,
        size: Slot,
    },
    /// Advances the parser's cursor.
    Advance {
        a: Slot,
    },
    /// Executes a lookahead ([`Code::lookaheads`]).
    Lookahead(u32),
    /// `d = the packet's length in bytes`
    PacketLength {
        d: Slot,
    },
    /// Emits a header if it is valid.
    Emit {
        header: u32,
        at: Slot,
    },
    /// Emits a scalar of `n` bits.
    EmitField {
        a: Slot,
        n: u32,
    },
    /// Emits a varbit.
    EmitVarbit {
        a: Slot,
    },
    /// Copies a header ([`Code::header_copies`]).
    CopyHeader(u32),
    /// Shifts a header stack ([`Code::stacks`]) up.
    PushFront {
        stack: u32,
        n: u32,
    },
    /// Shifts a header stack down.
    PopFront {
        stack: u32,
        n: u32,
    },
    /// Calls an extern ([`Code::calls`]).
    Call(u32),
    /// Traced code only: reports a step ([`Code::tells`]).
    Tell(u32),
}

/// Step to report to the tracer.
#[derive(Clone, Debug)]
pub(crate) enum Tell {
    State(ParserId, StateId),
    Stage(ControlId, StageId),
    Condition(bool),
    /// A case of a select was chosen: slots and widths of the keys, index of the case, target.
    Select(Vec<(Slot, u32)>, Option<usize>, Target),
    Action(ActionId),
    Exit,
    /// A statement begins: saves all fields.
    Before,
    /// A statement has ended: reports the fields that it wrote.
    After(FieldId, Option<Loc>),
    /// A call is done ([`Code::calls`]), or is about to be made if it may end the run.
    Call(u32, Box<ir::Call>, Option<Loc>),
    /// A loop begins.
    Loop(u32),
    /// An iteration of a loop begins.
    Round(u32, Option<Loc>),
    /// A loop has ended.
    LoopLeft(u32),
}

/// Bounds of an index: number of elements, and limbs from one to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stride {
    pub(crate) len: u32,
    pub(crate) limbs: u32,
}

/// Read or write of several limbs at an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtN {
    pub(crate) base: Slot,
    pub(crate) at: Slot,
    /// Slot of the other operand.
    pub(crate) slot: Slot,
    pub(crate) n: u32,
}

/// Copy of a header, with the slots of the addresses to add, or `NONE`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderCopyAt {
    pub(crate) copy: HeaderCopy,
    pub(crate) dst_at: Slot,
    pub(crate) src_at: Slot,
}

/// Action: its code and the slots of its parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActionCode {
    pub(crate) entry: Pc,
    pub(crate) params: Slot,
    pub(crate) param_limbs: u32,
    /// Slot of the return address.
    pub(crate) ret: Slot,
    /// True if the action has no instructions.
    pub(crate) is_empty: bool,
}

/// Code of a whole program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    pub(crate) insts: Vec<Inst>,
    pub(crate) parsers: IdVec<ParserId, Pc>,
    pub(crate) controls: IdVec<ControlId, Pc>,
    pub(crate) actions: IdVec<ActionId, ActionCode>,
    pub(crate) tables: IdVec<TableId, TableSite>,
    pub(crate) wides: Vec<WideStep>,
    pub(crate) strides: Vec<Stride>,
    pub(crate) at_ns: Vec<AtN>,
    pub(crate) switches: Vec<Box<[Pc]>>,
    pub(crate) headers: Vec<HeaderSite>,
    pub(crate) lookaheads: Vec<Lookahead>,
    pub(crate) header_copies: Vec<HeaderCopyAt>,
    pub(crate) stacks: Vec<StackSite>,
    pub(crate) calls: Vec<ExternCall>,
    pub(crate) tells: Vec<Tell>,
    pub(crate) errors: ParserErrors,
    pub(crate) first_constant: Slot,
    pub(crate) constants: Vec<u64>,
    /// The first slot for operands of wide operations.
    pub(crate) wide_scratch: Slot,
    /// Number of limbs after the frame.
    pub(crate) scratch_limbs: usize,
}
