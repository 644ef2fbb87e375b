//! The maps of a program in the kernel: their creation, the entries that they hold, and the counts
//! that packets leave in them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::Arc;

use bits::Value;
use exec::State;
use ir::{ExternId, MatchKind, Program, TableId};
use port::BpfMap;
use support::work::checkpoint;
use table::{ActionRef, CounterReading, Entry, EntryAction, EntryIdx, FieldMatch, KeyShape};

use crate::assembler::MapName;
use crate::emit::KernelCode;
use crate::shape::{
    HIT, KeyForm, LEAVES, LIST_HEADER, NO_ACTION, Shapes, TOO_LONG, TableShape, VALUE_HEADER,
    inputs,
};

/// Packets that the kernel part has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Packets that found an entry of a table, or none.
    Row(TableId, Option<EntryIdx>, CounterReading),
    /// Packets of a cell of a counter.
    Cell(ExternId, u32, CounterReading),
}

/// Entries of a table as its map holds them: by key, the value and the row.
type Written = HashMap<Vec<u8>, (Vec<u8>, u32)>;

/// Maps of a program.
pub(crate) struct Maps {
    program: Arc<Program>,
    shapes: Arc<Shapes>,
    maps: BTreeMap<MapName, BpfMap>,
    written: BTreeMap<TableId, Written>,
    defaults: BTreeMap<TableId, Vec<u8>>,
    /// The list of a table's rules that packets search.
    searched: BTreeMap<TableId, u32>,
    /// Last row of a table's rules.
    last_rows: BTreeMap<TableId, u32>,
    /// Entries of a table in the state that the maps hold.
    entries: BTreeMap<TableId, HashSet<EntryIdx>>,
    /// Counts as they were read last.
    counted: BTreeMap<MapName, Vec<CounterReading>>,
    /// State that the maps hold, if they were written without an error. Its entries keep their
    /// rows.
    state: Option<Arc<State>>,
}

impl Maps {
    /// Creates the maps that a program's code uses.
    ///
    /// # Errors
    /// The system's error, with what was being made.
    pub(crate) fn new(
        program: &Arc<Program>,
        shapes: &Arc<Shapes>,
        code: &KernelCode,
    ) -> io::Result<Maps> {
        let mut maps = Maps {
            program: Arc::clone(program),
            shapes: Arc::clone(shapes),
            maps: BTreeMap::new(),
            written: BTreeMap::new(),
            defaults: BTreeMap::new(),
            searched: BTreeMap::new(),
            last_rows: BTreeMap::new(),
            entries: BTreeMap::new(),
            counted: BTreeMap::new(),
            state: None,
        };
        maps.add(code)?;
        Ok(maps)
    }

    /// Creates the maps that this code uses and that are not there yet, except that of the sockets.
    pub(crate) fn add(&mut self, code: &KernelCode) -> io::Result<()> {
        for &(_, name) in code.code.references() {
            checkpoint();
            if name == MapName::Sockets || self.maps.contains_key(&name) {
                continue;
            }
            let leaves = code.leaves.len() as u32;
            let shape = self.shapes.map(name, code.scratch_bytes, leaves);
            let map = BpfMap::new(shape.kind, shape.key, shape.value, shape.entries)?;
            self.maps.insert(name, map);
        }
        Ok(())
    }

    /// Returns a map, if the program uses it.
    pub(crate) fn get(&self, name: MapName) -> Option<&BpfMap> {
        self.maps.get(&name)
    }

    /// Returns the descriptor of a map, or -1 for one that there is not.
    pub(crate) fn descriptor(&self, name: MapName) -> i32 {
        self.maps.get(&name).map_or(-1, BpfMap::raw_fd)
    }

    /// Sets the inputs of the packets to come: the number that is added to the kernel's clock and
    /// the clock's mask, the ingress port of a test run, and whether packets are processed.
    pub(crate) fn set_inputs(
        &self,
        (offset, mask): (u64, u64),
        ingress: u32,
        is_open: bool,
    ) -> io::Result<()> {
        let Some(map) = self.get(MapName::Inputs) else {
            return Ok(());
        };
        let mut value = [0; inputs::BYTES];
        let words = [offset, mask, ingress.into(), is_open.into()];
        for (at, number) in words.into_iter().enumerate() {
            value[at * 8..at * 8 + 8].copy_from_slice(&number.to_ne_bytes());
        }
        map.set(&0u32.to_ne_bytes(), &value)
    }

    /// Returns true if the maps hold this state.
    pub(crate) fn hold(&self, state: &State) -> bool {
        self.state
            .as_ref()
            .is_some_and(|held| std::ptr::eq(&raw const **held, state))
    }

    /// Returns the state that the maps hold.
    pub(crate) fn state(&self) -> Option<Arc<State>> {
        self.state.clone()
    }

    /// Forgets the state that the maps hold: what packets count is not read any more.
    pub(crate) fn forget_state(&mut self) {
        self.state = None;
    }

    /// Returns the descriptors of all maps.
    pub(crate) fn descriptors(&self) -> BTreeMap<MapName, i32> {
        let maps = self.maps.iter();
        maps.map(|(&name, map)| (name, map.raw_fd())).collect()
    }

    /// Makes the maps hold this state. Each entry changes at once for packets. Counts must have
    /// been read before: those of removed entries are lost. After an error the maps hold no state.
    pub(crate) fn write(&mut self, state: &Arc<State>) -> io::Result<()> {
        if self.hold(state) {
            return Ok(());
        }
        let written = self.write_tables(state);
        self.state = written.is_ok().then(|| Arc::clone(state));
        written
    }

    fn write_tables(&mut self, state: &State) -> io::Result<()> {
        let shapes = Arc::clone(&self.shapes);
        for id in self.program.tables.ids() {
            checkpoint();
            let old = self.state.as_ref().and_then(|held| held.table(id));
            let (Ok(shape), Some(new)) = (shapes.table(id), state.table(id)) else {
                continue;
            };
            let is_same = old.is_some_and(|old| Arc::ptr_eq(&old.lookup, &new.lookup));
            if !is_same || new.profile.is_some() {
                self.write_table(id, shape, state)?;
            }
        }
        Ok(())
    }

    fn write_table(&mut self, id: TableId, shape: &TableShape, state: &State) -> io::Result<()> {
        let Some(table) = state.table(id) else {
            return Ok(());
        };
        let mut default = self.value(id, shape, state, None);
        default.resize(VALUE_HEADER + self.shapes.default_limbs as usize * 8, 0);
        let known = self.defaults.get(&id);
        if known != Some(&default)
            && let Some(map) = self.maps.get(&MapName::Defaults)
        {
            map.set(&id.get().to_ne_bytes(), &default)?;
            self.defaults.insert(id, default);
        }
        if shape.form == KeyForm::Rules {
            return self.write_rules(id, shape, state);
        }
        let Some(map) = self.maps.get(&MapName::Table(id)) else {
            return Ok(());
        };
        let mut wanted = Written::new();
        let mut present = HashSet::new();
        for (idx, entry) in table.lookup.iter() {
            checkpoint();
            present.insert(idx);
            let value = self.value(id, shape, state, Some((idx, &entry)));
            wanted.insert(key(shape, &entry.matches), (value, idx.get() + 1));
        }
        let written = self.written.entry(id).or_default();
        for gone in written.keys().filter(|key| !wanted.contains_key(*key)) {
            map.remove(gone)?;
        }
        for (key, value) in &wanted {
            checkpoint();
            if written.get(key) != Some(value) {
                map.set(key, &value.0)?;
            }
        }
        *written = wanted;
        self.entries.insert(id, present);
        Ok(())
    }

    /// Writes the list that packets do not search, and lets them search it.
    fn write_rules(&mut self, id: TableId, shape: &TableShape, state: &State) -> io::Result<()> {
        let (Some(table), Some(rules), Some(lists)) = (
            state.table(id),
            self.maps.get(&MapName::Rules(id)),
            self.maps.get(&MapName::Lists),
        ) else {
            return Ok(());
        };
        let mut entries: Vec<(EntryIdx, Entry)> = table.lookup.iter().collect();
        let largest_wins = self.program.tables[id].largest_priority_wins;
        let needs_priority = shape
            .fields
            .iter()
            .any(|(kind, _)| !matches!(kind, MatchKind::Exact | MatchKind::Lpm));
        let class = |entry: &Entry| match entry.priority {
            _ if !needs_priority => -i64::from(KeyShape::prefix_len(&entry.matches)),
            None => i64::MIN,
            Some(priority) if largest_wins => -i64::from(priority),
            Some(priority) => i64::from(priority),
        };
        entries.sort_by_key(|(_, entry)| (class(entry), entry.id));
        let mut list = vec![0; (LIST_HEADER + shape.rules * shape.rule_bytes()) as usize];
        let is_long = entries.len() > shape.rules as usize;
        let count = if is_long {
            TOO_LONG
        } else {
            entries.len() as u64
        };
        list[..LIST_HEADER as usize].copy_from_slice(&count.to_ne_bytes());
        let places = list[LIST_HEADER as usize..].chunks_exact_mut(shape.rule_bytes() as usize);
        for (place, (idx, entry)) in places.zip(&entries) {
            checkpoint();
            let (matches, value) = place.split_at_mut(shape.rule_value() as usize);
            for (limb, number) in matches.chunks_exact_mut(8).zip(rule(shape, &entry.matches)) {
                limb.copy_from_slice(&number.to_ne_bytes());
            }
            value.copy_from_slice(&self.value(id, shape, state, Some((*idx, entry))));
        }
        let searched = self.searched.get(&id).copied().unwrap_or(1);
        let other = 1 - searched;
        rules.set(&other.to_ne_bytes(), &list)?;
        lists.set(&id.get().to_ne_bytes(), &u64::from(other).to_ne_bytes())?;
        self.searched.insert(id, other);
        let last = entries.iter().map(|(idx, _)| idx.get() + 1).max();
        self.last_rows.insert(id, last.unwrap_or(0));
        let present = entries.iter().map(|(idx, _)| *idx).collect();
        self.entries.insert(id, present);
        Ok(())
    }

    /// Returns the value of an entry, or of the default action.
    fn value(
        &self,
        id: TableId,
        shape: &TableShape,
        state: &State,
        entry: Option<(EntryIdx, &Entry)>,
    ) -> Vec<u8> {
        let mut value = vec![0; shape.value_bytes() as usize];
        let Some(table) = state.table(id) else {
            return value;
        };
        let default = table.lookup.default_action();
        let row = EntryIdx::record_of(entry.map(|(idx, _)| idx));
        let of_entry = entry.map_or(default, |(_, entry)| &entry.action);
        let (action, is_hit) = match of_entry {
            EntryAction::Direct(action) => (Some(action), entry.is_some()),
            EntryAction::Member(member) => match (table.member(*member), default) {
                (Some(action), _) => (Some(action), entry.is_some()),
                (None, EntryAction::Direct(action)) => (Some(action), false),
                (None, _) => (None, false),
            },
            EntryAction::Group(_) => {
                write_header(&mut value, LEAVES, false, row);
                return value;
            }
        };
        let position = action.and_then(|action| self.position(id, action));
        write_header(&mut value, position.unwrap_or(NO_ACTION), is_hit, row);
        if let Some(action) = action {
            let bytes = action.params.iter().flat_map(|limb| limb.to_ne_bytes());
            for (place, byte) in value[VALUE_HEADER..].iter_mut().zip(bytes) {
                *place = byte;
            }
        }
        value
    }

    /// Returns the position of an action in the table's list: that of the action itself, or of the
    /// first one of its name.
    fn position(&self, table: TableId, action: &ActionRef) -> Option<u32> {
        let program = &self.program;
        let listed = &program.tables[table].actions;
        let id = ir::ActionId::new(action.action);
        let own = listed.iter().position(|listed| listed.action == id);
        let wanted = program.actions.get(id)?;
        let is_named = |listed: &ir::TableAction| {
            let known = &program.actions[listed.action];
            known.control_plane_name == wanted.control_plane_name
                && known.params.len() == wanted.params.len()
        };
        let at = own.or_else(|| listed.iter().position(is_named))?;
        u32::try_from(at).ok()
    }

    /// Reads what packets have counted since the last call.
    pub(crate) fn read_counts(&mut self, mut take: impl FnMut(Counted)) -> io::Result<()> {
        if self.state.is_none() {
            return Ok(());
        }
        let names: Vec<MapName> = self.maps.keys().copied().collect();
        for name in names {
            checkpoint();
            let count = match name {
                MapName::Rows(id) => self.rows_in_use(id),
                MapName::Counter(id) => self.shapes.counter(id),
                _ => continue,
            };
            let readings = self.readings(name, count)?;
            let present = match name {
                MapName::Rows(id) => self.entries.get(&id),
                _ => None,
            };
            let before = self.counted.entry(name).or_default();
            before.resize(readings.len().max(before.len()), CounterReading::default());
            for (at, (before, now)) in (0..).zip(before.iter_mut().zip(readings)) {
                let more = CounterReading {
                    packets: now.packets.wrapping_sub(before.packets),
                    bytes: now.bytes.wrapping_sub(before.bytes),
                };
                *before = now;
                if more == CounterReading::default() {
                    continue;
                }
                match name {
                    MapName::Counter(id) => take(Counted::Cell(id, at, more)),
                    MapName::Rows(id) => {
                        let idx = at.checked_sub(1).map(EntryIdx::new);
                        let is_there =
                            |idx: EntryIdx| present.is_some_and(|present| present.contains(&idx));
                        if idx.is_none_or(is_there) {
                            take(Counted::Row(id, idx, more));
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Returns the number of rows up to the last one of an entry.
    fn rows_in_use(&self, id: TableId) -> u32 {
        let written = self.written.get(&id).into_iter().flatten();
        let last = written.map(|(_, (_, row))| *row).max().unwrap_or(0);
        let last = last.max(self.last_rows.get(&id).copied().unwrap_or(0));
        let most = self.shapes.table(id).map_or(1, TableShape::rows);
        (last + 1).min(most)
    }

    fn readings(&self, name: MapName, count: u32) -> io::Result<Vec<CounterReading>> {
        let Some(map) = self.maps.get(&name) else {
            return Ok(Vec::new());
        };
        let values = map.first_values(count)?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let readings = values.chunks_exact(16).map(|value| CounterReading {
            packets: number(&value[..8]),
            bytes: number(&value[8..]),
        });
        Ok(readings.collect())
    }
}

fn write_header(value: &mut [u8], action: u32, is_hit: bool, row: u32) {
    let first = u64::from(action) | u64::from(is_hit) << HIT;
    value[..8].copy_from_slice(&first.to_ne_bytes());
    value[8..16].copy_from_slice(&u64::from(row).to_ne_bytes());
}

/// Returns the key of an entry in its table's map.
fn key(shape: &TableShape, matches: &[FieldMatch]) -> Vec<u8> {
    let value = |at: usize| match matches.get(at) {
        Some(FieldMatch::Exact(value) | FieldMatch::Lpm { value, .. }) => Some(value),
        _ => None,
    };
    if shape.form != KeyForm::Prefix {
        let limbs = (0..shape.fields.len()).filter_map(value);
        let limbs = limbs.flat_map(|value| value.limbs().to_vec());
        return limbs.flat_map(u64::to_ne_bytes).collect();
    }
    let mut data = Vec::new();
    let mut prefix = 0u32;
    for (number, width, bytes) in shape.trie_order() {
        let Some(value) = value(number) else {
            continue;
        };
        let is_prefix = shape.fields[number].0 == MatchKind::Lpm;
        let unused = if is_prefix { bytes * 8 - width } else { 0 };
        let mut all = vec![0; bytes as usize];
        let shifted = shift_left(&value.to_be_bytes(), unused);
        all.copy_from_slice(&shifted);
        data.extend(all);
        prefix += match matches.get(number) {
            Some(FieldMatch::Lpm { prefix_len, .. }) => *prefix_len,
            _ => bytes * 8,
        };
    }
    let mut key = prefix.to_ne_bytes().to_vec();
    key.extend(data);
    key
}

/// Returns the limbs of a rule: a mask and a value for each limb of the key, or the bounds of a
/// range.
fn rule(shape: &TableShape, matches: &[FieldMatch]) -> Vec<u64> {
    let mut numbers = Vec::new();
    for (at, (&(_, width), matched)) in shape.fields.iter().zip(matches).enumerate() {
        let sign = shape.sign_bit(at);
        let (first, second, change) = match matched {
            FieldMatch::Exact(value) | FieldMatch::Optional(Some(value)) => {
                (Value::all_ones(width), value.clone(), 0)
            }
            FieldMatch::Lpm { value, prefix_len } => {
                (Value::prefix_mask(*prefix_len, width), value.clone(), 0)
            }
            FieldMatch::Ternary { value, mask } => (mask.clone(), value.clone(), 0),
            FieldMatch::Range { lo, hi } => (lo.clone(), hi.clone(), sign),
            FieldMatch::Optional(None) => (Value::zero(width), Value::zero(width), 0),
        };
        for (first, second) in first.limbs().iter().zip(second.limbs()) {
            numbers.extend([first ^ change, second ^ change]);
        }
    }
    numbers
}

/// Shifts a big-endian number left by fewer than 8 bits.
fn shift_left(bytes: &[u8], by: u32) -> Vec<u8> {
    let next = |at: usize| u16::from(bytes.get(at + 1).copied().unwrap_or(0));
    let shifted = bytes.iter().enumerate().map(|(at, &byte)| {
        let both = u16::from(byte) << 8 | next(at);
        ((both << by) >> 8) as u8
    });
    shifted.collect()
}
