//! Entries that are being installed while packets of their flows are at servers.
//!
//! An entry that worked at once would let later packets of a flow overtake earlier ones. So the
//! switch closes a gate: it holds the requests that the entry will match, installs the entry when
//! the earlier requests are answered, and opens the gate. Held requests then go on at their cut, as
//! if they had just come there, before all other packets.
//!
//! A server goes on from a cut to later ones. So a request that would pass a held one of its flow
//! on this way is held with it.
//!
//! ```text
//! close -> earlier requests answered within 1 ms -> ready -> entry works -> open
//!                        later: the entry is refused, open
//! ```

use packet::{Frame, Nanos};

/// Maximum time for which a gate waits for answers.
pub const MAX_HOLD: Nanos = Nanos(1_000_000);

/// Maximum number of requests that a worker holds.
pub(crate) const MAX_HELD: usize = 1024;

/// Number of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GateId(pub(crate) u64);

/// Keys that an entry of a mirrored table matches: bits of the key as frames have it, and the bits
/// that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    /// The bits, zero-padded to whole bytes.
    pub bits: Box<[u8]>,
    /// Mask of the bits that count.
    pub mask: Box<[u8]>,
    /// Number of bits of the key.
    pub width: usize,
}

impl KeyPattern {
    /// Returns true if all bits count.
    pub(crate) fn is_exact(&self) -> bool {
        let whole = self.width / 8;
        let last = !(0xff_u8.checked_shr(self.width as u32 % 8).unwrap_or(0));
        self.mask[..whole].iter().all(|&mask| mask == 0xff)
            && self.mask[whole..].iter().all(|&mask| mask == last)
    }

    /// Returns true if the key of a request matches.
    pub(crate) fn matches(&self, key: &[u8]) -> bool {
        let bytes = self.bits.iter().zip(&self.mask);
        key.len() >= self.bits.len()
            && bytes
                .zip(key)
                .all(|((bits, mask), key)| (bits ^ key) & mask == 0)
    }
}

/// State of a gate's earlier requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// All are answered.
    Yes,
    /// Some are not answered yet.
    NotYet,
    /// Some are not answered after [`MAX_HOLD`].
    TooLate,
}

/// Requests that the switch holds.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) id: GateId,
    /// Numbers of the cuts at which the entry's table is applied.
    pub(crate) cuts: Vec<u16>,
    pub(crate) pattern: KeyPattern,
    /// Hash of the key, for a pattern of one key.
    pub(crate) key_hash: Option<u32>,
    pub(crate) began: Nanos,
    /// Requests from this number on are not waited for.
    pub(crate) first: u64,
    /// True when the earlier requests are answered: the entry may begin to work at any time.
    pub(crate) is_ready: bool,
}

impl Gate {
    /// Returns true if the gate holds requests with this key.
    pub(crate) fn holds(&self, cut: u16, key: &[u8]) -> bool {
        self.cuts.contains(&cut) && self.pattern.matches(key)
    }
}

/// Request that a worker holds.
#[derive(Debug)]
pub(crate) struct HeldRequest {
    pub(crate) gate: GateId,
    /// Number of the cut.
    pub(crate) cut: u16,
    /// Hash of the flow.
    pub(crate) flow: u32,
    pub(crate) frame: Frame,
}
