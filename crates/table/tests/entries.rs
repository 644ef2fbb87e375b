//! Property test of tables against a list of entries: all parts of an entry, changes of them,
//! snapshots that readers hold, counts and idle timeouts.

use bits::{Id, Value};
use proptest::prelude::*;
use std::sync::Arc;
use table::*;

/// Key shapes: for each a few matches of which some are equal.
const SHAPES: [&[(MatchKind, u32)]; 5] = [
    &[(MatchKind::Exact, 16)],
    &[(MatchKind::Lpm, 32)],
    &[(MatchKind::Exact, 9), (MatchKind::Lpm, 128)],
    &[(MatchKind::Ternary, 32), (MatchKind::Optional, 7)],
    &[(MatchKind::Range, 70), (MatchKind::Ternary, 200)],
];

/// Action that a record represents, with two parameters.
const SHORT: u32 = 3;
/// Action that a record represents, without parameters.
const BARE: u32 = 5;
/// Action that no record represents.
const OTHER: u32 = 9;

#[derive(Debug, Clone)]
enum Step {
    Insert(New),
    Modify(usize, Choice, Option<u64>, u8),
    Delete(usize),
    Clear,
    SetDefault(Choice),
    Snapshot,
    Release(usize),
    /// A packet of this many bytes hits the entry of this place.
    Packet(usize, u64),
    SetMeter(usize, u64),
    /// The actions have other numbers and more parameters from now on.
    Refit,
}

#[derive(Debug, Clone)]
struct New {
    numbers: [u64; 2],
    priority: i32,
    action: Choice,
    is_const: bool,
    timeout: Option<u64>,
    owner: u32,
    metadata: u8,
}

#[derive(Debug, Clone, Copy)]
enum Choice {
    Short(u64),
    Bare,
    /// An action with this many parameters that no record represents.
    Other(usize),
    Member(u32),
    Group(u32),
}

fn choice() -> impl Strategy<Value = Choice> {
    prop_oneof![
        4 => (0u64..9).prop_map(Choice::Short),
        2 => Just(Choice::Bare),
        2 => (0usize..70).prop_map(Choice::Other),
        1 => (0u32..4).prop_map(Choice::Member),
        1 => (0u32..4).prop_map(Choice::Group),
    ]
}

fn new() -> impl Strategy<Value = New> {
    let timeout = || proptest::option::weighted(0.2, 1u64..50);
    let parts = (
        any::<[u8; 2]>(),
        1i32..4,
        choice(),
        0u8..20,
        timeout(),
        0u32..3,
        0u8..3,
    );
    parts.prop_map(
        |(numbers, priority, action, chance, timeout, owner, metadata)| New {
            numbers: numbers.map(|number| u64::from(number % 12)),
            priority,
            action,
            is_const: chance == 0,
            timeout,
            owner,
            metadata,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let place = || 0usize..1000;
    prop_oneof![
        12 => new().prop_map(Step::Insert),
        4 => (place(), choice(), proptest::option::weighted(0.1, 1u64..50), 0u8..3)
            .prop_map(|(at, action, timeout, bytes)| Step::Modify(at, action, timeout, bytes)),
        4 => place().prop_map(Step::Delete),
        1 => Just(Step::Clear),
        1 => choice().prop_map(Step::SetDefault),
        4 => Just(Step::Snapshot),
        3 => place().prop_map(Step::Release),
        5 => (place(), 1u64..1500).prop_map(|(at, bytes)| Step::Packet(at, bytes)),
        2 => (place(), 1u64..1000).prop_map(|(at, rate)| Step::SetMeter(at, rate)),
        1 => Just(Step::Refit),
    ]
}

/// An entry as the list has it.
#[derive(Debug, Clone, PartialEq)]
struct Listed {
    id: EntryId,
    matches: Vec<FieldMatch>,
    priority: Option<i32>,
    action: EntryAction,
    is_const: bool,
    timeout: Option<u64>,
    owner: Owner,
    metadata: Vec<u8>,
}

impl Listed {
    fn of(entry: &Entry) -> Listed {
        Listed {
            id: entry.id,
            matches: entry.matches.to_vec(),
            priority: entry.priority,
            action: entry.action.clone(),
            is_const: entry.is_const,
            timeout: entry.idle_timeout_ns,
            owner: entry.owner,
            metadata: entry.metadata.to_vec(),
        }
    }
}

/// Counts of an entry as the list has them.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    packets: u64,
    bytes: u64,
    last_ns: u64,
    meter: Option<u64>,
}

/// A snapshot and the list at its time.
struct Held {
    lookup: Arc<Lookup>,
    entries: Vec<Listed>,
    default: EntryAction,
}

impl Held {
    fn check(&self) {
        let mut all: Vec<Listed> = self.lookup.iter().map(|(_, e)| Listed::of(&e)).collect();
        all.sort_by_key(|entry| entry.id);
        assert_eq!(all, self.entries);
        assert_eq!(self.lookup.default_action(), &self.default);
        for (idx, entry) in self.lookup.iter() {
            assert_eq!(self.lookup.entry_id(idx), entry.id);
            assert_eq!(self.lookup.action(Some(idx)).to_action(), entry.action);
        }
    }

    fn index_of(&self, id: EntryId) -> Option<EntryIdx> {
        let mut entries = self.lookup.iter();
        entries
            .find(|(_, entry)| entry.id == id)
            .map(|(idx, _)| idx)
    }
}

/// A table and the list that it must equal.
struct Run {
    shape: KeyShape,
    table: Table,
    entries: Vec<(Listed, Counted)>,
    default: EntryAction,
    held: Vec<Held>,
    next_id: u64,
    now: u64,
    /// Number that is added to the numbers of actions.
    shift: u32,
    is_metered: bool,
}

fn layout(shift: u32) -> Arc<RecordLayout> {
    let long = if shift > 0 { vec![8, 64, 100] } else { vec![] };
    Arc::new(RecordLayout::new([
        (SHORT + shift, RunBy::Entries, vec![16, 48]),
        (BARE + shift, RunBy::Entries, long),
    ]))
}

impl Run {
    fn new(shape: &[(MatchKind, u32)], is_metered: bool, capacity: usize) -> Run {
        let shape = KeyShape::new(shape.iter().map(|&(kind, width)| KeyField { width, kind }));
        let default = EntryAction::Member(MemberId::new(0));
        let spec = TableSpec {
            records: layout(0),
            direct_counter: Some(CounterKind::PacketsAndBytes),
            direct_meter: is_metered.then_some(MeterUnit::Packets),
            notes_usage: false,
            ..TableSpec::new(shape.clone(), capacity)
        };
        Run {
            table: Table::new(spec, default.clone()),
            shape,
            entries: Vec::new(),
            default,
            held: Vec::new(),
            next_id: 0,
            now: 0,
            shift: 0,
            is_metered,
        }
    }

    fn action(&self, choice: Choice) -> EntryAction {
        let call = |action: u32, params: Vec<u64>| {
            EntryAction::Direct(ActionRef {
                action: action + self.shift,
                params: params.into(),
            })
        };
        match choice {
            Choice::Short(number) => call(SHORT, vec![number, number << 40]),
            Choice::Bare if self.shift > 0 => call(BARE, vec![1, 2, 3, 4]),
            Choice::Bare => call(BARE, vec![]),
            Choice::Other(count) => call(OTHER, (0..count as u64).map(|n| !n).collect()),
            Choice::Member(member) => EntryAction::Member(MemberId::new(member)),
            Choice::Group(group) => EntryAction::Group(GroupId::new(group)),
        }
    }

    fn matches(&self, numbers: [u64; 2]) -> Vec<FieldMatch> {
        let fields = self.shape.fields().iter().zip(numbers);
        let one = |(field, number): (&KeyField, u64)| {
            let width = field.width;
            let value = Value::from_limbs(&[number << 3, 0, number, number], width);
            match field.kind {
                MatchKind::Exact => FieldMatch::Exact(value),
                MatchKind::Lpm => FieldMatch::Lpm {
                    prefix_len: width - number as u32 % 4,
                    value,
                },
                MatchKind::Ternary => FieldMatch::Ternary {
                    mask: value.or_all(number),
                    value,
                },
                MatchKind::Range | MatchKind::SignedRange => FieldMatch::Range {
                    hi: Value::all_ones(width),
                    lo: value,
                },
                MatchKind::Optional => FieldMatch::Optional((number > 5).then_some(value)),
            }
            .canonical()
        };
        fields.map(one).collect()
    }

    fn place(&self, at: usize) -> Option<usize> {
        at.checked_rem(self.entries.len())
    }

    fn insert(&mut self, new: &New) {
        let matches = self.matches(new.numbers);
        let priority = self.shape.needs_priority().then_some(new.priority);
        let action = self.action(new.action);
        let metadata = vec![new.metadata; new.metadata.into()];
        let inserted = self.table.insert(
            NewEntry {
                priority,
                is_const: new.is_const,
                idle_timeout_ns: new.timeout,
                owner: Owner::new(new.owner),
                metadata: metadata.clone().into(),
                ..NewEntry::new(matches.clone(), action.clone())
            },
            self.now,
        );
        let same = |(entry, _): &&(Listed, Counted)| {
            entry.matches == matches && entry.priority == priority
        };
        if let Some((entry, _)) = self.entries.iter().find(same) {
            assert_eq!(inserted, Err(TableError::Duplicate(entry.id)));
            return;
        }
        if self.entries.len() == self.table.spec().capacity {
            assert!(matches!(inserted, Err(TableError::Full { .. })));
            return;
        }
        let id = EntryId(self.next_id);
        assert_eq!(inserted, Ok(id));
        self.next_id += 1;
        let listed = Listed {
            id,
            matches,
            priority,
            action,
            is_const: new.is_const,
            timeout: new.timeout,
            owner: Owner::new(new.owner),
            metadata,
        };
        let counted = Counted {
            last_ns: self.now,
            ..Counted::default()
        };
        self.entries.push((listed, counted));
    }

    fn modify(&mut self, at: usize, choice: Choice, timeout: Option<u64>, metadata: u8) {
        let (Some(at), action) = (self.place(at), self.action(choice)) else {
            return;
        };
        let metadata = vec![metadata; metadata.into()];
        let (entry, _) = &mut self.entries[at];
        let bytes = metadata.clone().into();
        let modified = self.table.modify(entry.id, action.clone(), timeout, bytes);
        if entry.is_const {
            assert_eq!(modified, Err(TableError::ConstEntry(entry.id)));
            return;
        }
        assert_eq!(modified, Ok(()));
        (entry.action, entry.timeout, entry.metadata) = (action, timeout, metadata);
    }

    fn delete(&mut self, at: usize) {
        let Some(at) = self.place(at) else { return };
        let (entry, _) = &self.entries[at];
        match self.table.delete(entry.id) {
            Ok(deleted) => {
                assert_eq!(Listed::of(&deleted), *entry);
                self.entries.remove(at);
            }
            Err(error) => assert_eq!(
                (error, entry.is_const),
                (TableError::ConstEntry(entry.id), true)
            ),
        }
    }

    fn packet(&mut self, at: usize, bytes: u64) {
        let (Some(at), Some(held)) = (self.place(at), self.held.last()) else {
            return;
        };
        let (entry, counted) = &mut self.entries[at];
        let Some(idx) = held.index_of(entry.id) else {
            return;
        };
        let lane = CounterShard::new(0);
        held.lookup.record(Some(idx), lane, bytes, self.now);
        held.lookup.count(Some(idx), lane, bytes);
        counted.packets += 1;
        counted.bytes += bytes;
        if held.lookup.notes_usage() {
            counted.last_ns = self.now;
        }
    }

    fn set_meter(&mut self, at: usize, rate: u64) {
        let Some(at) = self.place(at) else { return };
        let (entry, counted) = &mut self.entries[at];
        let meter = self.table.meter(Some(entry.id));
        assert_eq!(meter.is_some(), self.is_metered);
        if let Some(meter) = meter {
            let config = MeterConfig::SingleRate {
                cir: rate,
                cburst: 10,
                eburst: 10,
            };
            assert_eq!(meter.configure(config), Ok(()));
            counted.meter = Some(rate);
        }
    }

    fn refit(&mut self) {
        if self.shift > 0 {
            return;
        }
        self.shift = 100;
        let numbers = [SHORT, BARE, OTHER].map(|number| (number, number + self.shift));
        let spec = TableSpec {
            records: layout(self.shift),
            ..self.table.spec().clone()
        };
        let renumbered = |action: &mut EntryAction| {
            if let EntryAction::Direct(call) = action {
                call.action += 100;
            }
        };
        renumbered(&mut self.default);
        self.table
            .refit(spec, self.default.clone(), Some(&numbers.into()));
        self.entries
            .iter_mut()
            .for_each(|(entry, _)| renumbered(&mut entry.action));
    }

    fn step(&mut self, step: &Step) {
        self.now += 7;
        match step {
            Step::Insert(new) => self.insert(new),
            Step::Modify(at, action, timeout, bytes) => self.modify(*at, *action, *timeout, *bytes),
            Step::Delete(at) => self.delete(*at),
            Step::Clear => {
                self.table.clear();
                self.entries.retain(|(entry, _)| entry.is_const);
            }
            Step::SetDefault(choice) => {
                self.default = self.action(*choice);
                self.table.set_default(self.default.clone());
            }
            Step::Snapshot => self.held.push(Held {
                lookup: self.table.snapshot(),
                entries: self
                    .entries
                    .iter()
                    .map(|(entry, _)| entry.clone())
                    .collect(),
                default: self.default.clone(),
            }),
            Step::Release(at) => {
                if let Some(at) = at.checked_rem(self.held.len()) {
                    self.held.remove(at);
                }
            }
            Step::Packet(at, bytes) => self.packet(*at, *bytes),
            Step::SetMeter(at, rate) => self.set_meter(*at, *rate),
            Step::Refit => self.refit(),
        }
    }

    fn check(&mut self) {
        let listed: Vec<Listed> = self
            .entries
            .iter()
            .map(|(entry, _)| entry.clone())
            .collect();
        let all: Vec<Listed> = self.table.iter().map(|entry| Listed::of(&entry)).collect();
        assert_eq!(all, listed);
        assert!(self.table.ids().eq(listed.iter().map(|entry| entry.id)));
        let mut idle = Vec::new();
        for (entry, counted) in &self.entries {
            let found = self.table.find(&entry.matches, entry.priority);
            assert_eq!(found.as_deref().map(Listed::of).as_ref(), Some(entry));
            assert_eq!(
                self.table.find_id(&entry.matches, entry.priority),
                Some(entry.id)
            );
            let reading = CounterReading {
                packets: counted.packets,
                bytes: counted.bytes,
            };
            assert_eq!(self.table.counter(Some(entry.id)), Some(reading));
            let meter = self.table.meter(Some(entry.id));
            let rate = meter
                .and_then(MeterCell::config)
                .map(|config| match config {
                    MeterConfig::SingleRate { cir, .. } => cir,
                    MeterConfig::TwoRate { cir, .. } => cir,
                });
            assert_eq!(rate, counted.meter);
            let is_idle = |timeout: u64| self.now - counted.last_ns >= timeout;
            if entry.timeout.is_some_and(is_idle) {
                idle.push(entry.id);
            }
        }
        let all: Vec<EntryId> = self
            .table
            .idle(self.now)
            .map(|(entry, _)| entry.id)
            .collect();
        assert_eq!(all, idle);
        for action in listed.iter().map(|entry| &entry.action) {
            let users = listed
                .iter()
                .map(|entry| &entry.action)
                .chain([&self.default]);
            let count = users.filter(|other| *other == action).count();
            match action {
                EntryAction::Direct(_) => {}
                EntryAction::Member(it) => assert_eq!(self.table.uses_of_member(*it), count),
                EntryAction::Group(it) => assert_eq!(self.table.uses_of_group(*it), count),
            }
        }
        self.held.iter().for_each(Held::check);
    }
}

/// Addition of bits, for masks that differ.
trait OrAll {
    /// Returns all ones, or this value if the number is small.
    fn or_all(&self, number: u64) -> Value;
}

impl OrAll for Value {
    fn or_all(&self, number: u64) -> Value {
        match number {
            ..4 => self.clone(),
            _ => Value::all_ones(self.width()),
        }
    }
}

proptest! {
    #[test]
    fn a_table_is_a_list_of_entries_and_snapshots_stay_as_they_were(
        shape in 0..SHAPES.len(),
        is_metered in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut run = Run::new(SHAPES[shape], is_metered, 40);
        for step in &steps {
            run.step(step);
            run.check();
        }
    }
}

#[test]
fn a_table_of_many_entries_takes_few_bytes_for_each_and_no_more_while_readers_hold_snapshots() {
    const ENTRIES: u64 = 20_000;
    let shape = KeyShape::new([KeyField {
        width: 32,
        kind: MatchKind::Lpm,
    }]);
    let records = Arc::new(RecordLayout::new([
        (SHORT, RunBy::Entries, vec![32, 9]),
        (BARE, RunBy::Entries, vec![9]),
    ]));
    let spec = TableSpec {
        records,
        notes_usage: false,
        ..TableSpec::new(shape, ENTRIES as usize)
    };
    let mut table = Table::new(spec, EntryAction::Member(MemberId::new(0)));
    for number in 0..ENTRIES {
        let prefix = FieldMatch::Lpm {
            value: Value::truncated((number << 8).into(), 32),
            prefix_len: 24,
        };
        let action = EntryAction::Direct(ActionRef {
            action: SHORT,
            params: [number, 1].into(),
        });
        table
            .insert(NewEntry::new(vec![prefix], action), 0)
            .unwrap();
    }
    let bytes = table.record_memory() as u64 / ENTRIES;
    assert!(bytes <= 56, "{bytes} bytes for an entry");
    let held = table.snapshot();
    let last = EntryIdx::from_index(ENTRIES as usize - 1);
    table.delete(held.entry_id(last)).unwrap();
    assert_eq!(held.iter().count() as u64, ENTRIES);
    // One more copy, which later changes use in turn.
    drop(held);
    for id in 0..100 {
        table.delete(EntryId(id)).unwrap();
        table.snapshot();
    }
    assert!(table.record_memory() as u64 / ENTRIES <= 2 * 56);
}
