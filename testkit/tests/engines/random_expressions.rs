//! Compares random expressions with a naive evaluator over `u128`, with and without a tracer.

use bits::Value;
use exec::Natives;
use ir::{BinOp, ControlId, Expr, FieldId, Program, ScalarTy, StageKind, StmtKind, UnOp};
use proptest::prelude::*;

use super::common::load_program;
use super::maker::Maker;

/// Types of the fields that expressions read, some narrower and some wider than a limb.
const FIELDS: [ScalarTy; 8] = [
    ScalarTy::Bit(1),
    ScalarTy::Bit(13),
    ScalarTy::Bit(64),
    ScalarTy::Bit(65),
    ScalarTy::Bit(128),
    ScalarTy::Int(8),
    ScalarTy::Int(100),
    ScalarTy::Bool,
];

fn mask(width: u32) -> u128 {
    u128::MAX.checked_shr(128 - width).unwrap_or(0)
}

fn signed(value: u128, width: u32) -> i128 {
    (value << (128 - width)) as i128 >> (128 - width)
}

/// The naive evaluator.
fn eval(e: &Expr, program: &Program, fields: &[u128]) -> u128 {
    let of = |e: &Expr| eval(e, program, fields);
    let ty = |e: &Expr| e.ty(program, None).unwrap();
    let width = ty(e).width();
    let value = match e {
        Expr::Const(_, value) => value.to_u128().unwrap(),
        Expr::Read(place) => fields[place.base.get() as usize],
        Expr::Unary(UnOp::Neg, a) => of(a).wrapping_neg(),
        Expr::Unary(_, a) => !of(a),
        Expr::Concat(a, b) => of(a).checked_shl(ty(b).width()).unwrap_or(0) | of(b),
        Expr::Slice(a, _, lo) => of(a).checked_shr(*lo).unwrap_or(0),
        Expr::Cast(_, a) if ty(a).is_signed() => signed(of(a), ty(a).width()) as u128,
        Expr::Cast(_, a) => of(a),
        Expr::Ternary(c, a, b) => {
            if of(c) != 0 {
                of(a)
            } else {
                of(b)
            }
        }
        Expr::Binary(op, a, b) => binary(*op, ty(a), of(a), of(b)),
        other => panic!("{other:?} is not made here"),
    };
    value & mask(width)
}

fn binary(op: BinOp, ty: ScalarTy, a: u128, b: u128) -> u128 {
    let width = ty.width();
    let (sa, sb) = (signed(a, width), signed(b, width));
    let is_signed = ty.is_signed();
    let (least, most) = (i128::MIN >> (128 - width), i128::MAX >> (128 - width));
    let order = if is_signed { sa.cmp(&sb) } else { a.cmp(&b) };
    let amount = u32::try_from(b).unwrap_or(u32::MAX);
    match op {
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::Div => a.checked_div(b).unwrap_or(0),
        BinOp::Mod => a.checked_rem(b).unwrap_or(0),
        BinOp::AddSaturating if is_signed => sa.saturating_add(sb).clamp(least, most) as u128,
        BinOp::SubSaturating if is_signed => sa.saturating_sub(sb).clamp(least, most) as u128,
        BinOp::AddSaturating => a.saturating_add(b).min(mask(width)),
        BinOp::SubSaturating => a.saturating_sub(b),
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl => a.checked_shl(amount).unwrap_or(0),
        BinOp::Shr if is_signed => (sa >> amount.min(127)) as u128,
        BinOp::Shr => a.checked_shr(amount).unwrap_or(0),
        BinOp::Eq => u128::from(a == b),
        BinOp::Ne => u128::from(a != b),
        BinOp::Lt => u128::from(order.is_lt()),
        BinOp::Le => u128::from(order.is_le()),
        BinOp::Gt => u128::from(order.is_gt()),
        BinOp::Ge => u128::from(order.is_ge()),
        BinOp::LogicalAnd => u128::from(a != 0 && b != 0),
        BinOp::LogicalOr => u128::from(a != 0 || b != 0),
    }
}

/// Returns a program that assigns each expression to a separate field.
fn program(exprs: &[Expr]) -> Program {
    let fields: String = FIELDS
        .iter()
        .enumerate()
        .map(|(i, ty)| format!("field f{i}: {}\n", name(*ty)))
        .collect();
    let text = format!(
        "program t v1model\nerrors {{NoError}}\n{fields}control c {{\n stage c.code: action next end {{\n }}\n}}\n"
    );
    let mut program = ir::read(&text).unwrap();
    let mut body = Vec::new();
    for (i, e) in exprs.iter().enumerate() {
        let ty = e.ty(&program, None).unwrap();
        let field = program.fields.push(ir::Field {
            name: format!("r{i}"),
            ty,
        });
        body.push(ir::Stmt {
            kind: StmtKind::Assign(field.into(), e.clone()),
            loc: None,
        });
    }
    let control = &mut program.controls[ControlId::new(0)];
    if let StageKind::Action { body: empty, .. } = &mut control.stages[ir::StageId::new(0)].kind {
        *empty = body;
    }
    program
}

fn name(ty: ScalarTy) -> String {
    match ty {
        ScalarTy::Bit(w) => format!("bit<{w}>"),
        ScalarTy::Int(w) => format!("int<{w}>"),
        _ => "bool".to_string(),
    }
}

fn check(seed: u64) {
    let fields = FIELDS.iter().enumerate();
    let fields = fields
        .map(|(i, ty)| (FieldId::new(i as u32), *ty))
        .collect();
    let mut maker = Maker::new(seed, fields);
    let exprs: Vec<Expr> = (0..6)
        .map(|_| {
            let ty = maker.ty();
            maker.expr(ty, 5)
        })
        .collect();
    let mut engines = load_program(program(&exprs), &Natives::default());
    let fields: Vec<u128> = FIELDS
        .iter()
        .map(|ty| maker.value(ty.width()).to_u128().unwrap())
        .collect();
    let mut packets = [engines.packet(&[]), engines.packet(&[])];
    for packet in &mut packets {
        for (i, value) in fields.iter().enumerate() {
            engines.set(packet, &format!("f{i}"), *value);
        }
    }
    engines.control("c", &mut packets[0]);
    engines.traced_control("c", &mut packets[1]);
    for (i, e) in exprs.iter().enumerate() {
        let width = e.ty(&engines.program, None).unwrap().width();
        let expected = Value::truncated(eval(e, &engines.program, &fields), width);
        for packet in &packets {
            let got = engines.get(packet, &format!("r{i}"));
            assert_eq!(got, expected, "{e:?} with {fields:x?} (seed {seed})");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn random_expressions_give_what_the_naive_evaluator_gives(seed: u64) {
        check(seed);
    }
}
