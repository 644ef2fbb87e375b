//! Errors of creating a generator.

use std::fmt;

use support::count::count;

/// Error of creating a generator. Templates are numbered from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum GeneratorError {
    /// There is no template.
    NoTemplate,
    /// There is no length, or all lengths have weight zero.
    NoSizes,
    /// The number of flows is 0 or exceeds [`super::MAX_FLOWS`].
    FlowCount {
        /// The requested number.
        count: usize,
    },
    /// The Zipf exponent is negative or not finite.
    Skew {
        /// The exponent.
        skew: f64,
    },
    /// A frame would exceed [`packet::MAX_FRAME`].
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// A frame would be shorter than its headers.
    TooShort {
        /// The template.
        template: usize,
        /// Its length in bytes.
        len: usize,
        /// Bytes of its headers and variable fields.
        needed: usize,
    },
    /// A template's fields have too few values for the requested number of flows.
    TooFewValues {
        /// The template.
        template: usize,
        /// Number of flows that the template can generate.
        flows: u64,
    },
    /// A variable field is invalid. It has no values, more values than fit, or more than eight
    /// bytes; or it overlaps a length or a checksum; or it crosses a header boundary.
    BadField {
        /// The template.
        template: usize,
        /// Offset of the field in the frame.
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
                "the fields of template {template} have values for {} only",
                count(*flows, "flow")
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
