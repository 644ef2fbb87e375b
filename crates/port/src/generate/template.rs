//! Templates of generated frames.

use crate::{PcapError, PcapReader};
use packet::Frame;

/// Values of a variable field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// `count` consecutive values, from `first` on.
    From {
        /// The first value.
        first: u64,
        /// Number of values.
        count: u64,
    },
    /// An explicit list of values.
    List(Vec<u64>),
}

impl Values {
    /// Returns the number of values.
    pub(super) fn count(&self) -> u64 {
        match self {
            Values::From { count, .. } => *count,
            Values::List(values) => values.len() as u64,
        }
    }

    /// Returns the `i`-th value. `i` must be below the count.
    #[inline]
    pub(super) fn get(&self, i: u64) -> u64 {
        match self {
            Values::From { first, .. } => first.wrapping_add(i),
            Values::List(values) => values[i as usize],
        }
    }
}

/// A variable field: a byte range that differs between flows.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) at: usize,
    pub(super) len: usize,
    pub(super) values: Values,
}

/// A frame with variable fields, from which the frames of several flows are generated.
#[derive(Clone, Debug)]
pub struct Template {
    pub(super) bytes: Vec<u8>,
    pub(super) fields: Vec<Field>,
}

impl Template {
    /// Creates a template with these bytes. It has one flow until fields [vary](Template::vary).
    pub fn new(bytes: Vec<u8>) -> Template {
        Template {
            bytes,
            fields: Vec::new(),
        }
    }

    /// Returns a template of 60 bytes, the minimum of Ethernet: UDP over IPv4 without a UDP
    /// checksum. The source is 10.0.0.1. The destination varies over the 2^24 addresses of
    /// 10.0.0.0/8.
    pub fn udp4() -> Template {
        let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
        bytes.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0x66, 0xbf]);
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 0]);
        bytes.extend([0x10, 0x00, 0x20, 0x00, 0, 26, 0, 0]);
        bytes.extend((0..18).map(|i: u8| i));
        let addresses = Values::From {
            first: 0x0a00_0000,
            count: 1 << 24,
        };
        Template::new(bytes).vary(30, 4, addresses)
    }

    /// Makes the `len` bytes at `at`, a big-endian number, vary between flows. Checksums are
    /// updated. Nothing else that depends on the field is, such as a header length.
    ///
    /// Different flows differ in at least one field. The first field changes from flow to flow.
    /// The second field changes when the first has used all of its values, and so on.
    #[must_use]
    pub fn vary(mut self, at: usize, len: usize, values: Values) -> Template {
        self.fields.push(Field { at, len, values });
        self
    }

    /// Returns a template for each packet of a capture, at most `limit`. With as many flows as
    /// templates, in order [`super::Order::InTurn`] and with [`super::Sizes::OfTemplates`], the
    /// capture is replayed endlessly.
    ///
    /// # Errors
    /// The capture is damaged or does not hold Ethernet frames.
    pub fn from_capture(
        capture: &mut PcapReader,
        limit: usize,
    ) -> Result<Vec<Template>, PcapError> {
        let mut frame = Frame::new();
        let mut templates = Vec::new();
        while templates.len() < limit && capture.read(&mut frame)?.is_some() {
            templates.push(Template::new(frame.bytes().to_vec()));
        }
        Ok(templates)
    }
}
