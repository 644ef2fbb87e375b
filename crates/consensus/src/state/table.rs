//! The flat table: cells of keys, changes of elements, and elements, with bounded room.
//!
//! Linear probing with removal by shifting back, so a layout depends on the operations alone. It
//! is lossless: a full table refuses a new key.

use std::collections::VecDeque;

use support::rng::mix;

use crate::entry::{ChangeBytes, ElementId, Key};
use crate::ids::{LogIndex, Term};
use crate::state::is_reserved;
use crate::wire::{Reader, Write};

/// Kind of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum CellKind {
    /// No content.
    #[default]
    Free,
    /// A key with its value.
    Value,
    /// Content that an element has under a key.
    Change,
    /// An element has no more what it had under a key, which it may not know yet.
    Removal,
    /// An element: `index` is that of its last change, `previous` the last one that it confirmed.
    Element,
}

/// Cell of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    pub(crate) kind: CellKind,
    pub(crate) element: ElementId,
    pub(crate) key: Key,
    pub(crate) value: ChangeBytes,
    pub(crate) term: Term,
    pub(crate) index: LogIndex,
    pub(crate) previous: LogIndex,
}

/// Name of a cell: elements have number 0 for keys of the key-value table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) element: ElementId,
    pub(crate) is_element: bool,
    pub(crate) key: Key,
}

impl Name {
    pub(crate) const fn of_key(key: Key) -> Name {
        Name {
            element: ElementId(0),
            is_element: false,
            key,
        }
    }

    pub(crate) const fn of_element(element: ElementId) -> Name {
        Name {
            element,
            is_element: true,
            key: [0; 16],
        }
    }

    /// Returns true for the name of a reserved key of the key-value table.
    fn is_reserved(&self) -> bool {
        self.element == ElementId(0) && is_reserved(&self.key)
    }
}

impl Cell {
    fn name(&self) -> Name {
        Name {
            element: self.element,
            is_element: self.kind == CellKind::Element,
            key: self.key,
        }
    }

    pub(crate) fn is_free(&self) -> bool {
        self.kind == CellKind::Free
    }

    /// Bytes of an encoded cell at most.
    pub(crate) const MAX_BYTES: usize = 1 + 4 + 16 + 24 + 1 + 128;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(match self.kind {
            CellKind::Free => 0,
            CellKind::Value => 1,
            CellKind::Change => 2,
            CellKind::Removal => 3,
            CellKind::Element => 4,
        });
        out.put_u32(self.element.0);
        out.put(&self.key);
        out.put_u64(self.term.0);
        out.put_u64(self.index.0);
        out.put_u64(self.previous.0);
        self.value.encode(out);
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Option<Cell> {
        Some(Cell {
            kind: match from.u8()? {
                1 => CellKind::Value,
                2 => CellKind::Change,
                3 => CellKind::Removal,
                4 => CellKind::Element,
                _ => return None,
            },
            element: ElementId(from.u32()?),
            key: from.array()?,
            term: Term(from.u64()?),
            index: LogIndex(from.u64()?),
            previous: LogIndex(from.u64()?),
            value: ChangeBytes::decode(from)?,
        })
    }
}

impl Removal {
    const fn of(cell: &Cell) -> Removal {
        Removal {
            element: cell.element,
            key: cell.key,
            index: cell.index,
        }
    }

    const fn name(&self) -> Name {
        Name {
            element: self.element,
            is_element: false,
            key: self.key,
        }
    }
}

/// Receives each cell before it changes.
pub(crate) trait BeforeChange {
    fn before_change(&mut self, place: usize, cell: &Cell);
}

/// The cells.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    cells: Box<[Cell]>,
    used: usize,
    /// Reserved keys of these.
    used_reserved: usize,
    max_used: usize,
    /// Part of it for reserved keys.
    reserved: usize,
    seed: u64,
    /// Removals in the order of their entries. One that its cell no longer is, is of no meaning.
    removals: VecDeque<Removal>,
}

/// A cell of kind [`CellKind::Removal`] when it was set.
#[derive(Clone, Copy, Debug)]
struct Removal {
    element: ElementId,
    key: Key,
    index: LogIndex,
}

impl Table {
    /// Returns the number of cells of a table with room for `max_used` names.
    pub(crate) fn cells_for(max_used: usize) -> usize {
        max_used.max(1).saturating_mul(2).next_power_of_two()
    }

    /// Creates a table with room for `max_used` names, some of it for reserved keys only, and the
    /// rest for other names only. With no such part, they share the room. At most half of its cells
    /// are used.
    pub(crate) fn new((max_used, reserved): (usize, usize), seed: u64) -> Table {
        Table {
            cells: vec![Cell::default(); Table::cells_for(max_used)].into(),
            used: 0,
            used_reserved: 0,
            max_used,
            reserved: reserved.min(max_used),
            seed,
            removals: VecDeque::with_capacity(max_used),
        }
    }

    pub(crate) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns true if there is no room for a new name.
    pub(crate) fn is_full(&self, name: &Name) -> bool {
        let is_no_room = match (self.reserved, name.is_reserved()) {
            (0, _) => false,
            (reserved, true) => self.used_reserved >= reserved,
            (reserved, false) => self.used - self.used_reserved >= self.max_used - reserved,
        };
        is_no_room || self.used >= self.max_used
    }

    /// Sets all cells, from a snapshot of a table of the same size.
    pub(crate) fn set_all(&mut self, cells: &[Cell]) {
        self.cells.copy_from_slice(cells);
        let names = cells.iter().filter(|cell| !cell.is_free()).map(Cell::name);
        self.used = names.clone().count();
        self.used_reserved = names.filter(Name::is_reserved).count();
        let removals = cells.iter().filter(|cell| cell.kind == CellKind::Removal);
        self.removals.clear();
        self.removals.extend(removals.map(Removal::of));
        self.removals
            .make_contiguous()
            .sort_unstable_by_key(|removal| removal.index);
    }

    fn home(&self, name: &Name) -> usize {
        let [low, high] = [0, 8].map(|at| {
            let half = name.key[at..].first_chunk().copied();
            u64::from_le_bytes(half.unwrap_or_default())
        });
        let owner = u64::from(name.element.0) << 1 | u64::from(name.is_element);
        let hash = mix(mix(mix(self.seed ^ low) ^ high) ^ owner);
        hash as usize & (self.cells.len() - 1)
    }

    /// Returns the place of the name, or the free place where it goes.
    fn find(&self, name: &Name) -> usize {
        let mask = self.cells.len() - 1;
        let mut at = self.home(name);
        while !self.cells[at].is_free() && self.cells[at].name() != *name {
            at = (at + 1) & mask;
        }
        at
    }

    pub(crate) fn get(&self, name: &Name) -> Option<&Cell> {
        let cell = &self.cells[self.find(name)];
        (!cell.is_free()).then_some(cell)
    }

    /// Sets the cell of its name. Returns false if the name is new and the table is full.
    pub(crate) fn set(&mut self, cell: Cell, before: &mut impl BeforeChange) -> bool {
        let at = self.find(&cell.name());
        if self.cells[at].is_free() {
            if self.is_full(&cell.name()) {
                return false;
            }
            self.used += 1;
            self.used_reserved += usize::from(cell.name().is_reserved());
        }
        self.write(at, cell, before);
        if cell.kind == CellKind::Removal {
            self.add_removal(Removal::of(&cell));
        }
        true
    }

    fn add_removal(&mut self, removal: Removal) {
        if self.removals.len() == self.removals.capacity() {
            let mut removals = std::mem::take(&mut self.removals);
            removals.retain(|removal| self.is_current(removal));
            self.removals = removals;
        }
        self.removals.push_back(removal);
    }

    fn is_current(&self, removal: &Removal) -> bool {
        let cell = self.get(&removal.name());
        cell.is_some_and(|cell| cell.kind == CellKind::Removal && cell.index == removal.index)
    }

    /// Removes a name. Returns true if it was there.
    pub(crate) fn remove(&mut self, name: &Name, before: &mut impl BeforeChange) -> bool {
        let at = self.find(name);
        if self.cells[at].is_free() {
            return false;
        }
        self.clear(at, before);
        true
    }

    /// Removes the removals of an element up to an index, in the order of their entries: the order
    /// decides which cells move, and is the same on all nodes.
    pub(crate) fn forget_removals(
        &mut self,
        element: ElementId,
        index: LogIndex,
        before: &mut impl BeforeChange,
    ) {
        let mut removals = std::mem::take(&mut self.removals);
        removals.retain(|removal| {
            let stays = removal.element != element || removal.index > index;
            if !stays && self.is_current(removal) {
                self.remove(&removal.name(), before);
            }
            stays
        });
        self.removals = removals;
    }

    /// Removes an entry to make room: for a planted mistake.
    pub(crate) fn evict(&mut self, for_name: &Name, before: &mut impl BeforeChange) {
        let mask = self.cells.len() - 1;
        let mut at = self.home(for_name);
        while self.cells[at].is_free() {
            at = (at + 1) & mask;
        }
        self.clear(at, before);
    }

    fn clear(&mut self, place: usize, before: &mut impl BeforeChange) {
        let mask = self.cells.len() - 1;
        self.used -= 1;
        self.used_reserved -= usize::from(self.cells[place].name().is_reserved());
        let (mut hole, mut at) = (place, place);
        loop {
            at = (at + 1) & mask;
            let cell = self.cells[at];
            if cell.is_free() {
                break;
            }
            // The cell may move if the hole is on its way from its home.
            let home = self.home(&cell.name());
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.write(hole, cell, before);
                hole = at;
            }
        }
        self.write(hole, Cell::default(), before);
    }

    fn write(&mut self, place: usize, cell: Cell, before: &mut impl BeforeChange) {
        before.before_change(place, &self.cells[place]);
        self.cells[place] = cell;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use support::rng::Rng;

    use super::*;

    impl BeforeChange for () {
        fn before_change(&mut self, _: usize, _: &Cell) {}
    }

    #[test]
    fn a_table_that_is_full_of_keys_of_users_has_room_for_reserved_ones() {
        let mut table = Table::new((24, 4), 1);
        let mut set = |key: [u8; 16], element| {
            let cell = Cell {
                kind: CellKind::Value,
                element: ElementId(element),
                key,
                ..Cell::default()
            };
            table.set(cell, &mut ())
        };
        for number in 0..20_u128 {
            assert!(set(number.to_le_bytes(), number as u32 % 2));
        }
        let reserved = |number: u8| {
            let mut key = [number; 16];
            key[..2].fill(0xff);
            key
        };
        assert!(!set(20_u128.to_le_bytes(), 0));
        // A key of an element is no reserved one, whatever its bytes.
        assert!(!set(reserved(0), 1));
        for number in 0..4 {
            assert!(set(reserved(number), 0));
        }
        assert!(!set(reserved(4), 0));
        // A known name needs no room.
        assert!(set(0_u128.to_le_bytes(), 0));
    }

    #[test]
    fn keys_of_users_have_their_room_whatever_reserved_ones_came_before() {
        let mut table = Table::new((24, 4), 1);
        let cell_of = |key: [u8; 16]| Cell {
            kind: CellKind::Value,
            key,
            ..Cell::default()
        };
        let reserved = |number: u8| {
            let mut key = [number; 16];
            key[..2].fill(0xff);
            key
        };
        for number in 0..4 {
            assert!(table.set(cell_of(reserved(number)), &mut ()));
        }
        assert!(!table.set(cell_of(reserved(4)), &mut ()));
        for number in 0..20_u128 {
            assert!(table.set(cell_of(number.to_le_bytes()), &mut ()));
        }
        assert!(!table.set(cell_of(20_u128.to_le_bytes()), &mut ()));
        // As a node that installs a snapshot.
        let mut other = Table::new((24, 4), 1);
        other.set_all(table.cells());
        // A place that becomes free is one of the same kind.
        assert!(other.remove(&Name::of_key(reserved(0)), &mut ()));
        assert!(!other.set(cell_of(20_u128.to_le_bytes()), &mut ()));
        assert!(other.set(cell_of(reserved(4)), &mut ()));
    }

    #[test]
    fn removals_are_forgotten_up_to_an_index_and_no_other_cell() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let mut table = Table::new((24, 0), seed);
            let mut map: HashMap<(u32, Key), (CellKind, u64)> = HashMap::new();
            for step in 1..2_000 {
                let element = rng.below(3) as u32;
                let key = u128::from(rng.below(12)).to_le_bytes();
                if rng.one_in(6) {
                    let index = step - rng.below(20).min(step);
                    table.forget_removals(ElementId(element), LogIndex(index), &mut ());
                    map.retain(|(of, _), (kind, at)| {
                        *of != element || *kind != CellKind::Removal || *at > index
                    });
                } else {
                    let kind = match rng.one_in(2) {
                        true => CellKind::Removal,
                        false => CellKind::Change,
                    };
                    let cell = Cell {
                        kind,
                        element: ElementId(element),
                        key,
                        index: LogIndex(step),
                        ..Cell::default()
                    };
                    let has_room = map.contains_key(&(element, key)) || map.len() < 24;
                    assert_eq!(table.set(cell, &mut ()), has_room);
                    if has_room {
                        map.insert((element, key), (kind, step));
                    }
                }
                let cells = table.cells().iter().filter(|cell| !cell.is_free());
                let found =
                    cells.map(|cell| ((cell.element.0, cell.key), (cell.kind, cell.index.0)));
                assert_eq!(
                    found.collect::<HashMap<_, _>>(),
                    map,
                    "seed {seed} step {step}"
                );
                if rng.one_in(50) {
                    // As a node that installs a snapshot.
                    let mut other = Table::new((24, 0), seed);
                    other.set_all(table.cells());
                    table = other;
                }
            }
        }
    }

    #[test]
    fn the_table_equals_a_map_under_random_operations() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let mut table = Table::new((24, 0), seed);
            let mut map: HashMap<[u8; 16], u64> = HashMap::new();
            for step in 0..2_000 {
                let key = u128::from(rng.below(40)).to_le_bytes();
                if rng.one_in(3) {
                    let was = table.remove(&Name::of_key(key), &mut ());
                    assert_eq!(was, map.remove(&key).is_some());
                } else {
                    let has_room = map.contains_key(&key) || map.len() < 24;
                    let kind = CellKind::Value;
                    let cell = Cell {
                        kind,
                        key,
                        index: LogIndex(step),
                        ..Cell::default()
                    };
                    assert_eq!(table.set(cell, &mut ()), has_room);
                    if has_room {
                        map.insert(key, step);
                    }
                }
                for key in 0..40_u128 {
                    let key = key.to_le_bytes();
                    let found = table.get(&Name::of_key(key)).map(|cell| cell.index.0);
                    assert_eq!(found, map.get(&key).copied());
                }
            }
        }
    }
}
