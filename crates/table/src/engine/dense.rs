//! [`Dense`]: a slot for each key that there may be, for keys of small numbers, as ports, VLANs and ids are.
//!
//! Each limb of a key takes as many bits of a slot's number as the greatest value that an entry has there, or, where keys have few bits, all that it has.

use crate::entry::EntryIdx;
use crate::key::KeyShape;
use std::hint::select_unpredictable;

/// Bits of keys for all of which there are slots from the beginning: 4 KB.
const WHOLE_BITS: u32 = 10;

/// Bits of a slot's number at most, however many entries there are, and with them as many as make few slots an entry.
const FEW_BITS: u32 = 13;
const MOST_BITS: u32 = 20;
const SLOTS_PER_ENTRY: usize = 4;

/// What the widths of a table's exact fields say of its direct index, whatever the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directness {
    /// There is one, in which each key has a slot: its number is the fields' bits put together, those of the first field lowest.
    Whole,
    /// There is one.
    Always,
    /// That depends on the entries.
    Sometimes,
}

impl Directness {
    /// Of keys of exact fields of so many bits each.
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

/// Slots, of which most may be free.
#[derive(Debug, Clone)]
pub(super) struct Dense {
    /// One a limb of the key.
    digits: Box<[Digit]>,
    /// The entry, plus 1, of each key; behind them a 0 for keys that have no slot.
    slots: Vec<u32>,
    len: usize,
}

/// Where a limb is in a slot's number.
#[derive(Debug, Clone, Copy, Default)]
pub struct Digit {
    /// How far it is shifted up; the first one is not.
    pub shift: u32,
    width: u32,
    /// Bits that no entry has: a key with one of them has no slot.
    pub outside: u64,
}

/// An index as code sees it that looks keys up by itself.
#[derive(Debug, Clone, Copy)]
pub struct DirectIndex<'m> {
    /// One a limb of the key: all limbs shifted and put together are its slot's number.
    pub digits: &'m [Digit],
    /// The entry, plus 1, of each key; the last one is a 0 for keys that have no slot.
    pub slots: &'m [u32],
}

impl DirectIndex<'_> {
    /// Limbs of a key, at most.
    pub const MOST_LIMBS: usize = 2;
}

impl Dense {
    /// Without entries, for keys of exact fields.
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

    /// All keys with their entries.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Vec<u64>, u32)> + '_ {
        let key = |slot: usize| {
            let limb = |digit: &Digit| slot as u64 >> digit.shift & !digit.outside;
            self.digits.iter().map(limb).collect()
        };
        let slots = self.slots.iter().enumerate();
        slots.filter_map(move |(slot, found)| Some((key(slot), found.checked_sub(1)?)))
    }

    /// Puts a key in that is not there; false, and nothing is done, if that would take too many slots.
    pub(super) fn insert(&mut self, key: &[u64], idx: u32) -> bool {
        if self.slot(key) == self.no_slot() {
            let limbs = key.iter().zip(&self.digits);
            let widths: Vec<u32> = limbs
                .map(|(limb, digit)| digit.width.max(64 - limb.leading_zeros()))
                .collect();
            let bits: u32 = widths.iter().sum();
            let is_dense = bits <= MOST_BITS && 1 << bits <= (self.len + 1) * SLOTS_PER_ENTRY;
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

    /// Takes a key out that is there.
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

    /// The same where keys have `N` limbs.
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
