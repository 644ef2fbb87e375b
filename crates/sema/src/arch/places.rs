//! Extern functions that an architecture provides only in some of its blocks.

use std::collections::HashSet;

use syntax::diag::{Diagnostic, Diagnostics};

use super::Arch;
use crate::code;
use crate::hir::{
    ActionId, Arg, Call, Callee, ControlId, Expr, ExprKind, FunctionId, InstanceId, LocalDecl,
    ParserId, Program, Stmt, TableId, Ty,
};
use crate::walk;

/// Extern functions, and the package parameters of the blocks that may call them.
type Rule = (&'static [&'static str], &'static [&'static str]);

const V1MODEL: &[Rule] = &[
    (
        &[
            "verify_checksum",
            "verify_checksum_with_payload",
            "update_checksum",
            "update_checksum_with_payload",
        ],
        &["vr", "ck"],
    ),
    (&["resubmit", "resubmit_preserving_field_list"], &["ig"]),
    (
        &["recirculate", "recirculate_preserving_field_list"],
        &["eg"],
    ),
    (
        &["clone", "clone3", "clone_preserving_field_list"],
        &["ig", "eg"],
    ),
];
/// The package parameter of v1model's ingress, where handlers are called.
const INGRESS: &str = "ig";
/// Role of the parser in v1model.
const PARSER: &str = "p";
/// Egress functions that BMv2 also accepts in ingress.
const KEPT_TO_THE_END: [&str; 2] = ["recirculate", "recirculate_preserving_field_list"];
/// Ingress functions that BMv2 ignores in egress.
const WITHOUT_EFFECT: [&str; 2] = ["resubmit", "resubmit_preserving_field_list"];
const PSA: &[Rule] = &[
    (
        &["psa_clone_i2e", "psa_resubmit", "psa_normal"],
        &["ingress.id"],
    ),
    (&["psa_clone_e2e", "psa_recirculate"], &["egress.ed"]),
];
const PNA: &[Rule] = &[(
    &[
        "mirror_packet",
        "add_entry",
        "set_entry_expire_time",
        "restart_expire_timer",
    ],
    &["main_control"],
)];

pub(super) fn check(arch: Arch, program: &Program, diagnostics: &mut Diagnostics) {
    let rules = match arch {
        Arch::V1Model => V1MODEL,
        Arch::Psa => PSA,
        Arch::Pna => PNA,
        _ => return,
    };
    let Some(main) = program.main else { return };
    let mut walk = Places {
        arch,
        program,
        diagnostics,
        rules,
        role: String::new(),
        seen: HashSet::new(),
    };
    walk.package(main, "");
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Unit {
    Parser(ParserId),
    Control(ControlId),
    Action(ActionId),
    Function(FunctionId),
}

struct Places<'p, 'd> {
    arch: Arch,
    program: &'p Program,
    diagnostics: &'d mut Diagnostics,
    rules: &'static [Rule],
    /// The package parameter of the block being walked.
    role: String,
    seen: HashSet<Unit>,
}

impl<'p> Places<'p, '_> {
    /// Walks the blocks of a package; packages may be nested.
    fn package(&mut self, instance: InstanceId, prefix: &str) {
        let instance = &self.program.instances[instance];
        let Ty::BlockType(package, _) = self.program.types.get(instance.ty) else {
            return;
        };
        let params = &self.program.block_types[*package].params;
        for (arg, param) in instance.args.iter().zip(params) {
            let Arg::Expr(Expr {
                kind: ExprKind::Instance(inner),
                ..
            }) = arg
            else {
                continue;
            };
            let role = format!("{prefix}{}", self.program.vars[param.var].name.as_str());
            if let Ty::BlockType(..) = self.program.types.get(self.program.instances[*inner].ty) {
                self.package(*inner, &format!("{role}."));
                continue;
            }
            self.role = role;
            self.seen.clear();
            self.object(*inner);
        }
    }

    fn object(&mut self, instance: InstanceId) {
        match self.program.types.get(self.program.instances[instance].ty) {
            Ty::Parser(id) => self.unit(Unit::Parser(*id)),
            Ty::Control(id) => self.unit(Unit::Control(*id)),
            _ => {}
        }
    }

    fn unit(&mut self, unit: Unit) {
        if !self.seen.insert(unit) {
            return;
        }
        let p = self.program;
        match unit {
            Unit::Parser(id) => {
                self.locals(&p.parsers[id].locals);
                p.parsers[id]
                    .states
                    .values()
                    .for_each(|state| self.body(&state.body));
            }
            Unit::Control(id) => {
                self.locals(&p.controls[id].locals);
                self.body(&p.controls[id].body);
            }
            Unit::Action(id) => self.body(&p.actions[id].body),
            Unit::Function(id) => self.body(&p.functions[id].body),
        }
    }

    fn locals(&mut self, locals: &'p [LocalDecl]) {
        for local in locals {
            match local {
                LocalDecl::Var(_, Some(init)) => {
                    let mut calls = Vec::new();
                    walk::calls_in_expr(init, &mut |call| calls.push(call));
                    calls.into_iter().for_each(|call| self.call(call));
                }
                LocalDecl::Table(table) => {
                    let actions: Vec<ActionId> = self.program.tables[*table]
                        .actions
                        .iter()
                        .map(|listed| listed.action)
                        .collect();
                    actions
                        .into_iter()
                        .for_each(|action| self.unit(Unit::Action(action)));
                }
                _ => {}
            }
        }
    }

    fn body(&mut self, body: &'p [Stmt]) {
        let mut calls = Vec::new();
        walk::calls(body, &mut |call| calls.push(call));
        calls.into_iter().for_each(|call| self.call(call));
    }

    fn call(&mut self, call: &'p Call) {
        match &call.callee {
            Callee::Function(id) => self.unit(Unit::Function(*id)),
            Callee::Action(id) => self.unit(Unit::Action(*id)),
            Callee::Table(id) => self.table(*id, call),
            Callee::Apply(object) => {
                if let ExprKind::Instance(id) = object.kind {
                    self.object(id);
                }
            }
            Callee::ExternFunction(id) => {
                let proto = &self.program.extern_functions[*id];
                let name = proto.name.as_str();
                // That a parser calls none is checked for all parsers.
                if super::is_handler(proto) && self.role == PARSER {
                    return;
                }
                if super::is_handler(proto) && self.role != INGRESS {
                    let message = format!("the handler `{name}` is called outside of ingress");
                    self.diagnostics.push(
                        Diagnostic::error(code::WRONG_PLACE, call.span, message)
                            .hint("call it in the `apply` block of a control of ingress"),
                    );
                    return;
                }
                let rule = self.rules.iter().find(|(names, _)| names.contains(&name));
                if let Some((_, roles)) = rule
                    && !roles.contains(&self.role.as_str())
                {
                    if WITHOUT_EFFECT.contains(&name) && self.role == "eg" {
                        let message = format!(
                            "v1model offers `{name}` in ingress only: here it has no effect, as \
                             in BMv2"
                        );
                        self.diagnostics.push(Diagnostic::warning(
                            code::W_ARCHITECTURE,
                            call.span,
                            message,
                        ));
                        return;
                    }
                    if KEPT_TO_THE_END.contains(&name) && self.role == "ig" {
                        let message = format!(
                            "v1model offers `{name}` in egress only; the request is kept until \
                             egress has ended, as BMv2 does"
                        );
                        self.diagnostics.push(Diagnostic::warning(
                            code::W_ARCHITECTURE,
                            call.span,
                            message,
                        ));
                        return;
                    }
                    let message = format!(
                        "`{name}` can only be called in the block for `{}` of the architecture, but this is in the one for `{}`",
                        roles.join("` or `"),
                        self.role
                    );
                    self.diagnostics.push(Diagnostic::error(
                        code::ARCHITECTURE,
                        call.span,
                        message,
                    ));
                }
            }
            _ => {}
        }
    }

    /// Checks that a mirrored table is applied in ingress: a packet leaves for a server there only.
    fn table(&mut self, table: TableId, call: &Call) {
        let table = &self.program.tables[table];
        // Of other architectures, `@mirror` itself is an error.
        if self.arch != Arch::V1Model || self.role == INGRESS || !super::remote::is_mirrored(table)
        {
            return;
        }
        let name = table.name.as_str();
        let message = format!("the mirrored table `{name}` is applied outside of ingress");
        self.diagnostics.push(
            Diagnostic::error(code::WRONG_PLACE, call.span, message)
                .hint("apply it in ingress, or take `@mirror` from it"),
        );
    }
}
