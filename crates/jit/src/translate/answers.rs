//! Answers to the questions of scouts, as later scouts and the pass take them: by packet, whoever found them, so that one load tells.

use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use exec::BURST;

use super::{Translator, in_limbs};
use crate::abi::offset;

/// Shifted so far, a number of words is one of bytes.
pub(super) const WORD_SHIFT: i64 = 3;

/// The notes of what packets are answered, in words. By packet: the number of the record that was found, [`AnswerNotes::MISSED`] for none, 0 if nobody asked or it is not certain;
/// then, if they are compared, the first limb of the key that was asked for; the second, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnswerNotes {
    /// The first word.
    first: usize,
    /// Limbs of a key.
    limbs: usize,
}

impl AnswerNotes {
    const KEYS: usize = BURST;

    /// Nothing was found: none of the 32 bits that numbers of records have.
    pub(crate) const MISSED: u64 = 1 << 32;

    pub(super) fn new(first: usize, limbs: usize) -> AnswerNotes {
        AnswerNotes { first, limbs }
    }

    /// How many words they are.
    pub(super) fn words(self) -> usize {
        Self::KEYS + BURST * self.limbs
    }

    /// None of so many packets has an answer.
    pub(super) fn clear(self, notes: &mut [u64], packets: usize) {
        notes[self.first..][..packets.min(BURST)].fill(0);
    }

    /// Limbs of a key.
    pub(super) fn limbs(self) -> usize {
        self.limbs
    }

    /// Where the first packet's answer is, in bytes from the notes' beginning.
    pub(super) fn answer(self) -> i32 {
        8 * self.first as i32
    }

    /// Where a limb of the first packet's key is.
    pub(super) fn key(self, limb: usize) -> i32 {
        8 * (self.first + Self::KEYS + BURST * limb) as i32
    }
}

impl Translator<'_> {
    /// What is noted of the first packet, so far behind the notes as the packet at hand's is behind that.
    pub(super) fn notes_of_packet(&mut self) -> Value {
        let (notes, at) = (self.load_constant(offset::NOTES), self.at());
        let behind = self.b.ins().ishl_imm(at, WORD_SHIFT);
        self.b.ins().iadd(notes, behind)
    }

    /// Notes the key of a packet, as far as keys are noted.
    pub(super) fn note_key(&mut self, to: AnswerNotes, packet: Value, key: &[Value]) {
        for (limb, &part) in key.iter().enumerate().take(to.limbs) {
            self.b.ins().store(in_limbs(), part, packet, to.key(limb));
        }
    }

    /// Notes the number of the record that a packet hits, 0 for none.
    pub(super) fn note_answer(&mut self, to: AnswerNotes, packet: Value, number: Value) {
        let missed = self.number(AnswerNotes::MISSED);
        let answer = self.b.ins().select(number, number, missed);
        self.b.ins().store(in_limbs(), answer, packet, to.answer());
    }

    /// The number of the record that the packet at hand hits, as was found for this key, if one is given; `otherwise` if nothing was.
    pub(super) fn noted_answer(
        &mut self,
        from: AnswerNotes,
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

    /// The number that an answer has, which is 0 on a way of its own: most packets hit something, and of those one test tells all.
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
