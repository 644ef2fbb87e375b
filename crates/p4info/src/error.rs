//! Errors in a program that prevent a P4Info.

use std::fmt;

use ir::Loc;

/// Error: a program has no P4Info.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct P4InfoError {
    /// The object, field or parameter, in readable form (`table ingress.t`,
    /// `parameter port of action drop`).
    pub object: String,
    /// The object's location in the source, if it is known.
    pub loc: Option<Loc>,
    /// The problem.
    pub problem: P4InfoProblem,
}

/// A problem with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum P4InfoProblem {
    /// The upper byte of `@id` denotes another kind of object.
    IdPrefix {
        /// The `@id`.
        id: u32,
        /// The required upper byte. 0 is also permitted.
        prefix: u8,
    },
    /// The `@id` is 0, which means "no object".
    IdZero,
    /// Another object (or field of the same object) has this `@id`.
    IdTaken {
        /// The `@id`.
        id: u32,
    },
    /// All 2^24 ids of this kind are used.
    NoIdLeft,
    /// Another object of the same kind has the same control-plane name.
    NameTaken,
    /// An annotation that P4Runtime defines does not have the required content.
    Annotation {
        /// Its name, without `@`.
        name: String,
        /// The required content.
        expected: &'static str,
    },
    /// A number in a structured annotation does not fit in a signed 64-bit number.
    AnnotationNumber {
        /// The annotation's name, without `@`.
        name: String,
        /// The number.
        number: String,
    },
    /// P4Runtime cannot write members of this value set, because its type is a tuple.
    TupleValueSet,
    /// The IR refers to a type that it does not declare.
    UnknownType {
        /// The type's name.
        name: String,
    },
    /// The number does not fit into the P4Info field.
    TooLarge {
        /// The quantity that is too large.
        what: &'static str,
        /// Its value.
        value: u64,
    },
}

impl fmt::Display for P4InfoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.object)?;
        match &self.problem {
            P4InfoProblem::IdPrefix { id, prefix } => write!(
                f,
                "the upper byte of @id({id:#x}) names another kind of object; write 0 there, or {prefix:#04x}"
            ),
            P4InfoProblem::IdZero => f.write_str("@id(0) is no id; the smallest is 1"),
            P4InfoProblem::IdTaken { id } => write!(f, "@id({id:#x}) is given twice; choose another number for one of them"),
            P4InfoProblem::NoIdLeft => f.write_str("no id is left for an object of this kind"),
            P4InfoProblem::NameTaken => {
                f.write_str("another object of this kind has the same name for the control plane; give one of them a different @name")
            }
            P4InfoProblem::Annotation { name, expected } => write!(f, "@{name} needs {expected}"),
            P4InfoProblem::AnnotationNumber { name, number } => write!(
                f,
                "{number} in @{name} does not fit in 64 bits; write it as a string"
            ),
            P4InfoProblem::TupleValueSet => {
                f.write_str("P4Runtime cannot write to a value set of tuples; declare a struct and use it as the type")
            }
            P4InfoProblem::UnknownType { name } => write!(f, "the program does not declare the type `{name}`"),
            P4InfoProblem::TooLarge { what, value } => write!(f, "{what} is {value}, and P4Info cannot say more than {}", i32::MAX),
        }
    }
}

impl std::error::Error for P4InfoError {}
