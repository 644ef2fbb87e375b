//! Stack cache of a burst function: words of the invocation and the state description that are read
//! for each packet, and counts.
//!
//! A stack access takes one instruction, which can often use the word directly. An access through a
//! pointer takes two, since the pointer itself is spilled. The words are known only after the loop
//! over a segment's packets is translated. So the blocks before and after the loop are filled last.
//! The words are loaded again for each segment.

use std::collections::BTreeMap;

use cranelift_codegen::ir::{Block, InstBuilder, StackSlot, StackSlotData, StackSlotKind, Value};
use exec::Unsupported;

use super::{BurstLayout, I64, Translator, in_constants, in_invocation, in_stack};
use crate::abi::{offset, packet_device};
use crate::helpers::Helper;

/// Bytes of a word, and the base-2 logarithm of its alignment.
const WORD: i32 = 8;
const ALIGNMENT: u8 = 3;

/// Cached word, named by its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    /// Word at this offset of the invocation. It is constant while the function runs, or for the
    /// current segment ([`offset::OF_LOT`]).
    Invocation(i32),
    /// Word at this offset of the state description.
    View(i32),
    /// Amount to be added to the cell with the address at this offset of the state description.
    Count(i32),
    /// Address where a prefetch pass stores its next lookup, relative to the first one. The number
    /// of lookups is at this byte offset of the lookup buffer.
    Question(i32),
}

/// Stack cache of the current function.
pub(super) struct StackCache {
    /// Block before the loop over a segment's packets.
    fill: Block,
    /// Block after it. Its parameters are the number of finished packets, and a flag for further
    /// segments.
    leave: Block,
    slot: StackSlot,
    /// Index of each word in the stack slot.
    places: BTreeMap<Word, i32>,
}

impl Translator<'_> {
    /// Starts the loop over packets and returns its first block. From here on words are cached.
    pub(super) fn begin_burst(&mut self) -> Block {
        let first = self.load_invocation(offset::AT);
        self.set_at(first);
        let [fill, begin, leave] = [(); 3].map(|()| self.b.create_block());
        self.b.append_block_param(leave, I64);
        self.b.append_block_param(leave, I64);
        self.jump(fill);
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 0, ALIGNMENT);
        self.kept = Some(StackCache {
            fill,
            leave,
            slot: self.b.create_sized_stack_slot(data),
            places: BTreeMap::new(),
        });
        self.start(begin);
        begin
    }

    /// Returns from the function with the number of finished packets.
    pub(super) fn return_from_burst(&mut self, through: Value) {
        let nothing = self.number(0);
        self.leave_lot(through, nothing);
    }

    /// Ends a segment. `through` is the number of finished packets of the burst. Continues with the
    /// next segment, if there may be one.
    pub(super) fn end_lot(&mut self, through: Value) {
        match self.arrival() {
            BurstLayout::Interleaved => self.return_from_burst(through),
            BurstLayout::Grouped => {
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

    /// Finishes the function after the loop is translated.
    pub(super) fn end_burst(&mut self, begin: Block, common_end: Block) {
        // Fast paths do not use the common exit block of single functions.
        self.start(common_end);
        let number = self.b.block_params(common_end)[0];
        self.b.ins().return_(&[number]);
        if let Some(kept) = self.kept.take() {
            self.fill(&kept, begin);
            self.add_up(&kept);
        }
        self.b.seal_all_blocks();
    }

    fn fill(&mut self, kept: &StackCache, begin: Block) {
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

    fn add_up(&mut self, kept: &StackCache) {
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
        if self.arrival() == BurstLayout::Interleaved {
            // An interleaved burst is processed as a single segment.
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

    /// Returns a word of the invocation that is constant while the function runs or within a
    /// segment.
    pub(super) fn load_constant(&mut self, at: i32) -> Value {
        self.load_kept(Word::Invocation(at))
    }

    /// Returns a word of the state description.
    pub(super) fn load_view(&mut self, at: i32) -> Value {
        self.load_kept(Word::View(at))
    }

    fn load_kept(&mut self, word: Word) -> Value {
        match self.place(word) {
            Some(place) => self.b.ins().load(I64, in_stack(), place, 0),
            None => self.load_stable(word),
        }
    }

    /// Increments the cell with the address at this offset of the state description. The cell is
    /// not read while the function runs.
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

    /// Returns the address for the next lookup of a prefetch pass, and advances it. Its index is
    /// stored at byte `at` of the lookup buffer.
    pub(super) fn take_question(&mut self, at: i32) -> Result<Value, Unsupported> {
        let place = self.place_of(Word::Question(at));
        let place = place.ok_or_else(|| self.unsupported("a question outside of a burst"))?;
        let question = self.b.ins().load(I64, in_stack(), place, 0);
        let next = self.b.ins().iadd_imm(question, i64::from(WORD));
        self.b.ins().store(in_stack(), next, place, 0);
        Ok(question)
    }

    /// Returns true in code that few packets run.
    pub(super) fn is_in_cold(&self) -> bool {
        let here = self.b.current_block();
        here.is_some_and(|here| self.b.func.layout.is_cold(here))
    }

    /// Returns the stack address of a cached word. Words in cold code and words that differ by
    /// packet are not cached.
    fn place(&mut self, word: Word) -> Option<Value> {
        match self.is_in_cold() || self.is_of_packet(word) {
            true => None,
            false => self.place_of(word),
        }
    }

    /// Returns true if a word depends on the device of the current packet.
    fn is_of_packet(&self, word: Word) -> bool {
        self.view.is_some()
            && match word {
                Word::Invocation(at) => sight_of(at).is_some(),
                Word::View(_) | Word::Count(_) => true,
                Word::Question(_) => false,
            }
    }

    /// Selects the device of the packet with this index.
    pub(super) fn look_at_device(&mut self, at: Value) {
        if let Some(view) = self.view {
            let value = self.load_sight(at, packet_device::VIEW);
            self.b.def_var(view, value);
        }
    }

    /// Returns a word of the invocation for the device of the current packet.
    fn load_of_device(&mut self, at: i32) -> Value {
        match (self.view, sight_of(at)) {
            (Some(view), Some(packet_device::VIEW)) => self.b.use_var(view),
            (_, part) => {
                let at = self.at();
                self.load_sight(at, part.unwrap_or(packet_device::VIEW))
            }
        }
    }

    fn load_sight(&mut self, at: Value, part: i32) -> Value {
        let sights = self.load_constant(offset::SIGHTS);
        let behind = self.b.ins().ishl_imm(at, packet_device::SHIFT);
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

/// Returns the offset in a [`crate::abi::PacketDevice`] of the value that this word of the
/// invocation has for a segment.
fn sight_of(at: i32) -> Option<i32> {
    match at {
        offset::VIEW => Some(packet_device::VIEW),
        offset::FIRST_FLAGS => Some(packet_device::FIRST_FLAGS),
        offset::BUDGET => Some(packet_device::BUDGET),
        _ => None,
    }
}
