//! Vectors: blocks of lanes, and fixed-point numbers for floats.
//!
//! docs/internals/aggregate.md explains scales and steps, and has the bound of the error.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::pair::{Operator, Pair, Shape, ValueClass};

/// Number of lanes of a block. A message has one block.
pub const LANES: usize = 256;

/// Binary logarithm of [`LANES`].
pub(crate) const LANE_BITS: u32 = LANES.trailing_zeros();

/// Maximum number of values of a vector: the index of a lane has 32 bits, and floats need lanes for
/// their scales too.
pub const MAX_VALUES: u64 = 1 << 31;

/// Exponent of the step in a block of which the floats are sent as they are.
const AS_FLOATS: i32 = i32::MAX;

/// Exponent of the least step: the least f32 above 0.
const MIN_STEP: i32 = -149;

/// A block of a vector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LaneBlock {
    /// Its number.
    pub number: u32,
    /// The bits of its [`LANES`] lanes.
    pub lanes: Box<[u32]>,
}

impl LaneBlock {
    /// Creates a block of lanes. Missing ones are 0.
    fn new(number: u32, lanes: impl Iterator<Item = u32>) -> LaneBlock {
        let lanes = lanes.chain(std::iter::repeat(0)).take(LANES);
        LaneBlock {
            number,
            lanes: lanes.collect(),
        }
    }
}

/// Input of a mapper.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Pairs, each key once.
    Pairs(Vec<Pair>),
    /// A vector of integers.
    Integers(Arc<[i32]>),
    /// A vector of floats.
    Floats(Arc<[f32]>),
}

impl Input {
    /// Returns the pairs; none of a vector.
    pub fn pairs(&self) -> &[Pair] {
        match self {
            Input::Pairs(pairs) => pairs,
            Input::Integers(_) | Input::Floats(_) => &[],
        }
    }
}

impl From<Vec<Pair>> for Input {
    fn from(pairs: Vec<Pair>) -> Input {
        Input::Pairs(pairs)
    }
}

/// Operation on the values of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LaneOperation {
    /// The sum of floats.
    AddFloats,
    /// An operator on integers.
    Integers(Operator),
}

impl LaneOperation {
    /// Returns the operation of a reduction's shape.
    pub(crate) fn of(shape: Shape) -> LaneOperation {
        match shape.values {
            ValueClass::F32 => LaneOperation::AddFloats,
            _ => LaneOperation::Integers(shape.operator),
        }
    }

    /// Returns true if the switch program of a shape has it: that of floats adds integers and finds
    /// their maximum too.
    pub(crate) fn is_of(self, shape: Shape) -> bool {
        let of_floats = LaneOperation::of(shape) == LaneOperation::AddFloats;
        match self {
            LaneOperation::Integers(Operator::Add | Operator::Max) if of_floats => true,
            _ => self == LaneOperation::of(shape),
        }
    }

    /// Returns the code on the wire: the class of values, then the operator.
    pub(crate) fn code(self) -> u8 {
        match self {
            LaneOperation::AddFloats => ValueClass::F32.code() << 4 | Operator::Add.code(),
            LaneOperation::Integers(operator) => ValueClass::I32.code() << 4 | operator.code(),
        }
    }

    /// Returns the operation with a code.
    pub(crate) fn from_code(code: u8) -> Option<LaneOperation> {
        let operators = Operator::ALL.map(LaneOperation::Integers).into_iter();
        let mut all = operators.chain([LaneOperation::AddFloats]);
        all.find(|operation| operation.code() == code)
    }
}

impl fmt::Display for LaneOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaneOperation::AddFloats => f.write_str("add of f32"),
            LaneOperation::Integers(operator) => write!(f, "{} of i32", operator.name()),
        }
    }
}

/// A reduced vector.
#[derive(Clone, Debug)]
pub enum Vector {
    /// Of integers. Sums do not overflow.
    Integers(Vec<i64>),
    /// Of floats.
    Floats(Vec<f32>),
}

/// Vectors are equal if all of their bits are, also those of NaN.
impl PartialEq for Vector {
    fn eq(&self, other: &Vector) -> bool {
        match (self, other) {
            (Vector::Integers(a), Vector::Integers(b)) => a == b,
            (Vector::Floats(a), Vector::Floats(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
            }
            _ => false,
        }
    }
}

impl Eq for Vector {}

impl Vector {
    /// Returns what a mapper gets of it: sums of integers wrap around in 32 bits.
    pub fn in_32_bits(self) -> Vector {
        match self {
            Vector::Integers(values) => {
                let values = values.into_iter();
                Vector::Integers(values.map(|value| i64::from(value as i32)).collect())
            }
            floats @ Vector::Floats(_) => floats,
        }
    }

    /// Reduces vectors in one pass over each, without blocks on a wire. `None` if they have not
    /// one length and class.
    pub fn of(inputs: &[Input], operator: Operator) -> Option<Vector> {
        match inputs.first()? {
            Input::Pairs(_) => None,
            Input::Integers(first) => {
                let mut reduced: Vec<i64> = first.iter().map(|value| i64::from(*value)).collect();
                for input in &inputs[1..] {
                    let Input::Integers(values) = input else {
                        return None;
                    };
                    if values.len() != reduced.len() {
                        return None;
                    }
                    for (reduced, value) in reduced.iter_mut().zip(values.iter()) {
                        *reduced = operator.combine_lane(*reduced, i64::from(*value));
                    }
                }
                Some(Vector::Integers(reduced))
            }
            Input::Floats(first) => {
                let vectors = inputs.iter().map(|input| match input {
                    Input::Floats(values) if values.len() == first.len() => Some(&values[..]),
                    _ => None,
                });
                let vectors: Vec<&[f32]> = vectors.collect::<Option<_>>()?;
                let starts = (0..first.len()).step_by(LANES);
                let blocks = starts.map(|start| {
                    let end = (start + LANES).min(first.len());
                    let of_block: Vec<&[f32]> = vectors.iter().map(|v| &v[start..end]).collect();
                    add_floats(&of_block)
                });
                Some(Vector::Floats(blocks.flatten().collect()))
            }
        }
    }
}

/// Adds the floats of a block.
fn add_floats(vectors: &[&[f32]]) -> Vec<f32> {
    let scale = vectors.iter().map(|values| scale_of(values)).max();
    let step = step_of(scale.unwrap_or(0), vectors.len() as u64);
    let lanes = 0..vectors.first().map_or(0, |values| values.len());
    let lanes = lanes.map(|lane| {
        let values = vectors.iter().map(|values| values[lane]);
        match is_fixed(step) {
            true => to_float(values.map(|v| i64::from(to_fixed(v, step))).sum(), step),
            false => add_as_they_are(values),
        }
    });
    lanes.collect()
}

/// Adds floats in their order. All NaN have the same bits.
pub(crate) fn add_as_they_are(values: impl Iterator<Item = f32>) -> f32 {
    let sum: f64 = values.map(f64::from).sum();
    match sum.is_nan() {
        true => f32::NAN,
        false => sum as f32,
    }
}

/// Returns the scale of floats: the largest magnitude, as bits.
fn scale_of(values: &[f32]) -> u32 {
    let magnitudes = values.iter().map(|value| value.to_bits() & 0x7fff_ffff);
    magnitudes.max().unwrap_or(0)
}

/// Returns a power of two.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + i64::from(exponent)) as u64) << 52)
}

/// Returns the exponent of a block's step by its combined scale: no sum of as many mappers
/// overflows 32 bits.
pub(crate) fn step_of(scale: u32, mappers: u64) -> i32 {
    let scale = f64::from(f32::from_bits(scale));
    if !scale.is_finite() {
        return AS_FLOATS;
    }
    let most = (i32::MAX as u64 / mappers.max(1)) as f64;
    let fits = |step: &i32| (scale * power(-step)).round_ties_even() <= most;
    (MIN_STEP..=128).find(fits).unwrap_or(AS_FLOATS)
}

/// Returns true if a block with this step is sent as fixed-point numbers.
pub(crate) fn is_fixed(step: i32) -> bool {
    step != AS_FLOATS
}

/// Returns a float as a number of steps.
fn to_fixed(value: f32, step: i32) -> i32 {
    (f64::from(value) * power(-step)).round_ties_even() as i32
}

/// Returns a number of steps as a float.
pub(crate) fn to_float(sum: i64, step: i32) -> f32 {
    (sum as f64 * power(step)) as f32
}

/// Blocks of a vector in the order in which they are sent: of floats, first the scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    /// Number of values.
    pub(crate) values: u64,
    /// Number of blocks of scales. They come first.
    pub(crate) scale_blocks: u32,
    /// Number of all blocks.
    pub(crate) blocks: u32,
    /// The operation on the values.
    operation: LaneOperation,
}

impl Layout {
    /// Returns the blocks of a vector. More than [`MAX_VALUES`] are cut off.
    pub(crate) fn new(values: u64, operation: LaneOperation) -> Layout {
        let values = values.min(MAX_VALUES);
        let value_blocks = values.div_ceil(LANES as u64) as u32;
        let scale_blocks = match operation {
            LaneOperation::AddFloats => value_blocks.div_ceil(LANES as u32),
            LaneOperation::Integers(_) => 0,
        };
        Layout {
            values,
            scale_blocks,
            blocks: scale_blocks + value_blocks,
            operation,
        }
    }

    /// Returns the operation on the values.
    pub(crate) fn operation(&self) -> LaneOperation {
        self.operation
    }

    /// Returns the operator of a block.
    pub(crate) fn operator(&self, block: u32) -> Operator {
        match self.operation {
            LaneOperation::AddFloats if block < self.scale_blocks => Operator::Max,
            LaneOperation::AddFloats => Operator::Add,
            LaneOperation::Integers(operator) => operator,
        }
    }

    /// Returns the places of a block's values in the vector.
    pub(crate) fn values_at(&self, block: u32) -> Range<usize> {
        let start = (block - self.scale_blocks) as usize * LANES;
        start..(start + LANES).min(self.values as usize)
    }

    /// Returns the values of a block.
    fn values_of<'v, T>(&self, values: &'v [T], block: u32) -> &'v [T] {
        &values[self.values_at(block)]
    }

    /// Returns the values that a block of scales is about, in parts of a block each.
    fn values_of_scales<'v>(&self, values: &'v [f32], block: u32) -> &'v [f32] {
        let start = block as usize * LANES * LANES;
        let end = (start + LANES * LANES).min(values.len());
        &values[start..end]
    }
}

/// Exponents of the steps of a vector's blocks, by blocks of scales, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Steps {
    blocks: Vec<Option<Box<[i32]>>>,
    /// All blocks before this one are known.
    known: usize,
}

impl Steps {
    pub(crate) fn new(layout: &Layout) -> Steps {
        Steps {
            blocks: vec![None; layout.scale_blocks as usize],
            known: 0,
        }
    }

    /// Returns the exponent of the step of a block of values.
    pub(crate) fn get(&self, value_block: u32) -> Option<i32> {
        let index = value_block as usize;
        let steps = self.blocks.get(index / LANES)?.as_ref()?;
        steps.get(index % LANES).copied()
    }

    /// Returns the blocks that are not known.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = u32> {
        let blocks = self.blocks.iter().enumerate().skip(self.known);
        let unknown = blocks.filter(|(_, steps)| steps.is_none());
        unknown.map(|(number, _)| number as u32)
    }

    fn learn(&mut self, number: u32, steps: impl Iterator<Item = i32>) {
        if let Some(block @ None) = self.blocks.get_mut(number as usize) {
            *block = Some(steps.collect());
        }
        while self.blocks.get(self.known).is_some_and(Option::is_some) {
            self.known += 1;
        }
    }
}

/// Source of the messages of a vector.
#[derive(Clone)]
pub(crate) struct Blocks {
    values: Values,
    layout: Layout,
    next: u32,
    steps: Steps,
}

#[derive(Clone)]
enum Values {
    Integers(Arc<[i32]>),
    Floats(Arc<[f32]>),
}

/// Content of a message of a vector.
pub(crate) enum BlockContent {
    /// Lanes to combine.
    Lanes(LaneBlock),
    /// Floats as they are, for the reducer.
    Floats(LaneBlock),
}

/// The next content of a source.
pub(crate) enum Next<T> {
    /// This.
    Ready(T),
    /// Something that depends on steps that are not known yet.
    Waiting,
    /// Nothing up to the place.
    Nothing,
}

impl Blocks {
    pub(crate) fn of_integers(values: Arc<[i32]>, operator: Operator) -> Blocks {
        let operation = LaneOperation::Integers(operator);
        Blocks::new(values.len(), operation, Values::Integers(values))
    }

    pub(crate) fn of_floats(values: Arc<[f32]>) -> Blocks {
        let operation = LaneOperation::AddFloats;
        Blocks::new(values.len(), operation, Values::Floats(values))
    }

    fn new(count: usize, operation: LaneOperation, values: Values) -> Blocks {
        let layout = Layout::new(count as u64, operation);
        Blocks {
            values,
            next: 0,
            steps: Steps::new(&layout),
            layout,
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the place and the steps that are known: what decides what is next.
    pub(crate) fn progress(&self) -> (u32, &Steps) {
        (self.next, &self.steps)
    }

    /// Returns the steps that are known.
    pub(crate) fn steps(&self) -> &Steps {
        &self.steps
    }

    pub(crate) fn rewind(&mut self, start: u32) {
        self.next = start;
    }

    /// Takes a block of steps.
    pub(crate) fn learn(&mut self, block: &LaneBlock) {
        let steps = block.lanes.iter().map(|lane| *lane as i32);
        self.steps.learn(block.number, steps);
    }

    /// Takes a block of combined scales of this number of mappers.
    pub(crate) fn learn_scales(&mut self, block: &LaneBlock, mappers: u64) {
        let steps = block.lanes.iter().map(|scale| step_of(*scale, mappers));
        self.steps.learn(block.number, steps);
    }

    /// Returns the content of the next message up to a block.
    pub(crate) fn next(&mut self, end: u32) -> Next<BlockContent> {
        let number = self.next;
        if number > end || number >= self.layout.blocks {
            return Next::Nothing;
        }
        let layout = &self.layout;
        let content = match &self.values {
            Values::Integers(values) => {
                let values = layout.values_of(values, number).iter();
                BlockContent::Lanes(LaneBlock::new(number, values.map(|value| *value as u32)))
            }
            Values::Floats(values) if number < layout.scale_blocks => {
                let blocks = layout.values_of_scales(values, number).chunks(LANES);
                BlockContent::Lanes(LaneBlock::new(number, blocks.map(scale_of)))
            }
            Values::Floats(values) => {
                let Some(step) = self.steps.get(number - layout.scale_blocks) else {
                    return Next::Waiting;
                };
                let values = layout.values_of(values, number).iter();
                match is_fixed(step) {
                    true => {
                        let lanes = values.map(|value| to_fixed(*value, step) as u32);
                        BlockContent::Lanes(LaneBlock::new(number, lanes))
                    }
                    false => {
                        let lanes = values.map(|value| value.to_bits());
                        BlockContent::Floats(LaneBlock::new(number, lanes))
                    }
                }
            }
        };
        self.next += 1;
        Next::Ready(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use support::rng::Rng;

    fn random_float(rng: &mut Rng) -> f32 {
        let value = match rng.below(4) {
            // Any finite bits, also subnormal ones.
            0 => f32::from_bits(rng.bits() as u32),
            1 => 0.0,
            _ => (rng.below(2_000_001) as f32 - 1e6) * 1e-6,
        };
        if value.is_finite() { value } else { 1.0 }
    }

    #[test]
    fn sums_of_floats_keep_the_documented_bound() {
        let mut rng = Rng::new(1);
        for _ in 0..2_000 {
            let mappers = rng.between(1, 40) as usize;
            let lanes = rng.between(1, LANES as u64) as usize;
            let vector = |rng: &mut Rng| (0..lanes).map(|_| random_float(rng)).collect();
            let vectors: Vec<Vec<f32>> = (0..mappers).map(|_| vector(&mut rng)).collect();
            let all: Vec<&[f32]> = vectors.iter().map(|values| &values[..]).collect();
            let sums = add_floats(&all);
            let scale = all.iter().map(|values| scale_of(values)).max().unwrap();
            let step = power(step_of(scale, mappers as u64));
            let largest = mappers as f64 * f64::from(f32::from_bits(scale));
            assert!(step <= power(MIN_STEP) || step < largest * power(-29));
            for (lane, sum) in sums.iter().enumerate() {
                let exact: f64 = all.iter().map(|values| f64::from(values[lane])).sum();
                let bound = mappers as f64 / 2.0 * step;
                // Half a unit in the last place of f32, and what f64 loses in the plain sum.
                let rounding = (exact.abs() + bound) * power(-24) + power(MIN_STEP - 1);
                let lost = largest * mappers as f64 * power(-52);
                match sum.is_finite() {
                    true => assert!((f64::from(*sum) - exact).abs() <= bound + rounding + lost),
                    false => assert!(exact.abs() + bound + lost >= f64::from(f32::MAX)),
                }
            }
        }
    }

    #[test]
    fn fixed_point_sums_fit_into_32_bits() {
        let mut rng = Rng::new(2);
        for _ in 0..100_000 {
            let scale = rng.bits() as u32 & 0x7fff_ffff;
            let mappers = rng.between(1, 1024);
            let step = step_of(scale, mappers);
            if !f32::from_bits(scale).is_finite() {
                assert!(!is_fixed(step));
                continue;
            }
            let most = i64::from(to_fixed(f32::from_bits(scale), step)) * mappers as i64;
            assert!(i32::try_from(most).is_ok(), "{scale:#x} {mappers}");
            // A smaller step would not do, or there is none.
            let half = f64::from(f32::from_bits(scale)) * power(1 - step);
            let next = half.round_ties_even() * mappers as f64;
            assert!(step == MIN_STEP || next > f64::from(i32::MAX));
        }
    }

    #[test]
    fn sums_of_floats_do_not_depend_on_the_order() {
        let mut rng = Rng::new(3);
        for _ in 0..200 {
            let vector = |rng: &mut Rng| (0..9).map(|_| random_float(rng)).collect();
            let mut inputs: Vec<Input> = (0..7).map(|_| Input::Floats(vector(&mut rng))).collect();
            let sum = Vector::of(&inputs, Operator::Add);
            inputs.reverse();
            inputs.swap(1, 4);
            assert_eq!(sum, Vector::of(&inputs, Operator::Add));
        }
    }

    #[test]
    fn nan_and_infinity_are_those_of_plain_sums() {
        let special = [
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            1.5,
            -0.0,
            f32::MAX,
        ];
        for a in special {
            for b in special {
                let inputs = [a, b].map(|value| Input::Floats(Arc::new([value, 2.0])));
                let Some(Vector::Floats(sum)) = Vector::of(&inputs, Operator::Add) else {
                    panic!("floats have a sum");
                };
                let plain = a + b;
                let is_same = sum[0] == plain || sum[0].is_nan() && plain.is_nan();
                assert!(
                    is_same && (sum[1] == 4.0 || a == f32::MAX || b == f32::MAX),
                    "{a} + {b} = {sum:?}"
                );
            }
        }
    }
}
