//! What a function over packets keeps on its stack while it runs: words of its invocation and of the state that it reads for each packet, and what it counts for each.
//!
//! One instruction reads a word there, which often does something with it too. Behind a pointer it takes two, since no register is left for a pointer all the way: the
//! allocator keeps that on the stack in its turn. Which words these are is known when the loop over a lot's packets is translated; the blocks in front of it and behind it are filled last. Words are
//! read anew for each lot.

use std::collections::BTreeMap;

use cranelift_codegen::ir::{Block, InstBuilder, StackSlot, StackSlotData, StackSlotKind, Value};
use exec::Unsupported;

use super::{Arrival, I64, Translator, in_constants, in_invocation, in_stack};
use crate::abi::{offset, sight};
use crate::helpers::Helper;

/// Bytes of a word, and the bits of its address that are zero.
const WORD: i32 = 8;
const ALIGNMENT: u8 = 3;

/// A word on the stack, by where the function finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    /// So many bytes behind the beginning of the invocation. It stays as it is while the function runs, or is about the lot at hand ([`offset::OF_LOT`]).
    Invocation(i32),
    /// The same of what native code sees of the state.
    View(i32),
    /// What is to be added to the cell to which that word of the view points.
    Count(i32),
    /// Where a scout notes the next question, as the first one is at the notes' beginning. How many there are stands so many bytes behind that.
    Question(i32),
}

/// The words that are kept, and where.
pub(super) struct Kept {
    /// In front of the loop over a lot's packets.
    fill: Block,
    /// Behind it, with how many packets are through, and whether there are more in the lots that follow.
    leave: Block,
    slot: StackSlot,
    /// The places of the words, counted in words.
    places: BTreeMap<Word, i32>,
}

impl Translator<'_> {
    /// The loop over packets begins, with this block. From here on words are kept.
    pub(super) fn begin_burst(&mut self) -> Block {
        let first = self.load_invocation(offset::AT);
        self.set_at(first);
        let [fill, begin, leave] = [(); 3].map(|()| self.b.create_block());
        self.b.append_block_param(leave, I64);
        self.b.append_block_param(leave, I64);
        self.jump(fill);
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 0, ALIGNMENT);
        self.kept = Some(Kept {
            fill,
            leave,
            slot: self.b.create_sized_stack_slot(data),
            places: BTreeMap::new(),
        });
        self.start(begin);
        begin
    }

    /// The function ends, when so many packets are through.
    pub(super) fn return_from_burst(&mut self, through: Value) {
        let nothing = self.number(0);
        self.leave_lot(through, nothing);
    }

    /// All packets of a lot are through, so many with those before: the loop goes on with the next lot, if there may be one.
    pub(super) fn end_lot(&mut self, through: Value) {
        match self.arrival() {
            Arrival::Mixed => self.return_from_burst(through),
            Arrival::InRuns => {
                let goes_on = self.load_stable(Word::Invocation(offset::ARE_MANY));
                self.leave_lot(through, goes_on);
            }
        }
    }

    fn leave_lot(&mut self, through: Value, goes_on: Value) {
        if let Some(leave) = self.kept.as_ref().map(|kept| kept.leave) {
            self.jump_with(leave, &[through, goes_on]);
        }
    }

    /// All of the loop is translated, and so is what is around it.
    pub(super) fn end_burst(&mut self, begin: Block, common_end: Block) {
        // Of the block-wise translation nothing uses the common end.
        self.start(common_end);
        let number = self.b.block_params(common_end)[0];
        self.b.ins().return_(&[number]);
        if let Some(kept) = self.kept.take() {
            self.fill(&kept, begin);
            self.add_up(&kept);
        }
        self.b.seal_all_blocks();
    }

    fn fill(&mut self, kept: &Kept, begin: Block) {
        self.b.func.sized_stack_slots[kept.slot].size = WORD as u32 * kept.places.len() as u32;
        self.start(kept.fill);
        for (&word, &place) in &kept.places {
            let value = match word {
                Word::Count(_) => self.number(0),
                _ => self.load_stable(word),
            };
            let to = self.b.ins().stack_addr(I64, kept.slot, WORD * place);
            self.b.ins().store(in_stack(), value, to, 0);
        }
        self.jump(begin);
    }

    fn add_up(&mut self, kept: &Kept) {
        self.start_sealed(kept.leave);
        for (&word, &place) in &kept.places {
            let from = self.b.ins().stack_addr(I64, kept.slot, WORD * place);
            match word {
                Word::Count(at) => {
                    let cell = self.load_stable(Word::View(at));
                    let counted = self.b.ins().load(I64, in_stack(), from, 0);
                    self.add_at(cell, 0, counted);
                }
                Word::Question(at) => {
                    let next = self.b.ins().load(I64, in_stack(), from, 0);
                    self.number_question(at, next);
                }
                Word::Invocation(_) | Word::View(_) => {}
            }
        }
        let &[through, goes_on] = self.b.block_params(kept.leave) else {
            return;
        };
        if self.arrival() == Arrival::Mixed {
            // All packets were the one lot that there is for native code.
            self.b.ins().return_(&[through]);
            return;
        }
        let [ask, next, end] = [(); 3].map(|()| self.b.create_block());
        self.branch(goes_on, ask, end);
        self.start_sealed(ask);
        let is_there = self.help(Helper::NextLot, &[]);
        self.branch(is_there, next, end);
        self.start_sealed(next);
        let first = self.load_invocation(offset::AT);
        self.set_at(first);
        self.jump(kept.fill);
        self.start_sealed(end);
        self.b.ins().return_(&[through]);
    }

    /// A word of the invocation that stays as it is while the function runs, or goes through a lot.
    pub(super) fn load_constant(&mut self, at: i32) -> Value {
        self.load_kept(Word::Invocation(at))
    }

    /// A word of what native code sees of the state.
    pub(super) fn load_view(&mut self, at: i32) -> Value {
        self.load_kept(Word::View(at))
    }

    fn load_kept(&mut self, word: Word) -> Value {
        match self.place(word) {
            Some(place) => self.b.ins().load(I64, in_stack(), place, 0),
            None => self.load_stable(word),
        }
    }

    /// One more in the cell to which a word of the view points. Nobody reads it while the function runs.
    pub(super) fn count_one(&mut self, at: i32) {
        let one = self.number(1);
        match self.place(Word::Count(at)) {
            Some(place) => {
                let before = self.b.ins().load(I64, in_stack(), place, 0);
                let sum = self.b.ins().iadd(before, one);
                self.b.ins().store(in_stack(), sum, place, 0);
            }
            None => {
                let cell = self.load_view(at);
                self.add_at(cell, 0, one);
            }
        }
    }

    /// Where a scout notes its next question about what is numbered so many bytes behind the notes' beginning; the one after it will stand behind it.
    pub(super) fn take_question(&mut self, at: i32) -> Result<Value, Unsupported> {
        let place = self.place_of(Word::Question(at));
        let place = place.ok_or_else(|| self.unsupported("a question outside of a burst"))?;
        let question = self.b.ins().load(I64, in_stack(), place, 0);
        let next = self.b.ins().iadd_imm(question, i64::from(WORD));
        self.b.ins().store(in_stack(), next, place, 0);
        Ok(question)
    }

    /// Whether few packets come to the code that is being translated.
    pub(super) fn is_in_cold(&self) -> bool {
        let here = self.b.current_block();
        here.is_some_and(|here| self.b.func.layout.is_cold(here))
    }

    /// The address where a word is kept: neither what few packets need, nor what each packet may find changed.
    fn place(&mut self, word: Word) -> Option<Value> {
        match self.is_in_cold() || self.is_of_packet(word) {
            true => None,
            false => self.place_of(word),
        }
    }

    /// Whether a word is about the device of the packet at hand.
    fn is_of_packet(&self, word: Word) -> bool {
        self.view.is_some()
            && match word {
                Word::Invocation(at) => sight_of(at).is_some(),
                Word::View(_) | Word::Count(_) => true,
                Word::Question(_) => false,
            }
    }

    /// The device of this packet is at hand.
    pub(super) fn look_at_device(&mut self, at: Value) {
        if let Some(view) = self.view {
            let value = self.load_sight(at, sight::VIEW);
            self.b.def_var(view, value);
        }
    }

    /// A word of the invocation that is about the device of the packet at hand.
    fn load_of_device(&mut self, at: i32) -> Value {
        match (self.view, sight_of(at)) {
            (Some(view), Some(sight::VIEW)) => self.b.use_var(view),
            (_, part) => {
                let at = self.at();
                self.load_sight(at, part.unwrap_or(sight::VIEW))
            }
        }
    }

    fn load_sight(&mut self, at: Value, part: i32) -> Value {
        let sights = self.load_constant(offset::SIGHTS);
        let behind = self.b.ins().ishl_imm(at, sight::SHIFT);
        let sight = self.b.ins().iadd(sights, behind);
        let flags = in_invocation().with_aligned();
        self.b.ins().load(I64, flags, sight, part)
    }

    fn place_of(&mut self, word: Word) -> Option<Value> {
        let kept = self.kept.as_mut()?;
        let next = kept.places.len() as i32;
        let place = *kept.places.entry(word).or_insert(next);
        Some(self.b.ins().stack_addr(I64, kept.slot, WORD * place))
    }

    fn load_stable(&mut self, word: Word) -> Value {
        match word {
            Word::Invocation(at) if self.is_of_packet(word) => self.load_of_device(at),
            Word::Invocation(at) => {
                let flags = match offset::OF_LOT.contains(&at) {
                    true => in_invocation().with_aligned(),
                    false => in_constants(),
                };
                self.b.ins().load(I64, flags, self.invocation, at)
            }
            Word::Question(at) => self.question_behind(at),
            Word::View(at) | Word::Count(at) => {
                let view = self.load_stable(Word::Invocation(offset::VIEW));
                let flags = in_invocation().with_aligned();
                self.b.ins().load(I64, flags, view, at)
            }
        }
    }
}

/// Which part of a [`crate::abi::Sight`] says of a packet what that word of the invocation says of a lot.
fn sight_of(at: i32) -> Option<i32> {
    match at {
        offset::VIEW => Some(sight::VIEW),
        offset::FIRST_FLAGS => Some(sight::FIRST_FLAGS),
        offset::BUDGET => Some(sight::BUDGET),
        _ => None,
    }
}
