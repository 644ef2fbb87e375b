//! Errors that the protocol knows: a type and a code.

use std::fmt;

macro_rules! errors {
    ($($(#[doc = $doc:literal])* $variant:ident = $kind:literal, $code:literal;)*) => {
        /// Reason for which a message is refused, with the protocol's type and code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode { $($(#[doc = $doc])* $variant,)* }

        impl ErrorCode {
            /// All reasons.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// Returns the protocol's type of error.
            pub fn kind(self) -> u16 {
                match self { $(ErrorCode::$variant => $kind,)* }
            }

            /// Returns the protocol's code within the type.
            pub fn code(self) -> u16 {
                match self { $(ErrorCode::$variant => $code,)* }
            }

            /// Returns the meaning, as a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(ErrorCode::$variant => concat!($($doc),*).trim_ascii(),)* }
            }

            /// Returns the reason with this type and code.
            pub fn of(kind: u16, code: u16) -> Option<ErrorCode> {
                let is_it = |one: &&ErrorCode| (one.kind(), one.code()) == (kind, code);
                ErrorCode::ALL.iter().find(is_it).copied()
            }

            fn name(self) -> &'static str {
                match self { $(ErrorCode::$variant => stringify!($variant),)* }
            }
        }
    };
}

errors! {
    /// The versions of the two sides differ.
    HelloIncompatible = 0, 0;
    /// The message has another version.
    BadVersion = 1, 0;
    /// The message has a type that this dialect does not have.
    BadType = 1, 1;
    /// The multipart request has an unknown type.
    BadMultipart = 1, 2;
    /// The experimenter is unknown.
    BadExperimenter = 1, 3;
    /// The message is shorter or longer than its type allows.
    BadLength = 1, 6;
    /// The packet-out names a buffer; this switch has none.
    BufferUnknown = 1, 8;
    /// The request names a table that does not exist.
    RequestBadTable = 1, 9;
    /// The controller's role does not allow changes.
    IsSlave = 1, 10;
    /// The port does not exist.
    BadPort = 1, 11;
    /// The packet of a packet-out is shorter than its length.
    BadPacket = 1, 12;
    /// The action is unknown.
    BadActionType = 2, 0;
    /// A length in an action is not allowed.
    BadActionLength = 2, 1;
    /// The port of an OUTPUT is not allowed.
    BadOutPort = 2, 4;
    /// An argument of an action is not allowed.
    BadActionArgument = 2, 5;
    /// There are too many actions.
    TooManyActions = 2, 7;
    /// The group of a GROUP does not exist.
    BadOutGroup = 2, 9;
    /// The instruction is unknown.
    UnknownInstruction = 3, 0;
    /// The instruction is known but not supported.
    UnsupportedInstruction = 3, 1;
    /// The next table does not exist, or is of another type than the instruction needs.
    BadNextTable = 3, 2;
    /// There are too many instructions.
    BadInstructionLength = 3, 7;
    /// An instruction has too many actions.
    TooManyInstructionActions = 3, 9;
    /// A field is outside the metadata or the longest packet.
    BadOffset = 3, 19;
    /// A jump leads outside the list of instructions.
    BadJump = 3, 20;
    /// The match fields are others than those of the table, in number or width.
    BadMatchLength = 4, 1;
    /// A field has a number or an offset that is not allowed here.
    BadMatchField = 4, 6;
    /// A mask is not allowed in a table of this type.
    BadMatchMask = 4, 8;
    /// The entry cannot be stored.
    FlowUnknown = 5, 0;
    /// The table is full.
    TableFull = 5, 1;
    /// The table of an entry does not exist.
    FlowBadTable = 5, 2;
    /// An entry that overlaps this one has the same match and priority.
    FlowOverlap = 5, 3;
    /// The command is unknown.
    FlowBadCommand = 5, 6;
    /// The index is in use.
    EntryExists = 5, 8;
    /// There is no such entry.
    NoSuchEntry = 5, 9;
    /// The table's type is unknown, or another one.
    FlowBadTableType = 5, 10;
    /// The index is not below the table's size.
    BadEntryIndex = 5, 11;
    /// The counter's number is too large.
    FlowBadCounter = 5, 12;
    /// The group exists.
    GroupExists = 6, 0;
    /// The group's number is too large.
    InvalidGroup = 6, 1;
    /// A group that an action needs refers to another one.
    GroupChaining = 6, 5;
    /// There is no such group.
    UnknownGroup = 6, 8;
    /// Another object refers to the group.
    GroupInUse = 6, 9;
    /// The type of the group is unknown.
    BadGroupType = 6, 10;
    /// The command is unknown.
    GroupBadCommand = 6, 11;
    /// An action of the group is not allowed.
    BadBucket = 6, 12;
    /// A controller cannot change ports of this switch.
    UnsupportedPortMod = 7, 0;
    /// The port of a PORT_MOD does not exist.
    PortModBadPort = 7, 1;
    /// The program of the tables cannot be made.
    TableUnknown = 8, 0;
    /// The command is unknown.
    TableBadCommand = 8, 1;
    /// The table's type is unknown.
    BadTableType = 8, 2;
    /// The table's number is too large.
    BadTableId = 8, 3;
    /// The table exists.
    TableExists = 8, 4;
    /// There is no such table.
    NoSuchTable = 8, 5;
    /// The table's size is zero or too large.
    BadTableSize = 8, 6;
    /// The width of the key is too large, or is not that of the match fields.
    BadKeyLength = 8, 7;
    /// The table has entries, or an instruction names it.
    TableNotEmpty = 8, 8;
    /// The role is unknown.
    BadRole = 11, 2;
    /// The role change is older than one that was made.
    StaleRole = 11, 0;
    /// The meter exists.
    MeterExists = 12, 1;
    /// The meter's number is too large.
    InvalidMeter = 12, 2;
    /// There is no such meter.
    UnknownMeter = 12, 3;
    /// The command is unknown.
    MeterBadCommand = 12, 4;
    /// An instruction of an entry uses the meter.
    MeterInUse = 12, 0;
    /// A field is outside the packet.
    PacketLength = 14, 0x1001;
    /// The slot does not exist.
    InvalidSlot = 14, 0x5006;
    /// The counter's number is too large.
    BadCounterId = 15, 1;
    /// The command is unknown.
    CounterBadCommand = 15, 2;
    /// There is no such counter.
    NoSuchCounter = 15, 3;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (type {}, code {})",
            self.name(),
            self.kind(),
            self.code()
        )
    }
}

impl std::error::Error for ErrorCode {}
