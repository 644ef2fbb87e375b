//! [`Records`]: the actions and parameters of a table's entries in a flat array. Compiled code that
//! has found an entry reads them without following pointers.
//!
//! A record has an optional head (only if entries may run several actions), followed by the
//! action's parameters, packed according to a [`RecordLayout`]. All records have the same size.
//! Record 0 is the default action's; record `idx + 1` belongs to the entry with index `idx`. A
//! lookup result that is 1-based, with 0 for a miss, is therefore the record number without a
//! branch.
//!
//! Parameters that only the default action has would make all records longer. They are stored in
//! front of record 0 instead.

mod layout;

pub use layout::{RecordField, RecordLayout, RunBy};

use crate::engine::{Replay, Versions};
use crate::entry::EntryActionRef;
use layout::{LIMB, LINE, put};
use std::sync::Arc;

/// Immutable array of the action records of a table, as packets see it.
#[derive(Debug)]
pub struct Records {
    /// Size of a record in bytes.
    stride: usize,
    /// Number of limbs in front of record 0 that belong to it.
    front: usize,
    /// The storage. `skipped` limbs come before record 0, so that the records start on a cache line
    /// boundary.
    limbs: Vec<u64>,
    skipped: usize,
}

/// Number of the default action's record.
const DEFAULT: usize = 0;

/// Number of limbs from which the room grows by a fraction instead of doubling.
const MANY: usize = 4096;

/// Limb of records that represent no action.
const NOTHING_TOLD: u64 = u64::MAX;

impl Records {
    /// Returns the size of a record in bytes.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the number of records.
    #[inline]
    pub fn count(&self) -> usize {
        self.limbs().len() * LIMB / self.stride
    }

    /// Returns all records, without the limbs in front of the first.
    #[inline]
    pub fn limbs(&self) -> &[u64] {
        &self.limbs[self.skipped..]
    }

    /// Returns the address of record 0. The allocation starts at least [`RecordLayout::front`]
    /// limbs before it.
    #[inline]
    pub fn first(&self) -> *const u64 {
        self.limbs.as_ptr().wrapping_add(self.skipped)
    }

    fn new(layout: &RecordLayout) -> Self {
        let front = layout.front();
        Self {
            stride: layout.stride(),
            front,
            limbs: vec![NOTHING_TOLD; front],
            skipped: front,
        }
    }

    /// Returns a copy with capacity for `room` limbs of records.
    fn with_room(&self, room: usize) -> Self {
        let front = self.front.next_multiple_of(LINE / LIMB);
        let mut limbs: Vec<u64> = Vec::with_capacity(room + front + LINE / LIMB);
        let skipped = front + limbs.as_ptr().align_offset(LINE).min(LINE / LIMB);
        limbs.resize(skipped - self.front, 0);
        limbs.extend_from_slice(&self.limbs[self.skipped - self.front..]);
        Self {
            limbs,
            skipped,
            ..*self
        }
    }

    /// Grows the records to at least `limbs` limbs. New records represent no action.
    fn grow(&mut self, limbs: usize) {
        if self.limbs().len() >= limbs {
            return;
        }
        let end = self.skipped + limbs;
        if self.limbs.capacity() < end {
            let enough = match limbs {
                ..MANY => limbs.next_power_of_two(),
                _ => limbs + limbs / 4,
            };
            *self = self.with_room(enough);
        }
        self.limbs.resize(self.skipped + limbs, NOTHING_TOLD);
    }
}

impl Clone for Records {
    fn clone(&self) -> Self {
        self.with_room(self.limbs().len())
    }
}

/// The control side of [`Records`].
#[derive(Debug)]
pub(crate) struct RecordStore {
    layout: Arc<RecordLayout>,
    versions: Versions<Records>,
}

impl RecordStore {
    /// Creates records with this layout. They represent no action.
    pub(crate) fn new(layout: Arc<RecordLayout>) -> Self {
        Self {
            versions: Versions::new(Records::new(&layout)),
            layout,
        }
    }

    pub(crate) fn snapshot(&self) -> Arc<Records> {
        self.versions.snapshot()
    }

    /// Switches to another layout if all existing records stay valid with it. Returns true if they
    /// do.
    pub(crate) fn go_over(&mut self, layout: &Arc<RecordLayout>) -> bool {
        let is_kept = self.layout.is_kept_by(layout);
        if is_kept {
            self.layout = layout.clone();
        }
        is_kept
    }

    /// Sets a record.
    pub(crate) fn set(&mut self, record: usize, action: EntryActionRef<'_>) {
        let layout = &self.layout;
        let mut limbs = vec![NOTHING_TOLD; layout.front() + layout.stride().div_ceil(LIMB)];
        let is_first = record == DEFAULT;
        debug_assert!(
            is_first || layout.can_be_entry(action),
            "an entry whose record cannot tell what it runs"
        );
        if let EntryActionRef::Direct(call) = action
            && let Some(position) = layout.position(call.action, call.params, is_first)
        {
            layout.write(position, call.params, &mut limbs);
        }
        self.versions.change(Change {
            record,
            limbs: limbs.into(),
        });
    }

    pub(crate) fn memory(&self) -> usize {
        self.versions
            .memory(|records| records.limbs.capacity() * LIMB)
    }
}

/// Log record: the new content of one action record, from its first limb on, preceded by the limbs
/// in front of it, which only record 0 uses.
#[derive(Debug)]
pub struct Change {
    record: usize,
    limbs: Box<[u64]>,
}

impl Replay for Records {
    type Op = Change;

    fn apply(&mut self, change: &Change) {
        let first = change.record * self.stride;
        self.grow((first + self.stride).div_ceil(LIMB));
        let (front, record) = change.limbs.split_at(self.front);
        let (before, records) = self.limbs.split_at_mut(self.skipped);
        if change.record == DEFAULT {
            let at = before.len() - front.len();
            before[at..].copy_from_slice(front);
        }
        put(records, first, self.stride, record);
    }

    fn clone_cost(&self) -> usize {
        self.limbs.len() / 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{ActionRef, EntryAction};
    use crate::test_size::usual_or_interpreted;

    fn action(action: u32, params: impl IntoIterator<Item = u64>) -> EntryAction {
        EntryAction::Direct(ActionRef {
            action,
            params: params.into_iter().collect(),
        })
    }

    /// Returns the limbs that a record occupies.
    fn limbs_of(records: &Records, record: usize) -> &[u64] {
        let first = record * records.stride();
        &records.limbs()[first / LIMB..(first + records.stride()).div_ceil(LIMB)]
    }

    /// Returns a single record with this action and these parameters, written on its own.
    fn alone(layout: &RecordLayout, position: usize, params: &[u64]) -> Vec<u64> {
        let mut limbs = vec![NOTHING_TOLD; layout.front() + layout.stride().div_ceil(LIMB)];
        layout.write(position, params, &mut limbs);
        limbs.split_off(layout.front())
    }

    /// Returns the value of a field of at most one limb in a record.
    fn told(records: &Records, record: usize, field: RecordField) -> u64 {
        let at = records.skipped * LIMB + record * records.stride();
        let at = at.strict_add_signed(field.offset as isize);
        let shift = at % LIMB * 8;
        let mask = bits::one::mask((field.bytes * 8) as u32);
        records.limbs[at / LIMB] >> shift & mask
    }

    #[test]
    fn no_record_of_at_most_a_line_is_in_two_and_growing_keeps_what_they_say() {
        const RECORDS: usize = usual_or_interpreted(100, 12);
        for (width, others) in [8, 16, 32, 64].into_iter().flat_map(|w| [(w, 0), (w, 1)]) {
            for params in 0..8usize {
                let widths = (7, RunBy::Entries, vec![width; params]);
                let others = std::iter::repeat_n((8, RunBy::Entries, vec![]), others);
                let layout = Arc::new(RecordLayout::new([widths].into_iter().chain(others)));
                let mut store = RecordStore::new(layout.clone());
                let values = |record: usize| (0..params).map(move |i| (record << 1 | i & 1) as u64);
                for record in 0..RECORDS {
                    store.set(record, (&action(7, values(record))).into());
                }
                let records = store.snapshot();
                for records in [&*records, &(*records).clone()] {
                    assert!(records.count() >= RECORDS);
                    for record in 0..RECORDS {
                        let limbs = limbs_of(records, record);
                        let line = |limb: &u64| (&raw const *limb).addr() / LINE;
                        assert_eq!(line(&limbs[0]), line(&limbs[limbs.len() - 1]));
                        assert_eq!(layout.told_by(records, record), 0);
                        let params: Vec<u64> = values(record).collect();
                        let stride = records.stride();
                        let shift = record * stride % LIMB * 8;
                        let mask = bits::one::mask((stride.min(LIMB) * 8) as u32);
                        let alone = alone(&layout, 0, &params);
                        let told = limbs.iter().map(|limb| limb >> shift & mask);
                        assert!(told.eq(alone.iter().map(|limb| limb & mask)));
                    }
                }
            }
        }
    }

    #[test]
    fn a_record_set_anew_leaves_its_neighbours_and_what_has_no_record_is_told_elsewhere() {
        let layout = Arc::new(RecordLayout::new([
            (7, RunBy::Entries, vec![]),
            (9, RunBy::Entries, vec![16]),
        ]));
        let mut store = RecordStore::new(layout.clone());
        for record in 0..5 {
            store.set(record, (&action(9, [record as u64])).into());
        }
        let before = store.snapshot();
        store.set(1, (&action(7, [])).into());
        store.set(2, (&action(8, [])).into());
        store.set(3, (&action(9, [1 << 16])).into());
        let heads = |records: &Records| -> Vec<u16> {
            (0..5).map(|r| layout.told_by(records, r)).collect()
        };
        const ELSEWHERE: u16 = RecordLayout::ELSEWHERE;
        assert_eq!(heads(&before), [1; 5]);
        assert_eq!(heads(&store.snapshot()), [1, 0, ELSEWHERE, ELSEWHERE, 1]);
        assert_eq!(store.snapshot().limbs()[2] as u32, 4 << 16 | 1);
    }

    #[test]
    fn what_a_miss_alone_may_have_makes_no_entry_longer_and_stays_while_records_come() {
        let layout = Arc::new(RecordLayout::new([
            (7, RunBy::Entries, vec![16]),
            (8, RunBy::DefaultOnly, vec![32, 64]),
            (9, RunBy::DefaultOnly, vec![8]),
            (10, RunBy::Entries, vec![]),
        ]));
        assert_eq!((layout.stride(), layout.front()), (4, 2));
        let mut store = RecordStore::new(layout.clone());
        store.set(DEFAULT, (&action(8, [0x1234_5678, u64::MAX - 1])).into());
        for record in 1..100 {
            store.set(record, (&action(7, [record as u64])).into());
        }
        // An entry has no room for parameters that only the default action has. An action of this
        // kind that fits into an entry's record is stored there.
        store.set(100, (&action(8, [1, 2])).into());
        store.set(101, (&action(9, [3])).into());
        let check = |records: &Records| {
            assert_eq!(layout.told_by(records, DEFAULT), 1);
            let fields = layout.fields(1);
            let params: Vec<u64> = fields
                .iter()
                .map(|&field| told(records, DEFAULT, field))
                .collect();
            assert_eq!(params, [0x1234_5678, u64::MAX - 1]);
            assert!((1..100).all(|record| layout.told_by(records, record) == 0));
            assert_eq!(layout.told_by(records, 100), RecordLayout::ELSEWHERE);
            assert_eq!(layout.told_by(records, 101), 2);
        };
        check(&store.snapshot());
        check(&(*store.snapshot()).clone());
        store.set(DEFAULT, (&action(9, [5])).into());
        assert_eq!(store.layout.told_by(&store.snapshot(), DEFAULT), 2);
    }

    #[test]
    fn entries_that_run_one_action_alone_have_no_heads_and_a_miss_says_in_front_what_it_runs() {
        let layout = Arc::new(RecordLayout::new([
            (8, RunBy::DefaultOnly, vec![32, 64]),
            (7, RunBy::Entries, vec![16]),
            (9, RunBy::DefaultOnly, vec![8]),
        ]));
        assert_eq!((layout.stride(), layout.entries_run()), (2, Some(1)));
        let mut store = RecordStore::new(layout.clone());
        for record in 1..100 {
            store.set(record, (&action(7, [record as u64])).into());
        }
        for (default, params) in [
            (8, &[0x1234_5678, u64::MAX - 1][..]),
            (9, &[5]),
            (7, &[300]),
        ] {
            store.set(DEFAULT, (&action(default, params.iter().copied())).into());
            let records = store.snapshot();
            for records in [&*records, &(*records).clone()] {
                let position = layout.told_by(records, DEFAULT).into();
                assert_eq!(layout.position(default, params, true), Some(position));
                let fields = layout.fields(position);
                let all: Vec<u64> = fields
                    .iter()
                    .map(|&field| told(records, DEFAULT, field))
                    .collect();
                assert_eq!(all, params);
                for record in 1..100 {
                    assert_eq!(layout.told_by(records, record), 1);
                    let param = layout.fields(1)[0];
                    assert_eq!(told(records, record, param), record as u64);
                }
            }
        }
        store.set(
            DEFAULT,
            (&EntryAction::Member(crate::MemberId::new(1))).into(),
        );
        assert_eq!(
            store.layout.told_by(&store.snapshot(), DEFAULT),
            RecordLayout::ELSEWHERE
        );
        // The head is kept where omitting it saves no space.
        let other = RecordLayout::new([(7, RunBy::Entries, [32, 16])]);
        assert_eq!((other.stride(), other.entries_run()), (8, None));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "an entry whose record cannot tell what it runs")]
    fn no_entry_runs_another_action_where_records_have_no_heads() {
        let layout = RecordLayout::new([
            (7, RunBy::Entries, vec![16]),
            (8, RunBy::DefaultOnly, vec![]),
        ]);
        assert_eq!(layout.entries_run(), Some(0));
        RecordStore::new(Arc::new(layout)).set(1, (&action(8, [])).into());
    }
}
