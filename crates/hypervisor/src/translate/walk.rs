//! Traversal of expressions and statements.

use bits::Id;
use ir::{Dim, Expr, FieldId, HeaderPlace, Op, Operand, Place, Program, StageKind, Stmt, StmtKind};

use super::frame::Written;

/// Calls `tell` with every field that an expression reads.
pub(super) fn support(expr: &Expr, tell: &mut dyn FnMut(FieldId)) {
    match expr {
        Expr::Const(..) | Expr::Param(_) => {}
        Expr::Read(place) | Expr::VarbitLen(place) => tell(place.base),
        Expr::Unary(_, of) | Expr::Slice(of, ..) | Expr::Cast(_, of) => support(of, tell),
        Expr::Binary(_, left, right) | Expr::Concat(left, right) => {
            support(left, tell);
            support(right, tell);
        }
        Expr::Ternary(cond, then, otherwise) => {
            support(cond, tell);
            support(then, tell);
            support(otherwise, tell);
        }
        Expr::VarbitEq(left, right) => {
            tell(left.base);
            tell(right.base);
        }
    }
}

/// Returns the expression with places replaced where `other` returns one.
pub(super) fn map_places(expr: &Expr, other: &dyn Fn(&Place) -> Option<Place>) -> Expr {
    let inner = |expr: &Expr| Box::new(map_places(expr, other));
    let place = |place: &Place| other(place).unwrap_or_else(|| place.clone());
    match expr {
        Expr::Const(..) | Expr::Param(_) => expr.clone(),
        Expr::Read(own) => Expr::Read(place(own)),
        Expr::Unary(op, of) => Expr::Unary(*op, inner(of)),
        Expr::Binary(op, left, right) => Expr::Binary(*op, inner(left), inner(right)),
        Expr::Concat(left, right) => Expr::Concat(inner(left), inner(right)),
        Expr::Slice(of, hi, lo) => Expr::Slice(inner(of), *hi, *lo),
        Expr::Cast(ty, of) => Expr::Cast(*ty, inner(of)),
        Expr::Ternary(cond, then, otherwise) => {
            Expr::Ternary(inner(cond), inner(then), inner(otherwise))
        }
        Expr::VarbitEq(left, right) => Expr::VarbitEq(place(left), place(right)),
        Expr::VarbitLen(own) => Expr::VarbitLen(place(own)),
    }
}

/// Returns what the controls of a program write.
pub(super) fn written(program: &Program) -> Written {
    let mut all = Written::default();
    for stage in program
        .controls
        .values()
        .flat_map(|control| control.stages.values())
    {
        match &stage.kind {
            StageKind::Condition { .. } => {}
            StageKind::Action { body, .. } => stmts(program, body, &mut all),
            StageKind::Match { outcome, .. } => {
                all.fields.extend(outcome.hit);
                all.fields.extend(outcome.action_run);
            }
        }
    }
    for action in program.actions.values() {
        stmts(program, &action.body, &mut all);
    }
    // The pipeline itself writes this field while code runs.
    let error = program
        .pipeline
        .intrinsics
        .get("standard_metadata.checksum_error");
    all.fields.extend(error);
    all
}

fn stmts(program: &Program, body: &[Stmt], all: &mut Written) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Assign(place, _)
            | StmtKind::AssignSlice(place, ..)
            | StmtKind::AssignVarbit(place, _)
            | StmtKind::ClearVarbit(place) => elements(place.base, &place.dims, 0, all),
            StmtKind::CopyHeader(to, _) => header(program, to, all),
            StmtKind::If(_, then, otherwise) => {
                stmts(program, then, all);
                stmts(program, otherwise, all);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                stmts(program, body, all);
            }
            StmtKind::PushFront(stack, _) | StmtKind::PopFront(stack, _) => {
                let stack = &program.stacks[*stack];
                all.fields.insert(stack.next_index);
                for number in 0..stack.len as usize {
                    let id = ir::HeaderId::from_index(stack.first.index() + number);
                    header(program, &HeaderPlace::from(id), all);
                }
            }
            StmtKind::Call(call) => {
                if let (Op::Resubmit, [Operand::Number(list)]) = (call.op, call.operands.as_slice())
                {
                    all.resubmits.insert(*list);
                }
                for operand in &call.operands {
                    match operand {
                        Operand::Out(place) => elements(place.base, &place.dims, 0, all),
                        Operand::Outs(places) => {
                            let places = places.iter();
                            places.for_each(|place| elements(place.base, &place.dims, 0, all));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

/// Adds the elements of a place, and `more` fields after the base of each.
fn elements(base: FieldId, dims: &[Dim], more: usize, all: &mut Written) {
    match dims.split_first() {
        None => {
            let fields = (0..=more).map(|n| FieldId::from_index(base.index() + n));
            all.fields.extend(fields);
        }
        Some((dim, rest)) => {
            for number in 0..dim.len {
                let base = FieldId::from_index(base.index() + (number * dim.stride) as usize);
                elements(base, rest, more, all);
            }
        }
    }
}

fn header(program: &Program, place: &HeaderPlace, all: &mut Written) {
    let count = program.header_types[program.headers[place.base].ty]
        .fields
        .len();
    let strides = place.field_strides(program);
    let dims = place.dims.iter().zip(strides);
    let dims: Vec<Dim> = dims
        .map(|(dim, stride)| Dim {
            stride,
            ..dim.clone()
        })
        .collect();
    elements(program.headers[place.base].valid, &dims, count, all);
}

/// Returns the name of a statement in error messages.
pub(super) fn construct(kind: &StmtKind) -> &'static str {
    match kind {
        StmtKind::AssignVarbit(..) | StmtKind::ClearVarbit(_) => "assignment of varbit fields",
        StmtKind::Atomic(_) => "@atomic",
        StmtKind::EmitField(_) => "emit of what is no header",
        StmtKind::Emit(_) => "emit outside of the deparser",
        StmtKind::Call(call) => call.op.name(),
        StmtKind::CallAction(..) => "call of an action",
        StmtKind::Loop(..) | StmtKind::Continue(_) => "loop",
        StmtKind::Block(..) | StmtKind::Leave(_) => "block",
        StmtKind::PushFront(..) | StmtKind::PopFront(..) => "push_front and pop_front",
        _ => "statement of this kind",
    }
}
