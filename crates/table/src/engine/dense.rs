//! [`Dense`]: direct index, an array with one element for each possible key. For keys with small
//! values, such as ports, VLAN ids and other ids.
//!
//! The array index consists of the bits of all limbs of the key. Each limb has as many bits there
//! as the greatest value of any entry needs, or, for narrow keys, as its field is wide.

use crate::entry::EntryIdx;
use crate::key::KeyShape;
use std::hint::select_unpredictable;

/// Maximum width of a key for which the array always covers all values of the fields: 4 KB.
const WHOLE_BITS: u32 = 10;

/// Maximum number of bits of the array index, whatever the number of entries (`FEW_BITS`). Up to
/// `MAX_BITS` are allowed while there are at most `SLOTS_PER_ENTRY` elements for each entry.
const FEW_BITS: u32 = 13;
const MAX_BITS: u32 = 20;
const SLOTS_PER_ENTRY: usize = 4;

/// Form of the direct index of a table, as far as the widths of its exact fields determine it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directness {
    /// There is always one, with an element for each key. The array index is the concatenation of
    /// the fields, the first in the lowest bits.
    Whole,
    /// There is always one.
    Always,
    /// There is one or not, depending on the entries.
    Sometimes,
}

impl Directness {
    /// Returns the form for exact fields of these widths in bits.
    pub fn of(widths: impl IntoIterator<Item = u32>) -> Self {
        let bits = widths.into_iter().fold(0, u32::saturating_add);
        if bits <= WHOLE_BITS {
            Self::Whole
        } else if bits <= FEW_BITS {
            Self::Always
        } else {
            Self::Sometimes
        }
    }
}

/// Array by key, in which most elements may be unused.
#[derive(Debug, Clone)]
pub(super) struct Dense {
    /// One for each limb of the key.
    digits: Box<[Digit]>,
    /// For each key, the entry index plus 1, or 0. The last element is 0, for keys outside of the
    /// array.
    slots: Vec<u32>,
    len: usize,
}

/// Position of a limb of the key in the array index.
#[derive(Debug, Clone, Copy, Default)]
pub struct Digit {
    /// Left shift in bits; 0 for the first limb.
    pub shift: u32,
    width: u32,
    /// Bits that no entry has in this limb. A key with one of them is outside of the array.
    pub outside: u64,
}

/// Direct index in the form that compiled code can search inline.
#[derive(Debug, Clone, Copy)]
pub struct DirectIndex<'m> {
    /// One for each limb of the key. The shifted limbs ORed together are the array index.
    pub digits: &'m [Digit],
    /// For each key, the entry index plus 1, or 0. The last element is 0, for keys outside of the
    /// array.
    pub slots: &'m [u32],
}

impl DirectIndex<'_> {
    /// Maximum number of limbs of a key.
    pub const MAX_LIMBS: usize = 2;
}

impl Dense {
    /// Creates an index without entries for keys of exact fields.
    pub(super) fn new(shape: &KeyShape) -> Self {
        let widths = || shape.fields().iter().map(|field| field.width);
        match Directness::of(widths()) {
            Directness::Whole => {
                let widths: Vec<u32> = widths().filter(|&width| width > 0).collect();
                Self::with_widths(&widths)
            }
            _ => Self::with_widths(&vec![0; shape.limbs()]),
        }
    }

    fn with_widths(widths: &[u32]) -> Self {
        let mut shift = 0;
        let digit = |&width: &u32| {
            let digit = Digit {
                shift,
                width,
                outside: u64::MAX << width,
            };
            shift += width;
            digit
        };
        let digits = widths.iter().map(digit).collect();
        Self {
            digits,
            slots: vec![0; (1 << shift) + 1],
            len: 0,
        }
    }

    pub(super) fn direct(&self) -> DirectIndex<'_> {
        DirectIndex {
            digits: &self.digits,
            slots: &self.slots,
        }
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val(&self.slots[..])
    }

    /// Iterates over all keys with their entries.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Vec<u64>, u32)> + '_ {
        let key = |slot: usize| {
            let limb = |digit: &Digit| slot as u64 >> digit.shift & !digit.outside;
            self.digits.iter().map(limb).collect()
        };
        let slots = self.slots.iter().enumerate();
        slots.filter_map(move |(slot, found)| Some((key(slot), found.checked_sub(1)?)))
    }

    /// Inserts a key that is not present. Returns false, and does nothing, if the array would
    /// become too large.
    pub(super) fn insert(&mut self, key: &[u64], idx: u32) -> bool {
        if self.slot(key) == self.no_slot() {
            let limbs = key.iter().zip(&self.digits);
            let widths: Vec<u32> = limbs
                .map(|(limb, digit)| digit.width.max(64 - limb.leading_zeros()))
                .collect();
            let bits: u32 = widths.iter().sum();
            let is_dense = bits <= MAX_BITS && 1 << bits <= (self.len + 1) * SLOTS_PER_ENTRY;
            if bits > FEW_BITS && !is_dense {
                return false;
            }
            let mut wider = Self::with_widths(&widths);
            for (key, idx) in self.iter() {
                wider.put(&key, idx + 1);
            }
            wider.len = self.len;
            *self = wider;
        }
        self.put(key, idx + 1);
        self.len += 1;
        true
    }

    /// Removes a key that is present.
    pub(super) fn remove(&mut self, key: &[u64]) {
        self.put(key, 0);
        self.len -= 1;
    }

    fn put(&mut self, key: &[u64], found: u32) {
        let slot = self.slot(key);
        self.slots[slot] = found;
    }

    fn no_slot(&self) -> usize {
        self.slots.len() - 1
    }

    #[inline(always)]
    fn slot(&self, key: &[u64]) -> usize {
        let (mut slot, mut outside) = (0, 0);
        for (limb, digit) in key.iter().zip(&self.digits) {
            slot |= limb << digit.shift;
            outside |= limb & digit.outside;
        }
        select_unpredictable(outside == 0, slot as usize, self.no_slot())
    }

    #[inline(always)]
    pub(super) fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        self.slots[self.slot(key)].checked_sub(1).map(EntryIdx::new)
    }

    pub(super) fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        match self.digits.len() {
            1 => self.find_all::<1>(keys, out),
            2 => self.find_all::<2>(keys, out),
            limbs => {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = self.find(&keys[i * limbs..(i + 1) * limbs]);
                }
            }
        }
    }

    /// Looks up keys of `N` limbs.
    #[inline(always)]
    fn find_all<const N: usize>(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        let mut digits = [Digit::default(); N];
        digits.copy_from_slice(&self.digits);
        let no_slot = self.no_slot();
        let (keys, _) = keys.as_chunks::<N>();
        for (key, out) in keys.iter().zip(out) {
            let (mut slot, mut outside) = (0, 0);
            for (limb, digit) in key.iter().zip(&digits) {
                slot |= limb << digit.shift;
                outside |= limb & digit.outside;
            }
            let slot = select_unpredictable(outside == 0, slot as usize, no_slot);
            *out = self.slots[slot].checked_sub(1).map(EntryIdx::new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{KeyField, MatchKind};
    use crate::test_size::usual_or_interpreted;
    use proptest::prelude::*;

    fn shape(widths: &[u32]) -> KeyShape {
        let kind = MatchKind::Exact;
        KeyShape::new(widths.iter().map(|&width| KeyField { width, kind }))
    }

    proptest! {
        #[test]
        fn keys_of_few_bits_have_slots_whatever_comes(
            widths in prop::collection::vec(1_u32..=9, 0..=3),
            numbers in prop::collection::vec(any::<u64>(), 1..usual_or_interpreted(60, 20)),
        ) {
            let directness = Directness::of(widths.iter().copied());
            prop_assume!(directness != Directness::Sometimes);
            let mut dense = Dense::new(&shape(&widths));
            let key = |number: u64| -> Vec<u64> {
                let cut = |(at, width): (usize, &u32)| number >> (16 * at) & ((1 << width) - 1);
                widths.iter().enumerate().map(cut).collect()
            };
            let mut model = std::collections::BTreeMap::new();
            for (idx, &number) in numbers.iter().enumerate() {
                let key = key(number);
                if model.remove(&key).is_some() {
                    dense.remove(&key);
                } else {
                    prop_assert!(dense.insert(&key, idx as u32), "an index of hashes would come");
                    model.insert(key, idx as u32);
                }
            }
            for &number in &numbers {
                let key = key(number);
                let wanted = model.get(&key).copied();
                prop_assert_eq!(dense.find(&key).map(|idx| idx.get()), wanted);
                if directness == Directness::Whole {
                    let (mut slot, mut shift) = (0, 0);
                    for (limb, width) in key.iter().zip(&widths) {
                        slot |= (*limb as usize) << shift;
                        shift += width;
                    }
                    prop_assert_eq!(dense.direct().slots[slot], wanted.map_or(0, |idx| idx + 1));
                }
            }
            let keys: Vec<Vec<u64>> = numbers.iter().map(|&number| key(number)).collect();
            let wanted: Vec<_> = keys.iter().map(|key| dense.find(key)).collect();
            let mut found = vec![Some(EntryIdx::new(99)); keys.len()];
            dense.find_batch(&keys.concat(), &mut found);
            prop_assert_eq!(found, wanted);
        }
    }
}
