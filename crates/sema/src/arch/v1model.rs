//! The rules of v1model, as BMv2's simple_switch has them.

use std::collections::{HashMap, HashSet};

use num_bigint::BigInt;
use syntax::ast::{ConstDecl, Direction};
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use crate::code;
use crate::hir::{
    ActionId, Call, Callee, Expr, ExprKind, InstanceId, KeySet, Keyset, Program, Stmt, Table,
    Transition, Ty, VarKind,
};
use crate::walk;

/// The versions of v1model.p4 that are known.
const VERSIONS: std::ops::RangeInclusive<u32> = 20180101..=20200408;

/// `V1MODEL_VERSION` must be a version that is known.
pub(super) fn check_version(decl: &ConstDecl, value: &BigInt, diagnostics: &mut Diagnostics) {
    let known = u32::try_from(value).is_ok_and(|version| VERSIONS.contains(&version));
    if !known {
        let message = format!(
            "unknown version {value} of v1model: versions {} to {} are known",
            VERSIONS.start(),
            VERSIONS.end()
        );
        diagnostics.push(Diagnostic::error(
            code::ARCHITECTURE,
            decl.name.span,
            message,
        ));
    }
}

pub(super) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    let mut rules = Rules {
        program,
        diagnostics,
    };

    rules.selects();
    rules.action_data();
    rules.direct_objects();
}

struct Rules<'p, 'd> {
    program: &'p Program,
    diagnostics: &'d mut Diagnostics,
}

impl<'p> Rules<'p, '_> {
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.diagnostics
            .push(Diagnostic::error(code::ARCHITECTURE, span, message));
    }

    /// All code of the program.
    fn bodies(&self) -> Vec<&'p [Stmt]> {
        let p = self.program;
        let functions = p.functions.values().map(|f| &f.body[..]);
        let actions = p.actions.values().map(|a| &a.body[..]);
        let controls = p.controls.values().map(|c| &c.body[..]);
        let states = p
            .parsers
            .values()
            .flat_map(|parser| parser.states.values().map(|s| &s.body[..]));
        functions
            .chain(actions)
            .chain(controls)
            .chain(states)
            .collect()
    }

    fn calls(&self, body: &'p [Stmt]) -> Vec<&'p Call> {
        let mut calls = Vec::new();
        walk::calls(body, &mut |call| calls.push(call));
        calls
    }

    /// Masks and ranges of a select are known at compile time.
    fn selects(&mut self) {
        for parser in self.program.parsers.values() {
            for state in parser.states.values() {
                let Transition::Select { cases, .. } = &state.transition else {
                    continue;
                };
                for case in cases {
                    let Keyset::Sets(sets) = &case.keyset else {
                        continue;
                    };
                    for set in sets {
                        if let KeySet::Mask(a, b) | KeySet::Range(a, b) = set {
                            self.constant(a);
                            self.constant(b);
                        }
                    }
                }
            }
        }
    }

    fn constant(&mut self, e: &Expr) {
        if !matches!(e.kind, ExprKind::Int(_) | ExprKind::EnumMember(..))
            && !mentions_constructor(self.program, e)
        {
            self.error(
                e.span,
                "the ends of a range and of a mask must be known at compile time",
            );
        }
    }

    /// Action data are scalars.
    fn action_data(&mut self) {
        let listed: HashSet<ActionId> = self
            .program
            .tables
            .values()
            .flat_map(|table| table.actions.iter().map(|a| a.action))
            .collect();
        let mut listed: Vec<ActionId> = listed.into_iter().collect();
        listed.sort();
        for action in listed {
            for param in &self.program.actions[action].params {
                let var = &self.program.vars[param.var];
                let scalar = matches!(
                    self.program.types.get(var.ty),
                    Ty::Bit(_)
                        | Ty::Int(_)
                        | Ty::Bool
                        | Ty::NewType(_)
                        | Ty::Enum(_)
                        | Ty::ErrorCode
                );
                if var.kind == VarKind::Param(Direction::None) && !scalar {
                    let message = format!(
                        "parameter `{}` is set by the control plane: it must be a number, a `bool`, a `type` or an enum",
                        var.name.as_str()
                    );
                    self.error(var.name.span, message);
                }
            }
        }
    }

    /// A direct counter or meter belongs to one table, whose actions use it.
    fn direct_objects(&mut self) {
        let mut owners: HashMap<InstanceId, &Table> = HashMap::new();
        for table in self.program.tables.values() {
            for property in &table.properties {
                let ExprKind::Instance(object) = property.value.kind else {
                    continue;
                };
                let wanted = match property.name.as_str() {
                    "counters" => "direct_counter",
                    "meters" => "direct_meter",
                    _ => continue,
                };
                let found = self.extern_name(object).unwrap_or("");
                if found != wanted {
                    let message = format!(
                        "the property `{}` needs a `{wanted}`",
                        property.name.as_str()
                    );
                    self.error(property.value.span, message);
                    continue;
                }
                if let Some(other) = owners.insert(object, table) {
                    let name = self.program.instances[object].name.as_str();
                    let message = format!(
                        "`{name}` belongs to table `{}` already",
                        other.name.as_str()
                    );
                    self.error(property.value.span, message);
                }
            }
        }
        self.meter_reads(&owners);
    }

    fn extern_name(&self, instance: InstanceId) -> Option<&'p str> {
        match self.program.types.get(self.program.instances[instance].ty) {
            Ty::Extern(id, _) => Some(self.program.externs[*id].name.as_str()),
            _ => None,
        }
    }

    /// A direct meter is read by an action of its table, and by no other code.
    fn meter_reads(&mut self, owners: &HashMap<InstanceId, &Table>) {
        let mut read: HashSet<InstanceId> = HashSet::new();
        for body in self.bodies() {
            for call in self.calls(body) {
                let Callee::ExternMethod { object, .. } = &call.callee else {
                    continue;
                };
                let ExprKind::Instance(id) = object.kind else {
                    continue;
                };
                if self.extern_name(id) != Some("direct_meter") {
                    continue;
                }
                if !owners.contains_key(&id) {
                    let name = self.program.instances[id].name.as_str();
                    self.error(
                        call.span,
                        format!("direct meter `{name}` belongs to no table"),
                    );
                }
                read.insert(id);
            }
        }
        let mut unread: Vec<(&InstanceId, &&Table)> = owners
            .iter()
            .filter(|(id, _)| !read.contains(*id) && self.extern_name(**id) == Some("direct_meter"))
            .collect();
        unread.sort_by_key(|(id, _)| **id);
        for (id, table) in unread {
            let instance = &self.program.instances[*id];
            let message = format!(
                "direct meter `{}` of table `{}` is read by no action",
                instance.name.as_str(),
                table.name.as_str()
            );
            self.error(instance.span, message);
        }
    }
}

/// Whether a value depends on a constructor parameter, and is known when the block is instantiated.
fn mentions_constructor(program: &Program, e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Var(var) => program.vars[*var].kind == VarKind::CtorParam,
        _ => walk::children(e).any(|child| mentions_constructor(program, child)),
    }
}
