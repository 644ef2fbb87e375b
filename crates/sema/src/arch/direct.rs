//! Properties that attach objects to tables, and direct counters and meters. Each direct object
//! belongs to one table and is used by that table's actions.

use std::collections::{BTreeMap, BTreeSet};

use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use super::Arch;
use crate::code;
use crate::hir::{ActionId, Call, Callee, ExprKind, InstanceId, Program, Stmt, Table, TableId, Ty};
use crate::walk;

/// A table property and the externs that it accepts.
struct Attachment {
    property: &'static str,
    externs: &'static [&'static str],
}

const fn attachment(property: &'static str, externs: &'static [&'static str]) -> Attachment {
    Attachment { property, externs }
}

const V1MODEL: [Attachment; 3] = [
    attachment("counters", &["direct_counter"]),
    attachment("meters", &["direct_meter"]),
    attachment("implementation", &["action_profile", "action_selector"]),
];
const PSA: [Attachment; 3] = [
    attachment("psa_direct_counter", &["DirectCounter"]),
    attachment("psa_direct_meter", &["DirectMeter"]),
    attachment("psa_implementation", &["ActionProfile", "ActionSelector"]),
];
const PNA: [Attachment; 3] = [
    attachment("pna_direct_counter", &["DirectCounter"]),
    attachment("pna_direct_meter", &["DirectMeter"]),
    attachment("pna_implementation", &["ActionProfile", "ActionSelector"]),
];

/// Externs with one element for each table entry.
const DIRECT: [&str; 4] = [
    "direct_counter",
    "direct_meter",
    "DirectCounter",
    "DirectMeter",
];

pub(super) fn check(arch: Arch, program: &Program, diagnostics: &mut Diagnostics) {
    let attachments = match arch {
        Arch::V1Model => &V1MODEL,
        Arch::Psa => &PSA,
        Arch::Pna => &PNA,
        _ => return,
    };
    let mut rules = Rules {
        program,
        diagnostics,
        owners: BTreeMap::new(),
        listed: listed(program),
        shared_actions: arch == Arch::V1Model,
    };
    rules.properties(attachments);
    rules.uses();
    if arch == Arch::V1Model {
        rules.unread_meters();
    }
}

fn listed(program: &Program) -> BTreeMap<ActionId, Vec<TableId>> {
    let mut listed: BTreeMap<ActionId, Vec<TableId>> = BTreeMap::new();
    for (id, table) in program.tables.iter() {
        for action in &table.actions {
            listed.entry(action.action).or_default().push(id);
        }
    }
    listed
}

struct Rules<'p, 'd> {
    program: &'p Program,
    diagnostics: &'d mut Diagnostics,
    /// Direct objects and their tables.
    owners: BTreeMap<InstanceId, Vec<TableId>>,
    /// Tables that list each action.
    listed: BTreeMap<ActionId, Vec<TableId>>,
    /// True if tables that do not own an object may have actions that use it.
    shared_actions: bool,
}

impl<'p> Rules<'p, '_> {
    fn error(&mut self, span: Span, message: String) {
        self.diagnostics
            .push(Diagnostic::error(code::ARCHITECTURE, span, message));
    }

    fn extern_name(&self, instance: InstanceId) -> Option<&'p str> {
        match self.program.types.get(self.program.instances[instance].ty) {
            Ty::Extern(id, _) => Some(self.program.externs[*id].name.as_str()),
            _ => None,
        }
    }

    fn is_direct(&self, instance: InstanceId) -> bool {
        self.extern_name(instance)
            .is_some_and(|name| DIRECT.contains(&name))
    }

    fn properties(&mut self, attachments: &[Attachment]) {
        for (id, table) in self.program.tables.iter() {
            for property in &table.properties {
                let Some(rule) = attachments
                    .iter()
                    .find(|rule| rule.property == property.name.as_str())
                else {
                    continue;
                };
                match property.value.kind {
                    ExprKind::Instance(object) => {
                        self.attach(id, table, object, rule, property.value.span)
                    }
                    // PSA requires a single object. p4c's back ends accept a list of one, too.
                    ExprKind::Aggregate(ref parts)
                        if parts.len() == 1 && matches!(parts[0].kind, ExprKind::Instance(_)) =>
                    {
                        if let ExprKind::Instance(object) = parts[0].kind {
                            self.attach(id, table, object, rule, parts[0].span)
                        }
                    }
                    // A constructor parameter is known when the control is instantiated.
                    ExprKind::Var(_) => {}
                    ExprKind::Aggregate(ref parts) if parts.len() > 1 => self.error(
                        parts[1].span,
                        format!(
                            "the property `{}` names one object: a table has one direct counter \
                             and one direct meter here, as PSA describes (section \"Table \
                             properties\")",
                            rule.property
                        ),
                    ),
                    _ => {
                        let wanted = rule.externs.join("` or `");
                        self.error(
                            property.value.span,
                            format!("the property `{}` needs a `{wanted}`", rule.property),
                        );
                    }
                }
            }
        }
    }

    fn attach(
        &mut self,
        id: TableId,
        table: &Table,
        object: InstanceId,
        rule: &Attachment,
        span: Span,
    ) {
        if !rule
            .externs
            .contains(&self.extern_name(object).unwrap_or(""))
        {
            let wanted = rule.externs.join("` or `");
            return self.error(
                span,
                format!("the property `{}` needs a `{wanted}`", rule.property),
            );
        }
        if !self.is_direct(object) {
            return;
        }
        let owners = self.owners.entry(object).or_default();
        let before = owners.first().copied();
        owners.push(id);
        if let Some(other) = before {
            let name = self.program.instances[object].name.as_str();
            let other = self.program.tables[other].name.as_str();
            let message = format!(
                "`{name}` belongs to table `{other}`, and to `{}` as well",
                table.name.as_str()
            );
            self.error(span, message);
        }
    }

    /// Returns the calls of direct objects in a body.
    fn direct_calls(&self, body: &'p [Stmt]) -> Vec<(InstanceId, &'p Call)> {
        let mut found = Vec::new();
        walk::calls(body, &mut |call| {
            if let Callee::ExternMethod { object, .. } = &call.callee
                && let ExprKind::Instance(id) = object.kind
            {
                found.push((id, call));
            }
        });
        found.retain(|(id, _)| self.is_direct(*id));
        found
    }

    /// Checks that direct objects are used in actions of their table.
    fn uses(&mut self) {
        for (id, action) in self.program.actions.iter() {
            for (object, call) in self.direct_calls(&action.body) {
                self.action_use(id, object, call);
            }
        }
        for control in self.program.controls.values() {
            for (object, call) in self.direct_calls(&control.body) {
                let name = self.program.instances[object].name.as_str();
                self.error(
                    call.span,
                    format!("`{name}` can only be used in the actions of its table"),
                );
            }
        }
    }

    fn action_use(&mut self, action: ActionId, object: InstanceId, call: &Call) {
        let name = self.program.instances[object].name.as_str();
        let Some(owners) = self.owners.get(&object).cloned() else {
            // The result of a meter without a table is undefined; p4c rejects it, too.
            if self.shared_actions && self.extern_name(object) == Some("direct_counter") {
                let message = format!("`{name}` belongs to no table: the call has no effect");
                self.diagnostics.push(Diagnostic::warning(
                    code::W_ARCHITECTURE,
                    call.span,
                    message,
                ));
                return;
            }
            return self.error(call.span, format!("`{name}` belongs to no table"));
        };
        if self.shared_actions {
            return;
        }
        for id in self.listed.get(&action).cloned().unwrap_or_default() {
            if !owners.contains(&id) {
                let owner = self.program.tables[owners[0]].name.as_str();
                let other = self.program.tables[id].name.as_str();
                let message = format!(
                    "`{name}` belongs to table `{owner}`, but table `{other}` has this action, too"
                );
                self.error(call.span, message);
            }
        }
    }

    /// Reports direct meters that no action of the table reads: BMv2 executes the meter at the
    /// read.
    fn unread_meters(&mut self) {
        let actions = self.program.actions.values();
        let read: BTreeSet<InstanceId> = actions
            .flat_map(|action| self.direct_calls(&action.body))
            .map(|(id, _)| id)
            .collect();
        let meters: Vec<InstanceId> = self
            .owners
            .keys()
            .copied()
            .filter(|id| self.extern_name(*id) == Some("direct_meter"))
            .collect();
        for id in meters.into_iter().filter(|id| !read.contains(id)) {
            let instance = &self.program.instances[id];
            let message = format!(
                "direct meter `{}` is read by no action of its table",
                instance.name.as_str()
            );
            self.error(instance.span, message);
        }
    }
}
