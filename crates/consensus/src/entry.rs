//! Entries of the log: operations, memberships, and no-ops, with their encoding.

use crate::ids::{ClientId, Term};
use crate::members::Membership;
use crate::wire::{Reader, Write};

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;
/// Bytes of a value at most.
pub const MAX_VALUE: usize = 64;
/// Bytes of an element's change at most.
pub const MAX_CHANGE: usize = 128;
/// Bytes of an encoded entry at most.
pub const MAX_ENTRY: usize = 192;

/// Key of the key-value table, or of a change within its element.
pub type Key = [u8; KEY_BYTES];

/// Byte string of at most `N` bytes, stored in place. `N` is at most 255.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShortBytes<const N: usize> {
    len: u8,
    bytes: [u8; N],
}

/// Value of a key.
pub type StoredValue = ShortBytes<MAX_VALUE>;
/// Change of an element: bytes that only the element reads.
pub type ChangeBytes = ShortBytes<MAX_CHANGE>;

impl<const N: usize> ShortBytes<N> {
    /// Returns these bytes, or `None` if there are more than `N`.
    pub fn new(bytes: &[u8]) -> Option<ShortBytes<N>> {
        let mut all = ShortBytes::default();
        all.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        all.len = u8::try_from(bytes.len()).ok()?;
        Some(all)
    }

    /// Returns the bytes.
    pub fn get(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.len);
        out.put(self.get());
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Option<ShortBytes<N>> {
        let len = from.u8()?;
        ShortBytes::new(from.bytes(usize::from(len))?)
    }
}

impl<const N: usize> Default for ShortBytes<N> {
    fn default() -> Self {
        ShortBytes {
            len: 0,
            bytes: [0; N],
        }
    }
}

impl<const N: usize> std::fmt::Debug for ShortBytes<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x?}", self.get())
    }
}

/// Number of a managed element, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId(pub u32);

/// Operation on the replicated state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Opens a session; the answer has its name.
    OpenSession,
    /// Reads a key, in its place in the log.
    Get(Key),
    /// Sets a key.
    Put(Key, StoredValue),
    /// Removes a key.
    Delete(Key),
    /// Sets a key if it has the expected value; `None` is no value.
    CompareAndSet {
        /// The key.
        key: Key,
        /// The value that the key must have.
        expected: Option<StoredValue>,
        /// The value that it gets.
        new: StoredValue,
    },
    /// Changes an element: sets what it has under a key, or removes it.
    Change {
        /// The element.
        element: ElementId,
        /// Name of the changed content.
        key: Key,
        /// The new content; `None` removes it.
        change: Option<ChangeBytes>,
    },
    /// Records that an element has all its changes up to an index.
    Confirm {
        /// The element.
        element: ElementId,
        /// Index of the last change that the element applied.
        index: u64,
    },
}

/// Operation of a client. A session has one request at a time, and each has a greater number than
/// the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The session; of no meaning for [`Operation::OpenSession`].
    pub client: ClientId,
    /// Number of the request in its session, from 1.
    pub sequence: u64,
    /// The operation.
    pub operation: Operation,
}

/// Content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Payload {
    /// Nothing: the first entry of a leader.
    Noop,
    /// The members from this entry on.
    Membership(Membership),
    /// An operation.
    Request(Request),
}

/// Entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Term of the leader that made it.
    pub term: Term,
    /// Time of the leader that made it. The log's time is the greatest one so far.
    pub time: u64,
    /// Content.
    pub payload: Payload,
}

impl Entry {
    /// The entry of an unused place in memory.
    pub(crate) const EMPTY: Entry = Entry {
        term: Term(0),
        time: 0,
        payload: Payload::Noop,
    };

    /// Appends the encoding, at most [`MAX_ENTRY`] bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.term.0);
        out.put_u64(self.time);
        match &self.payload {
            Payload::Noop => out.put_u8(0),
            Payload::Membership(members) => {
                out.put_u8(1);
                members.encode(out);
            }
            Payload::Request(request) => encode_request(request, out),
        }
    }

    /// Reads the bytes of one entry. `None` if they are none.
    pub fn read(bytes: &[u8]) -> Option<Entry> {
        let mut from = Reader::new(bytes);
        Entry::decode(&mut from).filter(|_| from.is_empty())
    }

    /// Reads one entry. `None` if the bytes are no entry.
    pub(crate) fn decode(from: &mut Reader<'_>) -> Option<Entry> {
        let (term, time) = (Term(from.u64()?), from.u64()?);
        let payload = match from.u8()? {
            0 => Payload::Noop,
            1 => Payload::Membership(Membership::decode(from)?),
            kind => Payload::Request(decode_request(kind, from)?),
        };
        Some(Entry {
            term,
            time,
            payload,
        })
    }
}

pub(crate) fn encode_request(request: &Request, out: &mut Vec<u8>) {
    let kind = match request.operation {
        Operation::OpenSession => 2,
        Operation::Get(_) => 3,
        Operation::Put(..) => 4,
        Operation::Delete(_) => 5,
        Operation::CompareAndSet { expected: None, .. } => 6,
        Operation::CompareAndSet { .. } => 7,
        Operation::Change { change: None, .. } => 8,
        Operation::Change { .. } => 9,
        Operation::Confirm { .. } => 10,
    };
    out.put_u8(kind);
    out.put_u64(request.client.0);
    out.put_u64(request.sequence);
    match &request.operation {
        Operation::OpenSession => {}
        Operation::Get(key) | Operation::Delete(key) => out.put(key),
        Operation::Put(key, value) => {
            out.put(key);
            value.encode(out);
        }
        Operation::CompareAndSet { key, expected, new } => {
            out.put(key);
            if let Some(expected) = expected {
                expected.encode(out);
            }
            new.encode(out);
        }
        Operation::Change {
            element,
            key,
            change,
        } => {
            out.put_u32(element.0);
            out.put(key);
            if let Some(change) = change {
                change.encode(out);
            }
        }
        Operation::Confirm { element, index } => {
            out.put_u32(element.0);
            out.put_u64(*index);
        }
    }
}

pub(crate) fn decode_request(kind: u8, from: &mut Reader<'_>) -> Option<Request> {
    let (client, sequence) = (ClientId(from.u64()?), from.u64()?);
    let operation = match kind {
        2 => Operation::OpenSession,
        3 => Operation::Get(from.array()?),
        4 => Operation::Put(from.array()?, StoredValue::decode(from)?),
        5 => Operation::Delete(from.array()?),
        6 | 7 => Operation::CompareAndSet {
            key: from.array()?,
            expected: if kind == 7 {
                Some(StoredValue::decode(from)?)
            } else {
                None
            },
            new: StoredValue::decode(from)?,
        },
        8 | 9 => Operation::Change {
            element: ElementId(from.u32()?),
            key: from.array()?,
            change: if kind == 9 {
                Some(ChangeBytes::decode(from)?)
            } else {
                None
            },
        },
        10 => Operation::Confirm {
            element: ElementId(from.u32()?),
            index: from.u64()?,
        },
        _ => return None,
    };
    Some(Request {
        client,
        sequence,
        operation,
    })
}
