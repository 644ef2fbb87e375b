//! Classifier image: independent sets, and bit vectors or tuples for the other rules, in one run of
//! bytes that a program on another processor searches.
//!
//! The parts are those of an [`Index`](super::index::Index), but their memory is not: offsets take
//! the place of pointers, nothing can change, and rules are laid out for a core that searches one
//! key at a time. The sets are always learned, whatever is faster here.
//!
//! All numbers are little-endian. Offsets count from the begin of the image, which is a multiple of
//! 64 in memory; arrays have the alignment of their elements. docs/reference/classifier-image.md
//! has the layout. `examples/nanopu/classifier.c` searches it.

use super::dimension::{Condition, Keys, Part, starts_of};
use super::isets::{Independent, Partition};
use super::layout::{Layout, MAX_PACKED, Role};
use super::model::{Model, Submodel};
use super::plan::Plan;
use super::records::FlatRule;
use super::windows::Windows;
use crate::entry::{EntryId, EntryIdx, Rank};
use crate::key::{FieldMatch, KeyShape, MatchKind};
use bits::{Id, one};
use std::fmt;
use std::sync::Arc;

/// First bytes of an image.
const MAGIC: [u8; 8] = *b"PPCLASS1";
/// Bytes of the header.
const HEADER: usize = 128;
/// Bytes of records from which each is in whole cache lines: they are in no cache then, and a
/// second line costs more than space.
const CACHE: usize = 512 << 10;
/// Greatest number of bytes of all records. Each is there once; what else there is has fewer.
const MAX_RECORDS: usize = 1 << 30;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Up to this number of rules, bit vectors of one word prefer chunks of eight bits.
const FEW: usize = 64;
/// Widest part of a key with a bit row for each value.
const DIRECT: u32 = 8;

/// Odd factors of the hash of a tuple, one for each word of a key.
const FACTORS: [u64; MAX_PACKED] = [
    0x9e37_79b9_7f4a_7c15,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0xd6e8_feb8_6659_fd93,
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
    0x8ebc_6af0_9c88_c6e3,
    0x5899_65cc_7537_4cc3,
];

/// Rule of an image.
#[derive(Debug, Clone)]
pub(crate) struct ImageRule {
    /// Its match, checked against the key.
    pub(crate) matches: Arc<[FieldMatch]>,
    /// The rank; the matching rule with the least one is the result.
    pub(crate) rank: Rank,
    /// The result of the search.
    pub(crate) number: u32,
}

/// Reason for which a table has no classifier image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportError {
    /// The fields need more words than an image has.
    WideKey {
        /// Words of the packed key.
        words: usize,
    },
    /// A range has more than 64 bits.
    WideRange,
    /// A range is of signed numbers.
    SignedRange,
    /// The records of the rules have more bytes than offsets of 32 bits allow.
    TooManyRules {
        /// Number of rules.
        rules: usize,
    },
    /// The number of an entry has more than 32 bits.
    EntryNumber(EntryId),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WideKey { words } => write!(
                f,
                "the key has {words} words of 64 bits; a classifier image has at most {MAX_PACKED}"
            ),
            Self::WideRange => f.write_str("a classifier image has no ranges of more than 64 bits"),
            Self::SignedRange => f.write_str("a classifier image has no ranges of signed numbers"),
            Self::TooManyRules { rules } => write!(
                f,
                "{rules} rules are too many for a classifier image, which has at most 1 GiB of them"
            ),
            Self::EntryNumber(id) => write!(
                f,
                "entry {id} has a number of more than 32 bits; load the entries into a new table"
            ),
        }
    }
}

impl std::error::Error for ExportError {}

/// Returns the image of some rules, at least the header.
///
/// # Errors
/// The key has a property that images do not have, or there are too many rules.
pub(crate) fn image(shape: &KeyShape, mut rules: Vec<ImageRule>) -> Result<Vec<u8>, ExportError> {
    if shape.count(MatchKind::SignedRange) > 0 {
        return Err(ExportError::SignedRange);
    }
    let layout = Layout::new(shape);
    if layout.words > MAX_PACKED {
        let words = layout.words;
        return Err(ExportError::WideKey { words });
    }
    if layout.has_wide_ranges() {
        return Err(ExportError::WideRange);
    }
    rules.sort_by_key(|rule| rule.rank);
    let flat = |(order, rule): (usize, &ImageRule)| FlatRule {
        rows: layout.rule(shape, &rule.matches),
        rank: rule.rank.words(),
        idx: EntryIdx::from_index(order),
    };
    let flat: Vec<FlatRule> = rules.iter().enumerate().map(flat).collect();
    let records = (1 + layout.words * 2) * 8;
    let record_bytes = match records * rules.len() > CACHE {
        true => records.next_multiple_of(LINE),
        false => records,
    };
    if record_bytes * rules.len() > MAX_RECORDS {
        let rules = rules.len();
        return Err(ExportError::TooManyRules { rules });
    }
    let writer = Writer {
        layout: &layout,
        rules: &flat,
        numbers: rules.iter().map(|rule| rule.number).collect(),
        record_bytes,
        bytes: vec![0; HEADER],
    };
    Ok(writer.write())
}

/// Image under construction.
struct Writer<'r> {
    layout: &'r Layout,
    /// The rules in order of rank.
    rules: &'r [FlatRule],
    numbers: Vec<u32>,
    record_bytes: usize,
    bytes: Vec<u8>,
}

/// Table of an image: offset and number of elements.
type Placed = [u32; 2];

impl Writer<'_> {
    fn write(mut self) -> Vec<u8> {
        let (sets, taken) = self.partition();
        let others = taken.iter().enumerate().filter(|(_, taken)| !**taken);
        let others: Vec<u32> = others.map(|(order, _)| order as u32).collect();
        let of_key = self.key();
        let sets = self.sets(&sets);
        let rules: Vec<FlatRule> = others
            .iter()
            .map(|&order| self.rules[order as usize].clone())
            .collect();
        let plan = Plan::new(self.layout, &rules, self.rules);
        let in_rows: Vec<u32> = plan.rows.iter().map(|&at| others[at as usize]).collect();
        let vectors = self.vectors(in_rows);
        let tuples = self.tuples(&plan, &rules, &others);
        self.align(LINE);
        let mut header = MAGIC.to_vec();
        let first = [
            self.bytes.len() as u32,
            self.rules.len() as u32,
            self.layout.words as u32,
            self.record_bytes as u32,
        ];
        let tables = of_key
            .into_iter()
            .chain([sets])
            .chain(vectors)
            .chain(tuples);
        for number in first.into_iter().chain(tables.flatten()) {
            header.extend(number.to_le_bytes());
        }
        debug_assert!(header.len() <= HEADER, "the header is full");
        self.bytes[..header.len()].copy_from_slice(&header);
        self.bytes
    }

    /// Chooses the independent sets. Returns them, and for each rule true if it is in one.
    fn partition(&self) -> (Vec<Independent>, Vec<bool>) {
        if self.rules.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mut partition = Partition::new(self.layout, self.rules.len());
        while partition.step(self.rules) {}
        partition.finish()
    }

    fn align(&mut self, bytes: usize) {
        let len = self.bytes.len().next_multiple_of(bytes);
        self.bytes.resize(len, 0);
    }

    /// Appends numbers of 32 bits and returns their offset.
    fn put32(&mut self, numbers: impl IntoIterator<Item = u32>) -> u32 {
        self.align(4);
        let at = self.bytes.len() as u32;
        self.bytes
            .extend(numbers.into_iter().flat_map(u32::to_le_bytes));
        at
    }

    /// Appends numbers of 64 bits and returns their offset.
    fn put64(&mut self, numbers: impl IntoIterator<Item = u64>) -> u32 {
        self.align(8);
        let at = self.bytes.len() as u32;
        self.bytes
            .extend(numbers.into_iter().flat_map(u64::to_le_bytes));
        at
    }

    /// Appends the descriptions of parts, a multiple of 8 bytes each.
    fn table(&mut self, rows: &[Vec<u8>]) -> Placed {
        self.align(LINE);
        let at = self.bytes.len() as u32;
        for row in rows {
            debug_assert!(row.len() % 8 == 0);
            self.bytes.extend(row);
        }
        [at, rows.len() as u32]
    }

    /// Writes how keys are packed and compared.
    fn key(&mut self) -> [Placed; 3] {
        let pieces = &self.layout.pieces;
        let place = |piece: &super::layout::Piece| fields(&[piece.word as u32, piece.shift], &[]);
        let places: Vec<_> = pieces.iter().map(place).collect();
        let ranges = pieces.iter().filter(|piece| piece.role == Role::Range);
        let range = |piece: &super::layout::Piece| {
            fields(&[piece.word as u32, piece.shift], &[one::mask(piece.width)])
        };
        let ranges: Vec<_> = ranges.map(range).collect();
        let values = (0..self.layout.words).map(|word| fields(&[], &[self.layout.values(word)]));
        let values: Vec<_> = values.collect();
        [places, values, ranges].map(|rows| self.table(&rows))
    }

    /// The word that the better rule has the smaller one of: order, then result.
    fn head(&self, order: u32) -> u64 {
        u64::from(order) << 32 | u64::from(self.numbers[order as usize])
    }

    /// Writes rules as records and returns their offset.
    fn records(&mut self, orders: impl IntoIterator<Item = u32>) -> u32 {
        self.align(LINE);
        let at = self.bytes.len() as u32;
        for order in orders {
            let rows = self.rules[order as usize].rows.clone();
            let begin = self.bytes.len();
            self.put64([self.head(order)].into_iter().chain(rows.iter().copied()));
            self.bytes.resize(begin + self.record_bytes, 0);
        }
        at
    }

    fn sets(&mut self, sets: &[Independent]) -> Placed {
        let rows: Vec<_> = sets
            .iter()
            .filter(|set| !set.rules.is_empty())
            .map(|set| self.set(set))
            .collect();
        self.table(&rows)
    }

    fn set(&mut self, set: &Independent) -> Vec<u8> {
        let window = set.window;
        let rules = set.rules.iter().map(|&order| &self.rules[order as usize]);
        let intervals = rules.filter_map(|rule| window.interval(rule.a(), rule.b()));
        let intervals: Vec<(u32, u32)> = intervals.collect();
        let model = Model::train(&intervals);
        let submodel = |it: &Submodel| [it.knots, it.values, it.slopes].concat();
        self.align(LINE);
        let submodels = std::iter::once(&model.root).chain(&model.second);
        let submodels = self.put32(submodels.flat_map(submodel).collect::<Vec<u32>>());
        let leaves = model.leaves().iter();
        let leaves = leaves.flat_map(|it| [it.knot, it.slope, it.value as u32, it.span]);
        self.align(LINE);
        let leaves_at = self.put32(leaves.collect::<Vec<u32>>());
        let starts = self.put32(intervals.iter().map(|&(lo, _)| lo));
        let records = self.records(set.rules.iter().copied());
        fields(
            &[
                window.word as u32,
                window.shift,
                set.rules.len() as u32 - 1,
                model.root_shift,
                model.second.len() as u32,
                model.leaves().len() as u32 - 1,
                submodels,
                leaves_at,
                starts,
                records,
            ],
            &[one::mask(window.bits)],
        )
    }

    /// Writes bit vectors of rules: the words of a row, the parts of the key, and the heads of the
    /// positions.
    fn vectors(&mut self, mut orders: Vec<u32>) -> [Placed; 2] {
        orders.sort_unstable();
        let row_words = orders.len().div_ceil(64);
        let rules: Vec<&FlatRule> = orders
            .iter()
            .map(|&order| &self.rules[order as usize])
            .collect();
        let rows = rules.iter().map(|rule| (rule.a(), rule.b()));
        let pieces = self.layout.pieces.iter().enumerate();
        let parts = pieces
            .flat_map(|piece| Part::of(piece, Keys::Words, rows.clone(), orders.len() <= FEW));
        let mut written = Vec::new();
        for part in parts.collect::<Vec<Part>>() {
            let piece = &self.layout.pieces[part.limb];
            let conditions = rules
                .iter()
                .map(|rule| part.condition(piece, rule.a(), rule.b()));
            let conditions: Vec<Condition> = conditions.collect();
            written.push(self.part(&part, &conditions, row_words));
        }
        let heads: Vec<_> = orders
            .iter()
            .map(|&order| fields(&[], &[self.head(order)]))
            .collect();
        [self.table(&written), self.table(&heads)]
    }

    fn part(&mut self, part: &Part, conditions: &[Condition], row_words: usize) -> Vec<u8> {
        let (values, starts) = if part.width <= DIRECT {
            ((0..1 << part.width).collect(), Vec::new())
        } else {
            // A wide part has intervals only.
            let intervals = conditions.iter().filter_map(|it| it.interval(part.width));
            let starts = starts_of(&intervals.collect::<Vec<_>>(), part.width);
            (starts.clone(), starts)
        };
        let row = |value: u64| {
            let mut row = vec![0u64; row_words];
            for (at, condition) in conditions.iter().enumerate() {
                row[at / 64] |= u64::from(condition.holds(value)) << (at % 64);
            }
            row
        };
        let classes = starts.len() as u32;
        let starts = self.put64(starts);
        self.align(LINE);
        let rows = self.put64(values.into_iter().flat_map(row).collect::<Vec<u64>>());
        let (word, shift) = part.place;
        fields(
            &[word as u32, shift, classes, starts, rows, 0],
            &[one::mask(part.width)],
        )
    }

    /// Writes windows, and the tuples that they filter. `rules` are those of the plan, with
    /// `orders`.
    fn tuples(&mut self, plan: &Plan, rules: &[FlatRule], orders: &[u32]) -> [Placed; 2] {
        if plan.masks.is_empty() {
            return [self.table(&[]), self.table(&[])];
        }
        let mut windows = Windows::new(&plan.windows);
        let mut members = vec![Vec::new(); plan.masks.len()];
        for (at, rule) in rules.iter().enumerate() {
            if let Some(tuple) = plan.tuple_of[at] {
                windows.enter(tuple as usize, rule.a(), rule.b());
                members[tuple as usize].push(orders[at]);
            }
        }
        windows.share();
        let mut filters = Vec::new();
        for (window, row_of, rows) in windows.columns() {
            self.align(LINE);
            let row_of_at = self.bytes.len() as u32;
            self.bytes
                .extend(row_of.iter().flat_map(|row| row.to_le_bytes()));
            let rows = self.put64(rows.iter().copied());
            filters.push(fields(
                &[window.word as u32, window.shift, row_of_at, rows],
                &[one::mask(window.bits)],
            ));
        }
        let tuples = plan.masks.iter().zip(members);
        let tuples: Vec<_> = tuples
            .map(|(mask, members)| self.tuple(mask, members))
            .collect();
        [self.table(&filters), self.table(&tuples)]
    }

    fn tuple(&mut self, mask: &[u64], mut members: Vec<u32>) -> Vec<u8> {
        // Twice as many buckets as rules, at least 2.
        let buckets = (members.len() * 2).next_power_of_two().max(2);
        let shift = u64::BITS - buckets.ilog2();
        let bucket = |order: u32| {
            let words = self.rules[order as usize].a().iter().zip(mask).zip(FACTORS);
            let hash = words.fold(0u64, |hash, ((a, mask), factor)| {
                hash.wrapping_add((a & mask).wrapping_mul(factor))
            });
            (hash >> shift) as usize
        };
        // Within a bucket the best rule is first.
        members.sort_by_key(|&order| (bucket(order), order));
        let mut starts = vec![0u32; buckets + 1];
        for &order in &members {
            starts[bucket(order) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let best = members.iter().copied().min().unwrap_or(u32::MAX);
        self.align(LINE);
        let starts = self.put32(starts);
        let records = self.records(members);
        fields(&[best, shift, starts, records], mask)
    }
}

/// A row of a table: numbers of 32 bits, an even number of them, then numbers of 64 bits.
fn fields(short: &[u32], long: &[u64]) -> Vec<u8> {
    let short = short.iter().flat_map(|number| number.to_le_bytes());
    let long = long.iter().flat_map(|number| number.to_le_bytes());
    short.chain(long).collect()
}
