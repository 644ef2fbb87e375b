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

/// Shapes of all tables. An entry that uses a shape holds it, and the others are dropped with the
/// next program.
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

    /// Returns the number of shapes.
    pub(crate) fn len(&self) -> usize {
        self.by_table.values().map(HashMap::len).sum()
    }

    /// Adds a shape for the next program. Returns false if it is there.
    pub(crate) fn add(&mut self, table: TableNumber, shape: Shape) -> bool {
        let shapes = self.by_table.entry(table).or_default();
        if shapes.contains_key(&shape) {
            return false;
        }
        self.next += 1;
        let place = Place {
            number: self.next,
            action: None,
        };
        shapes.insert(Arc::new(shape), place);
        true
    }

    /// Drops the shapes of which no program was made.
    pub(crate) fn forget_new(&mut self) {
        for shapes in self.by_table.values_mut() {
            shapes.retain(|_, place| place.action.is_some());
        }
    }

    /// Drops the shapes that no entry holds.
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

    /// Notes that the program has these shapes, which [`Shapes::by_table`] has returned. Their
    /// actions follow that of a miss.
    pub(crate) fn placed(&mut self, made: &ShapesByTable) {
        for (table, made) in made {
            let shapes = self.by_table.entry(*table).or_default();
            for ((_, shape), action) in made.iter().zip(1..) {
                if let Some(place) = shapes.get_mut(shape) {
                    place.action = Some(action);
                }
            }
        }
    }
}
