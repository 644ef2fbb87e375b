//! Code: pure expressions, statements, and calls of extern functions.
//!
//! Expressions have no side effects. An operation with a side effect is a statement with explicit
//! destinations, in P4's evaluation order. Control flow is structured (blocks to leave and loops to
//! continue, as in WebAssembly), so every engine can translate it in one walk.

use bits::{Value, define_id};

use crate::ops::Op;
use crate::program::{ActionId, ExternId, FieldId, HeaderId, Loc, StackId};
use crate::types::ScalarTy;

define_id! {
    /// A block or loop that code can leave or continue; unique within its body.
    pub struct LabelId;
}

/// An index that is known only at run time, into a stack or array.
#[derive(Clone, Debug, PartialEq)]
pub struct Dim {
    /// The index.
    pub index: Expr,
    /// Number of elements. An index out of range reads zero and writes nothing.
    pub len: u32,
    /// Distance of two elements, in fields (for a [`Place`]) or headers (for a [`HeaderPlace`]).
    pub stride: u32,
}

/// A scalar location: `base`, or an element selected at run time.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The field, of the elements with index 0.
    pub base: FieldId,
    /// Indices known only at run time.
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

/// A header: `base`, or an element of a stack selected at run time.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderPlace {
    /// The header, of the elements with index 0.
    pub base: HeaderId,
    /// Indices known only at run time. Strides count headers.
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
    /// The value of a location. A `varbit` may only be read in operands that allow it.
    Read(Place),
    /// A parameter of the action that this code belongs to.
    Param(u32),
    /// A unary operation.
    Unary(UnOp, Box<Expr>),
    /// A binary operation. Both operands have one type, except for shifts (the amount is any
    /// `bit`).
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// `{a, b}`: the bits of `a`, then those of `b`. The result has the signedness of `a`.
    Concat(Box<Expr>, Box<Expr>),
    /// Bits `hi` down to `lo`, unsigned.
    Slice(Box<Expr>, u32, u32),
    /// A cast: extension by the source's signedness, or truncation. Also between `bool`, `error`,
    /// enums and `bit` of their width.
    Cast(ScalarTy, Box<Expr>),
    /// `c ? a : b`; only the selected operand is evaluated.
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Equality of two `varbit`s: same length and same bits.
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

/// Binary operations. Arithmetic wraps; the `Saturating` operations saturate at the type's bounds.
/// Comparisons yield `bool`.
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

/// A statement with its source position.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// Its operation.
    pub kind: StmtKind,
    /// Source position.
    pub loc: Option<Loc>,
}

/// Operation of a statement.
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
    /// Runs a body, which `Leave(label)` leaves.
    Block(LabelId, Vec<Stmt>),
    /// Repeats a body until something leaves an enclosing block. Each iteration is charged to the
    /// work budget ([`crate::work`]). `Continue(label)` starts the next one.
    Loop(LabelId, Vec<Stmt>),
    /// Leaves the block or loop.
    Leave(LabelId),
    /// Starts the next iteration of the loop.
    Continue(LabelId),
    /// A body that runs atomically with respect to other packets (`@atomic`).
    Atomic(Vec<Stmt>),
    /// Ends the control or parser that this code belongs to (P4 `exit`).
    Exit,
    /// Runs an action's body here, with these arguments. An `Exit` in it is an exit here.
    CallAction(ActionId, Vec<Expr>),
    /// Parser: extracts a header of fixed size, or one with a `varbit` of the given size in bits
    /// (`bit<32>`). The checks, in this order: a stack index out of range is
    /// `error.StackOutOfBounds`, too short a packet is `error.PacketTooShort`, a size above the
    /// maximum is `error.HeaderTooShort`.
    Extract(HeaderPlace, Option<Expr>),
    /// Parser: skips bits (`bit<32>`).
    Advance(Expr),
    /// Parser: reads ahead without advancing. The packet must have `total` more bits. Each
    /// destination gets the bits that start at its offset.
    Lookahead {
        /// Number of bits required.
        total: u32,
        /// Destinations and their offsets in bits.
        dests: Vec<(Place, u32)>,
    },
    /// Parser: the length of the packet in bytes, consumed bytes included, as `bit<32>`
    /// (`packet.length()`).
    PacketLength(Place),
    /// Parser: `verify(cond, error)`. If the condition is false, sets the error and rejects.
    Verify(Expr, Expr),
    /// Parser: fails with an error, like `verify(false, error)`.
    Fail(u32),
    /// Deparser: appends a header if it is valid.
    Emit(HeaderPlace),
    /// Deparser: appends a scalar (of a struct).
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
    /// The callee. [`Op::signature`] gives its operands.
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
    /// A list of values: fields to hash, sum or send. A `varbit` is an [`Expr::Read`] here and
    /// counts with its current length.
    Data(Vec<Expr>),
    /// A list of destinations.
    Outs(Vec<Place>),
    /// A text (log message, digest name).
    Text(String),
    /// A number known at compile time (algorithms, field list indices, flags).
    Number(u64),
}
