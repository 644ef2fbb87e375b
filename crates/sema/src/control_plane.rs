//! Names that the control plane sees: no two tables, and no two actions, share one (section "Control plane names").

use std::collections::HashMap;

use syntax::ast::Name;
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use crate::annotations::{has, string_of};
use crate::code;
use crate::hir::{
    ActionId, Annotation, Arg, Expr, ExprKind, InstanceId, LocalDecl, Program, TableId, Ty,
};

/// Checks the names of what `main` instantiates.
pub(crate) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    let Some(main) = program.main else { return };
    let mut names = Names {
        program,
        diagnostics,
        tables: HashMap::new(),
        actions: HashMap::new(),
    };
    let mut siblings = HashMap::new();
    for instance in argument_instances(program, main) {
        let name = type_name(program, instance).unwrap_or(&program.instances[instance].name);
        let prefix = fresh(&mut siblings, name.as_str());
        names.walk(instance, &prefix);
    }
}

/// Instances that are given to a constructor.
fn argument_instances(program: &Program, instance: InstanceId) -> Vec<InstanceId> {
    let args = program.instances[instance].args.iter();
    args.filter_map(|arg| match arg {
        Arg::Expr(Expr {
            kind: ExprKind::Instance(id),
            ..
        }) => Some(*id),
        _ => None,
    })
    .collect()
}

/// The name of the parser or control that is instantiated: the customary prefix of what is inside of it.
fn type_name(program: &Program, instance: InstanceId) -> Option<&Name> {
    match program.types.get(program.instances[instance].ty) {
        Ty::Parser(id) => Some(&program.parsers[*id].name),
        Ty::Control(id) => Some(&program.controls[*id].name),
        _ => None,
    }
}

/// A name that no sibling has: direct applications of one control are told apart by a number.
fn fresh(siblings: &mut HashMap<String, usize>, name: &str) -> String {
    let count = siblings.entry(name.to_string()).or_insert(0);
    *count += 1;
    if *count == 1 {
        name.to_string()
    } else {
        format!("{name}_{}", *count - 1)
    }
}

struct Names<'p, 'd> {
    program: &'p Program,
    diagnostics: &'d mut Diagnostics,
    tables: HashMap<String, (TableId, Span)>,
    actions: HashMap<String, (ActionId, Span)>,
}

impl Names<'_, '_> {
    fn walk(&mut self, instance: InstanceId, prefix: &str) {
        for inner in argument_instances(self.program, instance) {
            if type_name(self.program, inner).is_some() {
                let name = full(
                    prefix,
                    &self.program.instances[inner].annotations,
                    &self.program.instances[inner].name,
                );
                self.walk(inner, &name);
            }
        }
        let locals: &[LocalDecl] = match self.program.types.get(self.program.instances[instance].ty)
        {
            Ty::Parser(id) => &self.program.parsers[*id].locals,
            Ty::Control(id) => &self.program.controls[*id].locals,
            _ => return,
        };
        let mut siblings = HashMap::new();
        for local in locals {
            match local {
                LocalDecl::Table(table) => self.table(*table, prefix),
                LocalDecl::Action(action) => self.action(*action, prefix),
                LocalDecl::Instance(inner) => {
                    let decl = &self.program.instances[*inner];
                    let name = fresh(&mut siblings, &full(prefix, &decl.annotations, &decl.name));
                    self.walk(*inner, &name);
                }
                LocalDecl::Var(..) | LocalDecl::ValueSet(_) => {}
            }
        }
    }

    fn table(&mut self, id: TableId, prefix: &str) {
        let table = &self.program.tables[id];
        for listed in &table.actions {
            if self.program.actions[listed.action].control.is_none() {
                self.action(listed.action, "");
            }
        }
        if has(&table.annotations, "hidden") {
            return;
        }
        let name = full(prefix, &table.annotations, &table.name);
        if let Some(&(_, before)) = self.tables.get(&name) {
            self.conflict("table", &name, table.name.span, before);
            return;
        }
        self.tables.insert(name, (id, table.name.span));
    }

    fn action(&mut self, id: ActionId, prefix: &str) {
        let action = &self.program.actions[id];
        if has(&action.annotations, "hidden") {
            return;
        }
        let name = full(prefix, &action.annotations, &action.name);
        match self.actions.get(&name) {
            Some(&(other, _)) if self.is_no_op(other) && self.is_no_op(id) => {}
            Some(&(other, before)) if other != id => {
                self.conflict("action", &name, action.name.span, before)
            }
            Some(_) => {}
            None => {
                self.actions.insert(name, (id, action.name.span));
            }
        }
    }

    /// Whether an action does nothing: two of those are one to the control plane.
    fn is_no_op(&self, id: ActionId) -> bool {
        let action = &self.program.actions[id];
        action.params.is_empty() && action.body.is_empty()
    }

    fn conflict(&mut self, what: &str, name: &str, span: Span, before: Span) {
        let (before, span) = if before.lo > span.lo {
            (span, before)
        } else {
            (before, span)
        };
        let message = format!("the control plane would see two {what}s named `{name}`");
        let diagnostic = Diagnostic::error(code::CONTROL_PLANE_NAME, span, message);
        let at = if before == span {
            diagnostic
        } else {
            diagnostic.label(before, "the other one")
        };
        self.diagnostics
            .push(at.hint("give one of them another name with `@name(\"..\")`"));
    }
}

/// The name with its prefix; `@name` replaces it, and one that begins with a dot is absolute.
fn full(prefix: &str, annotations: &[Annotation], name: &Name) -> String {
    let local = string_of(annotations, "name").unwrap_or_else(|| name.text.clone());
    match local.strip_prefix('.') {
        Some(absolute) => absolute.to_string(),
        None if prefix.is_empty() => local.to_string(),
        None => format!("{prefix}.{local}"),
    }
}
