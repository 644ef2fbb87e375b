//! The rules of v1model as implemented by BMv2's simple_switch.

use std::collections::HashSet;

use num_bigint::BigInt;
use syntax::ast::{ConstDecl, Direction};
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use crate::code;
use crate::hir::{ActionId, Expr, ExprKind, KeySet, Keyset, Program, Transition, Ty, VarKind};
use crate::walk;

/// The known versions of v1model.p4.
const VERSIONS: std::ops::RangeInclusive<u32> = 20180101..=20200408;

/// Checks that `V1MODEL_VERSION` is a known version.
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

    /// Checks that masks and ranges of a select are known at compile time.
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

    /// Checks that action data are scalars.
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
}

/// Returns true if a value depends on a constructor parameter. It is then known when the block is
/// instantiated.
fn mentions_constructor(program: &Program, e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Var(var) => program.vars[*var].kind == VarKind::CtorParam,
        _ => walk::children(e).any(|child| mentions_constructor(program, child)),
    }
}
