//! Computes `packet_length` in v1model's egress: the length of the packet as ingress left it.
//!
//! The architecture sets `standard_metadata.packet_length` to the number of received bytes. A
//! program is changed if it reads this field in egress and changes the validity of headers before.
//! It gets two stages. The first stage of ingress subtracts the bytes of these headers. The first
//! stage of egress adds the bytes that they have by then. In between, the difference is kept in the
//! field [`REST`], which the architecture preserves for clones.

use std::collections::BTreeSet;

use bits::Id;
use ir::{
    BinOp, BlockCode, BlockRole, ControlId, Expr, Field, FieldId, HeaderId, Next, Op, Place,
    Program, ScalarTy, Stage, StageId, StageKind, Stmt, StmtKind,
};

use support::work::checkpoint;

use crate::simplify::links;
use crate::uses::Uses;

/// The intrinsic that holds the packet's bytes without the headers that change.
pub const REST: &str = "standard_metadata.packet_length.rest";

const LENGTH: &str = "standard_metadata.packet_length";

/// Adds the stages if the program needs them. `headers` are the headers that make up a packet.
pub fn egress_length(program: &mut Program, headers: &[HeaderId]) {
    let (Some(ingress), Some(egress)) = (
        control(program, BlockRole::Ingress),
        control(program, BlockRole::Egress),
    ) else {
        return;
    };
    let Some(&length) = program.pipeline.intrinsics.get(LENGTH) else {
        return;
    };
    let in_egress = Uses::of_control(program, &program.controls[egress]);
    if !in_egress.reads.contains(&length) {
        return;
    }
    let mut written = Uses::of_control(program, &program.controls[ingress]).writes;
    if in_egress.ops.contains(&Op::Clone) {
        // A clone has the length of the packet as egress left it.
        written.extend(in_egress.writes);
    }
    let headers: Vec<HeaderId> = headers
        .iter()
        .copied()
        .filter(|&header| written.contains(&program.headers[header].valid))
        .collect();
    if headers.is_empty() {
        return;
    }
    let ty = program.fields[length].ty;
    let rest = program.fields.push(Field {
        name: REST.to_owned(),
        ty,
    });
    program.pipeline.intrinsics.insert(REST.to_owned(), rest);
    let before = sum(program, &headers, (length, rest), BinOp::Sub, ty);
    put_first(program, ingress, before);
    let behind = sum(program, &headers, (rest, length), BinOp::Add, ty);
    put_first(program, egress, behind);
}

fn control(program: &Program, role: BlockRole) -> Option<ControlId> {
    let mut blocks = program.pipeline.blocks.iter();
    blocks.find_map(|block| match block.code {
        BlockCode::Control(id) if block.role == role => Some(id),
        _ => None,
    })
}

/// Builds the assignment of one field to another, with the bytes of the valid headers added or
/// subtracted.
fn sum(
    program: &Program,
    headers: &[HeaderId],
    (from, to): (FieldId, FieldId),
    op: BinOp,
    ty: ScalarTy,
) -> Vec<Stmt> {
    let mut code = vec![assign(to, Expr::Read(from.into()))];
    for &header in headers {
        checkpoint();
        let more = Expr::Ternary(
            Box::new(Expr::Read(program.headers[header].valid.into())),
            Box::new(bytes(program, header, ty)),
            Box::new(constant(ty, 0)),
        );
        let sum = Expr::Binary(op, Box::new(Expr::Read(to.into())), Box::new(more));
        code.push(assign(to, sum));
    }
    code
}

/// Returns the size of a valid header in bytes.
fn bytes(program: &Program, header: HeaderId, ty: ScalarTy) -> Expr {
    let header = &program.headers[header];
    let fields = program.header_types[header.ty].fields.iter();
    let mut bits = 0;
    let mut varbit = None;
    for (at, field) in fields.enumerate() {
        match field.ty {
            ScalarTy::Varbit(_) => {
                let place = FieldId::new(header.valid.get() + 1 + at as u32);
                varbit = Some(Expr::VarbitLen(place.into()));
            }
            fixed => bits += u64::from(fixed.width()),
        }
    }
    let fixed = constant(ty, bits / 8);
    let Some(varbit) = varbit else {
        return fixed;
    };
    let three = Box::new(constant(ScalarTy::Bit(32), 3));
    let in_bytes = Expr::Binary(BinOp::Shr, Box::new(varbit), three);
    let in_bytes = Expr::Cast(ty, Box::new(in_bytes));
    Expr::Binary(BinOp::Add, Box::new(fixed), Box::new(in_bytes))
}

fn constant(ty: ScalarTy, value: u64) -> Expr {
    Expr::Const(ty, bits::Value::truncated(value.into(), ty.width()))
}

fn assign(to: FieldId, value: Expr) -> Stmt {
    Stmt {
        kind: StmtKind::Assign(Place::from(to), value),
        loc: None,
    }
}

/// Inserts a stage before all others of a control.
fn put_first(program: &mut Program, control: ControlId, body: Vec<Stmt>) {
    let mut names = BTreeSet::new();
    for control in program.controls.values() {
        names.extend(control.stages.values().map(|stage| {
            checkpoint();
            stage.name.clone()
        }));
    }
    let control = &mut program.controls[control];
    let mut name = format!("{}.packet_length", control.name);
    while names.contains(&name) {
        name.push('_');
    }
    let mut stages = std::mem::take(&mut control.stages).into_vec();
    let next = match stages.is_empty() {
        true => Next::End,
        false => Next::Stage(StageId::from_index(1)),
    };
    for next in stages.iter_mut().flat_map(|stage| links(&mut stage.kind)) {
        checkpoint();
        if let Next::Stage(id) = next {
            *id = StageId::from_index(id.index() + 1);
        }
    }
    let first = Stage {
        name,
        kind: StageKind::Action { body, next },
        loc: None,
    };
    stages.insert(0, first);
    control.stages = stages.into_iter().collect();
}
