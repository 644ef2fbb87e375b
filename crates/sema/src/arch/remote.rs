//! Remote handlers and mirrored tables (CLIP): checks of `@remote` extern functions, of their
//! calls, and of `@mirror(N)` on tables.
//!
//! A handler is `@remote extern void NAME(in REQUEST, out RESPONSE);`. Its call is a statement of a
//! control of ingress, outside of loops. In [`super::places`] are the blocks in which it may be
//! called.

use support::work::checkpoint;
use syntax::ast::{Direction, RecordKind};
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use super::Arch;
use crate::annotations::has;
use crate::code;
use crate::hir::{
    AnnotationBody, AnnotationValue, Call, Callee, ExprKind, Param, Program, Property, Prototype,
    Stmt, StmtKind, Table, Ty, TyId, VarKind,
};
use crate::show::type_text;
use crate::walk;

/// Annotation of a handler.
pub(crate) const REMOTE: &str = "remote";

/// Annotation of a mirrored table.
const MIRROR: &str = "mirror";

/// Maximum nesting depth of structs in a request or response.
const MAX_DEPTH: usize = 16;

pub(super) fn check(arch: Arch, program: &Program, diagnostics: &mut Diagnostics) {
    let mut checks = Checks {
        arch,
        program,
        diagnostics,
    };
    let handlers: Vec<&Prototype> = program
        .extern_functions
        .values()
        .filter(|proto| has(&proto.annotations, REMOTE))
        .collect();
    for handler in &handlers {
        checks.handler(handler);
    }
    if !handlers.is_empty() {
        checks.calls();
    }
    for table in program.tables.values() {
        checks.table(table);
    }
}

/// Returns the number in a table's `@mirror(N)`.
pub fn mirror_of(table: &Table) -> Option<u32> {
    let mut annotations = table.annotations.iter();
    let annotation = annotations.find(|annotation| annotation.name.as_str() == MIRROR)?;
    match &annotation.body {
        AnnotationBody::Tokens(tokens) => tokens.first()?.text.parse().ok(),
        AnnotationBody::Expressions(values) => match values.as_slice() {
            [AnnotationValue::Int(number)] => number.try_into().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Returns true if the table is a mirrored one.
pub(super) fn is_mirrored(table: &Table) -> bool {
    has(&table.annotations, MIRROR)
}

/// Returns true if the extern function is a remote handler.
pub fn is_handler(proto: &Prototype) -> bool {
    has(&proto.annotations, REMOTE)
}

struct Checks<'p, 'd> {
    arch: Arch,
    program: &'p Program,
    diagnostics: &'d mut Diagnostics,
}

impl Checks<'_, '_> {
    fn error(&mut self, code: &'static str, span: Span, message: String, hint: &str) {
        self.diagnostics
            .push(Diagnostic::error(code, span, message).hint(hint.to_owned()));
    }

    fn handler(&mut self, proto: &Prototype) {
        let (name, span) = (proto.name.as_str(), proto.name.span);
        let form = "write `@remote extern void NAME(in REQUEST request, out RESPONSE response);`";
        if self.arch != Arch::V1Model {
            let message = format!("the handler `{name}` is in a program that is not for v1model");
            let hint = "programs over a switch and servers are v1model programs";
            self.error(code::ARCHITECTURE, span, message, hint);
            return;
        }
        let is_void = matches!(self.program.types.get(proto.ret), Ty::Void);
        let [request, response] = proto.params.as_slice() else {
            let message = format!("the handler `{name}` needs a request and a response");
            return self.error(code::BAD_PARAM, span, message, form);
        };
        if !is_void || !proto.type_params.is_empty() {
            let message = format!("the handler `{name}` has a result or type parameters");
            return self.error(code::BAD_DECL, span, message, form);
        }
        for (param, wanted, word) in [
            (request, Direction::In, "in"),
            (response, Direction::Out, "out"),
        ] {
            let var = &self.program.vars[param.var];
            if var.kind != VarKind::Param(wanted) {
                let message = format!(
                    "the parameter `{}` of the handler `{name}` is not `{word}`",
                    var.name.as_str()
                );
                self.error(code::BAD_PARAM, var.name.span, message, form);
            }
            self.record(name, param);
        }
    }

    /// Checks that a parameter is a struct that C can have.
    fn record(&mut self, handler: &str, param: &Param) {
        let var = &self.program.vars[param.var];
        let (ty, span) = (var.ty, var.name.span);
        let is_struct = match self.program.types.get(ty) {
            Ty::Record(id, args) => {
                args.is_empty() && self.program.records[*id].kind == RecordKind::Struct
            }
            _ => false,
        };
        if !is_struct {
            let message = format!(
                "the parameter `{}` of the handler `{handler}` has type `{}`",
                var.name.as_str(),
                type_text(self.program, ty)
            );
            let hint = "requests and responses are structs";
            return self.error(code::BAD_TYPE, span, message, hint);
        }
        self.fields(handler, ty, 0);
    }

    fn fields(&mut self, handler: &str, ty: TyId, depth: usize) {
        checkpoint();
        let Ty::Record(id, _) = self.program.types.get(ty) else {
            return;
        };
        let record = &self.program.records[*id];
        for field in &record.fields {
            let fits = match self.program.types.get(underlying(self.program, field.ty)) {
                Ty::Bit(width) | Ty::Int(width) => *width > 0,
                Ty::Bool | Ty::Enum(_) => true,
                Ty::Record(id, args) => {
                    let inner = &self.program.records[*id];
                    let is_struct = inner.kind == RecordKind::Struct && args.is_empty();
                    if is_struct && depth < MAX_DEPTH {
                        self.fields(handler, field.ty, depth + 1);
                    }
                    is_struct && depth < MAX_DEPTH
                }
                _ => false,
            };
            if !fits {
                let message = format!(
                    "the field `{}` of type `{}` cannot be sent to the handler `{handler}`",
                    field.name.as_str(),
                    type_text(self.program, field.ty)
                );
                let hint = "requests and responses have fields of `bit`, `int`, `bool`, enums, \
                            floats, and structs of these";
                self.error(code::BAD_TYPE, field.name.span, message, hint);
            }
        }
    }

    /// Checks that handlers are called only in the `apply` blocks of controls, outside of loops.
    fn calls(&mut self) {
        let p = self.program;
        for parser in p.parsers.values() {
            for state in parser.states.values() {
                self.none_in(&state.body, "in a parser");
            }
        }
        for action in p.actions.values() {
            self.none_in(&action.body, "in an action");
        }
        for function in p.functions.values() {
            self.none_in(&function.body, "in a function");
        }
        for control in p.controls.values() {
            self.none_in_loops(&control.body);
        }
    }

    fn none_in(&mut self, body: &[Stmt], place: &str) {
        let mut found = Vec::new();
        walk::calls(body, &mut |call| {
            if self.is_call_of_handler(call) {
                found.push(call.span);
            }
        });
        for span in found {
            let message = format!("a handler cannot be called {place}");
            let hint = "call it in the `apply` block of a control of ingress";
            self.error(code::WRONG_PLACE, span, message, hint);
        }
    }

    fn none_in_loops(&mut self, body: &[Stmt]) {
        for stmt in body {
            let is_loop = matches!(stmt.kind, StmtKind::For { .. } | StmtKind::ForIn { .. });
            for inner in walk::bodies_of(stmt) {
                match is_loop {
                    true => self.none_in(inner, "in a loop"),
                    false => self.none_in_loops(inner),
                }
            }
        }
    }

    fn is_call_of_handler(&self, call: &Call) -> bool {
        match &call.callee {
            Callee::ExternFunction(id) => is_handler(&self.program.extern_functions[*id]),
            _ => false,
        }
    }

    fn table(&mut self, table: &Table) {
        let Some(annotation) = table
            .annotations
            .iter()
            .find(|annotation| annotation.name.as_str() == MIRROR)
        else {
            return;
        };
        let (name, span) = (table.name.as_str(), annotation.span);
        if self.arch != Arch::V1Model {
            let message = format!("`@mirror` of `{name}` is in a program that is not for v1model");
            let hint = "programs over a switch and servers are v1model programs";
            return self.error(code::ARCHITECTURE, span, message, hint);
        }
        if mirror_of(table).is_none_or(|entries| entries == 0) {
            // The form of the annotation is checked with all others.
            return;
        }
        let attached = |property: &&Property| {
            matches!(
                property.name.as_str(),
                "implementation" | "psa_implementation" | "pna_implementation"
            )
        };
        if let Some(property) = table.properties.iter().find(attached) {
            let message = format!(
                "the table `{name}` cannot be mirrored: its actions are in an action profile or \
                 selector"
            );
            let hint = "leave `@mirror` or the implementation out";
            return self.error(code::BAD_PROPERTY, property.name.span, message, hint);
        }
        let kinds: Vec<&str> = table
            .keys
            .iter()
            .map(|key| self.program.match_kinds[key.match_kind].as_str())
            .collect();
        let prefixes = kinds.iter().filter(|kind| **kind == "lpm").count();
        if prefixes > 1 || kinds.iter().any(|kind| !matches!(*kind, "exact" | "lpm")) {
            let message = format!("the table `{name}` cannot be mirrored: its keys");
            let message = format!("{message} are not exact, or exact with one prefix (`lpm`)");
            let hint = "leave `@mirror` out: the whole table is then in the switch";
            return self.error(code::BAD_KEY, span, message, hint);
        }
        if kinds.is_empty() {
            let message = format!("the table `{name}` cannot be mirrored: it has no key");
            return self.error(code::BAD_KEY, span, message, "leave `@mirror` out");
        }
        if table.entries_are_const {
            let message = format!("the table `{name}` cannot be mirrored: its entries are const");
            let hint = "leave `@mirror` out, or leave out the const entries";
            return self.error(code::BAD_PROPERTY, span, message, hint);
        }
        if let (Some(mirrored), Some(size)) = (mirror_of(table), &table.size)
            && let ExprKind::Int(size) = &size.kind
            && *size < mirrored.into()
        {
            let message = format!(
                "`@mirror({mirrored})` of `{name}` is more than the {size} entries of the table"
            );
            let hint = "write at most the table's `size`";
            let warning = Diagnostic::warning(code::W_ANNOTATION, span, message);
            self.diagnostics.push(warning.hint(hint));
        }
    }
}

/// Returns the type below all `type` declarations.
fn underlying(program: &Program, ty: TyId) -> TyId {
    match program.types.get(ty) {
        Ty::NewType(id) => underlying(program, program.new_types[*id].underlying),
        _ => ty,
    }
}
