//! [`TrieIndex`]: layout of a trie for compiled code that searches it inline.

use super::node;
use super::search::Shown;
use super::trie::TrieId;

/// Trie of prefixes of at most 64 bits, for keys that have no other field.
///
/// Address. It is the key's bits from bit 63 downwards, followed by zeros.
///
/// Start. The search starts at an element of [`slots`](Self::slots). The first `end` bits of
/// `address ^ shared` are its index. If that is out of range, it is the last element. Each element
/// is a target.
///
/// Target. Without the flag [`NODE`](Self::NODE), the target is the result: the entry index plus 1,
/// or 0 if the result is [`default`](Self::default). With the flag, the bits in
/// [`PLACE`](Self::PLACE) are the index of a line of sixteen 32-bit words. The next six bits of the
/// address (`bits`) select the word with the next target. For the first node, these are the six
/// bits from bit `63 - end` downwards.
///
/// Wide node (flag [`WIDE`](Self::WIDE)). It is word `bits & 15` of the line `bits >> 4` lines
/// further on.
///
/// Narrow node. It is a word of this line:
/// - If bit `bits` of words 0 and 1 is not set, it is the word at [`FALLBACK`](Self::FALLBACK).
/// - Otherwise, count the ones among the first `bits + 1` bits of words 2 and 3. It is the word
///   that many words after `FALLBACK`.
///
/// The lower of two words has the first bits.
#[derive(Debug, Clone, Copy)]
pub struct TrieIndex<'m> {
    /// Number of leading address bits that end with the index into `slots`: 0 to 60.
    pub end: u32,
    /// Bits that all addresses share before that index, followed by zeros.
    pub shared: u64,
    /// Targets by table index.
    pub slots: &'m [u32],
    /// Address of line 0 in memory.
    pub lines: usize,
    /// Index plus 1 of the entry with prefix length 0; 0 if there is none.
    pub default: u32,
}

impl<'m> TrieIndex<'m> {
    /// Flag in a target: it is a node.
    pub const NODE: u32 = node::Target::NODE;
    /// Flag in a target: its node has four lines.
    pub const WIDE: u32 = node::Target::WIDE;
    /// Mask in a target: the index of its node's first line.
    pub const PLACE: u32 = node::Target::MAX;
    /// Number of address bits that a node covers.
    pub const STRIDE: u32 = node::STRIDE;
    /// Size of a line in bytes.
    pub const LINE: usize = size_of::<node::Line>();
    /// Index of the word in a narrow node with the target of all branches that are not covered.
    pub const FALLBACK: usize = node::FALLBACK;

    pub(super) fn of(shown: &'m Shown<u64>, trie: TrieId) -> Self {
        let table = shown.tables.table(trie);
        Self {
            end: table.end,
            shared: table.shared(),
            slots: table.slots(),
            lines: shown.lines.all().as_ptr().expose_provenance(),
            default: table.default,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::Line;
    use super::super::trie::{Forest, Prefix};
    use super::*;
    use crate::entry::EntryIdx;
    use proptest::prelude::*;

    /// Looks up an address as the documentation of [`TrieIndex`] describes.
    fn look_up(index: &TrieIndex<'_>, lines: &[Line], address: u64) -> Option<EntryIdx> {
        let slot = (address ^ index.shared).checked_shr(64 - index.end);
        let slot = slot.unwrap_or(0).min(index.slots.len() as u64 - 1);
        let (mut target, mut rest) = (index.slots[slot as usize], address << index.end);
        while target & TrieIndex::NODE != 0 {
            let bits = (rest >> 58) as usize;
            rest <<= TrieIndex::STRIDE;
            let place = (target & TrieIndex::PLACE) as usize;
            target = match target & TrieIndex::WIDE {
                0 => {
                    let line = lines[place].image();
                    let pair = |at: usize| u64::from(line[at]) | u64::from(line[at + 1]) << 32;
                    let is_first = pair(2) << (63 - bits);
                    let behind = match pair(0) >> bits & 1 {
                        0 => 0,
                        _ => is_first.count_ones() as usize,
                    };
                    line[TrieIndex::FALLBACK + behind]
                }
                _ => lines[place + (bits >> 4)].image()[bits & 15],
            };
        }
        let value = if target == 0 { index.default } else { target };
        value.checked_sub(1).map(EntryIdx::new)
    }

    proptest! {
        #[test]
        fn addresses_are_looked_up_as_it_says(
            prefixes in proptest::collection::vec((any::<u64>(), 0u32..=64, 0u32..4), 0..200),
            asked in proptest::collection::vec(any::<u64>(), 1..40),
        ) {
            let mut forest = Forest::<u64>::new(0);
            let trie = forest.add();
            // Many addresses share their first bits.
            let near = |bits: u64, shared: u32| bits >> (shared * 11);
            for (value, &(bits, len, shared)) in (1..).zip(&prefixes) {
                let address = match len {
                    64 => near(bits, shared),
                    len => near(bits, shared) >> 1 >> (63 - len) << 1 << (63 - len),
                };
                forest.insert(trie, Prefix { address, len }, value);
            }
            let shown = forest.snapshot();
            let index = TrieIndex::of(&shown, trie);
            let own = prefixes.iter().map(|&(bits, _, shared)| near(bits, shared));
            for address in own.chain(asked) {
                let found = look_up(&index, shown.lines.all(), address);
                prop_assert_eq!(found, shown.find(trie, address), "{:x}", address);
            }
        }
    }
}
