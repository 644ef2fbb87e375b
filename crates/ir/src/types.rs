//! Scalar types of the IR, and the named data types that only the control plane sees.

use bits::define_id;

define_id! {
    /// A non-serializable enum.
    pub struct EnumId;
}

/// The type of a field or expression: everything that code touches is a scalar.
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

/// The widest field that the IR accepts, in bits: a whole 9,216-byte frame and more.
pub const MAX_WIDTH: u32 = 1 << 17;

impl ScalarTy {
    /// Bits that a value takes (the most that it takes, for a `varbit`).
    pub fn width(self) -> u32 {
        match self {
            ScalarTy::Bit(w) | ScalarTy::Int(w) | ScalarTy::Varbit(w) => w,
            ScalarTy::Bool => 1,
            ScalarTy::Error | ScalarTy::Enum(_) => 32,
        }
    }

    /// Whether arithmetic and comparison take the sign into account.
    pub fn is_signed(self) -> bool {
        matches!(self, ScalarTy::Int(_))
    }
}

/// A type as the control plane sees it: of digests, registers, value sets, packet metadata (P4Runtime, `P4DataTypeSpec`).
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
    /// What it is.
    pub kind: NamedTypeKind,
    /// Its annotations.
    pub annotations: Vec<crate::Annotation>,
}

/// What a named type is.
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
        /// Bits of the underlying type.
        width: u32,
        /// Whether it is `int<w>`.
        signed: bool,
        /// Names and values.
        members: Vec<(String, bits::Value)>,
    },
    /// A `type`: what it is made of, and its `@p4runtime_translation`.
    NewType {
        /// The underlying type.
        underlying: DataTy,
        /// The translation.
        translation: Option<Translation>,
    },
}

/// `@p4runtime_translation(uri, what)`.
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
