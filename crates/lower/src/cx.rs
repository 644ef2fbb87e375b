//! State of lowering: the IR built so far, the bindings, and the destination of code.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use bits::{IdVec, Value};
use ir::{Expr, FieldId, LabelId, Loc, ScalarTy, Stmt, StmtKind};
use passes::sequence::Node;
use sema::hir::{self, TyId, TypeVarId, VarId};
use support::work::checkpoint;
use syntax::diag::Diagnostic;
use syntax::source::{SourceMap, Span};

use crate::arch::{self, Binding};
use crate::instance::{InstanceNode, NodeId};
use crate::storage::{Place, Slot};
use crate::value::Rv;

/// Meaning of a variable while code in its scope is lowered.
#[derive(Clone, Debug)]
pub(crate) enum Bound {
    /// Storage.
    Place(Place),
    /// A value that does not change in the variable's scope.
    Value(Rv),
}

/// A copy-out due at every exit from the code being lowered.
#[derive(Clone, Debug)]
pub(crate) struct CopyOut {
    pub(crate) to: crate::lvalue::Lvalue,
    pub(crate) from: Place,
}

/// A call being inlined, as seen by an `exit` inside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    /// The copy-outs of the call.
    pub(crate) copy_outs: Vec<CopyOut>,
}

/// Target of `return`.
#[derive(Clone, Debug)]
pub(crate) enum ReturnTo {
    /// Jumps to a label, and stores the value if there is storage.
    Label(LabelId, Option<Place>),
    /// `return` is only allowed as the last statement, which the caller handles.
    Nowhere,
}

/// Lowering of an `exit`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExitTo {
    /// It ends the block at once.
    Now,
    /// In a table's action with callers that must copy out: sets the flag and leaves the action.
    Later(FieldId, LabelId),
}

/// A loop being lowered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopLabels {
    pub(crate) leave: LabelId,
    pub(crate) again: LabelId,
}

/// Kind of code being lowered. Some constructs depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Parser,
    Control,
}

/// Maximum nesting depth of generated code, below the verifier's limit for statements.
const MAX_CODE_NESTING: u32 = ir::MAX_NESTING - 2;

pub(crate) struct Lower<'p> {
    pub(crate) hir: &'p hir::Program,
    pub(crate) sources: &'p SourceMap,
    pub(crate) types: hir::Types,
    pub(crate) out: ir::Program,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) binding: &'static Binding,
    /// The package instance `main`.
    pub(crate) main: hir::InstanceId,

    pub(crate) files: HashMap<String, u32>,
    pub(crate) names: HashMap<String, u32>,
    /// Temporaries that are written at one place only.
    pub(crate) saved: HashSet<FieldId>,
    pub(crate) ir_enums: HashMap<hir::EnumId, ir::EnumId>,
    pub(crate) header_types: HashMap<TyId, ir::HeaderTypeId>,
    /// Specialisations of generic records that the control plane sees.
    pub(crate) specialized: Vec<TyId>,
    pub(crate) members: HashMap<TyId, crate::types::Members>,

    pub(crate) nodes: IdVec<NodeId, InstanceNode>,
    pub(crate) globals: HashMap<hir::InstanceId, NodeId>,
    pub(crate) vars: HashMap<VarId, Bound>,
    pub(crate) ty_vars: HashMap<TypeVarId, TyId>,
    pub(crate) storage: HashMap<(NodeId, VarId, TyId), Rc<Slot>>,
    /// Storage of the architecture's parameters, by the name in the binding.
    pub(crate) shared: HashMap<&'static str, Place>,
    pub(crate) tables: HashMap<(NodeId, hir::TableId), crate::table::Made>,
    pub(crate) actions: HashMap<(NodeId, hir::ActionId), ir::ActionId>,
    /// Actions that controls call directly, by their control-plane names.
    pub(crate) called_actions: BTreeMap<String, hir::ActionId>,
    /// True if the result describes the program to controllers and does not run. Externs without
    /// implementation are then ignored.
    pub(crate) is_description: bool,
    pub(crate) value_sets: HashMap<(NodeId, hir::ValueSetId), ir::ValueSetId>,
    pub(crate) digests: HashMap<TyId, ir::ExternId>,
    /// Direct externs attached to a table.
    pub(crate) attached: HashSet<ir::ExternId>,
    pub(crate) free_vars: HashMap<hir::ActionId, Rc<Vec<VarId>>>,

    pub(crate) mode: Mode,
    pub(crate) node: NodeId,
    pub(crate) this: Vec<NodeId>,
    pub(crate) code: Vec<Node>,
    pub(crate) loc: Option<Loc>,
    pub(crate) next_label: u32,
    pub(crate) frames: Vec<Frame>,
    pub(crate) returns: Vec<ReturnTo>,
    pub(crate) loops: Vec<LoopLabels>,
    pub(crate) exit: ExitTo,
    /// True if an `exit` was lowered since this was last reset.
    pub(crate) exit_used: bool,
    /// The nested controls being lowered.
    pub(crate) active: Vec<hir::ControlId>,
    /// While a table's action is lowered: the table, and whether the code depends on it.
    pub(crate) in_table: Option<crate::table::InTable>,
    /// The action being lowered, with its parameters.
    pub(crate) action: Option<ir::Action>,
    /// The block's states while a parser is lowered.
    pub(crate) states: IdVec<ir::StateId, ir::State>,
    /// The state that receives code.
    pub(crate) open_state: ir::StateId,
    /// The path of the sub-parser being merged.
    pub(crate) state_prefix: String,
    /// Names of the states of the block.
    pub(crate) state_names: HashMap<String, u32>,
    /// Names of the actions.
    pub(crate) action_names: HashMap<String, u32>,
    /// Names of tables, value sets and externs, by kind.
    pub(crate) thing_names: HashMap<&'static str, HashMap<String, u32>>,
    /// The action that does nothing.
    pub(crate) no_action: Option<ir::ActionId>,
    /// The error codes by name.
    pub(crate) error_codes: HashMap<String, u32>,
    /// Instances of the remote handlers called so far.
    pub(crate) handlers: HashMap<hir::ExternFnId, ir::ExternId>,

    /// The statement or call being lowered, for errors about the expansion.
    pub(crate) span: Span,
    /// Remaining number of statements, operands, states and instances that may be created.
    left: u64,
    /// Number of nested calls, applications and instances.
    calls: u32,
    /// Number of nested captures, a bound on the nesting of statements.
    nesting: u32,
    /// True if a limit is exceeded. Nothing is generated from then on.
    is_over: bool,
}

impl<'p> Lower<'p> {
    /// Creates the state. Fails if there is no `main` or no architecture for it.
    pub(crate) fn new(
        hir: &'p hir::Program,
        sources: &'p SourceMap,
        name: &str,
    ) -> Result<Self, Vec<Diagnostic>> {
        let (main, binding) = arch::find(hir)?;
        let mut types = hir.types.clone();
        types.intern(hir::Ty::Void);
        let errors = errors(hir);
        let error_codes = errors.iter().zip(0..);
        let error_codes = error_codes.map(|(name, code)| (name.clone(), code));
        let error_codes = error_codes.collect();
        let mut nodes = IdVec::default();
        let root = nodes.push(Self::root_node());
        let out = ir::Program {
            name: name.to_owned(),
            arch: binding.arch,
            files: Vec::new(),
            errors,
            enums: IdVec::default(),
            header_types: IdVec::default(),
            fields: IdVec::default(),
            headers: IdVec::default(),
            stacks: IdVec::default(),
            parsers: IdVec::default(),
            controls: IdVec::default(),
            actions: IdVec::default(),
            tables: IdVec::default(),
            value_sets: IdVec::default(),
            externs: IdVec::default(),
            pipeline: ir::Pipeline::default(),
            named_types: Vec::new(),
            annotations: crate::annotate::annotations(sources, &hir.package_annotations),
            constants: Vec::new(),
        };
        Ok(Lower {
            hir,
            sources,
            types,
            out,
            diagnostics: Vec::new(),
            binding,
            main,
            files: HashMap::new(),
            names: HashMap::new(),
            saved: HashSet::new(),
            ir_enums: HashMap::new(),
            header_types: HashMap::new(),
            specialized: Vec::new(),
            members: HashMap::new(),
            nodes,
            globals: HashMap::new(),
            vars: HashMap::new(),
            ty_vars: HashMap::new(),
            storage: HashMap::new(),
            shared: HashMap::new(),
            tables: HashMap::new(),
            actions: HashMap::new(),
            called_actions: BTreeMap::new(),
            is_description: false,
            value_sets: HashMap::new(),
            digests: HashMap::new(),
            attached: HashSet::new(),
            free_vars: HashMap::new(),
            mode: Mode::Control,
            node: root,
            this: Vec::new(),
            code: Vec::new(),
            loc: None,
            next_label: 0,
            frames: Vec::new(),
            returns: Vec::new(),
            loops: Vec::new(),
            exit: ExitTo::Now,
            exit_used: false,
            active: Vec::new(),
            in_table: None,
            action: None,
            states: IdVec::default(),
            open_state: ir::StateId::new(0),
            state_prefix: String::new(),
            state_names: HashMap::new(),
            action_names: HashMap::new(),
            thing_names: HashMap::new(),
            no_action: None,
            error_codes,
            handlers: HashMap::new(),
            span: Span::NONE,
            left: sema::expansion_limit(hir),
            calls: 0,
            nesting: 0,
            is_over: false,
        })
    }

    /// Returns the program, or the errors.
    pub(crate) fn finish(mut self) -> Result<ir::Program, Vec<Diagnostic>> {
        if !self.diagnostics.is_empty() {
            return Err(self.diagnostics);
        }
        self.describe_types();
        self.name_called_actions();
        passes::simplify::simplify(&mut self.out);
        match self.too_large() {
            Some(diagnostic) => Err(vec![diagnostic]),
            None => Ok(self.out),
        }
    }

    /// Checks the size of a packet's frame: large stacks of large headers may not fit.
    fn too_large(&self) -> Option<Diagnostic> {
        let fields = self.out.fields.values();
        let limbs: u64 = fields.map(|field| u64::from(ir::limbs_of(field.ty))).sum();
        let most = u64::from(ir::MAX_FRAME_LIMBS);
        let message = format!(
            "the program's headers, stacks and variables take {} KiB a packet, and {} KiB are there",
            limbs * 8 / 1024,
            most * 8 / 1024
        );
        let span = self.hir.instances[self.main].span;
        (limbs > most)
            .then(|| Diagnostic::error("E1101", span, message).hint("make header stacks smaller"))
    }
}

impl Lower<'_> {
    /// Declares the called actions that no table lists. They have no code, because it is inlined.
    /// Their names affect the aliases and ids of other actions.
    fn name_called_actions(&mut self) {
        let hir = self.hir;
        for (name, id) in std::mem::take(&mut self.called_actions) {
            checkpoint();
            let mut made = self.out.actions.values();
            if made.any(|action| action.control_plane_name == name || action.name == name) {
                continue;
            }
            let decl = &hir.actions[id];
            let loc = self.loc_of(decl.name.span);
            self.out.actions.push(ir::Action {
                name: name.clone(),
                control_plane_name: name,
                params: Vec::new(),
                body: Vec::new(),
                annotations: crate::annotate::annotations(self.sources, &decl.annotations),
                loc,
            });
        }
    }

    /// Reports an error.
    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics
            .push(Diagnostic::error(code, span, message));
    }

    /// Reports a construct that this target cannot run.
    pub(crate) fn unsupported(&mut self, span: Span, message: impl Into<String>) -> Rv {
        self.error("E1101", span, message);
        Rv::Default
    }

    /// Charges generated items to the remaining amount. If it does not suffice, the program is
    /// rejected at the current statement or call. Returns false from then on.
    pub(crate) fn charge(&mut self, count: u64) -> bool {
        checkpoint();
        if self.is_over {
            return false;
        }
        match self.left.checked_sub(count) {
            Some(left) => self.left = left,
            None => {
                let limit = sema::expansion_limit(self.hir);
                let message = format!(
                    "here the program is expanded to more than {limit} statements and operands"
                );
                self.exceed(
                    message,
                    "apply or call it fewer times, or copy smaller structs",
                );
            }
        }
        !self.is_over
    }

    /// Rejects the program because the current statement or call exceeds a limit.
    pub(crate) fn exceed(&mut self, message: String, hint: &str) {
        if !self.is_over {
            // Before the first statement, report the program as a whole.
            let span = match self.span == Span::NONE {
                true => self.hir.instances[self.main].span,
                false => self.span,
            };
            let error = Diagnostic::error("E1101", span, message);
            self.diagnostics.push(error.hint(hint));
        }
        self.is_over = true;
    }

    /// Returns true if a limit is exceeded.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns true if code may be nested deeper.
    pub(crate) fn may_nest(&mut self) -> bool {
        if self.nesting >= MAX_CODE_NESTING {
            let message = format!(
                "with the code of what is called, statements are nested more than \
                 {MAX_CODE_NESTING} levels deep here"
            );
            self.exceed(message, "nest fewer statements and calls");
        }
        !self.is_over
    }

    /// Runs `f` one call, application or instance deeper, at `span`. Returns `none` if a limit is
    /// exceeded.
    pub(crate) fn deeper<R>(&mut self, span: Span, none: R, f: impl FnOnce(&mut Self) -> R) -> R {
        let outer = std::mem::replace(&mut self.span, span);
        if self.calls >= sema::MAX_CALL_DEPTH {
            let message = format!(
                "calls and instances are nested more than {} levels deep here",
                sema::MAX_CALL_DEPTH
            );
            self.exceed(message, "nest fewer calls");
        }
        let result = if self.charge(1) && self.may_nest() {
            self.calls += 1;
            let result = f(self);
            self.calls -= 1;
            result
        } else {
            none
        };
        self.span = outer;
        result
    }

    pub(crate) fn ty(&self, id: TyId) -> &hir::Ty {
        self.types.get(id)
    }

    /// Returns the source position of a span for the IR.
    pub(crate) fn loc_of(&mut self, span: Span) -> Option<Loc> {
        if span.is_none() {
            return None;
        }
        let location = self.sources.lookup(span.lo)?;
        let file = match self.files.get(location.file) {
            Some(&file) => file,
            None => {
                let file = self.out.files.len() as u32;
                self.out.files.push(location.file.to_owned());
                self.files.insert(location.file.to_owned(), file);
                file
            }
        };
        Some(Loc {
            file,
            line: location.line,
            column: location.column,
        })
    }

    /// Appends a statement.
    pub(crate) fn emit(&mut self, kind: StmtKind) {
        if !self.charge(1) {
            return;
        }
        let loc = self.loc;
        self.code.push(Node::Stmt(Stmt { kind, loc }));
    }

    /// Appends an `if`. It is a plain statement if no branch applies a table.
    pub(crate) fn emit_if(&mut self, cond: Expr, then: Vec<Node>, otherwise: Vec<Node>) {
        match passes::fold::as_bool(&cond) {
            Some(true) => return self.code.extend(then),
            Some(false) => return self.code.extend(otherwise),
            None => {}
        }
        let loc = self.loc;
        match (plain(then), plain(otherwise)) {
            (Ok(then), Ok(otherwise)) => self.emit(StmtKind::If(cond, then, otherwise)),
            (then, otherwise) => {
                if !self.charge(1) {
                    return;
                }
                self.code.push(Node::If {
                    cond,
                    then: nodes(then),
                    otherwise: nodes(otherwise),
                    loc,
                });
            }
        }
    }

    /// Appends a block, which `Leave(label)` leaves.
    pub(crate) fn emit_block(&mut self, label: LabelId, body: Vec<Node>) {
        match plain(body) {
            Ok(body) => self.emit(StmtKind::Block(label, body)),
            Err(body) => self.code.push(Node::Block(label, body)),
        }
    }

    /// Appends a loop.
    pub(crate) fn emit_loop(&mut self, label: LabelId, body: Vec<Node>) {
        match plain(body) {
            Ok(body) => self.emit(StmtKind::Loop(label, body)),
            Err(body) => self.code.push(Node::Loop(label, body)),
        }
    }

    /// Runs `f` and returns the code that it appends, separately.
    pub(crate) fn capture<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> (Vec<Node>, R) {
        let outer = std::mem::take(&mut self.code);
        self.nesting += 1;
        let result = f(self);
        self.nesting -= 1;
        (std::mem::replace(&mut self.code, outer), result)
    }

    pub(crate) fn label(&mut self) -> LabelId {
        self.next_label += 1;
        LabelId::new(self.next_label - 1)
    }

    /// Returns a name that no field has.
    pub(crate) fn unique(&mut self, name: &str) -> String {
        free_name(&mut self.names, name)
    }

    /// Returns the name of a table, value set or extern. If the name is taken, it gets a number, or
    /// it is an error if the control plane sees it.
    pub(crate) fn thing_name(&mut self, kind: &'static str, name: String, seen: bool) -> String {
        let taken = self.thing_names.entry(kind).or_default();
        if seen && taken.contains_key(&name) {
            let message = format!("two {kind}s of the program are named `{name}`");
            let error = Diagnostic::error("E1101", self.span, message);
            let hint = "give one of them another name with `@name(\"..\")`";
            self.diagnostics.push(error.hint(hint));
        }
        free_name(self.thing_names.entry(kind).or_default(), &name)
    }

    /// Returns a name within the instance being lowered.
    pub(crate) fn local_name(&self, name: &str) -> String {
        let path = &self.nodes[self.node].path;
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    }

    /// Creates a scalar temporary.
    pub(crate) fn temp_field(&mut self, ty: ScalarTy) -> FieldId {
        let name = self.local_name("tmp");
        self.field_named(&name, ty)
    }

    /// Returns the type of an expression.
    pub(crate) fn expr_ty(&self, expr: &Expr) -> ScalarTy {
        expr.ty(&self.out, self.action.as_ref())
            .unwrap_or(ScalarTy::Bit(32))
    }

    /// Converts a number to a `bit` for use as an index. A negative one becomes larger than any
    /// array.
    pub(crate) fn unsigned(&self, expr: Expr) -> Expr {
        match self.expr_ty(&expr) {
            ScalarTy::Int(width) => {
                passes::fold::fold(Expr::Cast(ScalarTy::Bit(width), Box::new(expr)))
            }
            _ => expr,
        }
    }

    /// Saves a scalar in a temporary.
    pub(crate) fn save(&mut self, ty: ScalarTy, value: Expr) -> Expr {
        match &value {
            Expr::Const(..) | Expr::Param(_) => return value,
            Expr::Read(place) if place.dims.is_empty() && self.saved.contains(&place.base) => {
                return value;
            }
            _ => {}
        }
        let field = self.temp_field(ty);
        self.saved.insert(field);
        self.emit(StmtKind::Assign(field.into(), value));
        Expr::Read(field.into())
    }

    pub(crate) fn error_code(&mut self, name: &str) -> u32 {
        if let Some(&code) = self.error_codes.get(name) {
            return code;
        }
        let code = self.out.errors.len() as u32;
        self.out.errors.push(name.to_owned());
        self.error_codes.insert(name.to_owned(), code);
        code
    }

    /// Returns the error with this name as a constant.
    pub(crate) fn error_const(&mut self, name: &str) -> Expr {
        let code = self.error_code(name);
        Expr::Const(ScalarTy::Error, Value::truncated(u128::from(code), 32))
    }
}

/// Returns the name, or the name with a number if it is taken. Marks the result as taken.
pub(crate) fn free_name(taken: &mut HashMap<String, u32>, name: &str) -> String {
    let mut free = name.to_owned();
    while taken.contains_key(&free) {
        checkpoint();
        let count = taken.entry(name.to_owned()).or_insert(1);
        *count += 1;
        free = format!("{name}${count}");
    }
    taken.insert(free.clone(), 1);
    free
}

/// Returns a constant of type `bit<width>`.
pub(crate) fn bits_const(value: u64, width: u32) -> Expr {
    Expr::Const(
        ScalarTy::Bit(width),
        Value::truncated(u128::from(value), width),
    )
}

/// Returns the statements of code that applies no table, else the code.
pub(crate) fn plain(code: Vec<Node>) -> Result<Vec<Stmt>, Vec<Node>> {
    if code.iter().all(|node| matches!(node, Node::Stmt(_))) {
        Ok(code
            .into_iter()
            .filter_map(|node| {
                if let Node::Stmt(stmt) = node {
                    Some(stmt)
                } else {
                    None
                }
            })
            .collect())
    } else {
        Err(code)
    }
}

fn nodes(code: Result<Vec<Stmt>, Vec<Node>>) -> Vec<Node> {
    code.map_or_else(
        |nodes| nodes,
        |stmts| stmts.into_iter().map(Node::Stmt).collect(),
    )
}

/// Returns the error codes in order of declaration. `NoError` comes first, wherever it is declared.
fn errors(program: &hir::Program) -> Vec<String> {
    let names = program
        .errors
        .values()
        .map(|error| error.as_str().to_owned());
    let mut errors = vec!["NoError".to_owned()];
    errors.extend(names.filter(|name| name != "NoError"));
    errors
}
