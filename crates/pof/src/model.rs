//! The objects of protocol-oblivious forwarding: fields, tables, entries, instructions, actions,
//! groups, meters and counters.
//!
//! Offsets and lengths of fields are in bits, those of packets in bytes. Offsets in a packet count
//! from the packet offset, which GOTO_TABLE and MOVE_PACKET_OFFSET move.

use std::fmt;

/// Number of bytes of a value or mask.
pub const VALUE_BYTES: usize = 16;
/// Maximum width of a field with a value, in bits.
pub const MAX_FIELD_BITS: u16 = 8 * VALUE_BYTES as u16;
/// Maximum width of an operand of a calculation or comparison, in bits.
pub const MAX_OPERAND_BITS: u16 = 32;
/// Maximum number of match fields of a table.
pub const MAX_FIELDS: usize = 8;
/// Maximum number of instructions of an entry.
pub const MAX_INSTRUCTIONS: usize = 6;
/// Maximum number of actions of an instruction or a packet-out.
pub const MAX_ACTIONS: usize = 6;
/// Maximum number of actions of a group.
pub const MAX_GROUP_ACTIONS: usize = 4;
/// Number of bytes of a name.
pub const NAME_BYTES: usize = 64;
/// Number of bytes of a packet's metadata.
pub const METADATA_BYTES: u16 = 128;

/// Value or mask of a field: its bits, the first one first, then unused bits.
pub type FieldValue = [u8; VALUE_BYTES];

/// Storage that a field is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// The packet, from the packet offset on.
    Packet,
    /// The metadata of the packet: its length (16 bits), its ingress port (8 bits), 8 unused bits,
    /// four results of COMPARE (2 bits each), then what instructions write.
    Metadata,
    /// The parameters of an entry, which this dialect does not have.
    Parameter,
}

/// A run of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field {
    /// Its number. It determines the place, see [`Field::place`].
    pub id: u16,
    /// Its first bit.
    pub offset: u16,
    /// Its width in bits.
    pub length: u16,
}

impl Field {
    /// The number of all fields in metadata.
    pub const METADATA: u16 = 0xFFFF;

    /// Creates a field of the packet.
    pub fn packet(offset: u16, length: u16) -> Field {
        Field {
            id: 0,
            offset,
            length,
        }
    }

    /// Creates a field of the metadata.
    pub fn metadata(offset: u16, length: u16) -> Field {
        Field {
            id: Field::METADATA,
            offset,
            length,
        }
    }

    /// Returns the storage that it is part of.
    pub fn place(self) -> Place {
        match self.id {
            Field::METADATA => Place::Metadata,
            id if id & 0xF000 == 0x8000 => Place::Parameter,
            _ => Place::Packet,
        }
    }

    /// Returns the first bit after it.
    pub fn end(self) -> u32 {
        u32::from(self.offset) + u32::from(self.length)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.place() {
            Place::Packet => "packet",
            Place::Metadata => "metadata",
            Place::Parameter => "parameter",
        };
        write!(f, "{place}<{},{}>", self.offset, self.length)
    }
}

/// A field with the values that an entry matches, or that an action sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Match {
    /// The field.
    pub field: Field,
    /// Its value.
    pub value: FieldValue,
    /// The bits that count.
    pub mask: FieldValue,
}

/// A number that an instruction has, or that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// The number itself.
    Immediate(u32),
    /// A field of at most 32 bits.
    Field(Field),
}

/// Direction of a jump, or of a movement of the packet offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To later instructions or bytes.
    Forward,
    /// To earlier ones.
    Backward,
}

/// Outcome of a conditional jump: distance in instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Jump {
    /// Its direction.
    pub direction: Direction,
    /// Number of instructions from the jump itself: 1 is the next one.
    pub distance: Argument,
}

/// Operation of CALCULATE_FIELD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Calculation {
    /// The sum, modulo the field's range.
    Add,
    /// The difference, modulo the field's range.
    Subtract,
    /// Shift to the left.
    LeftShift,
    /// Shift to the right; zeros enter.
    RightShift,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Bitwise nor.
    Nor,
}

/// An instruction of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// Moves the packet offset and looks up another table. The list ends.
    GotoTable {
        /// Number of the table among those of all types.
        table: u8,
        /// Movement of the packet offset in bytes, as a signed number.
        offset: u16,
        /// The match fields that the controller assumes; not used.
        fields: Vec<Field>,
    },
    /// Sets a field of the metadata.
    WriteMetadata {
        /// Its first bit.
        offset: u16,
        /// Its width.
        length: u16,
        /// Its value.
        value: FieldValue,
    },
    /// Adds actions to the action set, which runs when no table follows.
    WriteActions(Vec<Action>),
    /// Runs actions at once.
    ApplyActions(Vec<Action>),
    /// Empties the action set.
    ClearActions,
    /// Drops the packet if the meter's rate is exceeded.
    Meter(u32),
    /// Copies a field of the packet to the metadata.
    WriteMetadataFromPacket {
        /// First bit in the metadata.
        metadata_offset: u16,
        /// First bit in the packet.
        packet_offset: u16,
        /// Width.
        length: u16,
    },
    /// Moves the packet offset and runs an entry of a LINEAR table. The list ends.
    GotoDirectTable {
        /// Number of the table among those of all types.
        table: u8,
        /// Movement of the packet offset in bytes, as a signed number.
        offset: u16,
        /// Index of the entry.
        index: Argument,
    },
    /// Jumps by the comparison of a field with an operand.
    ConditionalJump {
        /// The field.
        left: Field,
        /// The other side of the comparison.
        right: Argument,
        /// The jump if the field is less.
        less: Jump,
        /// The jump if both are equal.
        equal: Jump,
        /// The jump if the field is greater.
        greater: Jump,
    },
    /// Replaces a field by the result of an operation on it and an operand.
    CalculateField {
        /// The operation.
        operation: Calculation,
        /// The field.
        target: Field,
        /// The other operand.
        source: Argument,
    },
    /// Moves the packet offset.
    MovePacketOffset {
        /// Its direction.
        direction: Direction,
        /// Number of bytes.
        distance: Argument,
    },
    /// Sets the packet offset, in bytes from the start of the packet.
    SetPacketOffset(Argument),
    /// Compares a field with an operand and stores the result in the metadata: 0 equal, 1 greater,
    /// 2 less.
    Compare {
        /// The number of the result, 0 to 3.
        result: u8,
        /// The field.
        left: Field,
        /// The other side of the comparison.
        right: Argument,
    },
    /// Jumps forward if a field and an operand differ.
    Branch {
        /// The field.
        left: Field,
        /// The other side of the comparison.
        right: Argument,
        /// Number of instructions from the branch itself: 1 is the next one.
        skip: u32,
    },
    /// Jumps over instructions.
    Jump {
        /// Its direction.
        direction: Direction,
        /// Number of instructions from the next one.
        distance: u32,
    },
}

impl Instruction {
    /// Returns the actions of WRITE_ACTIONS or APPLY_ACTIONS.
    pub fn actions(&self) -> &[Action] {
        match self {
            Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => actions,
            _ => &[],
        }
    }
}

/// An action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sends a copy of the packet as it is now: bits of the metadata, then the packet from the
    /// packet offset on.
    Output {
        /// The port, see [`port`].
        port: Argument,
        /// First bit of the metadata that is sent.
        metadata_offset: u16,
        /// Width of the metadata that is sent, rounded up to bytes.
        metadata_length: u16,
        /// Number of bytes after the packet offset that are not sent.
        packet_offset: u16,
    },
    /// Sets the bits of a field that its mask has.
    SetField(Match),
    /// Copies bits of the metadata to a field.
    SetFieldFromMetadata {
        /// The field.
        field: Field,
        /// First bit in the metadata.
        metadata_offset: u16,
    },
    /// Adds a number to a field, modulo its range.
    ModifyField {
        /// The field.
        field: Field,
        /// The number.
        increment: i32,
    },
    /// Inserts bits into the packet.
    AddField {
        /// Number of the field; not used.
        id: u16,
        /// First bit.
        offset: u16,
        /// Width, at most 128 bits.
        length: u32,
        /// The bits.
        value: FieldValue,
    },
    /// Removes bits from the packet.
    DeleteField {
        /// First bit.
        offset: u16,
        /// Width.
        length: Argument,
    },
    /// Computes a ones' complement checksum of words as wide as its field.
    CalculateChecksum {
        /// Storage of the checksum.
        checksum_place: Place,
        /// First bit of the checksum.
        checksum_offset: u16,
        /// Width of the checksum, 1 to 64 bits.
        checksum_length: u16,
        /// Storage of the data.
        data_place: Place,
        /// First bit of the data.
        data_offset: u16,
        /// Width of the data. A last word that is not complete does not count.
        data_length: u16,
    },
    /// Runs the actions of a group.
    Group(u32),
    /// Drops the packet. What it was sent to before stays.
    Drop {
        /// Reason that the controller gives.
        reason: u32,
    },
    /// Sends a copy of the whole packet to the controllers.
    PacketIn {
        /// Reason in the message.
        reason: u32,
    },
    /// Counts the packet.
    Counter(u32),
}

/// Kind of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableType {
    /// MM: value and mask; the largest priority wins.
    Masked,
    /// LPM: the longest prefix wins.
    LongestPrefix,
    /// EM: equal values.
    Exact,
    /// LINEAR: entries by index.
    Linear,
}

impl TableType {
    /// All types, in the order of their numbers.
    pub const ALL: [TableType; 4] = [
        TableType::Masked,
        TableType::LongestPrefix,
        TableType::Exact,
        TableType::Linear,
    ];
}

/// Kind of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupType {
    /// Every action runs.
    All,
    /// One action runs, chosen by a hash.
    Select,
    /// Every action runs (the protocol gives it one bucket).
    Indirect,
    /// The first OUTPUT to a live port runs.
    FastFailover,
}

/// Name of at most 64 bytes, as the protocol carries it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectName(pub [u8; NAME_BYTES]);

impl ObjectName {
    /// Creates a name. Bytes above the maximum are cut off.
    pub fn new(text: &str) -> ObjectName {
        ObjectName::of_bytes(text.as_bytes())
    }

    /// Creates a name of bytes, which need not be UTF-8. Bytes above the maximum are cut off.
    pub fn of_bytes(bytes: &[u8]) -> ObjectName {
        let mut name = [0; NAME_BYTES];
        let length = bytes.len().min(NAME_BYTES);
        name[..length].copy_from_slice(&bytes[..length]);
        ObjectName(name)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().position(|byte| *byte == 0);
        let bytes = &self.0[..end.unwrap_or(NAME_BYTES)];
        f.write_str(&String::from_utf8_lossy(bytes))
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Port numbers with a meaning, as 16-bit numbers. On the wire they have `0xffff` in front, where
/// other ports have the number of their slot.
pub mod port {
    /// Largest number of a real port.
    pub const MAX: u16 = 0xFF00;
    /// The ingress port.
    pub const IN_PORT: u16 = 0xFFF8;
    /// The first table, for packet-outs only.
    pub const TABLE: u16 = 0xFFF9;
    /// Normal switching, which this switch does not have.
    pub const NORMAL: u16 = 0xFFFA;
    /// All ports but the ingress port.
    pub const FLOOD: u16 = 0xFFFB;
    /// All ports but the ingress port.
    pub const ALL: u16 = 0xFFFC;
    /// The controllers.
    pub const CONTROLLER: u16 = 0xFFFD;
    /// The switch itself, which has no such port.
    pub const LOCAL: u16 = 0xFFFE;
    /// No port.
    pub const ANY: u16 = 0xFFFF;
}
