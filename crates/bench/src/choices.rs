//! [`Choices`]: a seeded stream of choices; a workload depends on its seed alone.

/// A stream of choices.
#[derive(Debug, Clone)]
pub struct Choices {
    state: u64,
}

impl Choices {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits (SplitMix64).
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `lo` to `hi`, both inclusive.
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.below((hi - lo).saturating_add(1))
    }

    /// Whether an event happens that happens so many times in a thousand.
    pub fn per_mille(&mut self, times: u32) -> bool {
        self.below(1000) < u64::from(times)
    }

    /// One of `all`, by weight; `None` if all weights are 0.
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
