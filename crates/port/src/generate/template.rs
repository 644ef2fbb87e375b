//! What a generator makes frames like.

use crate::{PcapError, PcapReader};
use packet::Frame;

/// The values that a field takes, one a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// `first`, `first + 1` and so on, `count` of them.
    From {
        /// The first value.
        first: u64,
        /// How many there are.
        count: u64,
    },
    /// These.
    List(Vec<u64>),
}

impl Values {
    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        match self {
            Values::From { count, .. } => *count,
            Values::List(values) => values.len() as u64,
        }
    }

    /// The `i`-th, which there must be.
    #[inline]
    pub(super) fn get(&self, i: u64) -> u64 {
        match self {
            Values::From { first, .. } => first.wrapping_add(i),
            Values::List(values) => values[i as usize],
        }
    }
}

/// A part of a frame that differs between flows.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) at: usize,
    pub(super) len: usize,
    pub(super) values: Values,
}

/// A frame, and what differs between the flows that are made like it.
#[derive(Clone, Debug)]
pub struct Template {
    pub(super) bytes: Vec<u8>,
    pub(super) fields: Vec<Field>,
}

impl Template {
    /// Frames with these bytes, of one flow until fields [vary](Template::vary).
    pub fn new(bytes: Vec<u8>) -> Template {
        Template {
            bytes,
            fields: Vec::new(),
        }
    }

    /// UDP over IPv4 without a UDP checksum, from 10.0.0.1 to addresses from 10.0.0.0 on, of which there
    /// are 2^24: 60 bytes, the shortest that Ethernet carries.
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

    /// Lets the `len` bytes at `at`, a big-endian number, differ between flows. Checksums follow, but
    /// not what else depends on the field, such as the length of a header.
    ///
    /// Different flows differ in some field: the first field takes its next value from flow to flow, the
    /// second when the first has had all of its values, and so on.
    #[must_use]
    pub fn vary(mut self, at: usize, len: usize, values: Values) -> Template {
        self.fields.push(Field { at, len, values });
        self
    }

    /// A template for each packet of a capture, `limit` at most. With as many flows in turn and
    /// [`super::Sizes::OfTemplates`] they are the capture, again and again.
    ///
    /// # Errors
    /// The capture is damaged or holds what is no Ethernet frame.
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
