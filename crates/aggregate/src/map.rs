//! Map functions: bytes of a part to pairs, each key once, or to a vector.

use std::collections::BTreeMap;
use std::fmt;

use crate::pair::{Operator, Pair, ValueClass};
use crate::vector::{Input, MAX_VALUES};

/// Error of a line that is no pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairLineError {
    /// The line, from 1.
    pub line: usize,
    /// The cause.
    pub cause: PairLineCause,
}

/// Cause of a [`PairLineError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairLineCause {
    /// There is no tab.
    NoTab,
    /// The value is no integer of 64 bits.
    NoNumber,
}

impl fmt::Display for PairLineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        match self.cause {
            PairLineCause::NoTab => {
                write!(
                    f,
                    "line {line} has no tab; write the key, a tab, and the value"
                )
            }
            PairLineCause::NoNumber => write!(
                f,
                "line {line} has a value that is no integer of 64 bits; write digits after the tab"
            ),
        }
    }
}

impl std::error::Error for PairLineError {}

/// Pairs that are combined by key.
struct Combined {
    operator: Operator,
    pairs: BTreeMap<Box<[u8]>, i128>,
}

impl Combined {
    fn new(operator: Operator) -> Combined {
        Combined {
            operator,
            pairs: BTreeMap::new(),
        }
    }

    fn add(&mut self, key: &[u8], value: i128) {
        match self.pairs.get_mut(key) {
            Some(old) => *old = self.operator.combine(*old, value),
            None => {
                self.pairs.insert(key.into(), value);
            }
        }
    }

    fn pairs(self) -> Vec<Pair> {
        let pairs = self.pairs.into_iter();
        pairs.map(|(key, value)| Pair { key, value }).collect()
    }
}

/// Returns each word of a text, with 1 for each occurrence. Words are separated by ASCII white
/// space.
pub fn words(text: &[u8], operator: Operator) -> Vec<Pair> {
    let mut combined = Combined::new(operator);
    let words = text.split(u8::is_ascii_whitespace);
    for word in words.filter(|word| !word.is_empty()) {
        combined.add(word, 1);
    }
    combined.pairs()
}

/// Returns the destination of each link, with 1 for each occurrence: the second word of a line.
pub fn links(text: &[u8], operator: Operator) -> Vec<Pair> {
    let mut combined = Combined::new(operator);
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|w| !w.is_empty());
        if let Some(to) = words.nth(1) {
            combined.add(to, 1);
        }
    }
    combined.pairs()
}

/// Returns the pairs of lines with a key, a tab and a value. Keys are bytes. Empty lines are
/// ignored.
///
/// # Errors
/// A line without a tab, or with a value that is no integer.
pub fn pairs(text: &[u8], operator: Operator) -> Result<Vec<Pair>, PairLineError> {
    let mut combined = Combined::new(operator);
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let error = |cause| PairLineError {
            line: number + 1,
            cause,
        };
        let tab = line.iter().position(|byte| *byte == b'\t');
        let tab = tab.ok_or(error(PairLineCause::NoTab))?;
        let value = std::str::from_utf8(&line[tab + 1..]).ok();
        let value = value.and_then(|value| value.trim().parse::<i128>().ok());
        let value = value.filter(|v| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(v));
        combined.add(&line[..tab], value.ok_or(error(PairLineCause::NoNumber))?);
    }
    Ok(combined.pairs())
}

/// Error of a part that is no vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradientsError {
    /// The part has this many bytes, which is no multiple of 4.
    Length(usize),
    /// The part has this many values.
    TooMany(usize),
}

impl fmt::Display for GradientsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GradientsError::Length(bytes) => write!(
                f,
                "the part has {bytes} bytes, no multiple of 4; write numbers of 4 bytes, \
                 little-endian"
            ),
            GradientsError::TooMany(values) => write!(
                f,
                "the part has {values} values; a vector has at most {MAX_VALUES}, so cut it"
            ),
        }
    }
}

impl std::error::Error for GradientsError {}

/// Returns the vector of a part: numbers of 4 bytes, little-endian, as `numpy.ndarray.tofile`
/// writes them. They are floats for [`ValueClass::F32`], else signed integers.
///
/// # Errors
/// The length is no multiple of 4, or there are too many values.
pub fn gradients(part: &[u8], values: ValueClass) -> Result<Input, GradientsError> {
    let (words, rest) = part.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(GradientsError::Length(part.len()));
    }
    if words.len() as u64 > MAX_VALUES {
        return Err(GradientsError::TooMany(words.len()));
    }
    Ok(match values {
        ValueClass::F32 => Input::Floats(words.iter().map(|w| f32::from_le_bytes(*w)).collect()),
        _ => Input::Integers(words.iter().map(|w| i32::from_le_bytes(*w)).collect()),
    })
}
