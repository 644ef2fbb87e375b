//! Seeded random numbers, so that a workload depends only on its seed.

/// A seeded random number generator.
#[derive(Debug, Clone)]
pub struct Choices {
    state: u64,
}

impl Choices {
    /// Creates a generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next 64 random bits (SplitMix64).
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, or 0 if the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from `lo` to `hi`, inclusive.
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.below((hi - lo).saturating_add(1))
    }

    /// Returns true with a probability of `times` in a thousand.
    pub fn per_mille(&mut self, times: u32) -> bool {
        self.below(1000) < u64::from(times)
    }

    /// Returns one of `all` at random by weight, or `None` if all weights are 0.
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
}
