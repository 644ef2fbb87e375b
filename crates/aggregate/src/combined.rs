//! Pairs or blocks that a reducer has combined.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};

use crate::message::Body;
use crate::pair::{Operator, Pair};
use crate::vector::{
    LANES, LaneBlock, LaneOperation, Layout, Vector, add_as_they_are, is_fixed, step_of, to_float,
};

/// Combined pairs, or combined blocks of a vector.
#[derive(Clone, Default)]
pub(crate) struct Combined {
    pairs: HashMap<Box<[u8]>, i128>,
    blocks: BTreeMap<u32, Box<[i64]>>,
    /// Floats that mappers send as they are, by block and mapper.
    floats: BTreeMap<u32, BTreeMap<u16, Box<[u32]>>>,
}

impl Combined {
    /// Adds what a message of a flow has. `layout` is that of a vector.
    pub(crate) fn add(
        &mut self,
        flow: u16,
        body: &Body,
        operator: Operator,
        layout: Option<&Layout>,
    ) {
        match (body, layout) {
            (Body::Pairs(pairs) | Body::Large(pairs) | Body::Bank(_, pairs), _) => {
                operator.combine_all(&mut self.pairs, pairs);
            }
            (Body::Blocks(blocks) | Body::BlockBank(_, blocks), Some(layout)) => {
                for block in blocks {
                    self.add_block(block, layout.operator(block.number));
                }
            }
            (Body::Floats(block), _) => {
                let of_block = self.floats.entry(block.number).or_default();
                of_block.insert(flow, block.lanes.clone());
            }
            _ => {}
        }
    }

    fn add_block(&mut self, block: &LaneBlock, operator: Operator) {
        let lanes = block.lanes.iter().map(|lane| i64::from(*lane as i32));
        match self.blocks.get_mut(&block.number) {
            Some(combined) => {
                for (combined, lane) in combined.iter_mut().zip(lanes) {
                    *combined = operator.combine_lane(*combined, lane);
                }
            }
            None => {
                self.blocks.insert(block.number, lanes.collect());
            }
        }
    }

    /// Adds what has no key or block in common with it.
    pub(crate) fn extend(&mut self, other: Combined) {
        self.pairs.extend(other.pairs);
        self.blocks.extend(other.blocks);
        self.floats.extend(other.floats);
    }

    /// Returns the number of keys.
    pub(crate) fn keys(&self) -> u64 {
        self.pairs.len() as u64
    }

    /// Returns the pairs, sorted by key.
    pub(crate) fn sorted_pairs(&self) -> Vec<Pair> {
        let pairs = self.pairs.iter();
        let pairs = pairs.map(|(key, value)| Pair::new(key.clone(), *value));
        let mut pairs: Vec<Pair> = pairs.collect();
        pairs.sort_unstable();
        pairs
    }

    /// Returns a block of the result, as its combined lanes or as floats. It has 32 bits of sums of
    /// integers.
    pub(crate) fn block(&self, number: u32, layout: &Layout, mappers: u16) -> Option<Body> {
        let block = |lanes| LaneBlock { number, lanes };
        if let Some(lanes) = self.blocks.get(&number) {
            let lanes = lanes.iter().map(|lane| *lane as u32).collect();
            return Some(Body::Blocks(vec![block(lanes)]));
        }
        let floats = self.floats_of(number, layout, mappers)?;
        let bits = floats.iter().map(|value| value.to_bits()).collect();
        Some(Body::Floats(block(bits)))
    }

    /// Returns a block of steps of floats, if its scales are here.
    pub(crate) fn steps(&self, block: u32, mappers: u16) -> Option<Body> {
        let scales = self.blocks.get(&block)?;
        let steps = scales
            .iter()
            .map(|scale| step_of(*scale as u32, mappers.into()) as u32);
        Some(Body::Blocks(vec![LaneBlock {
            number: block,
            lanes: steps.collect(),
        }]))
    }

    /// Returns the whole vector. A block that no mapper has sent is 0.
    pub(crate) fn vector(&self, layout: &Layout, mappers: u16) -> Vector {
        let numbers = layout.scale_blocks..layout.blocks;
        let count = layout.values as usize;
        if layout.operation() != LaneOperation::AddFloats {
            let zero = [0; LANES];
            let lanes = numbers.flat_map(|number| match self.blocks.get(&number) {
                Some(lanes) => lanes.to_vec(),
                None => zero.to_vec(),
            });
            return Vector::Integers(lanes.take(count).collect());
        }
        let mut vector = Vec::with_capacity(count);
        for number in numbers {
            match self.floats_of(number, layout, mappers) {
                Some(floats) => vector.extend(floats),
                None => vector.extend([0.0; LANES]),
            }
        }
        vector.truncate(count);
        Vector::Floats(vector)
    }

    /// Returns the floats of a block of values.
    fn floats_of(&self, number: u32, layout: &Layout, mappers: u16) -> Option<Vec<f32>> {
        let lane = (number - layout.scale_blocks) as usize;
        let scales = self.blocks.get(&((lane / LANES) as u32));
        let scale = scales.map_or(0, |scales| scales[lane % LANES] as u32);
        let step = step_of(scale, mappers.into());
        match is_fixed(step) {
            true => {
                let sums = self.blocks.get(&number)?.iter();
                Some(sums.map(|sum| to_float(*sum, step)).collect())
            }
            false => {
                let floats = self.floats.get(&number)?;
                let lanes = (0..LANES).map(|lane| {
                    let lanes = floats.values().map(|lanes| f32::from_bits(lanes[lane]));
                    add_as_they_are(lanes)
                });
                Some(lanes.collect())
            }
        }
    }
}

/// Hashes in the order of keys and blocks.
impl Hash for Combined {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let sorted: BTreeMap<_, _> = self.pairs.iter().collect();
        (sorted, &self.blocks, &self.floats).hash(state);
    }
}
