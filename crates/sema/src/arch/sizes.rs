//! Checks the sizes of counters, meters, registers, action profiles and selectors. They must fit
//! P4Info and the tables of a switch.

use num_bigint::BigInt;
use syntax::diag::{Diagnostic, Diagnostics};

use crate::code;
use crate::hir::{Arg, ExprKind, Instance, Program, Ty};

/// Maximum size. P4Info has 63 bits for some sizes and 31 for others.
pub const MAX_SIZE: u32 = i32::MAX as u32;

/// Externs with cells or members, and the position of the size in their constructor arguments.
const SIZED: [(&str, usize); 12] = [
    ("counter", 0),
    ("Counter", 0),
    ("CounterArray", 0),
    ("meter", 0),
    ("Meter", 0),
    ("register", 0),
    ("Register", 0),
    ("action_profile", 0),
    ("ActionProfile", 0),
    ("action_selector", 1),
    ("ActionSelector", 1),
    ("hash_table", 0),
];

/// Returns the position of the constructor argument that is an extern's number of cells or members.
pub fn size_argument(name: &str) -> Option<usize> {
    let sized = SIZED.iter().find(|(sized, _)| *sized == name);
    sized.map(|(_, at)| *at)
}

pub(super) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    for instance in program.instances.values() {
        check_instance(program, instance, diagnostics);
    }
}

fn check_instance(program: &Program, instance: &Instance, diagnostics: &mut Diagnostics) {
    let element = match program.types.get(instance.ty) {
        Ty::Stack(element, _) => *element,
        _ => instance.ty,
    };
    let Ty::Extern(id, _) = program.types.get(element) else {
        return;
    };
    let name = program.externs[*id].name.as_str();
    let Some(at) = size_argument(name) else {
        return;
    };
    let Some(Arg::Expr(size)) = instance.args.get(at) else {
        return;
    };
    // A size that depends on a constructor parameter is known when the block is instantiated.
    let ExprKind::Int(number) = &size.kind else {
        return;
    };
    if !(BigInt::from(1)..=BigInt::from(MAX_SIZE)).contains(number) {
        let message = format!(
            "the size of `{}` must be between 1 and {MAX_SIZE}: it is {number}",
            instance.name.as_str()
        );
        diagnostics.push(Diagnostic::error(code::OUT_OF_RANGE, size.span, message));
    }
}
