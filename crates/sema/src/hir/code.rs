//! Statements, expressions and calls.

use std::sync::Arc;

use num_bigint::BigInt;
use syntax::ast::{BinaryOp, UnaryOp};
use syntax::source::Span;

use super::{
    ActionId, Annotation, EnumId, ErrorId, ExternFnId, ExternId, FunctionId, InstanceId,
    MatchKindId, TableId, TyId, VarId,
};
/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// Its kind.
    pub kind: StmtKind,
    /// Source position.
    pub span: Span,
}

/// Kind of a statement.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// Declares a local variable. Without initializer its value is unspecified (headers are
    /// invalid).
    Var(VarId, Option<Expr>),
    /// `lvalue = e`
    Assign(Expr, Expr),
    /// `lvalue op= e`: the l-value is evaluated once.
    CompoundAssign(Expr, BinaryOp, Expr),
    /// A call.
    Call(Call, TyId),
    /// `if`
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// A block, with annotations such as `@atomic`.
    Block(Vec<Stmt>, Vec<Annotation>),
    /// `return`
    Return(Option<Expr>),
    /// `exit`
    Exit,
    /// `break`
    Break,
    /// `continue`
    Continue,
    /// `switch (t.apply().action_run)`
    SwitchAction {
        /// The table.
        table: TableId,
        /// For each case its action indices (in the table's list) and its body. The indices are
        /// empty if the only label is `default`. Labels that fall through are merged into the case
        /// with the body; without one, the body is empty.
        cases: Vec<SwitchCase<usize>>,
    },
    /// `switch (e)` on a value.
    SwitchValue {
        /// The expression.
        value: Expr,
        /// Literals and body of each case.
        cases: Vec<SwitchCase<Expr>>,
    },
    /// `for (init; cond; update) body`
    For {
        /// Runs before the first iteration.
        init: Vec<Stmt>,
        /// Tested before each iteration.
        cond: Expr,
        /// Runs after each iteration.
        update: Vec<Stmt>,
        /// The body.
        body: Vec<Stmt>,
        /// `@unroll` and similar.
        annotations: Vec<Annotation>,
    },
    /// `for (T x in collection) body`
    ForIn {
        /// The loop variable.
        var: VarId,
        /// The collection.
        collection: Collection,
        /// The body.
        body: Vec<Stmt>,
        /// `@unroll` and similar.
        annotations: Vec<Annotation>,
    },
}

/// Collection of a `for .. in` loop.
#[derive(Clone, Debug)]
pub enum Collection {
    /// `lo .. hi`, both included.
    Range(Expr, Expr),
    /// A stack, array, list or tuple.
    Elements(Expr),
}

/// One case of a switch.
#[derive(Clone, Debug)]
pub struct SwitchCase<L> {
    /// Its labels.
    pub labels: Vec<L>,
    /// True if `default` is among them.
    pub is_default: bool,
    /// Its body.
    pub body: Vec<Stmt>,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// Its type.
    pub ty: TyId,
    /// Source position.
    pub span: Span,
}

/// Kind of an expression.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A literal of `bit`, `int`, arbitrary-precision `int`, a `type` of those, or a serializable
    /// enum given by number.
    Int(BigInt),
    /// `true`, `false`
    Bool(bool),
    /// A string.
    String(Arc<str>),
    /// A member of an enum, by position.
    EnumMember(EnumId, usize),
    /// An error code.
    ErrorCode(ErrorId),
    /// A match kind.
    MatchKind(MatchKindId),
    /// A variable or parameter.
    Var(VarId),
    /// An instance: of an extern, parser or control.
    Instance(InstanceId),
    /// A table (receiver of `apply`).
    Table(TableId),
    /// `this`
    This,
    /// An action with arguments, as a property value.
    ActionCall(ActionId, Vec<Arg>),
    /// A field by position: of a header, union, struct or tuple.
    Field(Box<Expr>, usize),
    /// An element of a stack, array or list.
    Index(Box<Expr>, Box<Expr>),
    /// `stack.next`
    StackNext(Box<Expr>),
    /// `stack.last`
    StackLast(Box<Expr>),
    /// `stack.lastIndex`: `bit<32>`
    StackLastIndex(Box<Expr>),
    /// `stack.size` of a type that is not closed (folded otherwise): `bit<32>`
    StackSize(Box<Expr>),
    /// `e[hi:lo]`
    Slice(Box<Expr>, u32, u32),
    /// A unary operation.
    Unary(UnaryOp, Box<Expr>),
    /// A binary operation. Both operands have the same type, except for shifts and `++`.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? a : b`
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A cast to the expression's type.
    Cast(Box<Expr>),
    /// A value of a header (valid), struct, tuple, stack or list: all elements, in order.
    Aggregate(Vec<Expr>),
    /// `{#}`: an invalid header or union.
    InvalidHeader,
    /// The default value of the type (`...`): zeros, invalid headers.
    Default,
    /// A call with a result.
    Call(Call),
    /// `t.apply().hit`, `.miss`, `.action_run`
    ApplyResult(TableId, ApplyMember),
}

/// A member of the result of `t.apply()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyMember {
    /// `.hit`
    Hit,
    /// `.miss`
    Miss,
    /// `.action_run`
    ActionRun,
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The callee.
    pub callee: Callee,
    /// Type arguments of the callee's own type parameters, given or inferred.
    pub type_args: Vec<TyId>,
    /// The arguments, one for each parameter, in the parameters' order.
    pub args: Vec<Arg>,
    /// The parameters in the order in which the call gives their arguments. Empty if that is the
    /// order of the parameters.
    pub order: Vec<usize>,
    /// Source position of the whole call.
    pub span: Span,
}

/// An argument.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A value or, for `out` and `inout`, an l-value.
    Expr(Expr),
    /// `_` for an `out` parameter, or an omitted `@optional` parameter.
    Omitted,
}

/// Callee of a call.
#[derive(Clone, Debug)]
pub enum Callee {
    /// A function.
    Function(FunctionId),
    /// An action, called directly.
    Action(ActionId),
    /// An extern function.
    ExternFunction(ExternFnId),
    /// A method of an extern object: an instance, a parameter or `this`.
    ExternMethod {
        /// The object.
        object: Box<Expr>,
        /// Its extern.
        extern_id: ExternId,
        /// The method's index.
        method: usize,
    },
    /// `apply` of a table.
    Table(TableId),
    /// `apply` of a parser or control: an instance or a constructor parameter.
    Apply(Box<Expr>),
    /// A method that the language defines.
    Builtin(Builtin, Box<Expr>),
}

/// Methods that the language defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// `isValid()` of a header or union
    IsValid,
    /// `setValid()`
    SetValid,
    /// `setInvalid()`
    SetInvalid,
    /// `push_front(n)`
    PushFront,
    /// `pop_front(n)`
    PopFront,
    /// `minSizeInBits()` of a type that is not closed; folded otherwise
    MinSizeInBits,
    /// `minSizeInBytes()`
    MinSizeInBytes,
    /// `maxSizeInBits()`
    MaxSizeInBits,
    /// `maxSizeInBytes()`
    MaxSizeInBytes,
}
