//! [`RecordLayout`]: positions of action parameters in the records of a table.

use super::{DEFAULT, Records};
use crate::entry::EntryActionRef;

/// Size of a record's head in bytes. The head holds the position in the table of the action that
/// runs. Actions at positions that do not fit (65,535 and above) are represented by
/// [`RecordLayout::ELSEWHERE`]. A one-byte head would save nothing where parameters have more than
/// one byte, which is the usual case.
const HEAD_BYTES: usize = size_of::<u16>();

/// Size of a cache line in bytes.
pub(super) const LINE: usize = 64;

/// Size of a limb in bytes.
pub(super) const LIMB: usize = size_of::<u64>();

/// Position of a parameter in a record. Its size is 1, 2, 4 or 8 bytes, or several whole limbs. It
/// is aligned to its size, or to 8 bytes if it is larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordField {
    /// Offset from the start of the record in bytes. Negative for parameters in front of the first
    /// record ([`RunBy::DefaultOnly`]).
    pub offset: i32,
    /// Size in bytes.
    pub bytes: usize,
}

impl RecordField {
    /// Returns the number of limbs that the parameter has outside of records.
    pub fn limbs(self) -> usize {
        self.bytes.div_ceil(LIMB)
    }
}

/// Set of contexts that may run an action of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunBy {
    /// Entries, and possibly the default action.
    Entries,
    /// Only the default action, or members of an action profile. Parameters that would make all
    /// records longer are stored in front of the first record, which is the default action's.
    DefaultOnly,
}

/// Record layout of one action.
#[derive(Debug, PartialEq, Eq)]
struct ActionRecord {
    action: u32,
    /// By parameter index.
    fields: Box<[RecordField]>,
    /// Number of bytes used from the start of the record on, including the head.
    bytes: usize,
    /// Number of limbs of the parameters outside of records.
    limbs: usize,
}

/// Layout of the action records of a table. It is a pure function of the table's actions and the
/// widths of their parameters. Writers and readers of records thus agree without further data.
///
/// A record starts with its head, which selects the action. The action determines the positions of
/// the parameters. If all entries run the same action, and records are shorter without a head, they
/// have none. The head of the default action is then in front of its record.
#[derive(Debug, PartialEq, Eq)]
pub struct RecordLayout {
    /// By position in the table.
    actions: Box<[ActionRecord]>,
    stride: usize,
    /// Number of limbs in front of the first record that belong to it.
    front: usize,
    entries_run: Option<u16>,
}

/// Placement of the heads: inside each record, or only in front of the first one.
#[derive(Clone, Copy)]
struct Heads {
    /// Number of bytes at the start of each record.
    bytes: usize,
    /// Number of limbs between the first record and those of its parameters that are stored in
    /// front of it.
    limbs: usize,
}

impl Heads {
    const IN_RECORDS: Heads = Heads {
        bytes: HEAD_BYTES,
        limbs: 0,
    };
    const IN_FRONT: Heads = Heads { bytes: 0, limbs: 1 };
}

impl RecordLayout {
    /// Head of a record that does not represent its entry's action. The entry refers to an action
    /// profile, or its parameters do not fit. The action must be read from the entry. No position
    /// has this value.
    pub const ELSEWHERE: u16 = u16::MAX;

    /// Creates the layout of a table with these actions, in the order of their positions. Each
    /// action is given by its number, by what may run it, and by the widths of its parameters in
    /// bits. Outside of records, each parameter has at least one limb.
    pub fn new<W>(actions: impl IntoIterator<Item = (u32, RunBy, W)>) -> Self
    where
        W: IntoIterator<Item = u32>,
    {
        let actions = actions.into_iter();
        let actions: Vec<(u32, RunBy, Vec<usize>)> = actions
            .map(|(action, run_by, widths)| {
                (action, run_by, widths.into_iter().map(bytes_of).collect())
            })
            .collect();
        let with_heads = Self::with(&actions, Heads::IN_RECORDS);
        let without = Self::only_of_entries(&actions).map(|position| Self {
            entries_run: Some(position),
            ..Self::with(&actions, Heads::IN_FRONT)
        });
        let is_shorter = |without: &Self| without.stride < with_heads.stride;
        without.filter(is_shorter).unwrap_or(with_heads)
    }

    /// Returns the position of the only action that entries run, if there is exactly one and a head
    /// can hold its position.
    fn only_of_entries(actions: &[(u32, RunBy, Vec<usize>)]) -> Option<u16> {
        let actions = actions.iter().enumerate();
        let mut of_entries = actions.filter(|(_, (_, run_by, _))| *run_by == RunBy::Entries);
        let (position, _) = of_entries.next()?;
        let position = u16::try_from(position).ok();
        position.filter(|&at| of_entries.next().is_none() && at < Self::ELSEWHERE)
    }

    /// Creates the layout with the given placement of heads. `actions` has the size of each
    /// parameter in bytes.
    fn with(actions: &[(u32, RunBy, Vec<usize>)], heads: Heads) -> Self {
        let records = actions.iter();
        let mut records: Box<[ActionRecord]> = records
            .map(|(action, _, sizes)| ActionRecord::new(*action, sizes, heads))
            .collect();
        let of_entries = records.iter().zip(actions);
        let of_entries = of_entries.filter(|(_, (_, run_by, _))| *run_by == RunBy::Entries);
        let longest = of_entries.map(|(record, _)| record.bytes).max();
        let stride = stride_of(longest.unwrap_or(heads.bytes));
        let is_longer = |record: &&mut ActionRecord| record.bytes > stride;
        let front = records.iter_mut().filter(is_longer);
        let front = front.map(|record| record.go_in_front(heads)).max();
        Self {
            actions: records,
            stride,
            front: front.unwrap_or(heads.limbs),
            entries_run: None,
        }
    }

    /// Returns the distance between two records in bytes: a power of two up to a cache line, a
    /// multiple of a cache line beyond. A record therefore spans as few cache lines as possible.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the number of limbs in front of the first record, the default action's, that belong
    /// to it.
    pub fn front(&self) -> usize {
        self.front
    }

    /// Returns the position of the action that all entries run, if records have no heads.
    pub fn entries_run(&self) -> Option<usize> {
        self.entries_run.map(usize::from)
    }

    /// Returns the offset of the default action's head from the start of its record in bytes.
    /// Negative if records have no heads.
    pub fn default_head(&self) -> i32 {
        match self.entries_run {
            Some(_) => -(LIMB as i32),
            None => 0,
        }
    }

    /// Returns the position of the action that a record with this layout represents, or
    /// [`RecordLayout::ELSEWHERE`].
    pub fn told_by(&self, records: &Records, record: usize) -> u16 {
        let first = records.skipped * LIMB;
        let at = match (self.entries_run, record) {
            (None, _) => first + record * self.stride,
            (Some(_), DEFAULT) => first.strict_add_signed(self.default_head() as isize),
            (Some(position), _) => return position,
        };
        (records.limbs[at / LIMB] >> (at % LIMB * 8)) as u16
    }

    /// Returns the positions of the parameters in a record of the action at `position`.
    pub fn fields(&self, position: usize) -> &[RecordField] {
        let action = self.actions.get(position);
        action.map_or(&[], |action| &action.fields)
    }

    /// Returns the number of parameter limbs of the action at `position`.
    pub fn param_limbs(&self, position: usize) -> usize {
        let action = self.actions.get(position);
        action.map_or(0, |action| action.limbs)
    }

    /// Returns the maximum number of parameter limbs of any action.
    pub fn most_param_limbs(&self) -> usize {
        let limbs = self.actions.iter().map(|action| action.limbs);
        limbs.max().unwrap_or(0)
    }

    /// Returns the maximum number of parameter limbs of the actions that entries run.
    pub(crate) fn entry_param_limbs(&self) -> usize {
        let is_of_entries = |action: &&ActionRecord| action.fields.iter().all(|f| f.offset >= 0);
        let actions = self.actions.iter().filter(is_of_entries);
        actions.map(|action| action.limbs).max().unwrap_or(0)
    }

    /// Returns the position of `action` if a record can represent it with these parameters.
    /// `is_first` is true for the default action's record.
    pub(super) fn position(&self, action: u32, params: &[u64], is_first: bool) -> Option<usize> {
        let position = self.actions.iter().position(|a| a.action == action)?;
        let is_there = is_first || self.fields(position).iter().all(|f| f.offset >= 0);
        let can_tell = position < usize::from(Self::ELSEWHERE) && self.fits(position, params);
        (is_there && can_tell).then_some(position)
    }

    /// Returns true if an entry may run this action. Without a head, a record is always read as one
    /// of the only action that entries run.
    pub(super) fn can_be_entry(&self, action: EntryActionRef<'_>) -> bool {
        self.entries_run().is_none_or(|position| match action {
            EntryActionRef::Direct(call) => {
                self.position(call.action, call.params, false) == Some(position)
            }
            EntryActionRef::Member(_) | EntryActionRef::Group(_) => false,
        })
    }

    /// Returns true if the number of parameters is right for the action at `position` and each
    /// value fits into its field.
    fn fits(&self, position: usize, params: &[u64]) -> bool {
        let mut places = self.fields(position).iter();
        let mut rest = params;
        let fit = places.all(|field| {
            let Some((param, behind)) = rest.split_at_checked(field.limbs()) else {
                return false;
            };
            rest = behind;
            field.bytes >= LIMB || param.iter().all(|limb| limb >> (8 * field.bytes) == 0)
        });
        fit && rest.is_empty()
    }

    /// Writes the record of the action at `position` with these parameters to `room`. Further
    /// parameters are ignored. `room` starts with [`RecordLayout::front`] limbs, followed by the
    /// record, for which there must be room.
    pub fn write(&self, position: usize, params: &[u64], room: &mut [u64]) {
        let begin = self.front * LIMB;
        let head = begin.saturating_add_signed(self.default_head() as isize);
        put(room, head, HEAD_BYTES, &[position as u64]);
        let mut rest = params;
        for field in self.fields(position) {
            let (param, behind) = rest.split_at(field.limbs());
            rest = behind;
            let at = begin.saturating_add_signed(field.offset as isize);
            put(room, at, field.bytes, param);
        }
    }

    /// Returns true if all records of this layout have the same meaning with the layout `other`.
    pub(super) fn is_kept_by(&self, other: &RecordLayout) -> bool {
        let shape = |layout: &Self| (layout.stride, layout.front, layout.entries_run);
        shape(self) == shape(other) && other.actions.starts_with(&self.actions)
    }
}

impl ActionRecord {
    /// Creates the record layout of an action with parameters of these sizes. Parameters are placed
    /// in order of decreasing size, each at the first free offset. All sizes are powers of two or
    /// whole limbs, so no gap is left that could hold the parameter. The time is linear in the
    /// number of bytes.
    fn new(action: u32, sizes: &[usize], heads: Heads) -> Self {
        let mut widest_first: Vec<usize> = (0..sizes.len()).collect();
        widest_first.sort_by_key(|&param| std::cmp::Reverse(sizes[param]));
        let mut taken = vec![true; heads.bytes];
        let mut offsets = vec![0; sizes.len()];
        let (mut alignment, mut from) = (0, 0);
        for param in widest_first {
            let bytes = sizes[param];
            if alignment != bytes.min(LIMB) {
                (alignment, from) = (bytes.min(LIMB), 0);
            }
            offsets[param] = take(&mut taken, from, bytes);
            from = offsets[param] + bytes;
        }
        let fields = offsets.into_iter().zip(sizes);
        let fields: Box<[_]> = fields
            .map(|(offset, &bytes)| RecordField {
                offset: offset as i32,
                bytes,
            })
            .collect();
        Self {
            action,
            bytes: taken.len(),
            limbs: fields.iter().map(|field| field.limbs()).sum(),
            fields,
        }
    }

    /// Moves the parameters in front of the first record. Returns the number of limbs that they
    /// take there.
    fn go_in_front(&mut self, heads: Heads) -> usize {
        let limbs = self.bytes.div_ceil(LIMB) + heads.limbs;
        for field in &mut self.fields {
            field.offset -= (limbs * LIMB) as i32;
        }
        self.bytes = heads.bytes;
        limbs
    }
}

/// Marks the first free, aligned run of bytes as taken and returns its offset. Offsets below
/// `from`, which is aligned, must not have such a run.
fn take(taken: &mut Vec<bool>, from: usize, bytes: usize) -> usize {
    let is_free = |at: &usize| !taken.iter().skip(*at).take(bytes).any(|&taken| taken);
    let mut places = (from..).step_by(bytes.min(LIMB));
    let at = places.find(is_free).unwrap_or(taken.len());
    taken.resize(taken.len().max(at + bytes), false);
    taken[at..at + bytes].fill(true);
    at
}

/// Returns the size in bytes of a parameter of `width` bits.
fn bytes_of(width: u32) -> usize {
    match width.div_ceil(8) {
        0 => 1,
        bytes if bytes as usize <= LIMB => bytes.next_power_of_two() as usize,
        bytes => (bytes as usize).next_multiple_of(LIMB),
    }
}

fn stride_of(bytes: usize) -> usize {
    match bytes <= LINE {
        true => bytes.next_power_of_two(),
        false => bytes.next_multiple_of(LINE),
    }
}

/// Writes a value at an aligned byte offset in little-endian order, so that native code can load it
/// by its width.
pub(super) fn put(limbs: &mut [u64], at: usize, bytes: usize, value: &[u64]) {
    let (limb, shift) = (at / LIMB, at % LIMB * 8);
    if bytes >= LIMB {
        limbs[limb..limb + bytes / LIMB].copy_from_slice(&value[..bytes / LIMB]);
        return;
    }
    let mask = bits::one::mask(bytes as u32 * 8) << shift;
    limbs[limb] = limbs[limb] & !mask | value[0] << shift & mask;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the length of the shortest record with parameters in any order, each at the next
    /// aligned offset.
    fn shortest(used: usize, sizes: &[usize]) -> usize {
        let rest = |without: usize| -> Vec<usize> {
            let mut rest = sizes.to_vec();
            rest.remove(without);
            rest
        };
        let ends = (0..sizes.len()).map(|next| {
            let at = used.next_multiple_of(sizes[next].min(LIMB));
            shortest(at + sizes[next], &rest(next))
        });
        ends.min().unwrap_or(used)
    }

    /// A width in bits from each size class.
    fn width() -> impl Strategy<Value = u32> {
        prop_oneof![0u32..=8, 9u32..=16, 17u32..=32, 33u32..=64, 65u32..=200]
    }

    fn byte_of(limbs: &[u64], at: usize) -> u8 {
        limbs[at / LIMB].to_le_bytes()[at % LIMB]
    }

    proptest! {
        #[test]
        fn records_are_as_short_as_any_order_makes_them_and_say_each_parameter_at_its_place(
            widths in proptest::collection::vec(width(), 0..6),
            limbs in proptest::collection::vec(any::<u64>(), 24),
        ) {
            let layout = RecordLayout::new([(9, RunBy::Entries, vec![]), (7, RunBy::Entries, widths.clone())]);
            let fields = layout.fields(1);
            let sizes: Vec<usize> = fields.iter().map(|field| field.bytes).collect();
            let longest = shortest(HEAD_BYTES, &sizes);
            prop_assert_eq!(layout.actions[1].bytes, longest);
            prop_assert!(layout.stride() >= longest);
            prop_assert!(layout.stride() < 2 * longest.max(LINE));
            prop_assert!(LINE.is_multiple_of(layout.stride()) || layout.stride().is_multiple_of(LINE));
            for (field, &width) in fields.iter().zip(&widths) {
                prop_assert!(field.bytes * 8 >= width as usize);
                prop_assert_eq!(field.limbs(), bits::limbs_for(width).max(1));
                prop_assert!((field.offset as usize).is_multiple_of(field.bytes.min(LIMB)));
            }

            // Compute the expected bytes of each parameter one by one.
            let mut rest = &limbs[..];
            let mut params = Vec::new();
            let mut record = vec![u64::MAX; layout.stride().div_ceil(LIMB)];
            let mut expected = vec![0xff; record.len() * LIMB];
            expected[..HEAD_BYTES].copy_from_slice(&1u16.to_le_bytes());
            for field in fields {
                let (param, behind) = rest.split_at(field.limbs());
                rest = behind;
                let mut param = param.to_vec();
                if field.bytes < LIMB {
                    param[0] &= bits::one::mask(field.bytes as u32 * 8);
                }
                for at in 0..field.bytes {
                    expected[field.offset as usize + at] = byte_of(&param, at);
                }
                params.extend(param);
            }
            prop_assert_eq!(layout.param_limbs(1), params.len());
            prop_assert_eq!(layout.position(7, &params, false), Some(1));
            layout.write(1, &params, &mut record);
            let written: Vec<u8> = (0..expected.len()).map(|at| byte_of(&record, at)).collect();
            prop_assert_eq!(written, expected);
        }

        #[test]
        fn only_parameters_that_the_action_has_are_told(
            widths in proptest::collection::vec(width(), 1..6), which in any::<prop::sample::Index>(),
        ) {
            let layout = RecordLayout::new([(7, RunBy::Entries, widths.clone())]);
            let zeros = vec![0; layout.param_limbs(0)];
            prop_assert_eq!(layout.position(7, &zeros, false), Some(0));
            prop_assert_eq!(layout.position(8, &zeros, false), None);
            prop_assert_eq!(layout.position(7, &zeros[1..], false), None);
            prop_assert_eq!(layout.position(7, &[&zeros[..], &[0]].concat(), false), None);
            let which = which.index(widths.len());
            let field = layout.fields(0)[which];
            let first: usize = layout.fields(0)[..which].iter().map(|f| f.limbs()).sum();
            if field.bytes < LIMB {
                let mut larger = zeros;
                larger[first] = 1 << (8 * field.bytes);
                prop_assert_eq!(layout.position(7, &larger, false), None);
            }
        }
    }

    #[test]
    fn an_action_that_no_head_can_name_is_told_elsewhere() {
        let most = u32::from(RecordLayout::ELSEWHERE);
        let layout = RecordLayout::new((0..=most).map(|action| (action, RunBy::Entries, [])));
        assert_eq!(
            layout.position(most - 1, &[], false),
            Some(most as usize - 1)
        );
        assert_eq!(layout.position(most, &[], false), None);
    }

    #[test]
    fn actions_behind_leave_records_as_they_are_and_others_do_not() {
        let layout = |actions: &[(u32, u32)]| {
            let actions = actions.iter();
            RecordLayout::new(actions.map(|&(action, width)| (action, RunBy::Entries, [width])))
        };
        let two = layout(&[(3, 32), (5, 8)]);
        assert!(two.is_kept_by(&layout(&[(3, 32), (5, 8), (4, 16)])));
        for other in [
            &[(3, 32), (5, 8), (4, 33)][..],
            &[(4, 32), (5, 8)],
            &[(3, 16), (5, 8)],
            &[],
        ] {
            assert!(!two.is_kept_by(&layout(other)), "{other:?}");
        }
        // A second action that entries may run gives the records heads.
        let one = layout(&[(3, 32)]);
        assert!(one.is_kept_by(&one));
        assert!(!one.is_kept_by(&layout(&[(3, 32), (4, 16)])));
    }
}
