//! Results of batched lookups, indexed by packet. Later prefetch passes and the fast path read them
//! with one load, whichever code has found them.

use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use exec::BURST;

use super::{Translator, in_limbs};
use crate::abi::offset;

/// Shift that converts a number of words into bytes.
pub(super) const WORD_SHIFT: i64 = 3;

/// Layout of the lookup results of a site, in words. First come the record numbers, one per packet.
/// [`LookupResults::MISSED`] means a miss, and 0 means no lookup or an uncertain result. If keys
/// are compared, the limbs of the looked-up keys follow: first the first limb of every packet, then
/// the second, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LookupResults {
    /// Index of the first word.
    first: usize,
    /// Number of limbs of a key.
    limbs: usize,
}

impl LookupResults {
    const KEYS: usize = BURST;

    /// Result of a lookup that missed. The bit is outside the 32 bits of record numbers.
    pub(crate) const MISSED: u64 = 1 << 32;

    pub(super) fn new(first: usize, limbs: usize) -> LookupResults {
        LookupResults { first, limbs }
    }

    /// Returns the size in words.
    pub(super) fn words(self) -> usize {
        Self::KEYS + BURST * self.limbs
    }

    /// Clears the results of a number of packets.
    pub(super) fn clear(self, notes: &mut [u64], packets: usize) {
        notes[self.first..][..packets.min(BURST)].fill(0);
    }

    /// Returns the number of limbs of a key.
    pub(super) fn limbs(self) -> usize {
        self.limbs
    }

    /// Returns the byte offset of the first packet's result in the lookup buffer.
    pub(super) fn answer(self) -> i32 {
        8 * self.first as i32
    }

    /// Returns the byte offset of a limb of the first packet's key.
    pub(super) fn key(self, limb: usize) -> i32 {
        8 * (self.first + Self::KEYS + BURST * limb) as i32
    }
}

impl Translator<'_> {
    /// Returns the base address for the current packet: the start of the lookup buffer plus one
    /// word per preceding packet. The offsets of the first packet apply to it.
    pub(super) fn notes_of_packet(&mut self) -> Value {
        let (notes, at) = (self.load_constant(offset::NOTES), self.at());
        let behind = self.b.ins().ishl_imm(at, WORD_SHIFT);
        self.b.ins().iadd(notes, behind)
    }

    /// Stores the key of a packet, if the site stores keys.
    pub(super) fn note_key(&mut self, to: LookupResults, packet: Value, key: &[Value]) {
        for (limb, &part) in key.iter().enumerate().take(to.limbs) {
            self.b.ins().store(in_limbs(), part, packet, to.key(limb));
        }
    }

    /// Stores the record number that a packet hits, 0 for a miss.
    pub(super) fn note_answer(&mut self, to: LookupResults, packet: Value, number: Value) {
        let missed = self.number(LookupResults::MISSED);
        let answer = self.b.ins().select(number, number, missed);
        self.b.ins().store(in_limbs(), answer, packet, to.answer());
    }

    /// Loads the record number that the current packet hits. Branches to `otherwise` if there is no
    /// result, or if it belongs to another key than `key`, unless that is empty.
    pub(super) fn noted_answer(
        &mut self,
        from: LookupResults,
        key: &[Value],
        otherwise: Block,
    ) -> Value {
        let packet = self.notes_of_packet();
        let answer = self.b.ins().load(I64, in_limbs(), packet, from.answer());
        let number = self.b.ins().ireduce(I32, answer);
        let number = self.b.ins().uextend(I64, number);
        if key.is_empty() {
            return self.hit_or_missed(answer, number, otherwise);
        }
        let answered = self.b.create_block();
        self.branch(answer, answered, otherwise);
        self.start_sealed(answered);
        let mut differs = self.number(0);
        for (limb, &part) in key.iter().enumerate() {
            let at = from.key(limb);
            let asked = self.b.ins().load(I64, in_limbs(), packet, at);
            let here = self.b.ins().bxor(part, asked);
            differs = self.b.ins().bor(differs, here);
        }
        let same = self.b.create_block();
        self.branch(differs, otherwise, same);
        self.start_sealed(same);
        number
    }

    /// Returns the record number of a result. A miss becomes 0 on a separate path: most packets
    /// hit, and for these a single test suffices.
    fn hit_or_missed(&mut self, answer: Value, number: Value, otherwise: Block) -> Value {
        let (missed, none) = (self.b.create_block(), self.b.create_block());
        let (answered, told) = self.block_with(1);
        let hit = [number.into()];
        self.b.ins().brif(number, answered, &hit, missed, &[]);
        self.start_sealed(missed);
        self.branch(answer, none, otherwise);
        self.start_sealed(none);
        let zero = self.number(0);
        self.jump_with(answered, &[zero]);
        self.start_sealed(answered);
        told[0]
    }
}
