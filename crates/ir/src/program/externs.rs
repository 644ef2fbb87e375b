//! Extern instances: what they are, and what they count and hash by.

use bits::Value;

use super::{Annotation, Loc};
use crate::types::{DataTy, ScalarTy};
/// An extern instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Extern {
    /// Its full name for the control plane.
    pub name: String,
    /// What it is.
    pub kind: ExternKind,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
    /// Its place.
    pub loc: Option<Loc>,
}

/// What a counter or meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CounterUnit {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// Both.
    Both,
}

/// Hash and checksum algorithms of v1model, PSA and PNA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// The value itself.
    Identity,
    /// CRC-32 (ISO-HDLC).
    Crc32,
    /// CRC-32 with parameters that the control plane may set (v1model `crc32_custom`).
    Crc32Custom,
    /// CRC-16 (ARC).
    Crc16,
    /// CRC-16 with parameters that the control plane may set.
    Crc16Custom,
    /// Ones' complement sum of 16-bit words (RFC 1071).
    Csum16,
    /// Bitwise exclusive or of 16-bit words.
    Xor16,
    /// Sequence: counts up (v1model `random` as hash is a random value).
    Random,
    /// Whatever the target likes (PSA/PNA `TARGET_DEFAULT`): CRC-32 here.
    TargetDefault,
    /// Toeplitz (PNA, RSS).
    Toeplitz,
}

/// What an extern instance is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExternKind {
    /// An array of counters.
    Counter {
        /// What is counted.
        unit: CounterUnit,
        /// How many.
        size: u32,
        /// The index's type as the control plane sees it.
        index_ty: Option<DataTy>,
    },
    /// A counter for each entry of a table.
    DirectCounter {
        /// What is counted.
        unit: CounterUnit,
    },
    /// An array of meters.
    Meter {
        /// What is metered (never `Both`).
        unit: CounterUnit,
        /// How many.
        size: u32,
        /// The index's type as the control plane sees it.
        index_ty: Option<DataTy>,
    },
    /// A meter for each entry of a table.
    DirectMeter {
        /// What is metered (never `Both`).
        unit: CounterUnit,
    },
    /// An array of cells.
    Register {
        /// The scalars of a cell, in order.
        cell: Vec<ScalarTy>,
        /// How many cells.
        size: u32,
        /// First value of every cell, one for each scalar.
        initial: Vec<Value>,
        /// The cell's type as the control plane sees it.
        data_ty: DataTy,
        /// The index's type as the control plane sees it.
        index_ty: Option<DataTy>,
    },
    /// Action members shared by entries.
    ActionProfile {
        /// How many members.
        size: u32,
    },
    /// Action members and groups, chosen by a hash of the selector keys.
    ActionSelector {
        /// How many members and groups.
        size: u32,
        /// Bits of the hash.
        width: u32,
        /// The hash.
        algorithm: HashAlgorithm,
    },
    /// A hash engine (PSA, PNA).
    Hash {
        /// The algorithm.
        algorithm: HashAlgorithm,
        /// Bits of the result.
        width: u32,
    },
    /// A running checksum (PSA `Checksum`), whose state is a packet's.
    Checksum {
        /// The algorithm.
        algorithm: HashAlgorithm,
        /// Bits of the result.
        width: u32,
    },
    /// A running ones' complement sum (PSA `InternetChecksum`, v1model `Checksum16`), whose state is a packet's.
    InternetChecksum,
    /// Random numbers in a range.
    Random {
        /// Smallest.
        min: Value,
        /// Largest.
        max: Value,
    },
    /// Messages to the control plane.
    Digest {
        /// What is sent, flattened.
        fields: Vec<ScalarTy>,
        /// Its type as the control plane sees it.
        data_ty: DataTy,
    },
    /// An exact table in which packets and the control plane put values (eBPF `hash_table`, `array_table` as table implementations).
    TableKind {
        /// How many entries.
        size: u32,
        /// Whether it is `array_table`.
        is_array: bool,
    },
}
