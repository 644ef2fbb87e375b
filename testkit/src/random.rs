//! Seeded random choices. A fuzz run depends on its seed only.

/// A stream of random choices.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    state: u64,
}

impl Choices {
    /// Returns the stream of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Choices { state: seed }
    }

    /// Returns the next 64 bits (SplitMix64).
    pub(crate) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`; 0 if the bound is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            0
        } else {
            (self.bits() % bound as u64) as usize
        }
    }

    /// Returns true with probability `1 / n`.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of the elements; `None` if there are none.
    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }
}
