//! Tables for lookup benchmarks: their entries, lookup keys, and entries that are inserted and
//! deleted meanwhile.

mod loaded;
mod measure;

pub use loaded::{Loaded, measure_loaded};
pub use measure::{Beside, Changes, Plan, Rates, measure};

use crate::tables::{route_entries, route_shape, rule_entries, rule_shape};
use bits::Value;
use generators::{Family, Kind, RoutingTable, RuleSet, Spread};
use std::cmp::Reverse;
use support::rng::Rng;
use table::{
    ActionRef, EntryAction, FieldMatch, KeyField, KeyShape, MatchKind, NewEntry, Table, TableSpec,
};

/// Maximum number of exchanged entries, and their maximum fraction of the table (1/16).
const MAX_SPARE: usize = 4096;
const SPARE_SHARE: usize = 16;

/// Kind of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Exact match on random 64-bit keys.
    Exact,
    /// A routing table.
    Lpm(Family),
    /// A set of rules over the five-tuple.
    Ternary(Kind),
}

impl Subject {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Exact,
        Self::Lpm(Family::V4),
        Self::Lpm(Family::V6),
        Self::Ternary(Kind::Acl),
        Self::Ternary(Kind::Fw),
        Self::Ternary(Kind::Ipc),
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact64",
            Self::Lpm(Family::V4) => "lpm-v4",
            Self::Lpm(Family::V6) => "lpm-v6",
            Self::Ternary(kind) => match kind {
                Kind::Acl => "ternary-acl",
                Kind::Fw => "ternary-fw",
                Kind::Ipc => "ternary-ipc",
            },
        }
    }

    /// Returns its match kind.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Lpm(_) => "lpm",
            Self::Ternary(_) => "ternary",
        }
    }

    /// Returns the measured table sizes: small, medium, and the largest in practice.
    pub fn sizes(self) -> [usize; 3] {
        match self {
            Self::Exact => [1_000, 100_000, 1_000_000],
            Self::Lpm(Family::V4) => [1_000, 100_000, 964_000],
            Self::Lpm(Family::V6) => [1_000, 50_000, 200_000],
            Self::Ternary(_) => [1_000, 100_000, 500_000],
        }
    }

    /// Returns the number of updates per second that such a table must sustain with concurrent
    /// lookups.
    pub fn pace(self) -> u32 {
        match self {
            Self::Exact | Self::Lpm(_) => 100_000,
            Self::Ternary(_) => 10_000,
        }
    }

    /// Creates entries, lookup keys that hit them, and entries to exchange. The result is the same
    /// in every run. It may have fewer entries if there are not enough different ones.
    pub fn sample(self, entries: usize, lookups: usize) -> Sample {
        let new = |shape, all, spare, key: &dyn Fn(usize, &mut Rng) -> Vec<u64>| {
            Sample::new(shape, all, spare, lookups, key)
        };
        let spare = (entries / SPARE_SHARE).clamp(1, MAX_SPARE);
        let count = entries + spare;
        match self {
            Self::Exact => {
                let key = |number| Rng::new(number as u64).bits();
                let entry = |number| {
                    let value = Value::truncated(key(number).into(), 64);
                    NewEntry::new(vec![FieldMatch::Exact(value)], direct())
                };
                let all = (0..count).map(entry).collect();
                new(exact_shape(), all, spare, &|number, _| vec![key(number)])
            }
            Self::Lpm(family) => {
                let table = RoutingTable::generate(family, count, 1);
                let routes = table.routes();
                let all = route_entries(&table, direct()).collect();
                new(route_shape(&table), all, spare, &|number, choices| {
                    table.keys(&[table.destination_in(routes[number], choices)])
                })
            }
            Self::Ternary(kind) => {
                let set = RuleSet::generate(kind, Spread::Scaled, count, 1);
                let all = rule_entries(&set, |_| direct()).collect();
                new(rule_shape(), all, spare, &|number, choices| {
                    set.rules()[number].random_header(choices).to_vec()
                })
            }
        }
    }
}

/// Contents of a table, and lookup keys.
#[derive(Debug, Clone)]
pub struct Sample {
    shape: KeyShape,
    entries: Vec<NewEntry>,
    /// First the entries not in the table, then an equal number of entries in it.
    exchanged: Vec<NewEntry>,
    /// Concatenated keys that hit.
    keys: Vec<u64>,
}

impl Sample {
    /// Creates a sample. `spare` entries, distributed over all, are left out of the table. `key`
    /// draws a random key that matches the entry with this number.
    fn new(
        shape: KeyShape,
        all: Vec<NewEntry>,
        spare: usize,
        lookups: usize,
        key: &dyn Fn(usize, &mut Rng) -> Vec<u64>,
    ) -> Self {
        let step = (all.len() / spare.max(1)).max(2);
        let spare = spare.min(all.len() / step);
        let is_spare = |number: usize| number % step == step - 1 && number / step < spare;
        // An equal number of entries of the table, for which the spare ones are exchanged.
        let is_own = |number: usize| number.is_multiple_of(step) && number / step < spare;
        let stays = |number: &usize| !is_spare(*number) && !is_own(*number);
        let staying: Vec<usize> = (0..all.len()).filter(stays).collect();
        let mut choices = Rng::new(1);
        let mut keys = Vec::with_capacity(lookups * shape.limbs());
        for _ in 0..lookups {
            let which = choices.below(staying.len() as u64) as usize;
            if let Some(&number) = staying.get(which) {
                keys.extend(key(number, &mut choices));
            }
        }
        let picked = |is_picked: &dyn Fn(usize) -> bool| {
            let numbered = all.iter().enumerate();
            let picked = numbered.filter(|(number, _)| is_picked(*number));
            picked.map(|(_, entry)| entry.clone()).collect::<Vec<_>>()
        };
        let mut exchanged = picked(&is_spare);
        exchanged.extend(picked(&is_own));
        let entries = picked(&|number| !is_spare(number));
        Self {
            shape,
            entries,
            exchanged,
            keys,
        }
    }
    /// Returns the number of entries in the table.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Returns the lookup keys, one after another, [`Sample::limbs`] words each.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Returns the words of a key.
    pub fn limbs(&self) -> usize {
        self.shape.limbs()
    }

    /// Creates the table with its entries.
    pub fn table(&self) -> Table {
        let capacity = self.entries.len() + 1;
        let mut table = Table::new(TableSpec::new(self.shape.clone(), capacity), direct());
        for entry in &self.entries {
            // A sample has no two entries with the same match.
            let _ = table.insert(entry.clone(), 0);
        }
        table
    }

    /// Compares about `lookups` lookups, distributed over all keys, with a linear search.
    ///
    /// # Errors
    /// A lookup finds another entry than the search.
    pub fn check(&self, table: &mut Table, lookups: usize) -> Result<(), Mismatch> {
        let lookup = table.snapshot();
        let limbs = self.shape.limbs();
        let step = (self.keys.len() / limbs / lookups.max(1)).max(1);
        for key in self.keys.chunks_exact(limbs).step_by(step) {
            let found = lookup.find(key).map(|idx| lookup.entry(idx).matches);
            let matching = self
                .entries
                .iter()
                .filter(|entry| self.shape.matches(&entry.matches, key));
            let best = matching
                .min_by_key(|entry| (Reverse(entry.priority), Reverse(prefix_len(&entry.matches))));
            if found.as_deref() != best.map(|entry| &entry.matches[..]) {
                return Err(Mismatch { key: key.to_vec() });
            }
        }
        Ok(())
    }
}

/// A key for which the table finds another entry than a linear search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The key's limbs.
    pub key: Vec<u64>,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key } = self;
        write!(
            f,
            "the key {key:x?} finds another entry than a search through all"
        )
    }
}

impl std::error::Error for Mismatch {}

fn direct() -> EntryAction {
    EntryAction::Direct(ActionRef {
        action: 0,
        params: [1].into(),
    })
}

fn prefix_len(matches: &[FieldMatch]) -> u32 {
    let len = |field: &FieldMatch| match field {
        FieldMatch::Lpm { prefix_len, .. } => Some(*prefix_len),
        _ => None,
    };
    matches.iter().find_map(len).unwrap_or(0)
}

fn exact_shape() -> KeyShape {
    KeyShape::new([KeyField {
        width: 64,
        kind: MatchKind::Exact,
    }])
}
