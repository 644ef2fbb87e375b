//! The state of a lowering: what is made, what is bound, where code goes.

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

/// What a variable stands for while code that sees it is lowered.
#[derive(Clone, Debug)]
pub(crate) enum Bound {
    /// Storage.
    Place(Place),
    /// A value that does not change while it is visible.
    Value(Rv),
}

/// A copy that is due when the code that is being lowered ends in any way.
#[derive(Clone, Debug)]
pub(crate) struct CopyOut {
    pub(crate) to: crate::lvalue::Lvalue,
    pub(crate) from: Place,
}

/// A call that is being inlined, seen from an `exit` inside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    /// What the call copies out.
    pub(crate) copy_outs: Vec<CopyOut>,
}

/// Where `return` goes.
#[derive(Clone, Debug)]
pub(crate) enum ReturnTo {
    /// To a label, the value to storage.
    Label(LabelId, Option<Place>),
    /// `return` cannot stand here but as the last statement, which the caller handles.
    Nowhere,
}

/// How an `exit` is lowered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExitTo {
    /// It ends the block at once.
    Now,
    /// A table's action whose callers have values to copy out: it sets the flag and leaves the action.
    Later(FieldId, LabelId),
}

/// A loop that is being lowered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopLabels {
    pub(crate) leave: LabelId,
    pub(crate) again: LabelId,
}

/// What code is being lowered for; some constructs mean different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Parser,
    Control,
}

/// The deepest nesting of code that is made, below the verifier's limit for statements.
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
    /// Temporaries that are written in one place only.
    pub(crate) saved: HashSet<FieldId>,
    pub(crate) ir_enums: HashMap<hir::EnumId, ir::EnumId>,
    pub(crate) header_types: HashMap<TyId, ir::HeaderTypeId>,
    /// Generic records, with arguments, that the control plane sees.
    pub(crate) specialized: Vec<TyId>,
    pub(crate) members: HashMap<TyId, crate::types::Members>,

    pub(crate) nodes: IdVec<NodeId, InstanceNode>,
    pub(crate) globals: HashMap<hir::InstanceId, NodeId>,
    pub(crate) vars: HashMap<VarId, Bound>,
    pub(crate) ty_vars: HashMap<TypeVarId, TyId>,
    pub(crate) storage: HashMap<(NodeId, VarId, TyId), Rc<Slot>>,
    /// Storage of the architecture's parameters by the name that the binding gives it.
    pub(crate) shared: HashMap<&'static str, Place>,
    pub(crate) tables: HashMap<(NodeId, hir::TableId), crate::table::Made>,
    pub(crate) actions: HashMap<(NodeId, hir::ActionId), ir::ActionId>,
    /// Actions that controls call directly, by their names for the control plane.
    pub(crate) called_actions: BTreeMap<String, hir::ActionId>,
    /// The result describes the program to controllers and does not run: externs without
    /// implementation are passed over.
    pub(crate) is_description: bool,
    pub(crate) value_sets: HashMap<(NodeId, hir::ValueSetId), ir::ValueSetId>,
    pub(crate) digests: HashMap<TyId, ir::ExternId>,
    /// Direct externs that a table has.
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
    /// Whether an `exit` was lowered since this was last reset.
    pub(crate) exit_used: bool,
    /// The controls whose code is being lowered, one inside the other.
    pub(crate) active: Vec<hir::ControlId>,
    /// Where the code of a table's action is being lowered: the table, and whether the code turned out to depend on it.
    pub(crate) in_table: Option<crate::table::InTable>,
    /// The action whose body is being lowered, with its parameters.
    pub(crate) action: Option<ir::Action>,
    /// The block's states while a parser is lowered.
    pub(crate) states: IdVec<ir::StateId, ir::State>,
    /// The state that code goes to.
    pub(crate) open_state: ir::StateId,
    /// The path of the sub-parser that is being merged.
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

    /// The statement or call that is being lowered, for errors about the expansion.
    pub(crate) span: Span,
    /// What may still be made: statements, operands, states, instances.
    left: u64,
    /// How many calls, applications and instances are open.
    calls: u32,
    /// How many captures are open: statements are nested at most so deep.
    nesting: u32,
    /// Whether a limit is exceeded. Nothing is made from then on.
    is_over: bool,
}

impl<'p> Lower<'p> {
    /// Begins; fails when there is nothing to run or no architecture to run it.
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
            span: Span::NONE,
            left: sema::expansion_limit(hir),
            calls: 0,
            nesting: 0,
            is_over: false,
        })
    }

    /// The program, or what is wrong with it.
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

    /// What a packet takes along is bounded: large stacks of large headers may not fit.
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
    /// Declares the actions that are called and that no table lists. They have no code, for it is
    /// inlined; their names decide the aliases and ids of others.
    fn name_called_actions(&mut self) {
        let hir = self.hir;
        for (name, id) in std::mem::take(&mut self.called_actions) {
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

    /// Reports what this target cannot run.
    pub(crate) fn unsupported(&mut self, span: Span, message: impl Into<String>) -> Rv {
        self.error("E1101", span, message);
        Rv::Default
    }

    /// Takes what is about to be made from what may be made. A program for which that is not enough
    /// is
    /// refused at the statement or call at hand; `false` from then on.
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

    /// Refuses the program for the limit that the statement or call at hand exceeds.
    pub(crate) fn exceed(&mut self, message: String, hint: &str) {
        if !self.is_over {
            // Before the first statement, it is the program as a whole.
            let span = match self.span == Span::NONE {
                true => self.hir.instances[self.main].span,
                false => self.span,
            };
            let error = Diagnostic::error("E1101", span, message);
            self.diagnostics.push(error.hint(hint));
        }
        self.is_over = true;
    }

    /// Whether a limit is exceeded.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether code may be nested deeper.
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

    /// Runs `f` one call, application or instance deeper, at `span`; gives `none` where a limit is
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

    /// The place of a span, for the IR.
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

    /// Appends `if`; as a plain statement where no branch applies a table.
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

    /// Appends a block that `Leave(label)` leaves.
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

    /// What `f` appends, on its own.
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

    /// Makes a name that no field has.
    pub(crate) fn unique(&mut self, name: &str) -> String {
        free_name(&mut self.names, name)
    }

    /// The name of a table, value set or extern. One that is taken gets a number where the control
    /// plane does not see it, and is an error where it does.
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

    /// A name within the instance whose code is being lowered.
    pub(crate) fn local_name(&self, name: &str) -> String {
        let path = &self.nodes[self.node].path;
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    }

    /// A scalar temporary.
    pub(crate) fn temp_field(&mut self, ty: ScalarTy) -> FieldId {
        let name = self.local_name("tmp");
        self.field_named(&name, ty)
    }

    /// The type of an expression.
    pub(crate) fn expr_ty(&self, expr: &Expr) -> ScalarTy {
        expr.ty(&self.out, self.action.as_ref())
            .unwrap_or(ScalarTy::Bit(32))
    }

    /// A number as a `bit`: what indices are. A negative one becomes larger than any array.
    pub(crate) fn unsigned(&self, expr: Expr) -> Expr {
        match self.expr_ty(&expr) {
            ScalarTy::Int(width) => {
                passes::fold::fold(Expr::Cast(ScalarTy::Bit(width), Box::new(expr)))
            }
            _ => expr,
        }
    }

    /// Saves a scalar.
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

    /// The error with this name, as a constant.
    pub(crate) fn error_const(&mut self, name: &str) -> Expr {
        let code = self.error_code(name);
        Expr::Const(ScalarTy::Error, Value::truncated(u128::from(code), 32))
    }
}

/// The name, or one with a number behind it that is not taken; it is taken then.
pub(crate) fn free_name(taken: &mut HashMap<String, u32>, name: &str) -> String {
    let mut free = name.to_owned();
    while taken.contains_key(&free) {
        let count = taken.entry(name.to_owned()).or_insert(1);
        *count += 1;
        free = format!("{name}${count}");
    }
    taken.insert(free.clone(), 1);
    free
}

/// A constant of `bit<width>`.
pub(crate) fn bits_const(value: u64, width: u32) -> Expr {
    Expr::Const(
        ScalarTy::Bit(width),
        Value::truncated(u128::from(value), width),
    )
}

/// The statements of code that applies no table.
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

/// The error codes in order of declaration, `NoError` first wherever it is declared: it is what nothing wrong is.
fn errors(program: &hir::Program) -> Vec<String> {
    let names = program
        .errors
        .values()
        .map(|error| error.as_str().to_owned());
    let mut errors = vec!["NoError".to_owned()];
    errors.extend(names.filter(|name| name != "NoError"));
    errors
}
