//! Allocation of cells of the shared registers, counters and meters to a function.

use std::collections::HashMap;

use crate::shape::{CELLS, REGISTER_CELLS};
use ir::{ExternId, ExternKind, Program};

/// The first cell that a function may have. The cells before it are used for indices out of range.
const FIRST: u32 = 2;

/// Cells of one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The first cell.
    pub(crate) base: u32,
    /// Number of cells.
    pub(crate) count: u32,
}

/// All cells of a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cells {
    ranges: HashMap<ExternId, Range>,
}

impl Cells {
    /// Allocates the cells of each instance, after the first `skip` ones. Returns `None` if there
    /// are too few.
    pub(crate) fn new(program: &Program, skip: u32) -> Option<Cells> {
        let mut cells = Cells::default();
        let first = FIRST.checked_add(skip)?;
        let (mut registers, mut counters, mut meters) = (first, first, first);
        for (id, instance) in program.externs.iter() {
            let (next, count, most) = match &instance.kind {
                ExternKind::Register { cell, size, .. } => (
                    &mut registers,
                    size.checked_mul(cell.len() as u32)?,
                    REGISTER_CELLS,
                ),
                ExternKind::Counter { size, .. } => (&mut counters, *size, CELLS),
                ExternKind::Meter { size, .. } => (&mut meters, *size, CELLS),
                _ => continue,
            };
            cells.ranges.insert(id, Range { base: *next, count });
            *next = next.checked_add(count).filter(|end| *end <= most)?;
        }
        Some(cells)
    }

    /// Returns the cells of an instance.
    pub(crate) fn of(&self, id: ExternId) -> Option<Range> {
        self.ranges.get(&id).copied()
    }
}
