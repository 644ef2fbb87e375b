//! Control flow and data flow checks: functions return a value on all paths, parsers can end, code
//! is reachable, and variables are written before they are read.
//!
//! Missing returns and parsers that never end are errors. Reading an unwritten variable yields an
//! unspecified value, which the specification allows (section 8.26), so it is a warning.
//!
//! The analysis is a forward analysis of whole variables and of struct fields. Headers are skipped,
//! because their validity decides. It avoids false warnings: a variable that may have been written
//! on some path through a loop or call counts as written.

use std::collections::{BTreeSet, HashMap};

use syntax::ast::Direction;
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use crate::hir::{
    Arg, Call, Callee, Expr, ExprKind, Param, Parser, Program, Prototype, StateId, Stmt, StmtKind,
    Target, Transition, Ty, TyId, VarId,
};
use crate::{code, walk};

/// Checks a program without errors.
pub(crate) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    for function in program.functions.values() {
        let returns_value = !matches!(program.types.get(function.proto.ret), Ty::Void);
        if returns_value && completes(&function.body) {
            diagnostics.push(missing_return(&function.proto));
        }
    }
    for parser in program.parsers.values() {
        check_ends(parser, diagnostics);
    }
    for body in bodies(program) {
        warn_unreachable(body, diagnostics);
    }
    Initialisation {
        program,
        diagnostics,
        reported: BTreeSet::new(),
        holds_header: HashMap::new(),
    }
    .run();
}

fn missing_return(proto: &Prototype) -> Diagnostic {
    let message = format!(
        "the function `{}` does not return a value on all paths",
        proto.name.as_str()
    );
    Diagnostic::error(code::NO_RETURN, proto.name.span, message).hint("add a `return` at its end")
}

fn bodies(program: &Program) -> impl Iterator<Item = &[Stmt]> {
    let functions = program.functions.values().map(|f| &f.body[..]);
    let actions = program.actions.values().map(|a| &a.body[..]);
    let controls = program.controls.values().map(|c| &c.body[..]);
    let states = program
        .parsers
        .values()
        .flat_map(|p| p.states.values().map(|s| &s.body[..]));
    functions.chain(actions).chain(controls).chain(states)
}

/// Returns true if control can reach the end of the statements.
fn completes(body: &[Stmt]) -> bool {
    body.iter().all(stmt_completes)
}

fn stmt_completes(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Return(_) | StmtKind::Exit | StmtKind::Break | StmtKind::Continue => false,
        StmtKind::Block(body, _) => completes(body),
        StmtKind::If(_, then, otherwise) => completes(then) || completes(otherwise),
        StmtKind::SwitchAction { cases, .. } => {
            !cases.iter().any(|case| case.is_default)
                || cases.iter().any(|case| completes(&case.body))
        }
        StmtKind::SwitchValue { cases, .. } => {
            !cases.iter().any(|case| case.is_default)
                || cases.iter().any(|case| completes(&case.body))
        }
        _ => true,
    }
}

/// Checks that `accept` or `reject` can be reached from `start` (P4_16, section 13). A select
/// without a matching case counts too.
fn check_ends(parser: &Parser, diagnostics: &mut Diagnostics) {
    let mut seen: BTreeSet<StateId> = BTreeSet::new();
    let mut waiting = vec![parser.start];
    while let Some(id) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        let targets: Vec<Target> = match &parser.states[id].transition {
            Transition::Direct(target) => vec![*target],
            Transition::Select { cases, .. } => cases.iter().map(|case| case.target).collect(),
        };
        for target in targets {
            match target {
                Target::State(next) => waiting.push(next),
                Target::Accept | Target::Reject => return,
            }
        }
    }
    let message = format!(
        "the parser `{}` never reaches `accept` or `reject`",
        parser.name.as_str()
    );
    diagnostics.push(Diagnostic::error(
        code::NEVER_ENDS,
        parser.name.span,
        message,
    ));
}

fn warn_unreachable(body: &[Stmt], diagnostics: &mut Diagnostics) {
    for pair in body.windows(2) {
        if !stmt_completes(&pair[0]) {
            let warning = Diagnostic::warning(
                code::W_UNREACHABLE,
                pair[1].span,
                "this statement is never reached",
            );
            diagnostics.push(warning.label(pair[0].span, "control leaves here"));
            break;
        }
    }
    for inner in body.iter().flat_map(walk::bodies_of) {
        warn_unreachable(inner, diagnostics);
    }
}

/// A variable, or a field of a struct variable: the path of field positions.
type Slot = (VarId, Vec<usize>);

/// Storage that is written on some path. Each element also covers all fields inside it.
#[derive(Default)]
struct Written {
    slots: BTreeSet<Slot>,
    /// Elements in the order in which they were added.
    log: Vec<Slot>,
}

impl Written {
    fn insert(&mut self, slot: Slot) {
        if self.slots.insert(slot.clone()) {
            self.log.push(slot);
        }
    }

    /// Removes all elements added since the log had this length, and returns them.
    fn take_back(&mut self, len: usize) -> Vec<Slot> {
        let taken = self.log.split_off(len);
        for slot in &taken {
            self.slots.remove(slot);
        }
        taken
    }

    /// Returns true if a variable or field, one that contains it or one inside it was written.
    fn covers(&self, slot: &Slot) -> bool {
        let (var, path) = slot;
        let above = (0..=path.len()).map(|len| (*var, path[..len].to_vec()));
        if above.into_iter().any(|above| self.slots.contains(&above)) {
            return true;
        }
        // Fields inside it come next in the order.
        let next = self.slots.range(slot.clone()..).next();
        next.is_some_and(|(other, below)| other == var && below.starts_with(path))
    }
}

struct Initialisation<'p, 'd> {
    program: &'p Program,
    diagnostics: &'d mut Diagnostics,
    reported: BTreeSet<VarId>,
    /// True if values of a type hold headers.
    holds_header: HashMap<TyId, bool>,
}

impl Initialisation<'_, '_> {
    fn run(mut self) {
        let program = self.program;
        for function in program.functions.values() {
            self.code(&function.proto.params, &function.body);
        }
        for action in program.actions.values() {
            self.code(&action.params, &action.body);
        }
        for control in program.controls.values() {
            self.code(&control.params, &control.body);
        }
    }

    fn code(&mut self, params: &[Param], body: &[Stmt]) {
        let mut written = Written::default();
        let mut tracked: BTreeSet<VarId> = BTreeSet::new();
        for param in params {
            if self.program.vars[param.var].kind == crate::hir::VarKind::Param(Direction::Out) {
                tracked.insert(param.var);
            }
        }
        self.stmts(body, &mut tracked, &mut written);
    }

    fn stmts(&mut self, body: &[Stmt], tracked: &mut BTreeSet<VarId>, written: &mut Written) {
        for stmt in body {
            self.stmt(stmt, tracked, written);
        }
    }

    fn stmt(&mut self, stmt: &Stmt, tracked: &mut BTreeSet<VarId>, written: &mut Written) {
        match &stmt.kind {
            StmtKind::Var(var, init) => {
                if let Some(init) = init {
                    self.read(init, tracked, written);
                    written.insert((*var, Vec::new()));
                } else {
                    tracked.insert(*var);
                }
            }
            StmtKind::Assign(to, from) => {
                self.read(from, tracked, written);
                self.write(to, tracked, written);
            }
            StmtKind::CompoundAssign(to, _, from) => {
                self.read(from, tracked, written);
                self.read(to, tracked, written);
            }
            StmtKind::Call(call, _) => self.call(call, tracked, written),
            StmtKind::Return(Some(value)) => self.read(value, tracked, written),
            StmtKind::For {
                init,
                cond,
                update,
                body,
                ..
            } => {
                self.stmts(init, tracked, written);
                self.read(cond, tracked, written);
                self.stmts(body, tracked, written);
                self.stmts(update, tracked, written);
            }
            _ => self.nested(stmt, tracked, written),
        }
    }

    /// Walks branches. Storage that any of them writes counts as written afterwards.
    fn nested(&mut self, stmt: &Stmt, tracked: &mut BTreeSet<VarId>, written: &mut Written) {
        for expr in walk::exprs_of(stmt) {
            self.read(expr, tracked, written);
        }
        let before = written.log.len();
        let mut all = Vec::new();
        for body in walk::bodies_of(stmt) {
            self.stmts(body, tracked, written);
            all.append(&mut written.take_back(before));
        }
        for slot in all {
            written.insert(slot);
        }
    }

    fn call(&mut self, call: &Call, tracked: &BTreeSet<VarId>, written: &mut Written) {
        if let Some(object) = walk::object_of(call)
            && !matches!(call.callee, Callee::Builtin(..))
        {
            self.read(object, tracked, written);
        }
        let directions = self.directions(call);
        for (position, arg) in call.args.iter().enumerate() {
            if let Arg::Expr(expr) = arg
                && directions.get(position) != Some(&Direction::Out)
            {
                self.read(expr, tracked, written);
            }
        }
        for (position, arg) in call.args.iter().enumerate() {
            if let Arg::Expr(expr) = arg
                && matches!(
                    directions.get(position),
                    Some(Direction::Out | Direction::InOut)
                )
            {
                self.write(expr, tracked, written);
            }
        }
    }

    fn directions(&self, call: &Call) -> Vec<Direction> {
        let program = self.program;
        let params: &[Param] = match &call.callee {
            Callee::Function(id) => &program.functions[*id].proto.params,
            Callee::Action(id) => &program.actions[*id].params,
            Callee::ExternFunction(id) => &program.extern_functions[*id].params,
            Callee::ExternMethod {
                extern_id, method, ..
            } => program.externs[*extern_id]
                .methods
                .get(*method)
                .map_or(&[], |m| &m.proto.params[..]),
            Callee::Apply(object) => match program.types.get(object.ty) {
                Ty::Parser(id) => &program.parsers[*id].params,
                Ty::Control(id) => &program.controls[*id].params,
                Ty::BlockType(id, _) => &program.block_types[*id].params,
                _ => &[],
            },
            Callee::Table(_) | Callee::Builtin(..) => &[],
        };
        let direction = |param: &Param| match program.vars[param.var].kind {
            crate::hir::VarKind::Param(direction) => direction,
            crate::hir::VarKind::CtorParam | crate::hir::VarKind::Local => Direction::In,
        };
        params.iter().map(direction).collect()
    }

    fn write(&mut self, to: &Expr, tracked: &BTreeSet<VarId>, written: &mut Written) {
        match &to.kind {
            ExprKind::Slice(base, ..) => self.write(base, tracked, written),
            ExprKind::Index(base, index) => {
                self.read(index, tracked, written);
                self.write(base, tracked, written);
            }
            _ => {
                if let Some(slot) = slot_of(to) {
                    written.insert(slot);
                } else if let Some(base) = walk::children(to).next() {
                    self.write(base, tracked, written);
                }
            }
        }
    }

    fn read(&mut self, expr: &Expr, tracked: &BTreeSet<VarId>, written: &mut Written) {
        if let ExprKind::Call(call) = &expr.kind {
            return self.call(call, tracked, written);
        }
        let Some(slot) = slot_of(expr) else {
            for child in walk::children(expr) {
                self.read(child, tracked, written);
            }
            return;
        };
        if tracked.contains(&slot.0)
            && !self.holds_header(expr.ty)
            && !touches_header(self.program, expr)
            && !written.covers(&slot)
        {
            self.report(slot.0, expr.span);
        }
    }

    /// Returns true if a value of this type contains headers: their validity decides the result of
    /// a read.
    fn holds_header(&mut self, ty: TyId) -> bool {
        if let Some(&known) = self.holds_header.get(&ty) {
            return known;
        }
        let program = self.program;
        let found = match program.types.get(ty) {
            Ty::Record(id, _) => {
                let record = &program.records[*id];
                record.kind != syntax::ast::RecordKind::Struct
                    || record.fields.is_empty()
                    || record
                        .fields
                        .iter()
                        .any(|field| self.holds_header(field.ty))
            }
            Ty::Stack(..) | Ty::Extern(..) | Ty::Varbit(_) | Ty::Var(_) => true,
            Ty::Tuple(elements) => elements.iter().any(|&element| self.holds_header(element)),
            _ => false,
        };
        self.holds_header.insert(ty, found);
        found
    }

    fn report(&mut self, var: VarId, span: Span) {
        if self.reported.insert(var) {
            let name = &self.program.vars[var].name;
            let message = format!(
                "`{}` is read before it is written; its value is unspecified",
                name.as_str()
            );
            self.diagnostics.push(
                Diagnostic::warning(code::W_UNWRITTEN, span, message)
                    .label(name.span, "declared here"),
            );
        }
    }
}

/// Returns the variable or field that an expression names, if it is a variable or a path of fields
/// in one.
fn slot_of(expr: &Expr) -> Option<Slot> {
    match &expr.kind {
        ExprKind::Var(var) => Some((*var, Vec::new())),
        ExprKind::Field(base, position) => {
            let (var, mut path) = slot_of(base)?;
            path.push(*position);
            Some((var, path))
        }
        _ => None,
    }
}

/// Returns true if the path to a field passes through a header.
fn touches_header(program: &Program, expr: &Expr) -> bool {
    let is_header = |ty: TyId| match program.types.get(ty) {
        Ty::Record(id, _) => program.records[*id].kind != syntax::ast::RecordKind::Struct,
        _ => false,
    };
    is_header(expr.ty)
        || matches!(&expr.kind, ExprKind::Field(base, _) if touches_header(program, base))
}
