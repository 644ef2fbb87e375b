//! Lookup of registers, counters and meters by name, and checks of their indices and values. All
//! text formats use it.

use bits::Value;
use ir::{CounterUnit, ExternId};
use support::count::{are, count, there_are};

use crate::error::EntriesError;
use crate::resolve::{Word, instance};
use crate::schema::{Object, Schema, ValueTy};
use crate::value;

/// Returns a register with the scalar types of a cell and its number of cells.
pub(crate) fn register<'s>(
    schema: &'s Schema,
    name: Word<'_>,
) -> Result<(ExternId, &'s [ValueTy], u32), EntriesError> {
    let (id, (cell, size)) = instance(schema, name, "register", |object| match object {
        Object::Register { cell, size } => Some((&**cell, *size)),
        _ => None,
    })?;
    Ok((id, cell, size))
}

/// Returns a counter with its unit and its number of cells.
pub(crate) fn counter(
    schema: &Schema,
    name: Word<'_>,
) -> Result<(ExternId, CounterUnit, u32), EntriesError> {
    let (id, (unit, size)) = instance(schema, name, "counter", |object| match object {
        Object::Counter { unit, size } => Some((*unit, *size)),
        _ => None,
    })?;
    Ok((id, unit, size))
}

/// Returns a meter with its number of cells.
pub(crate) fn meter(schema: &Schema, name: Word<'_>) -> Result<(ExternId, u32), EntriesError> {
    instance(schema, name, "meter", |object| match object {
        Object::Meter { size } => Some(*size),
        _ => None,
    })
}

/// Checks an index against the number of cells. `at` is its position in the text.
pub(crate) fn index_below(index: u32, size: u32, at: (usize, usize)) -> Result<u32, EntriesError> {
    match index < size {
        true => Ok(index),
        false => Err(EntriesError::new(
            at,
            format!(
                "the index {index} is outside: {}",
                there_are(size.into(), "cell")
            ),
        )),
    }
}

/// Reads the values of a register cell. `at` is the position of the error if their number is wrong.
pub(crate) fn values(
    schema: &Schema,
    cell: &[ValueTy],
    words: &[Word<'_>],
    at: (usize, usize),
) -> Result<Vec<Value>, EntriesError> {
    if words.len() != cell.len() {
        let message = format!(
            "a cell has {}, but {} given",
            count(cell.len() as u64, "value"),
            are(words.len() as u64)
        );
        return Err(EntriesError::new(at, message));
    }
    let pairs = cell.iter().zip(words);
    pairs
        .map(|(&ty, word)| value::scalar(schema, ty, *word))
        .collect()
}
