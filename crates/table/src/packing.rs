//! [`Packing`]: layout that joins the fields of a key without gaps between them.
//!
//! Each field of a key starts on a new limb. The keys that an index stores, hashes and compares are
//! shorter if narrow fields share limbs. For example, a port and a MAC address take one limb, an
//! IPv4 5-tuple takes two.

use crate::flat_map::HashIndex;
use crate::key::{FieldMatch, KeyField, KeyShape, MatchKind};
use bits::limbs_for;

/// Maximum length of a packed key in limbs.
pub(crate) const MAX: usize = 8;

/// Maximum number of steps stored inline, where reading them needs no pointer dereference.
const FEW: usize = 5;

/// Plan for packing some fields of a key.
#[derive(Debug, Clone)]
pub(crate) struct Packing {
    steps: Steps,
    /// For each step, the field and the limb of the field.
    origins: Box<[(usize, usize)]>,
    limbs: usize,
    /// True if the packed key has the same limbs as the key.
    is_identity: bool,
}

/// One step for each limb of the key that holds bits of the fields.
#[derive(Debug, Clone)]
enum Steps {
    /// The number of steps, and the steps.
    Few(u8, [PackStep; FEW]),
    Many(Box<[PackStep]>),
}

impl Steps {
    fn new(steps: &[PackStep]) -> Self {
        let mut few = [PackStep::default(); FEW];
        match few.get_mut(..steps.len()) {
            Some(own) => {
                own.copy_from_slice(steps);
                Self::Few(steps.len() as u8, few)
            }
            None => Self::Many(steps.into()),
        }
    }

    #[inline(always)]
    fn as_slice(&self) -> &[PackStep] {
        match self {
            Self::Few(count, steps) => &steps[..*count as usize],
            Self::Many(steps) => steps,
        }
    }
}

/// Copies the bits of one limb of the key to their position in the packed key.
#[derive(Debug, Clone, Copy, Default)]
pub struct PackStep {
    /// Index of the limb in the key.
    pub from: u32,
    /// Index of the limb in the packed key.
    pub to: u32,
    /// Left shift in bits.
    pub shift: u8,
    /// True if the bits extend into limb `to + 1`.
    pub spills: bool,
}

impl Packing {
    /// Plans the packing of the fields with these numbers, in this order, the first into the lowest
    /// bits. A key that would be longer than [`MAX`] limbs stays as it is if all its fields are
    /// given, in order. Otherwise returns `None`.
    pub(crate) fn new(shape: &KeyShape, fields: &[usize]) -> Option<Self> {
        let width = |field: &usize| shape.fields()[*field].width;
        let is_whole = (0..shape.fields().len()).eq(fields.iter().copied());
        let packed = fields.iter().map(width).sum::<u32>();
        let is_long = limbs_for(packed) > MAX;
        if is_long && !is_whole {
            return None;
        }
        let (mut steps, mut origins) = (Vec::new(), Vec::new());
        let mut bits = 0;
        for &field in fields {
            for limb in 0..limbs_for(width(&field)) {
                let taken = (width(&field) as usize - limb * 64).min(64);
                origins.push((field, limb));
                steps.push(PackStep {
                    from: (shape.offset(field) + limb) as u32,
                    to: (bits / 64) as u32,
                    shift: (bits % 64) as u8,
                    spills: bits % 64 + taken > 64,
                });
                bits += if is_long { 64 } else { taken };
            }
        }
        let is_identity = is_whole && bits.div_ceil(64) == shape.limbs();
        if is_identity {
            // Packing does not make the key shorter, so the limbs are copied without shifts.
            for (i, step) in steps.iter_mut().enumerate() {
                (step.to, step.shift, step.spills) = (i as u32, 0, false);
            }
        }
        Some(Self {
            limbs: bits.div_ceil(64),
            is_identity,
            steps: Steps::new(&steps),
            origins: origins.into(),
        })
    }

    /// Returns the number of limbs of a packed key.
    #[inline(always)]
    pub(crate) fn limbs(&self) -> usize {
        self.limbs
    }

    /// Returns the steps, one for each limb of the key that holds bits. The shifted limbs are ORed
    /// together.
    pub(crate) fn steps(&self) -> &[PackStep] {
        self.steps.as_slice()
    }

    /// Returns true if a key is its own packed form.
    #[inline(always)]
    pub(crate) fn is_identity(&self) -> bool {
        self.is_identity
    }

    /// Packs the fields of `key` into `packed`, which has [`limbs`](Self::limbs) limbs.
    #[inline(always)]
    pub(crate) fn pack(&self, key: &[u64], packed: &mut [u64]) {
        self.pack_from(packed, |_, step| key[step.from as usize]);
    }

    /// Packs the values of exact matches.
    pub(crate) fn pack_matches(&self, matches: &[FieldMatch], packed: &mut [u64]) {
        self.pack_from(packed, |number, _| {
            let (field, limb) = self.origins[number];
            match &matches[field] {
                FieldMatch::Exact(value) => value.limbs()[limb],
                _ => 0,
            }
        });
    }

    #[inline(always)]
    fn pack_from(&self, packed: &mut [u64], limb: impl Fn(usize, &PackStep) -> u64) {
        packed.fill(0);
        for (number, step) in self.steps.as_slice().iter().enumerate() {
            let (limb, to) = (limb(number, step), step.to as usize);
            packed[to] |= limb << step.shift;
            if step.spills {
                packed[to + 1] |= limb >> (64 - step.shift);
            }
        }
    }
}

/// Format of an exact key in a [`HashIndex`].
#[derive(Debug, Clone)]
pub struct PackedKey {
    /// Number of limbs, at least 1.
    pub limbs: usize,
    /// Steps that assemble the limbs.
    pub steps: Vec<PackStep>,
}

impl PackedKey {
    /// Returns the format for fields of these widths in bits; `None` if a hash table with such keys
    /// is never a [`HashIndex`].
    pub fn of(widths: &[u32]) -> Option<Self> {
        let kind = MatchKind::Exact;
        let shape = KeyShape::new(widths.iter().map(|&width| KeyField { width, kind }));
        let all: Vec<usize> = (0..widths.len()).collect();
        let packing = Packing::new(&shape, &all)?;
        let limbs = packing.limbs();
        (1..=HashIndex::MAX_LIMBS).contains(&limbs).then(|| Self {
            limbs,
            steps: packing.steps().to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bits::Value;
    use proptest::prelude::*;

    fn shape(widths: &[u32]) -> KeyShape {
        let kind = MatchKind::Exact;
        KeyShape::new(widths.iter().map(|&width| KeyField { width, kind }))
    }

    fn packing(widths: &[u32]) -> Packing {
        let fields: Vec<usize> = (0..widths.len()).collect();
        Packing::new(&shape(widths), &fields).unwrap()
    }

    #[test]
    fn keys_take_no_more_limbs_than_their_bits_need() {
        let limbs = |widths: &[u32]| packing(widths).limbs();
        assert_eq!(limbs(&[9, 48]), 1);
        assert_eq!(limbs(&[32, 32, 16, 16, 8]), 2);
        assert_eq!(limbs(&[128, 128, 16, 16, 8]), 5);
        assert_eq!((limbs(&[]), limbs(&[1000, 1])), (0, 17));
        assert!(packing(&[64, 60]).is_identity() && packing(&[700, 3]).is_identity());
        assert!(!packing(&[60, 65]).is_identity());
        assert!(Packing::new(&shape(&[700, 3]), &[0]).is_none());
    }

    proptest! {
        #[test]
        fn packed_keys_are_equal_if_keys_are(
            widths in proptest::collection::vec(1u32..150, 1..9),
            a in proptest::collection::vec(0u64..4, 24),
            b in proptest::collection::vec(0u64..4, 24),
            differs in any::<prop::sample::Index>(),
        ) {
            let shape = shape(&widths);
            let packing = packing(&widths);
            let matches = |limbs: &[u64]| -> Vec<FieldMatch> {
                let spread = |field: usize, width: u32| {
                    let limbs = &limbs[shape.offset(field)..];
                    let top: Vec<u64> = limbs.iter().map(|limb| limb | limb << 62).collect();
                    Value::from_limbs(&top, width)
                };
                widths.iter().enumerate().map(|(i, &w)| FieldMatch::Exact(spread(i, w))).collect()
            };
            let key = |matches: &[FieldMatch]| -> Vec<u64> {
                let values = matches.iter().map(|matched| match matched {
                    FieldMatch::Exact(value) => value.limbs(),
                    _ => &[],
                });
                values.flatten().copied().collect()
            };
            let pack = |matches: &[FieldMatch]| {
                let (mut packed, mut again) = (vec![7; packing.limbs()], vec![8; packing.limbs()]);
                packing.pack(&key(matches), &mut packed);
                packing.pack_matches(matches, &mut again);
                assert_eq!(packed, again);
                packed
            };
            let (a, mut b) = (matches(&a), matches(&b));
            prop_assert_eq!(pack(&a) == pack(&b), a == b);
            b.clone_from(&a);
            let field = differs.index(widths.len());
            if let FieldMatch::Exact(value) = &mut b[field] {
                *value = value.not();
            }
            prop_assert_ne!(pack(&a), pack(&b));
        }
    }
}
