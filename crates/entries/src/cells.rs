//! Registers, counters and meters by their names, and what is written of their cells, in whichever format.

use bits::Value;
use ir::{CounterUnit, ExternId};
use support::count::{are, count, there_are};

use crate::error::Fault;
use crate::resolve::{Word, instance};
use crate::schema::{Object, Schema, ValueTy};
use crate::value;

/// A register, the scalars of a cell, and how many cells it has.
pub(crate) fn register<'s>(
    schema: &'s Schema,
    name: Word<'_>,
) -> Result<(ExternId, &'s [ValueTy], u32), Fault> {
    let (id, (cell, size)) = instance(schema, name, "register", |object| match object {
        Object::Register { cell, size } => Some((&**cell, *size)),
        _ => None,
    })?;
    Ok((id, cell, size))
}

/// A counter, what it counts, and how many cells it has.
pub(crate) fn counter(
    schema: &Schema,
    name: Word<'_>,
) -> Result<(ExternId, CounterUnit, u32), Fault> {
    let (id, (unit, size)) = instance(schema, name, "counter", |object| match object {
        Object::Counter { unit, size } => Some((*unit, *size)),
        _ => None,
    })?;
    Ok((id, unit, size))
}

/// A meter, and how many cells it has.
pub(crate) fn meter(schema: &Schema, name: Word<'_>) -> Result<(ExternId, u32), Fault> {
    instance(schema, name, "meter", |object| match object {
        Object::Meter { size } => Some(*size),
        _ => None,
    })
}

/// An index that is written at this place, of one of so many cells.
pub(crate) fn index_below(index: u32, size: u32, at: (usize, usize)) -> Result<u32, Fault> {
    match index < size {
        true => Ok(index),
        false => Err(Fault::new(
            at,
            format!(
                "the index {index} is outside: {}",
                there_are(size.into(), "cell")
            ),
        )),
    }
}

/// The values of a register's cell; if they are too few or too many, the fault is at this place.
pub(crate) fn values(
    schema: &Schema,
    cell: &[ValueTy],
    words: &[Word<'_>],
    at: (usize, usize),
) -> Result<Vec<Value>, Fault> {
    if words.len() != cell.len() {
        let message = format!(
            "a cell has {}, but {} given",
            count(cell.len() as u64, "value"),
            are(words.len() as u64)
        );
        return Err(Fault::new(at, message));
    }
    let pairs = cell.iter().zip(words);
    pairs
        .map(|(&ty, word)| value::scalar(schema, ty, *word))
        .collect()
}
