//! [`Span`]: which bits of an address choose a slot of a trie's table.
//!
//! Bits that all prefixes of a trie share choose nothing. So a table begins behind them, and is as dense as the prefixes are: 256 prefixes of
//! 24 bits that share 16 have a table of 256 slots, each of which leads to a prefix without a node between.

use super::node::STRIDE;
use super::trie::{Address, Prefix};

/// Slots that there are at most for each prefix, when a table is laid out.
const SLOTS_A_PREFIX: usize = 16;
/// Bits that choose a slot, at most.
const MOST_BITS: u32 = 18;

/// The bits of an address from one on, and up to another, where those before are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span<A> {
    /// The bits before, with zeros behind.
    shared: A,
    from: u32,
    /// Where the nodes below begin: a multiple of [`STRIDE`].
    end: u32,
}

/// Up to where `count` prefixes that share `from` bits have their table: it takes no more than some tens of bytes a prefix.
fn right_end<A: Address>(from: u32, count: usize) -> u32 {
    let bits = (count * SLOTS_A_PREFIX).max(1).ilog2().min(MOST_BITS);
    let end = from + bits;
    (end - end % STRIDE).min(A::DEEPEST)
}

impl<A: Address> Span<A> {
    /// The one for `count` prefixes that share no more than this one.
    pub(crate) fn of(shared: Prefix<A>, count: usize) -> Self {
        let end = right_end::<A>(shared.len, count);
        let from = shared.len.min(end);
        Self {
            shared: shared.address.cut(from),
            from,
            end,
        }
    }

    /// The bits that are shared.
    pub(crate) fn shared(&self) -> A {
        self.shared
    }

    /// How many are.
    pub(crate) fn from(&self) -> u32 {
        self.from
    }

    /// Where the bits end.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// How many slots they choose from.
    pub(crate) fn slots(&self) -> usize {
        1 << (self.end - self.from)
    }

    /// Whether the prefix, and with it all that it covers, begins with the shared bits.
    pub(crate) fn has(&self, prefix: Prefix<A>) -> bool {
        prefix.len >= self.from && self.slot(prefix.address) < self.slots()
    }

    /// The slot of an address; beyond all of them, if it has other bits before.
    pub(crate) fn slot(&self, address: A) -> usize {
        (address ^ self.shared).first(self.end)
    }

    /// The first address of a slot.
    pub(crate) fn address(&self, slot: usize) -> A {
        self.shared | A::from_first(slot, self.end)
    }

    /// Whether it is not too short for `count` prefixes, nor four times too large.
    pub(crate) fn suits(&self, count: usize) -> bool {
        let [least, most] = [count, count * 4].map(|count| right_end::<A>(self.from, count));
        (least..=most).contains(&self.end)
    }
}
