//! Why a generator cannot be made.

use std::fmt;

/// Why a generator cannot be made. Templates are counted from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum GeneratorError {
    /// There is no template.
    NoTemplate,
    /// There is no length, or each comes with a weight of zero.
    NoSizes,
    /// There are no flows, or more than [`super::MAX_FLOWS`].
    FlowCount {
        /// How many were asked for.
        count: usize,
    },
    /// An exponent that is negative or no number.
    Skew {
        /// The exponent.
        skew: f64,
    },
    /// A frame would be longer than [`packet::MAX_FRAME`].
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// A frame would be shorter than its headers.
    TooShort {
        /// Its template.
        template: usize,
        /// Its length in bytes.
        len: usize,
        /// The bytes of its headers and fields.
        needed: usize,
    },
    /// A template's fields have too few values for so many different flows.
    TooFewValues {
        /// The template.
        template: usize,
        /// How many flows it can make.
        flows: u64,
    },
    /// A field has no values, more than fit into it, more than eight bytes, is where a length or a
    /// checksum is, or lies in two headers.
    BadField {
        /// The template.
        template: usize,
        /// Where the field starts.
        at: usize,
    },
}

impl fmt::Display for GeneratorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GeneratorError::NoTemplate => f.write_str("there is no packet to make others like"),
            GeneratorError::NoSizes => f.write_str("there is no packet size to choose"),
            GeneratorError::FlowCount { count } => write!(
                f,
                "{count} flows are wanted: give 1 to {}",
                super::MAX_FLOWS
            ),
            GeneratorError::Skew { skew } => {
                write!(f, "a skew of {skew} is none: give a number from 0 on")
            }
            GeneratorError::TooLong { len } => write!(
                f,
                "packets of {len} bytes are wanted: the longest have {}",
                packet::MAX_FRAME
            ),
            GeneratorError::TooShort {
                template,
                len,
                needed,
            } => write!(
                f,
                "packets of {len} bytes are wanted, but the headers of template {template} take \
                 {needed}"
            ),
            GeneratorError::TooFewValues { template, flows } => write!(
                f,
                "the fields of template {template} have values for {flows} flows only"
            ),
            GeneratorError::BadField { template, at } => write!(
                f,
                "the field at byte {at} of template {template} cannot vary: it has no values or more \
                 than fit, is not 1 to 8 bytes long, lies on a length or a checksum, or in two headers"
            ),
        }
    }
}

impl std::error::Error for GeneratorError {}
