//! Keys, values and operators of a reduction, and their classes on the wire.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use support::crc::crc32;

use crate::vector::LANES;

/// Operator of a reduction. It is commutative and associative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// The largest value.
    Max,
    /// The smallest value.
    Min,
    /// The sum.
    Add,
}

impl Operator {
    /// All operators, in the order of their codes.
    pub const ALL: [Operator; 3] = [Operator::Max, Operator::Min, Operator::Add];

    /// Returns the code on the wire.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the operator with a code.
    pub fn from_code(code: u8) -> Option<Operator> {
        Operator::ALL.get(usize::from(code)).copied()
    }

    /// Returns the name in job files.
    pub fn name(self) -> &'static str {
        match self {
            Operator::Max => "max",
            Operator::Min => "min",
            Operator::Add => "add",
        }
    }

    /// Returns the operator with a name.
    pub fn from_name(name: &str) -> Option<Operator> {
        Operator::ALL.into_iter().find(|op| op.name() == name)
    }

    /// Combines pairs with the values of their keys so far.
    pub(crate) fn combine_all(self, into: &mut HashMap<Box<[u8]>, i128>, pairs: &[Pair]) {
        let pairs = pairs.iter().cloned();
        pairs.for_each(|pair| self.combine_pair(into, pair));
    }

    /// Combines a pair with the value of its key so far.
    pub fn combine_pair(self, into: &mut HashMap<Box<[u8]>, i128>, pair: Pair) {
        let value = into.entry(pair.key);
        value
            .and_modify(|value| *value = self.combine(*value, pair.value))
            .or_insert(pair.value);
    }

    /// Combines two lanes of a vector. Sums of 2^31 values of 32 bits fit into 64 bits.
    pub(crate) fn combine_lane(self, a: i64, b: i64) -> i64 {
        match self {
            Operator::Max => a.max(b),
            Operator::Min => a.min(b),
            Operator::Add => a.saturating_add(b),
        }
    }

    /// Combines two values. Sums of 2^63 values of 64 bits fit into 128 bits.
    pub fn combine(self, a: i128, b: i128) -> i128 {
        match self {
            Operator::Max => a.max(b),
            Operator::Min => a.min(b),
            Operator::Add => a.saturating_add(b),
        }
    }
}

/// Class of keys on the wire: the number of bytes that each key takes.
///
/// The last byte is the key's length, the bytes between are 0. So "a" and "a\0" differ, and a key
/// has at most one byte less than its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeyClass {
    /// 8 bytes.
    B8,
    /// 16 bytes.
    B16,
    /// 32 bytes.
    B32,
    /// 64 bytes.
    B64,
    /// No keys: blocks of a vector, by number.
    Block,
}

impl KeyClass {
    /// The classes of keys, in the order of their codes.
    pub const ALL: [KeyClass; 4] = [KeyClass::B8, KeyClass::B16, KeyClass::B32, KeyClass::B64];

    /// Returns the code on the wire.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the class with a code.
    pub(crate) fn from_code(code: u8) -> Option<KeyClass> {
        let all = [&KeyClass::ALL[..], &[KeyClass::Block]].concat();
        all.into_iter().find(|class| class.code() == code)
    }

    /// Returns the number of bytes of a key, or of the index of a block's first lane.
    pub fn bytes(self) -> usize {
        match self {
            KeyClass::Block => 4,
            _ => 8 << self as usize,
        }
    }

    /// Returns the class with this number of bytes.
    pub fn from_bytes(bytes: usize) -> Option<KeyClass> {
        KeyClass::ALL
            .into_iter()
            .find(|class| class.bytes() == bytes)
    }

    /// Returns the maximum length of a key that a switch reduces.
    pub fn longest(self) -> usize {
        self.bytes() - 1
    }
}

/// Class of values on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ValueClass {
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 64 bits.
    U64,
    /// Floats of 32 bits: fixed-point numbers of 32 bits on the wire. Of vectors alone.
    F32,
}

impl ValueClass {
    /// The classes of integers, in the order of their codes.
    pub const ALL: [ValueClass; 4] = [
        ValueClass::I32,
        ValueClass::U32,
        ValueClass::I64,
        ValueClass::U64,
    ];

    /// Returns the code on the wire.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the name in job files.
    pub fn name(self) -> &'static str {
        match self {
            ValueClass::I32 => "i32",
            ValueClass::U32 => "u32",
            ValueClass::I64 => "i64",
            ValueClass::U64 => "u64",
            ValueClass::F32 => "f32",
        }
    }

    fn all() -> impl Iterator<Item = ValueClass> {
        ValueClass::ALL.into_iter().chain([ValueClass::F32])
    }

    /// Returns the class with a code.
    pub(crate) fn from_code(code: u8) -> Option<ValueClass> {
        ValueClass::all().find(|class| class.code() == code)
    }

    /// Returns the class with a name.
    pub fn from_name(name: &str) -> Option<ValueClass> {
        ValueClass::all().find(|class| class.name() == name)
    }

    /// Returns the number of bytes of a value.
    pub fn bytes(self) -> usize {
        match self {
            ValueClass::I32 | ValueClass::U32 | ValueClass::F32 => 4,
            ValueClass::I64 | ValueClass::U64 => 8,
        }
    }

    /// Returns true for values that are signed on the wire.
    pub fn is_signed(self) -> bool {
        matches!(self, ValueClass::I32 | ValueClass::I64 | ValueClass::F32)
    }

    /// Returns true if a value fits.
    pub fn fits(self, value: i128) -> bool {
        match self {
            ValueClass::I32 | ValueClass::F32 => i32::try_from(value).is_ok(),
            ValueClass::U32 => u32::try_from(value).is_ok(),
            ValueClass::I64 => i64::try_from(value).is_ok(),
            ValueClass::U64 => u64::try_from(value).is_ok(),
        }
    }
}

/// Shape of a reduction's pairs and its operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// The operator.
    pub operator: Operator,
    /// The class of keys.
    pub keys: KeyClass,
    /// The class of values.
    pub values: ValueClass,
}

impl Shape {
    /// Returns the number of bytes of a pair, or of a block with its index.
    pub fn pair_bytes(self) -> usize {
        let values = match self.is_vector() {
            true => LANES,
            false => 1,
        };
        self.keys.bytes() + values * self.values.bytes()
    }

    /// Returns true for the shape of a vector.
    pub fn is_vector(self) -> bool {
        self.keys == KeyClass::Block
    }

    /// Returns true if there are reductions of this shape: of pairs with integers, and of vectors
    /// with integers of 32 bits, or with floats that are added.
    pub fn is_possible(self) -> bool {
        match (self.is_vector(), self.values) {
            (false, values) => values != ValueClass::F32,
            (true, ValueClass::I32) => true,
            (true, ValueClass::F32) => self.operator == Operator::Add,
            (true, _) => false,
        }
    }
}

/// A key of any length with its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// The key.
    pub key: Box<[u8]>,
    /// The value.
    pub value: i128,
}

impl Pair {
    /// Creates a pair.
    pub fn new(key: impl Into<Box<[u8]>>, value: i128) -> Pair {
        Pair {
            key: key.into(),
            value,
        }
    }

    /// Returns the place of the key in the order in which mappers send: the CRC-32 of the key on
    /// the wire, or of the key itself if it is longer than its class. Switches hash the same
    /// bytes.
    pub fn place(&self, class: KeyClass) -> u32 {
        match self.key.len() {
            len if len <= class.longest() => {
                let mut wire = [0; 64];
                let wire = &mut wire[..class.bytes()];
                write_key(&self.key, wire);
                crc32(wire)
            }
            _ => crc32(&self.key),
        }
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}", self.key.escape_ascii(), self.value)
    }
}

/// Writes a key that its class holds: padded with zeros, the length last.
pub fn write_key(key: &[u8], wire: &mut [u8]) {
    wire.fill(0);
    wire[..key.len()].copy_from_slice(key);
    if let Some(last) = wire.last_mut() {
        *last = key.len() as u8;
    }
}

/// Reads a key. `None` if its length is impossible or its padding is not 0.
pub fn read_key(wire: &[u8]) -> Option<&[u8]> {
    let (len, bytes) = wire.split_last()?;
    let (key, padding) = bytes.split_at_checked(usize::from(*len))?;
    padding.iter().all(|byte| *byte == 0).then_some(key)
}

/// Writes a value in its class, big-endian.
pub fn write_value(value: i128, wire: &mut [u8]) {
    let bytes = value.to_be_bytes();
    wire.copy_from_slice(&bytes[bytes.len() - wire.len()..]);
}

/// Reads a value of its class.
pub fn read_value(wire: &[u8], class: ValueClass) -> i128 {
    let unsigned = wire
        .iter()
        .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    match class {
        ValueClass::I32 | ValueClass::F32 => i128::from(unsigned as u32 as i32),
        ValueClass::I64 => i128::from(unsigned as i64),
        ValueClass::U32 | ValueClass::U64 => i128::from(unsigned),
    }
}
