//! The typed program: output of `sema` and input of `lower`.
//!
//! Every name is resolved to an id and every expression has its type. Every generic call has its
//! type arguments. Every argument list is complete and in the order of the parameters: named
//! arguments are sorted and defaults filled in. Every compile-time known scalar expression is
//! folded to a literal.
//!
//! Invariants on which `lower` relies, if `check` has returned a program without errors:
//!
//! - No [`Ty::Error`] remains. [`Ty::Integer`] is the type of literals, constructor arguments and
//!   operands that are literals only.
//! - Literals of `bit<w>`, `int<w>` are in the range of their type (wrapped with a warning if the
//!   source was not).
//! - Implicit casts are explicit [`ExprKind::Cast`]s. Aggregates have the type of their target and
//!   all its fields in order.
//! - Types inside generic functions and externs may be [`Ty::Var`]; all other types are closed.

mod code;

use std::collections::HashMap;
use std::sync::Arc;

use bits::{IdVec, define_id};
use num_bigint::BigInt;
use syntax::ast::{AnnotationToken, Direction, Name, RecordKind};
use syntax::source::Span;

pub use code::*;

define_id! {
    /// An interned type.
    pub struct TyId;
}
define_id! {
    /// A type parameter.
    pub struct TypeVarId;
}
define_id! {
    /// A header, header union or struct declaration.
    pub struct RecordId;
}
define_id! {
    /// An enum declaration.
    pub struct EnumId;
}
define_id! {
    /// A `type` declaration.
    pub struct NewTypeId;
}
define_id! {
    /// An extern object type.
    pub struct ExternId;
}
define_id! {
    /// An extern function.
    pub struct ExternFnId;
}
define_id! {
    /// A function with a body: declared, or the body of an abstract method.
    pub struct FunctionId;
}
define_id! {
    /// An action.
    pub struct ActionId;
}
define_id! {
    /// A parser with states.
    pub struct ParserId;
}
define_id! {
    /// A control with a body.
    pub struct ControlId;
}
define_id! {
    /// A parser type, control type or package declaration.
    pub struct BlockTypeId;
}
define_id! {
    /// A table.
    pub struct TableId;
}
define_id! {
    /// A value set of a parser.
    pub struct ValueSetId;
}
define_id! {
    /// An instance declaration `T(args) name;`, or the instance of a direct application or of an
    /// argument constructed in place.
    pub struct InstanceId;
}
define_id! {
    /// A variable or parameter, unique in the program.
    pub struct VarId;
}
define_id! {
    /// A parser state within its parser.
    pub struct StateId;
}
define_id! {
    /// An error code, in order of declaration (`NoError` is 0).
    pub struct ErrorId;
}
define_id! {
    /// A match kind, in order of declaration.
    pub struct MatchKindId;
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// The type of an expression with a reported error; compatible with every type.
    Error,
    /// `void`
    Void,
    /// `bool`
    Bool,
    /// `string`
    String,
    /// `error`
    ErrorCode,
    /// `match_kind`
    MatchKind,
    /// `int` of arbitrary precision.
    Integer,
    /// `bit<width>`
    Bit(u32),
    /// `int<width>`
    Int(u32),
    /// `varbit<max width>`
    Varbit(u32),
    /// An enum.
    Enum(EnumId),
    /// A header, header union or struct, with its type arguments.
    Record(RecordId, Vec<TyId>),
    /// `T[n]`: a header stack or array.
    Stack(TyId, u32),
    /// `tuple<..>`
    Tuple(Vec<TyId>),
    /// `list<T>`
    List(TyId),
    /// A `type`.
    NewType(NewTypeId),
    /// An extern object, with its type arguments.
    Extern(ExternId, Vec<TyId>),
    /// A parser declared with a body.
    Parser(ParserId),
    /// A control declared with a body.
    Control(ControlId),
    /// A parser type, control type or package, with its type arguments.
    BlockType(BlockTypeId, Vec<TyId>),
    /// An action as a value (`default_action`).
    Action,
    /// A table as a value (the callee of `apply`).
    Table(TableId),
    /// The struct that `t.apply()` returns.
    ApplyResult(TableId),
    /// The enum of a table's actions, `action_run`.
    ActionEnum(TableId),
    /// A set of `T`: masks, ranges, value sets.
    Set(TyId),
    /// A type parameter.
    Var(TypeVarId),
}

/// Interned types: equal types have equal ids.
#[derive(Clone, Debug, Default)]
pub struct Types {
    all: IdVec<TyId, Ty>,
    ids: HashMap<Ty, TyId>,
}

impl Types {
    /// Returns the id of `ty`.
    pub fn intern(&mut self, ty: Ty) -> TyId {
        if let Some(&id) = self.ids.get(&ty) {
            return id;
        }
        let id = self.all.push(ty.clone());
        self.ids.insert(ty, id);
        id
    }

    /// Returns the type with this id.
    pub fn get(&self, id: TyId) -> &Ty {
        &self.all[id]
    }
}

/// An annotation with evaluated expressions.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// Its name.
    pub name: Name,
    /// Its body.
    pub body: AnnotationBody,
    /// Source position.
    pub span: Span,
}

/// Body of an annotation.
#[derive(Clone, Debug)]
pub enum AnnotationBody {
    /// Nothing.
    None,
    /// Tokens of an unstructured annotation.
    Tokens(Vec<AnnotationToken>),
    /// `[e1, e2]`
    Expressions(Vec<AnnotationValue>),
    /// `[k = e]`
    KeyValues(Vec<(Name, AnnotationValue)>),
}

/// A compile-time value in a structured annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnnotationValue {
    /// A string.
    String(Arc<str>),
    /// An integer.
    Int(BigInt),
    /// A boolean.
    Bool(bool),
}

/// The typed program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Interned types.
    pub types: Types,
    /// Names of type parameters.
    pub type_vars: IdVec<TypeVarId, Name>,
    /// Headers, header unions and structs.
    pub records: IdVec<RecordId, Record>,
    /// Enums.
    pub enums: IdVec<EnumId, Enum>,
    /// `type`s.
    pub new_types: IdVec<NewTypeId, NewType>,
    /// Error codes.
    pub errors: IdVec<ErrorId, Name>,
    /// Match kinds.
    pub match_kinds: IdVec<MatchKindId, Name>,
    /// Extern object types.
    pub externs: IdVec<ExternId, Extern>,
    /// Extern functions.
    pub extern_functions: IdVec<ExternFnId, Prototype>,
    /// Functions with bodies.
    pub functions: IdVec<FunctionId, Function>,
    /// Actions, of the top level and of controls.
    pub actions: IdVec<ActionId, Action>,
    /// Parsers.
    pub parsers: IdVec<ParserId, Parser>,
    /// Controls.
    pub controls: IdVec<ControlId, Control>,
    /// Parser types, control types and packages.
    pub block_types: IdVec<BlockTypeId, BlockType>,
    /// Tables.
    pub tables: IdVec<TableId, Table>,
    /// Value sets.
    pub value_sets: IdVec<ValueSetId, ValueSet>,
    /// All instances, wherever they are declared.
    pub instances: IdVec<InstanceId, Instance>,
    /// All variables and parameters.
    pub vars: IdVec<VarId, Var>,
    /// The instances of the top level, in order; `main` is the package instance of that name.
    pub globals: Vec<InstanceId>,
    /// The instance named `main`, if there is one.
    pub main: Option<InstanceId>,
    /// Type declarations in source order, for P4Info's type specifications.
    pub type_order: Vec<TyId>,
    /// Constants of the top level with their values, in source order.
    pub constants: Vec<(Name, Expr)>,
    /// Blocks `extern "C" { .. }`, in source order.
    pub foreign: Vec<ForeignBlock>,
    /// Annotations on the `main` package instance, or on declarations that are not kept (`@pkginfo`
    /// and similar).
    pub package_annotations: Vec<Annotation>,
}

/// A block of text in C.
#[derive(Clone, Debug)]
pub struct ForeignBlock {
    /// The text between the braces.
    pub text: Arc<str>,
    /// Position of the block, braces included.
    pub span: Span,
}

/// A header, header union or struct.
#[derive(Clone, Debug)]
pub struct Record {
    /// Header, header union or struct.
    pub kind: RecordKind,
    /// Its name.
    pub name: Name,
    /// Its type parameters.
    pub type_params: Vec<TypeVarId>,
    /// Its fields, in order; their types may mention the type parameters.
    pub fields: Vec<Field>,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// A field of a record.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub ty: TyId,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// An enum.
#[derive(Clone, Debug)]
pub struct Enum {
    /// Its name.
    pub name: Name,
    /// The underlying type of a serializable enum: `bit<w>` or `int<w>`, or a `type` of these.
    pub underlying: Option<TyId>,
    /// Its members. Those of a serializable enum have values.
    pub members: Vec<(Name, Option<BigInt>)>,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// A `type` declaration.
#[derive(Clone, Debug)]
pub struct NewType {
    /// Its name.
    pub name: Name,
    /// Its underlying type (may be another `type`).
    pub underlying: TyId,
    /// Its annotations (`@p4runtime_translation`).
    pub annotations: Vec<Annotation>,
}

/// Kind of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarKind {
    /// A parameter of a parser, control, function, method or action.
    Param(Direction),
    /// A constructor parameter.
    CtorParam,
    /// A local variable.
    Local,
}

/// A variable or parameter.
#[derive(Clone, Debug)]
pub struct Var {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub ty: TyId,
    /// Its kind.
    pub kind: VarKind,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// A parameter of a prototype.
#[derive(Clone, Debug)]
pub struct Param {
    /// The parameter as a variable: its name, type and direction.
    pub var: VarId,
    /// True if it may be omitted (`@optional`).
    pub optional: bool,
    /// Its default value.
    pub default: Option<Expr>,
}

/// The signature of a function, method or constructor.
#[derive(Clone, Debug)]
pub struct Prototype {
    /// Its name.
    pub name: Name,
    /// Its own type parameters.
    pub type_params: Vec<TypeVarId>,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its return type; `void` for a constructor.
    pub ret: TyId,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// An extern object type.
#[derive(Clone, Debug)]
pub struct Extern {
    /// Its name.
    pub name: Name,
    /// Its type parameters.
    pub type_params: Vec<TypeVarId>,
    /// Its constructors.
    pub constructors: Vec<Prototype>,
    /// Its methods.
    pub methods: Vec<Method>,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// A method of an extern.
#[derive(Clone, Debug)]
pub struct Method {
    /// Its signature.
    pub proto: Prototype,
    /// True if it is abstract: the instance defines it.
    pub is_abstract: bool,
}

/// A function with a body.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its signature.
    pub proto: Prototype,
    /// Its body.
    pub body: Vec<Stmt>,
}

/// An action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its name.
    pub name: Name,
    /// Its parameters. Directionless ones come last and are bound by the control plane (or by a
    /// call).
    pub params: Vec<Param>,
    /// Its body.
    pub body: Vec<Stmt>,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
    /// The control that declares it; `None` at the top level.
    pub control: Option<ControlId>,
}

/// A parser type, control type or package.
#[derive(Clone, Debug)]
pub struct BlockType {
    /// Parser type, control type or package.
    pub kind: BlockTypeKind,
    /// Its name.
    pub name: Name,
    /// Its type parameters.
    pub type_params: Vec<TypeVarId>,
    /// Parameters of the parser or control; constructor parameters of the package.
    pub params: Vec<Param>,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// Kind of a [`BlockType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockTypeKind {
    /// A parser type.
    Parser,
    /// A control type.
    Control,
    /// A package.
    Package,
}

/// A parser.
#[derive(Clone, Debug)]
pub struct Parser {
    /// Its name.
    pub name: Name,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its constructor parameters.
    pub ctor_params: Vec<Param>,
    /// Local variables and instances, in order.
    pub locals: Vec<LocalDecl>,
    /// Its states, in order; `accept` and `reject` are not among them.
    pub states: IdVec<StateId, State>,
    /// The state named `start`.
    pub start: StateId,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// A declaration inside a parser or control that takes effect at each invocation, in order.
#[derive(Clone, Debug)]
pub enum LocalDecl {
    /// A variable, initialised at each invocation.
    Var(VarId, Option<Expr>),
    /// An instance.
    Instance(InstanceId),
    /// A value set.
    ValueSet(ValueSetId),
    /// A table.
    Table(TableId),
    /// An action.
    Action(ActionId),
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct State {
    /// Its name.
    pub name: Name,
    /// Its statements.
    pub body: Vec<Stmt>,
    /// Its transition.
    pub transition: Transition,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// Target of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `accept`
    Accept,
    /// `reject`
    Reject,
    /// A state.
    State(StateId),
}

/// Transition at the end of a state.
#[derive(Clone, Debug)]
pub enum Transition {
    /// Always to one target.
    Direct(Target),
    /// To the target of the first matching case. If none matches, the error is `error.NoMatch`.
    Select {
        /// The selected expressions.
        args: Vec<Expr>,
        /// The cases.
        cases: Vec<SelectCase>,
        /// Source position of the whole select.
        span: Span,
    },
}

/// A case of a select.
#[derive(Clone, Debug)]
pub struct SelectCase {
    /// One set for each selected expression, or a single value set for all of them.
    pub keyset: Keyset,
    /// Target of the transition.
    pub target: Target,
    /// Source position.
    pub span: Span,
}

/// Sets of values that a case or an entry matches.
#[derive(Clone, Debug)]
pub enum Keyset {
    /// One set for each key.
    Sets(Vec<KeySet>),
    /// A value set with elements that cover all keys (a struct or tuple, or a single scalar).
    ValueSet(ValueSetId),
}

/// A set of values of one key.
#[derive(Clone, Debug)]
pub enum KeySet {
    /// `default` or `_`.
    Any,
    /// One value.
    Value(Expr),
    /// `value &&& mask`
    Mask(Expr, Expr),
    /// `lo .. hi`
    Range(Expr, Expr),
    /// A value set for this key only.
    ValueSet(ValueSetId),
}

/// A value set.
#[derive(Clone, Debug)]
pub struct ValueSet {
    /// Its name.
    pub name: Name,
    /// The type of its elements: a scalar, a struct with `@match` annotations, or a tuple.
    pub element: TyId,
    /// Its capacity.
    pub size: Expr,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// A control.
#[derive(Clone, Debug)]
pub struct Control {
    /// Its name.
    pub name: Name,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its constructor parameters.
    pub ctor_params: Vec<Param>,
    /// Its declarations, in order.
    pub locals: Vec<LocalDecl>,
    /// Its `apply` block.
    pub body: Vec<Stmt>,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name.
    pub name: Name,
    /// Its key, in order.
    pub keys: Vec<Key>,
    /// Its actions, in order. `NoAction` is added where the specification requires it.
    pub actions: Vec<TableAction>,
    /// Its default action; `NoAction` if none was written and the list has it.
    pub default_action: Option<ActionCall>,
    /// True if `const default_action` was written.
    pub default_is_const: bool,
    /// Its entries.
    pub entries: Vec<Entry>,
    /// True if `const entries` was written.
    pub entries_are_const: bool,
    /// `largest_priority_wins` (true by default).
    pub largest_priority_wins: bool,
    /// Its size; may mention constructor parameters.
    pub size: Option<Expr>,
    /// All other properties (`implementation`, `counters`, `meters`, `psa_direct_counter`,
    /// `support_timeout`, ...).
    pub properties: Vec<Property>,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
    /// Source position of its declaration.
    pub span: Span,
}

/// One element of a table's key.
#[derive(Clone, Debug)]
pub struct Key {
    /// The expression.
    pub expr: Expr,
    /// The match kind.
    pub match_kind: MatchKindId,
    /// Its name in the control plane: `@name`, else the expression's text, as in `h.src & 0xFFFF`.
    pub control_plane_name: Arc<str>,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// An action in a table's list.
#[derive(Clone, Debug)]
pub struct TableAction {
    /// The action.
    pub action: ActionId,
    /// Arguments for its directional parameters, in order; `None` for those bound by the control
    /// plane.
    pub args: Vec<Option<Arg>>,
    /// The parameters in the order in which the list gives them, as in [`Call::order`].
    pub order: Vec<usize>,
    /// Its annotations (`@tableonly`, `@defaultonly`).
    pub annotations: Vec<Annotation>,
}

/// An action with its control-plane arguments, in a default action or entry.
#[derive(Clone, Debug)]
pub struct ActionCall {
    /// Index into the table's actions.
    pub action: usize,
    /// Values of the directionless parameters, in order.
    pub args: Vec<Expr>,
    /// Source position.
    pub span: Span,
}

/// A table entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// One set for each key.
    pub keys: Vec<KeySet>,
    /// Its action.
    pub action: ActionCall,
    /// The priority that the specification assigns (section 14.2.1.4); `None` if the key needs
    /// none.
    pub priority: Option<BigInt>,
    /// True if it may not be changed.
    pub is_const: bool,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
    /// Source position.
    pub span: Span,
}

/// Another property of a table.
#[derive(Clone, Debug)]
pub struct Property {
    /// Its name.
    pub name: Name,
    /// Its value: an instance, a literal, a list.
    pub value: Expr,
    /// True if `const` was written.
    pub is_const: bool,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// An instance.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its name. The instance of a direct application has the type's name. An anonymous argument
    /// has a name derived from its position.
    pub name: Name,
    /// Its type: extern, parser, control or package; a [`Ty::Stack`] of externs for an array
    /// `T(args) name[n];`.
    pub ty: TyId,
    /// Index of the extern's constructor.
    pub constructor: usize,
    /// Constructor arguments, in the parameters' order.
    pub args: Vec<Arg>,
    /// Bodies of abstract methods: method index and function.
    pub methods: Vec<(usize, FunctionId)>,
    /// Instances declared in the initializer block.
    pub inner: Vec<InstanceId>,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
    /// Source position.
    pub span: Span,
}
