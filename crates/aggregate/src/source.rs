//! What a mapper sends, in the order of places.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::mapper::FlowConfig;
use crate::message::{Body, HEADER_BYTES, large_bytes};
use crate::pair::{Operator, Pair, Shape, ValueClass};
use crate::vector::{BlockContent, Blocks, Input, Next};

/// Error for a key that does not fit into a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTooLongError {
    /// Its length.
    pub bytes: usize,
    /// The maximum length.
    pub most: usize,
}

impl fmt::Display for KeyTooLongError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeyTooLongError { bytes, most } = self;
        write!(
            f,
            "a key has {bytes} bytes, but a datagram holds keys of at most {most}; use links with a \
             larger MTU or shorter keys"
        )
    }
}

impl std::error::Error for KeyTooLongError {}

/// Pairs in the order in which they are sent.
#[derive(Clone)]
pub(crate) struct Ordered {
    pairs: Vec<(u32, Pair)>,
    next: usize,
}

impl Ordered {
    fn new(mut pairs: Vec<(u32, Pair)>) -> Ordered {
        pairs.sort_unstable();
        Ordered { pairs, next: 0 }
    }

    /// Returns to the first pair at this place or after it.
    fn rewind(&mut self, start: u32) {
        self.next = self.pairs.partition_point(|(place, _)| *place < start);
    }

    /// Returns the next pairs up to a place while `has_room` says so.
    fn take(&mut self, end: u32, mut has_room: impl FnMut(&Pair) -> bool) -> Vec<Pair> {
        let rest = &self.pairs[self.next..];
        let taken = rest
            .iter()
            .take_while(|(place, pair)| *place <= end && has_room(pair));
        let taken: Vec<Pair> = taken.map(|(_, pair)| pair.clone()).collect();
        self.next += taken.len();
        taken
    }
}

/// Error of what a mapper sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputError {
    /// A key is too long.
    Key(KeyTooLongError),
    /// Pairs for a vector, or a vector of the other class, or for pairs.
    OtherClass,
    /// The result of the vector before has not been taken.
    Busy,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InputError::Key(error) => error.fmt(f),
            InputError::OtherClass => f.write_str(
                "its data are not of the classes of the reduction; use `keys none` for the map \
                 function gradients alone",
            ),
            InputError::Busy => {
                f.write_str("the result of its last vector has not been taken; wait for it")
            }
        }
    }
}

impl std::error::Error for InputError {}

/// Source of a mapper's messages.
#[derive(Clone)]
pub(crate) enum Source {
    /// Pairs.
    Pairs {
        /// Pairs of the shape's classes.
        small: Ordered,
        /// Pairs with keys or values that the classes cannot hold. They go beside the switches.
        large: Ordered,
    },
    /// A vector.
    Blocks(Blocks),
}

impl Source {
    /// Creates a source of nothing.
    pub(crate) fn none() -> Source {
        Source::Pairs {
            small: Ordered::new(Vec::new()),
            large: Ordered::new(Vec::new()),
        }
    }

    /// Creates the source of a flow.
    pub(crate) fn new(config: &FlowConfig, input: Input) -> Result<Source, InputError> {
        let is_vector = config.shape.is_vector();
        match (input, config.shape.values) {
            (Input::Pairs(pairs), _) if !is_vector => {
                Source::of_pairs(config, pairs).map_err(InputError::Key)
            }
            (input @ Input::Integers(_), ValueClass::I32)
            | (input @ Input::Floats(_), ValueClass::F32)
                if is_vector =>
            {
                Source::of_vector(config, input, config.shape.operator)
            }
            _ => Err(InputError::OtherClass),
        }
    }

    /// Creates the source of a vector. The program of floats takes integers too.
    pub(crate) fn of_vector(
        config: &FlowConfig,
        input: Input,
        operator: Operator,
    ) -> Result<Source, InputError> {
        let blocks = match input {
            Input::Integers(vector) => Blocks::of_integers(vector, operator),
            Input::Floats(vector) if operator == Operator::Add => Blocks::of_floats(vector),
            _ => return Err(InputError::OtherClass),
        };
        match blocks.layout().operation().is_of(config.shape) {
            true => Ok(Source::Blocks(blocks)),
            false => Err(InputError::OtherClass),
        }
    }

    fn of_pairs(config: &FlowConfig, pairs: Vec<Pair>) -> Result<Source, KeyTooLongError> {
        let room = config.datagram_bytes - HEADER_BYTES;
        if let Some(pair) = pairs.iter().find(|pair| large_bytes(pair) > room) {
            let most = room - large_bytes(&Pair::new([], 0));
            return Err(KeyTooLongError {
                bytes: pair.key.len(),
                most,
            });
        }
        let Shape { keys, values, .. } = config.shape;
        let placed = pairs.into_iter().map(|pair| (pair.place(keys), pair));
        let (small, large) = placed
            .partition(|(_, pair)| pair.key.len() <= keys.longest() && values.fits(pair.value));
        Ok(Source::Pairs {
            small: Ordered::new(small),
            large: Ordered::new(large),
        })
    }

    /// Returns the number of pairs, or of values of a vector.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Source::Blocks(blocks) => blocks.layout().values,
            Source::Pairs { small, large } => (small.pairs.len() + large.pairs.len()) as u64,
        }
    }

    /// Returns to the first pair at this place or after it.
    pub(crate) fn rewind(&mut self, start: u32) {
        match self {
            Source::Blocks(blocks) => blocks.rewind(start),
            Source::Pairs { small, large } => {
                small.rewind(start);
                large.rewind(start);
            }
        }
    }

    /// Returns the blocks of a vector.
    pub(crate) fn blocks(&self) -> Option<&Blocks> {
        match self {
            Source::Blocks(blocks) => Some(blocks),
            Source::Pairs { .. } => None,
        }
    }

    /// Returns the blocks of a vector.
    pub(crate) fn blocks_mut(&mut self) -> Option<&mut Blocks> {
        match self {
            Source::Blocks(blocks) => Some(blocks),
            Source::Pairs { .. } => None,
        }
    }

    /// Returns the operator and the body of the next message with pairs up to a place.
    pub(crate) fn next(&mut self, end: u32, config: &FlowConfig) -> Next<(Operator, Body)> {
        let operator = config.shape.operator;
        match self {
            Source::Blocks(blocks) => match blocks.next(end) {
                Next::Ready(BlockContent::Lanes(block)) => {
                    let operator = blocks.layout().operator(block.number);
                    Next::Ready((operator, Body::Blocks(vec![block])))
                }
                Next::Ready(BlockContent::Floats(block)) => {
                    Next::Ready((operator, Body::Floats(block)))
                }
                Next::Waiting => Next::Waiting,
                Next::Nothing => Next::Nothing,
            },
            Source::Pairs { small, large } => {
                let mut room = config.pairs_per_message;
                let pairs = small.take(end, |_| {
                    let has_room = room > 0;
                    room -= usize::from(has_room);
                    has_room
                });
                if !pairs.is_empty() {
                    return Next::Ready((operator, Body::Pairs(pairs)));
                }
                let mut room = config.datagram_bytes - HEADER_BYTES;
                let pairs = large.take(end, |pair| {
                    let has_room = room >= large_bytes(pair);
                    room = room.saturating_sub(large_bytes(pair));
                    has_room
                });
                match pairs.is_empty() {
                    true => Next::Nothing,
                    false => Next::Ready((operator, Body::Large(pairs))),
                }
            }
        }
    }
}

/// Hashes what is next: the pairs do not change.
impl Hash for Source {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Source::Pairs { small, large } => (small.next, large.next).hash(state),
            Source::Blocks(blocks) => blocks.progress().hash(state),
        }
    }
}
