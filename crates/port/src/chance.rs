//! Seeded random numbers: the same sequence in every run.

/// The SplitMix64 generator: a counter and a mixing function. Its quality suffices to choose
/// frames.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Returns a generator that starts with this seed.
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
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
pub(crate) struct Weighted {
    columns: Vec<Column>,
}

/// A column of the alias table: an equal part of the total probability, divided between two
/// choices.
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
    pub(crate) fn new(weights: &[f64]) -> Weighted {
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
    pub(crate) fn choose(&self, chance: &mut SplitMix) -> usize {
        let draw = chance.draw();
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
    use proptest::prelude::*;

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
        let mut chance = SplitMix::new(1);
        let mut counts = [0; 4];
        for _ in 0..40_000 {
            counts[weighted.choose(&mut chance)] += 1;
        }
        assert_eq!((counts[0], counts[2]), (0, 0));
        assert!((9_500..10_500).contains(&counts[1]), "{counts:?}");
    }
}
