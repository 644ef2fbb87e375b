//! Seeded random number generators: the sequence depends on the seed alone.
//!
//! Simulations, workloads and fuzz runs are repeated from their seeds, so the sequence of a seed
//! never changes. [`Rng::below`] and [`Rng::index`] map a draw to a range in different ways for
//! the same reason.

/// Increment of SplitMix64's counter: 2^64 divided by the golden ratio, odd.
pub const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the bits mixed by the finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable
/// pseudorandom number generators", 2014). Every bit of the result depends on every bit of the
/// input.
#[inline]
pub const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Returns the halves of a product of 128 bits, joined by exclusive or. With a secret factor it is
/// a hash of the other one: fast, and weaker than [`mix`].
#[inline]
pub const fn folded_product(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// Generator SplitMix64: a counter and a mixing function. Not for cryptography.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Creates a generator with this seed.
    pub const fn new(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(INCREMENT);
        mix(self.state)
    }

    /// Returns a number below `bound`, or 0 if the bound is 0: the upper half of the product of
    /// the bound and the next draw.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from `lo` to `hi`, inclusive, by [`Rng::below`].
    #[inline]
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.below((hi - lo).saturating_add(1))
    }

    /// Returns true with a probability of `times` in a thousand, by [`Rng::below`].
    #[inline]
    pub fn per_mille(&mut self, times: u32) -> bool {
        self.below(1000) < u64::from(times)
    }

    /// Returns one of `all` at random by weight, or `None` if all weights are 0. Uses
    /// [`Rng::below`].
    pub fn weighted<'a, T>(&mut self, all: &'a [T], weight: impl Fn(&T) -> u32) -> Option<&'a T> {
        let total: u64 = all.iter().map(|item| u64::from(weight(item))).sum();
        let mut left = self.below(total);
        all.iter().find(|item| {
            let weight = u64::from(weight(item));
            let here = left < weight;
            left = left.wrapping_sub(weight);
            here
        })
    }

    /// Returns a number below `len`: the remainder of the next draw. Returns 0 without a draw if
    /// `len` is 0.
    #[inline]
    pub fn index(&mut self, len: usize) -> usize {
        match len {
            0 => 0,
            _ => (self.bits() % len as u64) as usize,
        }
    }

    /// Returns true with probability `1 / n`, by [`Rng::index`].
    #[inline]
    pub fn one_in(&mut self, n: usize) -> bool {
        self.index(n) == 0
    }

    /// Returns one item of the slice, by [`Rng::index`], or `None` if the slice is empty.
    #[inline]
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.index(all.len()))
    }

    /// Fills the slice with random bytes: the draws in little-endian byte order.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.bits().to_le_bytes()[..part.len()]);
        }
    }
}

/// Generator xorshift64 with shifts 13, 7 and 17 (Marsaglia, "Xorshift RNGs", 2003). Its low bits
/// are weaker than those of [`Rng`].
#[derive(Clone, Debug)]
pub struct Xorshift {
    state: u64,
}

impl Xorshift {
    /// Creates a generator with this seed, which must not be 0: all draws would be 0.
    pub const fn new(seed: u64) -> Xorshift {
        Xorshift { state: seed }
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Returns a number below `len`: the remainder of the next draw. Returns 0 if `len` is 0.
    #[inline]
    pub fn index(&mut self, len: usize) -> usize {
        (self.bits() % len.max(1) as u64) as usize
    }
}

/// Returns one of `n` choices: `draw` scaled to `0..n`.
#[inline]
pub fn scale(draw: u32, n: usize) -> usize {
    ((u64::from(draw) * n as u64) >> 32) as usize
}

/// Weighted random choice in constant time by the alias method (M. D. Vose, "A linear algorithm
/// for generating random numbers with a given distribution", 1991).
#[derive(Clone, Debug)]
pub struct Weighted {
    columns: Vec<Column>,
}

/// Column of the alias table: an equal part of the total probability, divided between two choices.
#[derive(Clone, Copy, Debug)]
struct Column {
    /// Draws below this value select the column's index.
    own: u32,
    /// The alias: the choice for all other draws.
    other: u32,
}

impl Weighted {
    /// Builds the table for the choices `0..weights.len()`, fewer than 2^32. Each is as likely as
    /// its weight says. The weights must be finite, not negative, and not all zero.
    pub fn new(weights: &[f64]) -> Weighted {
        let total: f64 = weights.iter().sum();
        let mut shares: Vec<f64> = weights
            .iter()
            .map(|weight| weight * weights.len() as f64 / total)
            .collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..shares.len()).partition(|&i| shares[i] < 1.0);
        let mut columns: Vec<Column> = (0..shares.len())
            .map(|i| Column {
                own: u32::MAX,
                other: i as u32,
            })
            .collect();
        while let (Some(&i), Some(&giver)) = (small.last(), large.last()) {
            small.pop();
            columns[i] = Column {
                own: (shares[i] * f64::from(u32::MAX)) as u32,
                other: giver as u32,
            };
            shares[giver] -= 1.0 - shares[i];
            if shares[giver] < 1.0 {
                large.pop();
                small.push(giver);
            }
        }
        // The remaining columns have probability 1, except for rounding errors. They need no
        // alias.
        Weighted { columns }
    }

    /// Returns one random choice.
    #[inline]
    pub fn choose(&self, rng: &mut Rng) -> usize {
        let draw = rng.bits();
        let i = scale((draw >> 32) as u32, self.columns.len());
        let column = self.columns[i];
        // A branch on random data would be mispredicted, so the choice is an array index.
        let either = [column.other as usize, i];
        either[usize::from((draw as u32) < column.own)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, prop_assume, proptest};

    #[test]
    fn a_seed_gives_the_sequence_of_splitmix64() {
        // Output of the reference implementation (Vigna, splitmix64.c) for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(expected.map(|_| rng.bits()), expected);
    }

    #[test]
    fn a_seed_gives_the_sequence_of_xorshift64() {
        let mut rng = Xorshift::new(1);
        let (first, second) = (rng.bits(), rng.bits());
        assert_eq!(first, 0x4082_2041);
        let mut state = first ^ first << 13;
        state ^= state >> 7;
        assert_eq!(second, state ^ state << 17);
        let mut same = Xorshift::new(1);
        assert_eq!(same.index(1000), (first % 1000) as usize);
        assert_eq!(same.index(0), 0);
    }

    #[test]
    fn the_draws_in_a_range_are_those_of_their_seed() {
        let (mut one, mut other) = (Rng::new(7), Rng::new(7));
        for bound in [1, 2, 3, 1000, u64::MAX] {
            let product = u128::from(other.bits()) * u128::from(bound);
            assert_eq!(one.below(bound), (product >> 64) as u64);
        }
        for len in [1, 2, 3, 1000] {
            assert_eq!(one.index(len), (other.bits() % len as u64) as usize);
        }
        // An index of nothing takes no draw, a number below 0 takes one.
        assert_eq!((one.index(0), one.below(0)), (0, 0));
        other.bits();
        assert_eq!(one.bits(), other.bits());
        let mut bytes = [0; 11];
        one.fill(&mut bytes);
        let expected = [other.bits().to_le_bytes(), other.bits().to_le_bytes()].concat();
        assert_eq!(bytes[..], expected[..11]);
    }

    #[test]
    fn numbers_between_two_reach_both() {
        let mut rng = Rng::new(3);
        let drawn: Vec<u64> = (0..1000).map(|_| rng.between(3, 6)).collect();
        assert!((3..=6).all(|n| drawn.contains(&n)));
        assert!(drawn.iter().all(|n| (3..=6).contains(n)));
        assert_eq!(rng.between(4, 4), 4);
    }

    #[test]
    fn items_are_chosen_by_weight_or_evenly() {
        let mut rng = Rng::new(5);
        let all = [0, 1, 0, 3];
        for _ in 0..1000 {
            assert_ne!(rng.weighted(&all, |&weight| weight), Some(&0));
        }
        assert_eq!(rng.weighted(&[0, 0], |&weight| weight), None);
        let picked: Vec<i32> = (0..100)
            .filter_map(|_| rng.pick(&[1, 2, 3]).copied())
            .collect();
        assert_eq!(picked.len(), 100);
        assert!([1, 2, 3].iter().all(|item| picked.contains(item)));
        assert_eq!(rng.pick::<u8>(&[]), None);
        let often = (0..10_000).filter(|_| rng.per_mille(250)).count();
        assert!((2300..2700).contains(&often), "{often}");
        let often = (0..10_000).filter(|_| rng.one_in(4)).count();
        assert!((2300..2700).contains(&often), "{often}");
    }

    impl Weighted {
        /// Returns the exact probability of each choice.
        fn probabilities(&self) -> Vec<f64> {
            let share = 1.0 / self.columns.len() as f64;
            let mut all = vec![0.0; self.columns.len()];
            for (i, column) in self.columns.iter().enumerate() {
                let own = f64::from(column.own) / f64::from(u32::MAX);
                all[i] += share * own;
                all[column.other as usize] += share * (1.0 - own);
            }
            all
        }
    }

    proptest! {
        #[test]
        fn every_choice_is_as_likely_as_its_weight(
            weights in prop::collection::vec(0.0f64..1000.0, 1..200)
        ) {
            prop_assume!(weights.iter().sum::<f64>() > 1.0);
            let total: f64 = weights.iter().sum();
            let got = Weighted::new(&weights).probabilities();
            for (weight, got) in weights.iter().zip(got) {
                prop_assert!((weight / total - got).abs() < 1e-8, "{weight} {got}");
            }
        }
    }

    #[test]
    fn a_weight_of_zero_is_never_chosen() {
        let weighted = Weighted::new(&[0.0, 1.0, 0.0, 3.0]);
        let mut rng = Rng::new(1);
        let mut counts = [0; 4];
        for _ in 0..40_000 {
            counts[weighted.choose(&mut rng)] += 1;
        }
        assert_eq!((counts[0], counts[2]), (0, 0));
        assert!((9_500..10_500).contains(&counts[1]), "{counts:?}");
    }
}
