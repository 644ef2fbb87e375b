//! [`TrieIndex`]: a trie as code sees it that looks keys up by itself.

use super::node;
use super::search::Shown;
use super::trie::TrieId;

/// A trie of prefixes of at most 64 bits, of keys that have nothing else.
///
/// An address is the key's bits from bit 63 downwards, with zeros behind. It begins in the slot whose number the first `end` bits of `address ^ shared` are, or in the last slot if that is beyond. A slot is a
/// target: without [`NODE`](Self::NODE), it is the entry's place plus 1, or 0 if [`default`](Self::default) is what was found. With it, the bits in [`PLACE`](Self::PLACE) are the number of a line of
/// 64 bytes, of sixteen words of 32 bits, and the next six bits of the address, from bit `63 - end` downwards, say which word of which line is the next target. Of a target with
/// [`WIDE`](Self::WIDE) that is word `bits & 15` of the line `bits >> 4` further on. Of others it is a word of this very line: that behind [`FALLBACK`](Self::FALLBACK) by as many words as there are
/// ones among the first `bits + 1` bits of words 2 and 3, if bit `bits` of words 0 and 1 is one, else the word at `FALLBACK` itself; the lower of two words has the first bits.
#[derive(Debug, Clone, Copy)]
pub struct TrieIndex<'m> {
    /// Where the bits that choose a slot end: 0 to 60.
    pub end: u32,
    /// What addresses share before these bits, with zeros behind.
    pub shared: u64,
    /// Targets by slot.
    pub slots: &'m [u32],
    /// The address of line 0.
    pub lines: usize,
    /// The place plus 1 of the entry of no bits; 0 if there is none.
    pub default: u32,
}

impl<'m> TrieIndex<'m> {
    /// In a target: it is a node.
    pub const NODE: u32 = node::Target::NODE;
    /// In a target: its node has four lines.
    pub const WIDE: u32 = node::Target::WIDE;
    /// In a target: the number of its node's first line.
    pub const PLACE: u32 = node::Target::MOST;
    /// Bits of an address that a node takes.
    pub const STRIDE: u32 = node::STRIDE;
    /// Bytes of a line.
    pub const LINE: usize = size_of::<node::Line>();
    /// Which word of a line leads on where nothing else does.
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

    /// What the documentation says of how an address is looked up.
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
            // Many share their beginning.
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
