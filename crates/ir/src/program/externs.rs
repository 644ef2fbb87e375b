//! Extern instances, and the units and algorithms that they use.

use bits::Value;

use super::{Annotation, Loc};
use crate::types::{DataTy, ScalarTy};
/// An extern instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Extern {
    /// Its full name in the control plane.
    pub name: String,
    /// Its kind.
    pub kind: ExternKind,
    /// Its annotations.
    pub annotations: Vec<Annotation>,
    /// Source position.
    pub loc: Option<Loc>,
}

/// Unit that a counter or meter counts.
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
    /// A sequence that counts up (v1model `random` used as a hash is a random value).
    Random,
    /// The target's choice (PSA/PNA `TARGET_DEFAULT`): CRC-32 here.
    TargetDefault,
    /// Toeplitz (PNA, RSS).
    Toeplitz,
}

/// Kind of an extern instance.
#[derive(Clone, Debug, PartialEq)]
pub enum ExternKind {
    /// An array of counters.
    Counter {
        /// Unit of the counters.
        unit: CounterUnit,
        /// Number of elements.
        size: u32,
        /// The index's type as the control plane sees it.
        index_ty: Option<DataTy>,
    },
    /// A counter for each entry of a table.
    DirectCounter {
        /// Unit of the counters.
        unit: CounterUnit,
    },
    /// An array of meters.
    Meter {
        /// Unit of the meters (never `Both`).
        unit: CounterUnit,
        /// Number of elements.
        size: u32,
        /// The index's type as the control plane sees it.
        index_ty: Option<DataTy>,
    },
    /// A meter for each entry of a table.
    DirectMeter {
        /// Unit of the meters (never `Both`).
        unit: CounterUnit,
    },
    /// An array of cells.
    Register {
        /// The scalars of a cell, in order.
        cell: Vec<ScalarTy>,
        /// Number of cells.
        size: u32,
        /// Initial value of every cell, one for each scalar.
        initial: Vec<Value>,
        /// The cell's type as the control plane sees it.
        data_ty: DataTy,
        /// The index's type as the control plane sees it.
        index_ty: Option<DataTy>,
    },
    /// Action members shared by entries.
    ActionProfile {
        /// Maximum number of members.
        size: u32,
    },
    /// Action members and groups. A hash of the selector keys selects the member of a group.
    ActionSelector {
        /// Maximum number of members and groups.
        size: u32,
        /// Width of the hash in bits.
        width: u32,
        /// The hash.
        algorithm: HashAlgorithm,
    },
    /// A hash engine (PSA, PNA).
    Hash {
        /// The algorithm.
        algorithm: HashAlgorithm,
        /// Width of the result in bits.
        width: u32,
    },
    /// A running checksum (PSA `Checksum`). Its state belongs to the packet.
    Checksum {
        /// The algorithm.
        algorithm: HashAlgorithm,
        /// Width of the result in bits.
        width: u32,
    },
    /// A running ones' complement sum (PSA `InternetChecksum`, v1model `Checksum16`). Its state
    /// belongs to the packet.
    InternetChecksum,
    /// Random numbers in a range.
    Random {
        /// Smallest number.
        min: Value,
        /// Largest number.
        max: Value,
    },
    /// Messages to the control plane.
    Digest {
        /// The scalars of a message, flattened.
        fields: Vec<ScalarTy>,
        /// Its type as the control plane sees it.
        data_ty: DataTy,
    },
    /// An exact table of values that packets and the control plane write (eBPF `hash_table`,
    /// `array_table` as table implementations).
    TableKind {
        /// Maximum number of entries.
        size: u32,
        /// True if it is `array_table`.
        is_array: bool,
    },
    /// A remote handler (CLIP, section IV-A): C code that answers a request with a response.
    Handler {
        /// The request.
        request: HandlerRecord,
        /// The response.
        response: HandlerRecord,
    },
}

/// Struct that P4 and C exchange: the request or the response of a handler.
#[derive(Clone, Debug, PartialEq)]
pub struct HandlerRecord {
    /// Name of the struct in P4 and C.
    pub name: String,
    /// Its fields, in source order.
    pub fields: Vec<HandlerField>,
}

/// Field of a [`HandlerRecord`].
#[derive(Clone, Debug, PartialEq)]
pub struct HandlerField {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: HandlerFieldTy,
    /// Its annotations: `@affinity`, `@owner`, `@payload_index`, `@payload_length`.
    pub annotations: Vec<Annotation>,
}

/// Type of a [`HandlerField`].
#[derive(Clone, Debug, PartialEq)]
pub enum HandlerFieldTy {
    /// `bit`, `int`, `bool` or an enum.
    Scalar(ScalarTy),
    /// `float32` or `float64` (IEEE 754), as a `bit<32>` or `bit<64>` that P4 only carries.
    Float(ScalarTy),
    /// A struct.
    Record(HandlerRecord),
}

impl HandlerRecord {
    /// Returns the types of all scalars in order, nested structs included.
    pub fn scalars(&self) -> Vec<ScalarTy> {
        let mut scalars = Vec::new();
        self.each_scalar(&mut |_, ty| scalars.push(ty));
        scalars
    }

    /// Calls `each` for all scalars in order, with the field that holds the scalar.
    pub fn each_scalar(&self, each: &mut impl FnMut(&HandlerField, ScalarTy)) {
        for field in &self.fields {
            match &field.ty {
                HandlerFieldTy::Scalar(ty) | HandlerFieldTy::Float(ty) => each(field, *ty),
                HandlerFieldTy::Record(record) => record.each_scalar(each),
            }
        }
    }
}
