//! `@owner(POOL)`: the value of a request that a server has leased. The packet goes to this server.

use ir::{Annotation, AnnotationBody, AnnotationValue, BinOp, Expr, Loc, Program, ScalarTy};

use super::cuts::{Cut, CutKind, name_of};
use super::error::SplitError;
use super::parser::constant;
use super::switch::request_of;

/// Width of a value in frames, in bits.
const VALUE_BITS: u32 = 32;

/// Remedy for a wrong annotation.
const HINT: &str =
    "write `@owner(POOL)`, or `@owner[\"POOL\", FIRST]` if the field counts from FIRST on";

/// Pool of which a cut has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerPlan {
    /// Name of the pool in C.
    pub pool: String,
    /// Value of the field for the first value of the pool.
    pub first: u32,
}

/// Returns the pool of a cut and the value of a packet in it, counted from the pool's first one.
///
/// # Errors
/// An annotation is wrong: its place and the remedy.
pub(super) fn owner_of(
    program: &Program,
    cut: &Cut,
    stage: &ir::Stage,
) -> Result<Option<(OwnerPlan, Expr)>, SplitError> {
    let (fields, loc): (Vec<(Expr, Option<OwnerPlan>)>, Option<Loc>) = match cut.kind {
        CutKind::Table(table) => {
            let table = &program.tables[table];
            let fields = table.keys.iter().map(|key| {
                let owner = annotated(&key.annotations);
                owner.map(|owner| (key.expr.clone(), owner))
            });
            (collect(fields, program, table.loc)?, table.loc)
        }
        CutKind::Handler(handler) => {
            let loc = program.externs[handler].loc;
            let mut owners = Vec::new();
            if let ir::ExternKind::Handler { request, .. } = &program.externs[handler].kind {
                request.each_scalar(&mut |field, _| owners.push(annotated(&field.annotations)));
            }
            let fields = request_of(stage).into_iter().zip(owners);
            let fields = fields.map(|(value, owner)| owner.map(|owner| (value, owner)));
            (collect(fields, program, loc)?, loc)
        }
    };
    let mut marked = fields
        .into_iter()
        .filter_map(|(value, owner)| Some((value, owner?)));
    let Some((value, owner)) = marked.next() else {
        return Ok(None);
    };
    let name = name_of(program, cut.kind);
    let refused = |message: String, hint| Err(SplitError::new(program, loc, message, hint));
    if marked.next().is_some() {
        return refused(
            format!("`{name}` has more than one field with `@owner`"),
            "one field decides which server gets a packet",
        );
    }
    let width = value.ty(program, None).map_or(0, ScalarTy::width);
    if width > VALUE_BITS {
        return refused(
            format!("a field of `{name}` with `@owner` has {width} bits"),
            "values of pools have at most 32 bits",
        );
    }
    let value = Expr::Cast(ScalarTy::Bit(width), Box::new(value));
    let value = Expr::Cast(ScalarTy::Bit(VALUE_BITS), Box::new(value));
    let first = constant(owner.first.into(), VALUE_BITS);
    // A value before the first one becomes too large for the pool.
    let value = Expr::Binary(BinOp::Sub, Box::new(value), Box::new(first));
    Ok(Some((owner, value)))
}

fn collect<T>(
    fields: impl Iterator<Item = Result<T, ()>>,
    program: &Program,
    loc: Option<Loc>,
) -> Result<Vec<T>, SplitError> {
    let fields: Result<Vec<T>, ()> = fields.collect();
    fields.map_err(|()| SplitError::new(program, loc, "`@owner` does not name a pool", HINT))
}

/// Returns the pool that a field's annotation names.
///
/// # Errors
/// The annotation is malformed.
fn annotated(annotations: &[Annotation]) -> Result<Option<OwnerPlan>, ()> {
    let Some(found) = annotations.iter().find(|one| one.name == "owner") else {
        return Ok(None);
    };
    let (pool, first) = match &found.body {
        AnnotationBody::Text(text) => (text.trim(), 0),
        AnnotationBody::Expressions(values) => match &values[..] {
            [AnnotationValue::String(pool)] => (pool.as_str(), 0),
            [AnnotationValue::String(pool), AnnotationValue::Int(first)] => {
                (pool.as_str(), first.parse().map_err(|_| ())?)
            }
            _ => return Err(()),
        },
        AnnotationBody::None | AnnotationBody::KeyValues(_) => return Err(()),
    };
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    match !pool.is_empty() && pool.chars().all(is_name) {
        true => Ok(Some(OwnerPlan {
            pool: pool.to_owned(),
            first,
        })),
        false => Err(()),
    }
}
