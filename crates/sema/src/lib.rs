//! Crate `sema`: checks a syntax tree and builds the typed program. It covers names, types,
//! constants, calls, control flow and the rules of the architectures.
//!
//! - **In:** a [`syntax::ast::Program`].
//! - **Out:** a typed [`hir::Program`], the diagnostics, and the architecture of `main`.
//! - **Invariants:** a program without error diagnostics satisfies the invariants of [`hir`]. User
//!   text never causes a panic. One mistake gives one message: its placeholder has the type
//!   [`hir::Ty::Error`], which is compatible with every type.
//! - **Tests:** `tests/` (one file of small programs for each area, with the expected diagnostics
//!   beside the lines).
//!
//! Declarations are checked in textual order, because P4 declares before use.
//! [`scope`](crate::scope) holds the visible names. Each declaration is checked completely before
//! the next one. Every expression is folded when it is built.

pub mod arch;
pub mod hir;

mod aggregate;
mod annotations;
mod blocks;
mod call;
mod calls;
mod code;
mod consteval;
mod control_plane;
mod decl;
mod expansion;
mod expr;
mod flow;
mod instance;
mod key_name;
mod keyset;
mod lvalue;
mod same;
mod scope;
mod show;
mod stmt;
mod table;
mod template;
mod types;
mod unify;
mod walk;

pub use expansion::{EXPANSION_OF_WRITTEN, MAX_CALL_DEPTH, MAX_EXPANSION, expansion_limit};

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use syntax::ast;
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use crate::arch::Arch;
use crate::hir::{
    ActionId, ControlId, ErrorId, Expr, ExternFnId, ExternId, FunctionId, LocalDecl, Program,
    RecordId, Ty, TyId, TypeVarId, VarId,
};
use crate::scope::{Entity, Scopes};
use crate::template::{OpenDefault, Template};

/// Options of a check.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// True if warnings are reported.
    pub warnings: bool,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions { warnings: true }
    }
}

/// Result of a check.
#[derive(Debug)]
pub struct Checked {
    /// The typed program. It is complete only if there are no errors.
    pub program: Program,
    /// Errors and warnings.
    pub diagnostics: Diagnostics,
    /// The architecture of the package that `main` instantiates, if it is known.
    pub arch: Option<Arch>,
}

/// Checks a program. Always returns a result; errors are in the diagnostics.
///
/// The recursion depth follows the nesting of the source, which the parser bounds. The caller's
/// thread needs a stack of 256 MiB.
pub fn check(program: &ast::Program, options: &CheckOptions) -> Checked {
    let mut checker = Checker::new(options);
    checker.program(program);
    let Checker {
        p: program,
        diags: mut diagnostics,
        ..
    } = checker;
    let arch = arch::recognise(&program);
    if !diagnostics.has_errors() {
        calls::check(&program, &mut diagnostics);
        flow::check(&program, &mut diagnostics);
    }
    // These checks walk the tree of instances.
    if !diagnostics.has_errors() {
        expansion::check(&program, &mut diagnostics);
    }
    if let (Some(arch), false) = (arch, diagnostics.has_errors()) {
        arch::check(arch, &program, &mut diagnostics);
    }
    if !diagnostics.has_errors() {
        control_plane::check(&program, &mut diagnostics);
    }
    Checked {
        program,
        diagnostics,
        arch,
    }
}

/// Context of a piece of code. It determines the allowed calls (appendix F of the specification).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Outside of everything: constants.
    TopLevel,
    /// The declarations of a parser.
    ParserLocals,
    /// A parser state.
    ParserState,
    /// The declarations of a control.
    ControlLocals,
    /// The `apply` block of a control.
    ControlApply,
    /// An action.
    Action,
    /// A function.
    Function,
    /// The body of an abstract method.
    Method,
}

impl Place {
    fn in_parser(self) -> bool {
        matches!(self, Place::ParserLocals | Place::ParserState)
    }
}

/// Callee of a name that may be overloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FnRef {
    /// A function with a body.
    Function(FunctionId),
    /// An extern function.
    Extern(ExternFnId),
}

/// Frequently used types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    error: TyId,
    void: TyId,
    boolean: TyId,
    string: TyId,
    error_code: TyId,
    match_kind: TyId,
    integer: TyId,
    action: TyId,
    /// The type of `...` before its context is known.
    dots: TyId,
    /// The type of `{#}` before its context is known.
    invalid: TyId,
}

/// The instance with the abstract methods being checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThisCx {
    ty: TyId,
}

/// The context of the block being checked.
#[derive(Clone, Debug)]
pub(crate) struct BlockCx {
    place: Place,
    /// Return type.
    ret: TyId,
    /// Number of enclosing loops.
    loops: u32,
    /// The enclosing control.
    control: Option<ControlId>,
    /// The instance that `this` denotes.
    this: Option<ThisCx>,
    /// Instances of direct applications, to be added to the enclosing parser or control.
    pending: Vec<LocalDecl>,
    /// True if constructors may be called in expressions.
    constructors: bool,
    /// True if tables may be applied in expressions.
    tables: bool,
    /// True if the expression is evaluated, and not only its size requested.
    evaluated: bool,

    /// True if the expression is the subject of a `switch`: `action_run` is allowed.
    switch_subject: bool,
}

impl BlockCx {
    /// Returns the context of the top level, with the return type `void`.
    fn new(void: TyId) -> BlockCx {
        BlockCx {
            place: Place::TopLevel,
            ret: void,
            loops: 0,
            control: None,
            this: None,
            pending: Vec::new(),
            constructors: false,
            tables: true,
            evaluated: true,
            switch_subject: false,
        }
    }
}

/// State of the checker.
pub(crate) struct Checker<'a> {
    pub(crate) options: &'a CheckOptions,
    pub(crate) p: Program,
    pub(crate) diags: Diagnostics,
    scopes: Scopes,
    consts: Vec<Expr>,
    overloads: Vec<Vec<FnRef>>,
    /// Blocks with the same name that differ in their constructor parameters.
    block_sets: Vec<Vec<Entity>>,
    templates: Vec<Template>,
    open_defaults: HashMap<VarId, OpenDefault>,
    t: Common,
    cx: BlockCx,
    /// Anonymous structs of `{ a = 1 }` that have no known type yet.
    anonymous: HashSet<RecordId>,
    /// Type variables that stand for `_`.
    dont_care: HashSet<TypeVarId>,
    /// Specialised types with checked members; true if the members are valid.
    well_formed: HashMap<TyId, bool>,
    /// Number of scalars in values of each type.
    leaves: HashMap<TyId, u64>,
    /// Cached properties of types: mentions a type variable, is allowed in a header, size in bits.
    open_types: RefCell<HashMap<TyId, bool>>,
    plain_structs: RefCell<HashMap<TyId, bool>>,
    bit_sizes: HashMap<TyId, Option<(u64, u64)>>,
    type_depths: HashMap<TyId, u32>,
    /// Positions of the members of large records and enums.
    positions: HashMap<Members, HashMap<Arc<str>, usize>>,
    /// Remaining number of scalars of constants that may be written out at uses.
    constants_left: u64,
    /// Error codes by name.
    error_ids: HashMap<Arc<str>, ErrorId>,
    /// Record types with rejected declarations.
    bad_records: HashSet<RecordId>,
    /// Source positions of action declarations.
    action_spans: HashMap<ActionId, Span>,
    /// Messages of `@deprecated` externs and extern functions.
    deprecated: HashMap<Deprecated, String>,
    /// Source positions of variable declarations.
    var_spans: HashMap<VarId, Span>,
}

/// A declaration with members that are looked up by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Members {
    Record(RecordId),
    Enum(hir::EnumId),
}

/// A declaration that can have `@deprecated`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Deprecated {
    Extern(ExternId),
    Function(ExternFnId),
}

impl<'a> Checker<'a> {
    fn new(options: &'a CheckOptions) -> Checker<'a> {
        let mut p = Program::default();
        let marker = |p: &mut Program, text: &str| {
            let name = ast::Name {
                text: text.into(),
                span: Span::NONE,
            };
            let var = p.type_vars.push(name);
            p.types.intern(Ty::Var(var))
        };
        let t = Common {
            error: p.types.intern(Ty::Error),
            void: p.types.intern(Ty::Void),
            boolean: p.types.intern(Ty::Bool),
            string: p.types.intern(Ty::String),
            error_code: p.types.intern(Ty::ErrorCode),
            match_kind: p.types.intern(Ty::MatchKind),
            integer: p.types.intern(Ty::Integer),
            action: p.types.intern(Ty::Action),
            dots: marker(&mut p, "..."),
            invalid: marker(&mut p, "{#}"),
        };
        let cx = BlockCx::new(t.void);
        Checker {
            options,
            p,
            diags: Diagnostics::default(),
            scopes: Scopes::new(),
            consts: Vec::new(),
            overloads: Vec::new(),
            block_sets: Vec::new(),
            templates: Vec::new(),
            open_defaults: HashMap::new(),
            t,
            cx,
            anonymous: HashSet::new(),
            dont_care: HashSet::new(),
            well_formed: HashMap::new(),
            leaves: HashMap::new(),
            open_types: RefCell::default(),
            plain_structs: RefCell::default(),
            bit_sizes: HashMap::new(),
            type_depths: HashMap::new(),
            positions: HashMap::new(),
            constants_left: types::MAX_CONSTANTS,
            error_ids: HashMap::new(),
            bad_records: HashSet::new(),
            action_spans: HashMap::new(),
            deprecated: HashMap::new(),
            var_spans: HashMap::new(),
        }
    }

    /// Adds a diagnostic.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diags.push(diagnostic);
    }

    /// Adds an error.
    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::error(code, span, message));
    }

    /// Adds a warning, unless warnings are switched off.
    pub(crate) fn warn(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        if self.options.warnings {
            self.report(Diagnostic::warning(code, span, message));
        }
    }

    /// Returns the type with this id.
    pub(crate) fn ty(&self, id: TyId) -> &Ty {
        self.p.types.get(id)
    }

    /// Returns the id of a type.
    pub(crate) fn intern(&mut self, ty: Ty) -> TyId {
        self.p.types.intern(ty)
    }

    /// Runs `f` in a block context changed by `set`. Pending declarations of `f` are kept.
    fn with_cx<R>(&mut self, set: impl FnOnce(&mut BlockCx), f: impl FnOnce(&mut Self) -> R) -> R {
        let mut inner = self.cx.clone();
        inner.pending = std::mem::take(&mut self.cx.pending);
        set(&mut inner);
        let outer = std::mem::replace(&mut self.cx, inner);
        let result = f(self);
        let pending = std::mem::take(&mut self.cx.pending);
        self.cx = outer;
        self.cx.pending = pending;
        result
    }
}
