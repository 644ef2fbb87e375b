//! Control-plane names: no two tables and no two actions have the same (section "Control plane
//! names").

use std::collections::HashMap;

use syntax::ast::Name;
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use crate::annotations::{has, string_of};
use crate::code;
use crate::hir::{
    ActionId, Annotation, Arg, Expr, ExprKind, InstanceId, LocalDecl, Program, TableId, Ty, TyId,
};

/// Checks the names of all items that `main` instantiates.
pub(crate) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    let Some(main) = program.main else { return };
    let mut names = Names {
        program,
        diagnostics,
        tables: HashMap::new(),
        actions: HashMap::new(),
        controllable: HashMap::new(),
    };
    let mut siblings = HashMap::new();
    for instance in argument_instances(program, main) {
        let name = type_name(program, instance).unwrap_or(&program.instances[instance].name);
        let prefix = fresh(&mut siblings, name.as_str());
        names.walk(instance, &prefix);
    }
}

/// Returns the instances among the constructor arguments.
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

/// Returns the name of the instantiated parser or control, the customary prefix of the names inside
/// it.
fn type_name(program: &Program, instance: InstanceId) -> Option<&Name> {
    match program.types.get(program.instances[instance].ty) {
        Ty::Parser(id) => Some(&program.parsers[*id].name),
        Ty::Control(id) => Some(&program.controls[*id].name),
        _ => None,
    }
}

/// Returns a name that no sibling has. Direct applications of one control are distinguished by a
/// number.
fn fresh(siblings: &mut HashMap<String, usize>, name: &str) -> String {
    let count = siblings.entry(name.to_string()).or_insert(0);
    *count += 1;
    if *count == 1 {
        name.to_string()
    } else {
        format!("{name}_{}", *count - 1)
    }
}

/// Externs that no control-plane message names.
const UNSEEN_EXTERNS: &[&str] = &[
    "Checksum",
    "Checksum16",
    "Hash",
    "InternetChecksum",
    "Random",
];

struct Names<'p, 'd> {
    program: &'p Program,
    diagnostics: &'d mut Diagnostics,
    tables: HashMap<String, (TableId, Span)>,
    actions: HashMap<String, (ActionId, Span)>,
    /// True if instances of a type contain named control-plane objects.
    controllable: HashMap<TyId, bool>,
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
        let mut siblings: HashMap<String, Span> = HashMap::new();
        for local in locals {
            match local {
                LocalDecl::Table(table) => self.table(*table, prefix),
                LocalDecl::Action(action) => self.action(*action, prefix),
                LocalDecl::Instance(inner) => {
                    let decl = &self.program.instances[*inner];
                    let name = full(prefix, &decl.annotations, &decl.name);
                    match siblings.get(&name) {
                        // Two instances without named control-plane objects may have the same name.
                        Some(&before) => {
                            if self.is_controllable(decl.ty) {
                                self.same_instance(&name, decl.span, before);
                            }
                        }
                        None => {
                            siblings.insert(name.clone(), decl.span);
                            self.walk(*inner, &name);
                        }
                    }
                }
                LocalDecl::Var(..) | LocalDecl::ValueSet(_) => {}
            }
        }
    }

    /// Returns true if instances of this type hold tables, value sets or externs.
    fn is_controllable(&mut self, ty: TyId) -> bool {
        if let Some(&known) = self.controllable.get(&ty) {
            return known;
        }
        let program = self.program;
        let locals: &[LocalDecl] = match program.types.get(ty) {
            Ty::Parser(id) => &program.parsers[*id].locals,
            Ty::Control(id) => &program.controls[*id].locals,
            Ty::Extern(id, _) => {
                let name = program.externs[*id].name.as_str();
                return !UNSEEN_EXTERNS.contains(&name);
            }
            _ => return false,
        };
        let found = locals.iter().any(|local| match local {
            LocalDecl::Table(_) | LocalDecl::ValueSet(_) => true,
            LocalDecl::Instance(inner) => self.is_controllable(program.instances[*inner].ty),
            LocalDecl::Action(_) | LocalDecl::Var(..) => false,
        });
        self.controllable.insert(ty, found);
        found
    }

    /// Reports two instances with the same name, and so with the same names of their tables and
    /// externs (section "Direct type invocation").
    fn same_instance(&mut self, name: &str, span: Span, before: Span) {
        let message =
            format!("two instances are named `{name}`, and so are the tables and externs in them");
        let diagnostic = Diagnostic::error(code::CONTROL_PLANE_NAME, span, message);
        let hint =
            "declare an instance for each with a name of its own, or apply one instance twice";
        self.diagnostics
            .push(diagnostic.label(before, "the other one").hint(hint));
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

    /// Returns true if an action does nothing. Two such actions are one to the control plane.
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
        // Packets do not depend on the names. With two actions of one name only P4Info cannot be
        // generated.
        let diagnostic = match what {
            "action" => Diagnostic::warning(code::W_CONTROL_PLANE_NAME, span, message),
            _ => Diagnostic::error(code::CONTROL_PLANE_NAME, span, message),
        };
        let at = if before == span {
            diagnostic
        } else {
            diagnostic.label(before, "the other one")
        };
        self.diagnostics
            .push(at.hint("give one of them another name with `@name(\"..\")`"));
    }
}

/// Returns the name with its prefix. `@name` replaces it; a name that begins with a dot is
/// absolute.
fn full(prefix: &str, annotations: &[Annotation], name: &Name) -> String {
    let local = string_of(annotations, "name").unwrap_or_else(|| name.text.clone());
    match local.strip_prefix('.') {
        Some(absolute) => absolute.to_string(),
        None if prefix.is_empty() => local.to_string(),
        None => format!("{prefix}.{local}"),
    }
}
