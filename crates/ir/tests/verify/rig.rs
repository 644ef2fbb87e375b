//! Helpers that check that a program is rejected.

use bits::Value;
use ir::*;

pub(crate) const SAMPLE: &str = include_str!("../sample.ir");

/// Checks that the sample with one piece of text replaced is rejected, with this item and message
/// among the errors.
pub(crate) fn refused(from: &str, to: &str, item: &str, message: &str) {
    assert_eq!(
        SAMPLE.matches(from).count(),
        1,
        "'{from}' is in the sample once"
    );
    let program = read(&SAMPLE.replace(from, to)).unwrap_or_else(|e| panic!("sample.ir:{e}"));
    check_refused(&program, item, message);
}

/// Checks that a statement in place of one of the stage `ingress.code` is rejected.
pub(crate) fn stmt(new: &str, message: &str) {
    refused(
        "meta.ok = !meta.ok;",
        new,
        "control ingress, stage ingress.code",
        message,
    );
}

/// Checks that a change which text cannot express is rejected.
pub(crate) fn changed(change: impl FnOnce(&mut Program), item: &str, message: &str) {
    let mut program = read(SAMPLE).unwrap();
    change(&mut program);
    check_refused(&program, item, message);
}

pub(crate) fn check_refused(program: &Program, item: &str, message: &str) {
    let errors = verify(program).expect_err("the program breaks a rule");
    let found = errors
        .iter()
        .any(|e| e.item == item && e.message.contains(message));
    assert!(found, "'{item}: {message}' is not among {errors:#?}");
}

pub(crate) fn bit(width: u32, number: u128) -> Expr {
    Expr::Const(ScalarTy::Bit(width), Value::truncated(number, width))
}
