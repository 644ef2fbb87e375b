//! Code: pure expressions, statements, and calls of extern functions.
//!
//! Expressions have no effects: whatever has one is a statement with explicit destinations, in the order of P4's evaluation rules. Control flow in
//! code is structured (blocks to leave and loops to continue, as in WebAssembly), so every engine can translate it in one walk.

use bits::{Value, define_id};

use crate::ops::Op;
use crate::program::{ActionId, ExternId, FieldId, HeaderId, Loc, StackId};
use crate::types::ScalarTy;

define_id! {
    /// A block or loop that code can leave or continue; unique within its body.
    pub struct LabelId;
}

/// A choice made at run time: of an element of a stack or array.
#[derive(Clone, Debug, PartialEq)]
pub struct Dim {
    /// The index.
    pub index: Expr,
    /// How many elements there are; an index outside reads zero and writes nothing.
    pub len: u32,
    /// How many fields (for a [`Place`]) or headers (for a [`HeaderPlace`]) lie between two elements.
    pub stride: u32,
}

/// A scalar location: `base`, or an element at run time.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The field, of the elements with index 0.
    pub base: FieldId,
    /// Indices known at run time only.
    pub dims: Vec<Dim>,
}

impl From<FieldId> for Place {
    fn from(base: FieldId) -> Self {
        Place {
            base,
            dims: Vec::new(),
        }
    }
}

/// A header: `base`, or an element of a stack at run time.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderPlace {
    /// The header, of the elements with index 0.
    pub base: HeaderId,
    /// Indices known at run time only; strides count headers.
    pub dims: Vec<Dim>,
}

impl From<HeaderId> for HeaderPlace {
    fn from(base: HeaderId) -> Self {
        HeaderPlace {
            base,
            dims: Vec::new(),
        }
    }
}

/// An expression without effects.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A constant; the value's width is the type's.
    Const(ScalarTy, Value),
    /// The value of a location. A `varbit` may only be read where a statement says so.
    Read(Place),
    /// A parameter of the action that this code belongs to.
    Param(u32),
    /// A unary operation.
    Unary(UnOp, Box<Expr>),
    /// A binary operation. Both operands have one type, but for shifts (the amount is any `bit`).
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// `{a, b}`: the bits of `a`, then those of `b`; the result has the signedness of `a`.
    Concat(Box<Expr>, Box<Expr>),
    /// Bits `hi` down to `lo`, unsigned.
    Slice(Box<Expr>, u32, u32),
    /// To another type: extension by the source's signedness, or truncation; also between `bool`, `error`, enums and `bit` of their width.
    Cast(ScalarTy, Box<Expr>),
    /// `c ? a : b`; only the chosen one is evaluated.
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Whether two `varbit`s are equal in length and bits.
    VarbitEq(Place, Place),
    /// The length in bits of a `varbit`, as `bit<32>`.
    VarbitLen(Place),
}

/// Unary operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnOp {
    /// Two's complement negation.
    Neg,
    /// All bits inverted.
    Complement,
    /// `!` of a `bool`.
    Not,
}

/// Binary operations. Arithmetic wraps; `Saturating` ones stop at the type's bounds. Comparisons give `bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/` (unsigned operands; division by zero gives zero)
    Div,
    /// `%` (unsigned operands; modulo zero gives zero)
    Mod,
    /// `|+|`
    AddSaturating,
    /// `|-|`
    SubSaturating,
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// `<<`
    Shl,
    /// `>>`: arithmetic for `int`, logical for `bit`
    Shr,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `&&`: the right side is evaluated only when the left is true
    LogicalAnd,
    /// `||`: the right side is evaluated only when the left is false
    LogicalOr,
}

/// A statement with the place that it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// What it does.
    pub kind: StmtKind,
    /// Where it stands in the source.
    pub loc: Option<Loc>,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// Writes a scalar; both sides have the same type.
    Assign(Place, Expr),
    /// Writes bits `hi` down to `lo` of a scalar.
    AssignSlice(Place, u32, u32, Expr),
    /// Copies a `varbit`, its length included.
    AssignVarbit(Place, Place),
    /// Empties a `varbit`.
    ClearVarbit(Place),
    /// Copies all fields and the validity of a header to another of the same type.
    CopyHeader(HeaderPlace, HeaderPlace),
    /// `if`
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// Runs a body that `Leave(label)` leaves.
    Block(LabelId, Vec<Stmt>),
    /// Runs a body over and over until something leaves an enclosing block; each round takes work ([`crate::work`]). `Continue(label)` starts the next.
    Loop(LabelId, Vec<Stmt>),
    /// Leaves the block or loop.
    Leave(LabelId),
    /// Starts the next round of the loop.
    Continue(LabelId),
    /// A body that runs as one step with regard to other packets (`@atomic`).
    Atomic(Vec<Stmt>),
    /// Ends the control or parser that this code belongs to (P4 `exit`).
    Exit,
    /// Runs an action's body here, with these parameters; an `Exit` in it is an exit here.
    CallAction(ActionId, Vec<Expr>),
    /// Parser: extracts a header of fixed size, or one with a `varbit` of the given size in bits (`bit<32>`). In this order: a header inside a stack
    /// out of range is `error.StackOutOfBounds`; too short a packet is `error.PacketTooShort`; a size above the maximum is `error.HeaderTooShort`.
    Extract(HeaderPlace, Option<Expr>),
    /// Parser: skips bits (`bit<32>`).
    Advance(Expr),
    /// Parser: reads ahead without moving: `total` bits must be there; each destination gets the bits that start at its offset.
    Lookahead {
        /// Bits that must be there.
        total: u32,
        /// Destinations and the offset of each, in bits.
        dests: Vec<(Place, u32)>,
    },
    /// Parser: the packet's remaining length in bytes plus what was consumed, `bit<32>` (`packet.length()`).
    PacketLength(Place),
    /// Parser: `verify(cond, error)`: when the condition fails, sets the error and rejects.
    Verify(Expr, Expr),
    /// Parser: fails with an error, as `verify(false, error)`.
    Fail(u32),
    /// Deparser: appends a header if it is valid.
    Emit(HeaderPlace),
    /// Deparser: appends scalars (of a struct that is no header).
    EmitField(Place),
    /// `push_front(n)`
    PushFront(StackId, u32),
    /// `pop_front(n)`
    PopFront(StackId, u32),
    /// Calls an extern function or method.
    Call(Call),
}

/// A call of an extern function or method.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// What is called; [`Op::signature`] says what operands it takes.
    pub op: Op,
    /// The instance, for methods.
    pub instance: Option<ExternId>,
    /// The operands, in the signature's order.
    pub operands: Vec<Operand>,
}

/// An operand of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A value.
    In(Expr),
    /// A destination.
    Out(Place),
    /// A list of values: fields to hash, sum, send. A `varbit` is an [`Expr::Read`] here and counts with its current length.
    Data(Vec<Expr>),
    /// A list of destinations.
    Outs(Vec<Place>),
    /// A text (log messages, digest names).
    Text(String),
    /// A number known at compile time (algorithms, field list indices, flags).
    Number(u64),
}
