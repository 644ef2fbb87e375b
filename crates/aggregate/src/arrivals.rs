//! The result of a vector at a mapper that gets it, block by block.

use crate::vector::{LaneBlock, LaneOperation, Layout, Steps, Vector, is_fixed, to_float};

/// Bits of a word of [`Arrivals::has`].
const WORD_BITS: u32 = u64::BITS;

/// Blocks of a result that have arrived.
#[derive(Clone)]
pub(crate) struct Arrivals {
    layout: Layout,
    /// Bits of the values: integers, or floats.
    values: Vec<u32>,
    /// One bit for each block of values.
    has: Vec<u64>,
    /// All blocks of values before this one are here.
    next: u32,
}

impl Arrivals {
    /// Creates the place of a result.
    pub(crate) fn new(layout: Layout) -> Arrivals {
        let blocks = layout.blocks - layout.scale_blocks;
        Arrivals {
            values: vec![0; layout.values as usize],
            has: vec![0; blocks.div_ceil(WORD_BITS) as usize],
            next: 0,
            layout,
        }
    }

    /// Returns the number of blocks of values.
    fn blocks(&self) -> u32 {
        self.layout.blocks - self.layout.scale_blocks
    }

    fn has(&self, block: u32) -> bool {
        let word = self.has.get((block / WORD_BITS) as usize);
        word.is_some_and(|word| word >> (block % WORD_BITS) & 1 == 1)
    }

    /// Returns true if all blocks are here.
    pub(crate) fn is_complete(&self) -> bool {
        self.next == self.blocks()
    }

    /// Returns the blocks before `end` that are not here, in the order of all blocks of the
    /// vector.
    pub(crate) fn missing(&self, end: u32) -> impl Iterator<Item = u32> {
        let first = self.layout.scale_blocks;
        let end = end.saturating_sub(first).min(self.blocks());
        let words = self.next / WORD_BITS..end.div_ceil(WORD_BITS);
        let missing = words.flat_map(move |word| {
            let mut missing = !self.has[word as usize];
            std::iter::from_fn(move || {
                let bit = missing.trailing_zeros();
                missing &= missing.wrapping_sub(1);
                (bit < WORD_BITS).then(|| word * WORD_BITS + bit)
            })
        });
        let missing = missing.take_while(move |block| *block < end);
        missing.map(move |block| block + first)
    }

    /// Takes the combined lanes of a block. Of floats, the step of the block must be known.
    pub(crate) fn take_lanes(&mut self, block: &LaneBlock, steps: &Steps) {
        let Some(index) = block.number.checked_sub(self.layout.scale_blocks) else {
            return;
        };
        match self.layout.operation() {
            LaneOperation::Integers(_) => self.take(index, block.lanes.iter().copied()),
            LaneOperation::AddFloats => {
                if let Some(step) = steps.get(index).filter(|step| is_fixed(*step)) {
                    let lanes = block.lanes.iter().map(|lane| i64::from(*lane as i32));
                    self.take(index, lanes.map(|sum| to_float(sum, step).to_bits()));
                }
            }
        }
    }

    /// Takes the values of a block.
    pub(crate) fn take_values(&mut self, block: &LaneBlock) {
        if let Some(index) = block.number.checked_sub(self.layout.scale_blocks) {
            self.take(index, block.lanes.iter().copied());
        }
    }

    fn take(&mut self, index: u32, values: impl Iterator<Item = u32>) {
        if index >= self.blocks() || self.has(index) {
            return;
        }
        let at = self.layout.values_at(index + self.layout.scale_blocks);
        for (place, value) in self.values[at].iter_mut().zip(values) {
            *place = value;
        }
        self.has[(index / WORD_BITS) as usize] |= 1 << (index % WORD_BITS);
        while self.next < self.blocks() && self.has(self.next) {
            self.next += 1;
        }
    }

    /// Returns the vector.
    pub(crate) fn into_vector(self) -> Vector {
        match self.layout.operation() {
            LaneOperation::AddFloats => {
                Vector::Floats(self.values.into_iter().map(f32::from_bits).collect())
            }
            LaneOperation::Integers(_) => {
                let values = self.values.into_iter();
                Vector::Integers(values.map(|value| i64::from(value as i32)).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::Operator;
    use crate::vector::LANES;

    fn block(number: u32) -> LaneBlock {
        LaneBlock {
            number,
            lanes: vec![number; LANES].into(),
        }
    }

    #[test]
    fn missing_blocks_are_those_that_have_not_arrived() {
        let mut rng = support::rng::Rng::new(5);
        for _ in 0..100 {
            let blocks = rng.below(200) as u32;
            let values = (u64::from(blocks) * LANES as u64).saturating_sub(rng.below(9));
            let layout = Layout::new(values, LaneOperation::Integers(Operator::Add));
            let mut arrivals = Arrivals::new(layout);
            let steps = Steps::new(&layout);
            let mut missing: Vec<u32> = (0..layout.blocks).collect();
            while !missing.is_empty() {
                assert!(!arrivals.is_complete());
                let end = rng.below(210) as u32;
                let before = missing.iter().copied().filter(|number| *number < end);
                assert!(arrivals.missing(end).eq(before));
                let number = match rng.one_in(2) {
                    true => missing.remove(rng.index(missing.len())),
                    false => missing.remove(0),
                };
                arrivals.take_lanes(&block(number), &steps);
                // A repeat changes nothing.
                arrivals.take_values(&LaneBlock {
                    number,
                    lanes: vec![7; LANES].into(),
                });
            }
            assert!(arrivals.is_complete());
            arrivals.take_lanes(&block(layout.blocks), &steps);
            let expected = (0..values).map(|index| (index / LANES as u64) as i64);
            assert_eq!(arrivals.into_vector(), Vector::Integers(expected.collect()));
        }
    }
}
