//! [`Span`]: range of address bits that is the index into a trie's table.
//!
//! Bits that all prefixes of a trie share are useless as an index. The range therefore starts after
//! them, and the table is as dense as the prefixes are. For example, 256 prefixes of 24 bits that
//! share 16 bits have a table of 256 elements. Each leads to a prefix without a node in between.

use super::node::STRIDE;
use super::trie::{Address, Prefix};

/// Maximum number of table elements for each prefix when the range is chosen.
const SLOTS_A_PREFIX: usize = 16;
/// Maximum number of bits in the index.
const MAX_BITS: u32 = 18;

/// Range of address bits, after a prefix that all addresses share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span<A> {
    /// The shared bits, followed by zeros.
    shared: A,
    from: u32,
    /// End of the range, where the nodes below start: a multiple of [`STRIDE`].
    end: u32,
}

/// Returns the end of the range for `count` prefixes that share `from` bits. It limits the table to
/// some tens of bytes for each prefix.
fn right_end<A: Address>(from: u32, count: usize) -> u32 {
    let bits = (count * SLOTS_A_PREFIX).max(1).ilog2().min(MAX_BITS);
    let end = from + bits;
    (end - end % STRIDE).min(A::DEEPEST)
}

impl<A: Address> Span<A> {
    /// Returns the range for `count` prefixes of which `shared` is the longest common prefix.
    pub(crate) fn of(shared: Prefix<A>, count: usize) -> Self {
        let end = right_end::<A>(shared.len, count);
        let from = shared.len.min(end);
        Self {
            shared: shared.address.cut(from),
            from,
            end,
        }
    }

    /// Returns the shared bits.
    pub(crate) fn shared(&self) -> A {
        self.shared
    }

    /// Returns the number of shared bits.
    pub(crate) fn from(&self) -> u32 {
        self.from
    }

    /// Returns the end of the range.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// Returns the number of table elements.
    pub(crate) fn slots(&self) -> usize {
        1 << (self.end - self.from)
    }

    /// Returns true if the prefix, and thus all that it covers, starts with the shared bits.
    pub(crate) fn has(&self, prefix: Prefix<A>) -> bool {
        prefix.len >= self.from && self.slot(prefix.address) < self.slots()
    }

    /// Returns the table index for an address. It is out of range if the address does not start
    /// with the shared bits.
    pub(crate) fn slot(&self, address: A) -> usize {
        (address ^ self.shared).first(self.end)
    }

    /// Returns the first address for a table index.
    pub(crate) fn address(&self, slot: usize) -> A {
        self.shared | A::from_first(slot, self.end)
    }

    /// Returns true if the range is long enough for `count` prefixes, and not more than four times
    /// too large.
    pub(crate) fn suits(&self, count: usize) -> bool {
        let [least, most] = [count, count * 4].map(|count| right_end::<A>(self.from, count));
        (least..=most).contains(&self.end)
    }
}
