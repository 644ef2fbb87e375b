//! The shapes that the program of a switch has.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::tables::TableNumber;
use crate::translate::{Shape, ShapesByTable};

/// Place of a shape in the program.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Number that it keeps as long as the program has it.
    number: u64,
    /// Position of its action in the table, once a program was made with it.
    action: Option<usize>,
}

/// Shapes of all tables. An entry that uses a shape holds it, as does a message that waits for a
/// program. The others are dropped with the next program.
#[derive(Default)]
pub(crate) struct Shapes {
    by_table: BTreeMap<TableNumber, HashMap<Arc<Shape>, Place>>,
    next: u64,
}

impl Shapes {
    /// Returns a shape that the program has, and the position of its action.
    pub(crate) fn find(&self, table: TableNumber, shape: &Shape) -> Option<(Arc<Shape>, usize)> {
        let (shape, place) = self.by_table.get(&table)?.get_key_value(shape)?;
        Some((Arc::clone(shape), place.action?))
    }

    /// Returns true if the program, or the next one, has a shape.
    pub(crate) fn has(&self, table: TableNumber, shape: &Shape) -> bool {
        let shapes = self.by_table.get(&table);
        shapes.is_some_and(|shapes| shapes.contains_key(shape))
    }

    /// Returns the number of shapes.
    pub(crate) fn len(&self) -> usize {
        self.by_table.values().map(HashMap::len).sum()
    }

    /// Adds a shape for the next program, if it is not there. The program keeps it as long as what
    /// is returned exists.
    pub(crate) fn add(&mut self, table: TableNumber, shape: Shape) -> Arc<Shape> {
        let shapes = self.by_table.entry(table).or_default();
        if let Some((there, _)) = shapes.get_key_value(&shape) {
            return Arc::clone(there);
        }
        self.next += 1;
        let place = Place {
            number: self.next,
            action: None,
        };
        let shape = Arc::new(shape);
        shapes.insert(Arc::clone(&shape), place);
        shape
    }

    /// Drops those of these shapes that the running program does not have.
    pub(crate) fn forget(&mut self, failed: &ShapesByTable) {
        for (table, failed) in failed {
            let Some(shapes) = self.by_table.get_mut(table) else {
                continue;
            };
            for (_, shape) in failed {
                if shapes
                    .get(shape)
                    .is_some_and(|place| place.action.is_none())
                {
                    shapes.remove(shape);
                }
            }
        }
    }

    /// Drops the shapes that nothing holds.
    pub(crate) fn drop_unused(&mut self) {
        for shapes in self.by_table.values_mut() {
            shapes.retain(|shape, _| Arc::strong_count(shape) > 1);
        }
        self.by_table.retain(|_, shapes| !shapes.is_empty());
    }

    /// Returns all shapes, those of a table in the order of their numbers.
    pub(crate) fn by_table(&self) -> ShapesByTable {
        let tables = self.by_table.iter();
        let tables = tables.filter(|(_, shapes)| !shapes.is_empty());
        let sorted = |shapes: &HashMap<Arc<Shape>, Place>| {
            let shapes = shapes.iter();
            let mut shapes: Vec<(u64, Arc<Shape>)> = shapes
                .map(|(shape, place)| (place.number, Arc::clone(shape)))
                .collect();
            shapes.sort_unstable_by_key(|(number, _)| *number);
            shapes
        };
        tables
            .map(|(number, shapes)| (*number, sorted(shapes)))
            .collect()
    }

    /// Notes that the program has these shapes and no others. [`Shapes::by_table`] has returned
    /// them. Their actions follow that of a miss.
    pub(crate) fn placed(&mut self, made: &ShapesByTable) {
        let all = self.by_table.values_mut();
        all.flat_map(HashMap::values_mut)
            .for_each(|place| place.action = None);
        for (table, made) in made {
            let Some(shapes) = self.by_table.get_mut(table) else {
                continue;
            };
            for ((_, shape), action) in made.iter().zip(1..) {
                if let Some(place) = shapes.get_mut(shape) {
                    place.action = Some(action);
                }
            }
        }
    }
}
