//! Scalar types of the IR, and the named data types that only the control plane sees.

use bits::define_id;

define_id! {
    /// A non-serializable enum.
    pub struct EnumId;
}

/// The type of a field or expression. All values are scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarTy {
    /// `bit<w>`: 1 to [`MAX_WIDTH`] bits (0 is allowed for a field that P4 declares as `bit<0>`).
    Bit(u32),
    /// `int<w>`, two's complement.
    Int(u32),
    /// `bool`, one bit.
    Bool,
    /// `varbit<max>`: up to `max` bits; the current length is a part of the value.
    Varbit(u32),
    /// An error code: 32 bits, an index into [`crate::Program::errors`].
    Error,
    /// A member of an enum without representation: 32 bits, the member's position.
    Enum(EnumId),
}

/// Maximum width of a field in bits: more than a 9,216-byte frame.
pub const MAX_WIDTH: u32 = 1 << 17;

impl ScalarTy {
    /// Returns the width of a value in bits (the maximum width for a `varbit`).
    pub fn width(self) -> u32 {
        match self {
            ScalarTy::Bit(w) | ScalarTy::Int(w) | ScalarTy::Varbit(w) => w,
            ScalarTy::Bool => 1,
            ScalarTy::Error | ScalarTy::Enum(_) => 32,
        }
    }

    /// Returns true if arithmetic and comparison are signed.
    pub fn is_signed(self) -> bool {
        matches!(self, ScalarTy::Int(_))
    }
}

/// A type as the control plane sees it, in digests, registers, value sets and packet metadata
/// (P4Runtime, `P4DataTypeSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataTy {
    /// `bit<w>`
    Bit(u32),
    /// `int<w>`
    Int(u32),
    /// `varbit<w>`
    Varbit(u32),
    /// `bool`
    Bool,
    /// `error`
    Error,
    /// `tuple<..>`
    Tuple(Vec<DataTy>),
    /// A type declared by name; see [`crate::Program::named_types`].
    Named(String),
    /// A stack of a named header or header union.
    Stack(String, u32),
}

/// A type declaration that P4Info may mention (P4Runtime, `P4TypeInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedType {
    /// Its name in P4.
    pub name: String,
    /// Its kind.
    pub kind: NamedTypeKind,
    /// Its annotations.
    pub annotations: Vec<crate::Annotation>,
}

/// Kind of a named type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedTypeKind {
    /// A struct: field names and types.
    Struct(Vec<(String, DataTy)>),
    /// A header: field names and types.
    Header(Vec<(String, DataTy)>),
    /// A header union: member names and header types.
    HeaderUnion(Vec<(String, String)>),
    /// An enum without representation: member names.
    Enum(Vec<String>),
    /// A serializable enum: width, signedness, and members with values.
    SerializableEnum {
        /// Width of the underlying type in bits.
        width: u32,
        /// True if it is `int<w>`.
        signed: bool,
        /// Names and values.
        members: Vec<(String, bits::Value)>,
    },
    /// A `type`: its underlying type and its `@p4runtime_translation`.
    NewType {
        /// The underlying type.
        underlying: DataTy,
        /// The translation.
        translation: Option<Translation>,
    },
}

/// Body of `@p4runtime_translation(uri, type)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The URI.
    pub uri: String,
    /// The type that the controller sees.
    pub controller: ControllerTy,
}

/// The controller's side of a translated type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerTy {
    /// A bit string of this width.
    Bits(u32),
    /// A string.
    String,
}
