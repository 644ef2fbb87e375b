//! The schema: a program with its storage, parsers, controls, tables, externs and pipeline.
//!
//! Storage is flat. A program has [`Field`]s, each a scalar. Headers, stacks and arrays are runs of
//! consecutive fields, so an element selected at run time is `base + index * stride`. A packet has
//! one frame for all fields of a program (see [`crate::Layout`]). The frame is zero when a packet
//! enters a pipeline, so headers are invalid and variables are zero until written.

mod annotation;
mod externs;
mod pipeline;

use bits::{IdVec, Value, define_id};

use crate::code::{Call, Expr, Stmt, StmtKind};
use crate::ops::Op;
use crate::types::{DataTy, NamedType, ScalarTy};

pub use externs::*;
pub use pipeline::*;

define_id! {
    /// A scalar location.
    pub struct FieldId;
}
define_id! {
    /// A header type.
    pub struct HeaderTypeId;
}
define_id! {
    /// A header instance.
    pub struct HeaderId;
}
define_id! {
    /// A header stack.
    pub struct StackId;
}
define_id! {
    /// A parser.
    pub struct ParserId;
}
define_id! {
    /// A state within a parser.
    pub struct StateId;
}
define_id! {
    /// A control (deparsers are controls).
    pub struct ControlId;
}
define_id! {
    /// A stage within a control.
    pub struct StageId;
}
define_id! {
    /// An action, specialised for its use.
    pub struct ActionId;
}
define_id! {
    /// A table.
    pub struct TableId;
}
define_id! {
    /// A parser value set.
    pub struct ValueSetId;
}
define_id! {
    /// An extern instance.
    pub struct ExternId;
}
define_id! {
    /// A step of a chain.
    pub struct StepId;
}

/// A position in the user's source: 1-based line and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Loc {
    /// Index into [`Program::files`].
    pub file: u32,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// An annotation of the program. Its body is text or evaluated values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Its name, without `@`.
    pub name: String,
    /// Its body.
    pub body: AnnotationBody,
}

/// Body of an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnnotationBody {
    /// Nothing.
    None,
    /// The text between the parentheses of an unstructured annotation, as written.
    Text(String),
    /// The values of a structured annotation.
    Expressions(Vec<AnnotationValue>),
    /// The keys and values of a structured annotation.
    KeyValues(Vec<(String, AnnotationValue)>),
}

/// A value in a structured annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnnotationValue {
    /// A string.
    String(String),
    /// An integer, as decimal text (it may be of any size).
    Int(String),
    /// A boolean.
    Bool(bool),
}

/// The architectures that a program can be written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// BMv2's simple_switch.
    V1model,
    /// The Portable Switch Architecture.
    Psa,
    /// The Portable NIC Architecture.
    Pna,
    /// p4c's eBPF filter model.
    Ebpf,
    /// p4c's uBPF model.
    Ubpf,
    /// The XDP model.
    Xdp,
    /// A package that the user declares: a parser, one or two controls and a deparser, in sequence.
    Own,
}

/// A program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Its name: the source file's stem.
    pub name: String,
    /// The architecture.
    pub arch: Arch,
    /// Source files that [`Loc`]s point into.
    pub files: Vec<String>,
    /// Error codes, by number; 0 is `NoError`.
    pub errors: Vec<String>,
    /// Enums without representation.
    pub enums: IdVec<crate::types::EnumId, EnumTy>,
    /// Header types.
    pub header_types: IdVec<HeaderTypeId, HeaderType>,
    /// All scalar locations.
    pub fields: IdVec<FieldId, Field>,
    /// Header instances.
    pub headers: IdVec<HeaderId, Header>,
    /// Header stacks.
    pub stacks: IdVec<StackId, Stack>,
    /// Parsers.
    pub parsers: IdVec<ParserId, Parser>,
    /// Controls.
    pub controls: IdVec<ControlId, Control>,
    /// Actions.
    pub actions: IdVec<ActionId, Action>,
    /// Tables.
    pub tables: IdVec<TableId, Table>,
    /// Value sets.
    pub value_sets: IdVec<ValueSetId, ValueSet>,
    /// Extern instances.
    pub externs: IdVec<ExternId, Extern>,
    /// The pipeline that the blocks form.
    pub pipeline: Pipeline,
    /// Type declarations that P4Info may mention, in source order.
    pub named_types: Vec<NamedType>,
    /// Annotations of the package (`@pkginfo` and others).
    pub annotations: Vec<Annotation>,
    /// Constants that C code sees, in source order. Empty if the program has no handler.
    pub constants: Vec<Constant>,
}

/// A constant that C code sees: a `const` of the program, or a member of a serializable enum
/// (named `ENUM_MEMBER`).
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: ScalarTy,
    /// Its value.
    pub value: Value,
}

impl Program {
    /// Returns true if it is equal to another program, apart from the names of the two.
    pub fn equals_but_for_name(&self, other: &Program) -> bool {
        let Program {
            name: _,
            arch,
            files,
            errors,
            enums,
            header_types,
            fields,
            headers,
            stacks,
            parsers,
            controls,
            actions,
            tables,
            value_sets,
            externs,
            pipeline,
            named_types,
            annotations,
            constants,
        } = self;
        // Members that usually differ between programs come first.
        *fields == other.fields
            && *tables == other.tables
            && *controls == other.controls
            && *actions == other.actions
            && *parsers == other.parsers
            && *arch == other.arch
            && *files == other.files
            && *errors == other.errors
            && *enums == other.enums
            && *header_types == other.header_types
            && *headers == other.headers
            && *stacks == other.stacks
            && *value_sets == other.value_sets
            && *externs == other.externs
            && *pipeline == other.pipeline
            && *named_types == other.named_types
            && *annotations == other.annotations
            && *constants == other.constants
    }

    /// Creates an empty program.
    pub fn empty(name: &str, arch: Arch) -> Program {
        Program {
            name: name.to_owned(),
            arch,
            files: Vec::new(),
            errors: Vec::new(),
            enums: IdVec::new(),
            header_types: IdVec::new(),
            fields: IdVec::new(),
            headers: IdVec::new(),
            stacks: IdVec::new(),
            parsers: IdVec::new(),
            controls: IdVec::new(),
            actions: IdVec::new(),
            tables: IdVec::new(),
            value_sets: IdVec::new(),
            externs: IdVec::new(),
            pipeline: Pipeline::default(),
            named_types: Vec::new(),
            annotations: Vec::new(),
            constants: Vec::new(),
        }
    }
}

/// An enum without representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumTy {
    /// Its name.
    pub name: String,
    /// Its members.
    pub members: Vec<String>,
}

/// A header type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderType {
    /// Its name in P4.
    pub name: String,
    /// Its fields, in wire order; at most one is a `varbit`.
    pub fields: Vec<HeaderField>,
    /// Its annotations (`@controller_header`).
    pub annotations: Vec<Annotation>,
}

/// A field of a header type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderField {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: ScalarTy,
    /// Its type as the control plane sees it.
    pub data_ty: DataTy,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// A scalar location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its full name in P4, which is unique (`hdr.ipv4.ttl`, `meta.x`, `ingress.tmp`,
    /// `hdr.vlan[1].$valid$`).
    pub name: String,
    /// Its type.
    pub ty: ScalarTy,
}

/// A header instance. The field `valid` holds its validity (`bool`); its fields follow in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its full name in P4.
    pub name: String,
    /// Its type.
    pub ty: HeaderTypeId,
    /// The field of its validity.
    pub valid: FieldId,
}

/// A header stack: `len` consecutive headers with consecutive fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Its full name in P4.
    pub name: String,
    /// Its first header.
    pub first: HeaderId,
    /// Number of headers.
    pub len: u32,
    /// `nextIndex`, a `bit<32>`.
    pub next_index: FieldId,
}

/// A parser: states, which may loop. The work budget bounds the loops.
#[derive(Clone, Debug, PartialEq)]
pub struct Parser {
    /// Its name.
    pub name: String,
    /// Its states, including those of inlined parsers.
    pub states: IdVec<StateId, State>,
    /// The start state.
    pub start: StateId,
}

/// A parser state.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Its name, with the path of the inlined parser.
    pub name: String,
    /// Its statements.
    pub body: Vec<Stmt>,
    /// Its transition.
    pub transition: Transition,
    /// Source position.
    pub loc: Option<Loc>,
}

/// Target of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The packet is accepted.
    Accept,
    /// The packet is rejected. `parser_error` keeps its value (`NoError` for an explicit `reject`).
    Reject,
    /// Continues in a state.
    State(StateId),
}

/// Transition at the end of a state.
#[derive(Clone, Debug, PartialEq)]
pub enum Transition {
    /// Always to one target.
    Direct(Target),
    /// To the target of the first matching case. If none matches, sets `error.NoMatch` and rejects.
    Select {
        /// The keys.
        keys: Vec<Expr>,
        /// The cases, each with one set for each key.
        cases: Vec<SelectCase>,
    },
}

/// A case of a select.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectCase {
    /// Sets of values that it matches.
    pub keyset: Keyset,
    /// Target of the transition.
    pub target: Target,
}

/// Sets of values that a select case matches.
#[derive(Clone, Debug, PartialEq)]
pub enum Keyset {
    /// One set for each key.
    Sets(Vec<KeySet>),
    /// All keys together are an element of a value set, which has one field for each key.
    ValueSet(ValueSetId),
}

/// A set of values of one key. The expressions have the key's type.
#[derive(Clone, Debug, PartialEq)]
pub enum KeySet {
    /// Everything.
    Any,
    /// One value.
    Value(Expr),
    /// `key & mask == value & mask`
    Mask(Expr, Expr),
    /// `lo <= key <= hi`, signed if the key is.
    Range(Expr, Expr),
    /// A value set of one field.
    ValueSet(ValueSetId),
}

/// A value set.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSet {
    /// Its name in the control plane.
    pub name: String,
    /// Its fields.
    pub fields: Vec<ValueSetField>,
    /// Its capacity.
    pub size: u32,
    /// Its type as the control plane sees it.
    pub data_ty: DataTy,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// A field of a value set's elements.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSetField {
    /// Its name (empty for a scalar).
    pub name: String,
    /// Its type.
    pub ty: ScalarTy,
    /// Its match kind (`@match`, or exact).
    pub match_kind: MatchKind,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// A control: a line of stages. `next` links may skip forward. A backward link (a loop that applies
/// a table) is a back edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// Its name.
    pub name: String,
    /// Its stages in topological order (ignoring back edges). It starts at the first.
    pub stages: IdVec<StageId, Stage>,
}

/// Successor of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A stage.
    Stage(StageId),
    /// The control ends.
    End,
}

/// A stage: condition, match or action (HyperVDP, section IV-C).
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// A unique, readable name (`ingress.ipv4_lpm`, `ingress.if_12`).
    pub name: String,
    /// Its operation.
    pub kind: StageKind,
    /// Source position.
    pub loc: Option<Loc>,
}

/// Operation of a stage.
#[derive(Clone, Debug, PartialEq)]
pub enum StageKind {
    /// Evaluates a `bool` and branches.
    Condition {
        /// The condition.
        cond: Expr,
        /// Successor if it is true.
        then: Next,
        /// Successor if it is false.
        otherwise: Next,
    },
    /// Looks up a table and runs the action of the entry found, or the default action. An `Exit` in
    /// the action ends the control.
    Match {
        /// The table.
        table: TableId,
        /// Destinations of the results.
        outcome: MatchOutcome,
        /// The successor.
        next: MatchNext,
    },
    /// Runs code without tables.
    Action {
        /// The code.
        body: Vec<Stmt>,
        /// The successor.
        next: Next,
    },
}

impl StageKind {
    /// Returns the call of a remote handler, if the stage is one.
    pub fn remote_call(&self) -> Option<&Call> {
        let StageKind::Action { body, .. } = self else {
            return None;
        };
        match body.as_slice() {
            [
                Stmt {
                    kind: StmtKind::Call(call),
                    ..
                },
            ] if call.op == Op::Remote => Some(call),
            _ => None,
        }
    }
}

/// Fields in which a match stage stores the results of `apply()` for later code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchOutcome {
    /// A `bool` field that gets `hit`.
    pub hit: Option<FieldId>,
    /// A `bit<32>` field that gets the executed action's position in the table's list.
    pub action_run: Option<FieldId>,
}

/// Successor of a match stage.
#[derive(Clone, Debug, PartialEq)]
pub enum MatchNext {
    /// Always the same.
    Always(Next),
    /// Depends on hit or miss.
    ByHit {
        /// After a hit.
        hit: Next,
        /// After a miss.
        miss: Next,
    },
    /// Depends on the executed action: one successor for each action of the table.
    ByAction(Vec<Next>),
}

/// An action. Directional parameters are already bound, by the use of the action.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// A unique name.
    pub name: String,
    /// Its name in the control plane. Specialisations of one action share it.
    pub control_plane_name: String,
    /// Parameters bound by the control plane. Code reads them as [`crate::code::Expr::Param`].
    pub params: Vec<ActionParam>,
    /// Its code; labels are local to it.
    pub body: Vec<Stmt>,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
    /// Source position.
    pub loc: Option<Loc>,
}

/// A parameter of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionParam {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: ScalarTy,
    /// Its type as the control plane sees it.
    pub data_ty: DataTy,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// Match kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchKind {
    /// Equal values.
    Exact,
    /// Longest prefix match.
    Lpm,
    /// Value and mask.
    Ternary,
    /// Lower and upper bound.
    Range,
    /// A value, or a wildcard.
    Optional,
    /// Not matched: input of the action selector's hash.
    Selector,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its full name in the control plane.
    pub name: String,
    /// Its key.
    pub keys: Vec<Key>,
    /// Its actions.
    pub actions: Vec<TableAction>,
    /// Action on a miss.
    pub default: ActionCall,
    /// True if the default action may not be changed.
    pub default_is_const: bool,
    /// Entries that the program declares.
    pub entries: Vec<Entry>,
    /// True if the control plane may not add entries.
    pub entries_are_const: bool,
    /// True if the larger priority number wins.
    pub largest_priority_wins: bool,
    /// Capacity: the declared size, or 1,024.
    pub size: u32,
    /// True if the program declares a size.
    pub size_is_declared: bool,
    /// An action profile or selector that holds its actions.
    pub implementation: Option<ExternId>,
    /// A direct counter.
    pub direct_counter: Option<ExternId>,
    /// A direct meter.
    pub direct_meter: Option<ExternId>,
    /// True if the control plane may set idle timeouts.
    pub idle_timeout: bool,
    /// True if packets may add entries to it (PNA `add_on_miss`).
    pub add_on_miss: bool,
    /// Maximum number of its entries that a switch holds, if servers hold all (CLIP, `@mirror`).
    pub mirror: Option<u32>,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
    /// Source position.
    pub loc: Option<Loc>,
}

impl Table {
    /// Returns true if packets may add entries to it: PNA `add_on_miss`, or a mirrored table in
    /// which all keys are exact.
    pub fn is_written_by_packets(&self) -> bool {
        let mut kinds = self.keys.iter().map(|key| key.match_kind);
        self.add_on_miss || self.mirror.is_some() && kinds.all(|kind| kind == MatchKind::Exact)
    }
}

/// An element of a table's key.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Its name in the control plane.
    pub name: String,
    /// The value that is matched. Evaluated when the table is applied; of scalar type, not a
    /// `varbit`.
    pub expr: Expr,
    /// Its match kind.
    pub match_kind: MatchKind,
    /// Its type as the control plane sees it.
    pub data_ty: DataTy,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
}

/// An action of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableAction {
    /// The action.
    pub action: ActionId,
    /// Allowed uses.
    pub scope: ActionScope,
    /// Its annotations in the table's list.
    pub annotations: Vec<Annotation>,
}

/// Allowed uses of an action in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionScope {
    /// In entries and as default action.
    TableAndDefault,
    /// In entries (`@tableonly`).
    TableOnly,
    /// As default action (`@defaultonly`).
    DefaultOnly,
}

/// An action with its parameters' values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionCall {
    /// Position in the table's list.
    pub action: usize,
    /// Values of its parameters.
    pub args: Vec<Value>,
}

/// An entry that the program declares.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// One match for each key that is not a selector.
    pub keys: Vec<KeyMatch>,
    /// Its action.
    pub action: ActionCall,
    /// Its priority, if the key has ternary, range or optional elements.
    pub priority: Option<i32>,
    /// True if it may not be changed.
    pub is_const: bool,
}

/// Match of an entry for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMatch {
    /// A wildcard.
    Any,
    /// One value.
    Exact(Value),
    /// The first `len` bits.
    Lpm(Value, u32),
    /// Value and mask.
    Ternary(Value, Value),
    /// Lower and upper bound, both included.
    Range(Value, Value),
}

impl KeyMatch {
    /// Returns true if a key of this match kind can hold it.
    pub fn fits(&self, kind: MatchKind) -> bool {
        use MatchKind::{Lpm, Optional, Range, Ternary};
        match self {
            KeyMatch::Any => matches!(kind, Lpm | Ternary | Range | Optional),
            KeyMatch::Exact(_) => true,
            KeyMatch::Lpm(..) => kind == Lpm,
            KeyMatch::Ternary(..) => kind == Ternary,
            KeyMatch::Range(..) => kind == Range,
        }
    }
}
