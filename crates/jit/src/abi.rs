//! How native code is entered, and what it sees: one [`Invocation`], whose first fields it reads and writes by their offsets.
//!
//! Native code gets nothing but a pointer to the invocation. What it may touch is behind the pointers at its front: the packet's limbs, its bytes,
//! the memory of what is emitted, and the parameters of the action that runs. It calls functions of [`crate::helpers`] for all else; those see the
//! invocation as Rust does.

pub(crate) mod frames;
mod outcome;
pub(crate) mod sight;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use bits::IdVec;
use exec::slots::Slot;
use exec::slots::call::ExternCall;
use exec::slots::header::{HeaderCopy, HeaderSite, Lookahead, StackSite};
use exec::slots::table::{Params, TableSite};
use exec::slots::wide::WideStep;
use exec::{
    BURST, Burst, Lot, PackedOutcome, PacketContext, ParserErrors, PassOutcome, RandomStream,
    Requests, State,
};
use ir::{ExternId, TableId};
use packet::{Frame, FrameError};

use crate::notes::RowList;
use crate::translate::{Arrival, ParsedNotes, PassUses, ScoutSite};
use crate::view::Marked;
use crate::{notes, view};
use frames::{Frames, Places};
pub(crate) use outcome::Outcome;
use sight::Sight;

/// A packet's run through one block, or a burst's through a pass. Native code knows the offsets of the fields that [`offset`] names.
///
/// It lies within a page: on a stack it would begin anywhere, and what writes two of its words across two pages has a burst take 60 cycles more. Whether any does would depend on who calls.
#[repr(C, align(512))]
pub(crate) struct Invocation<'i> {
    /// The first of the packet's limbs.
    limbs_at: *mut u64,
    /// The first of the packet's bytes.
    bytes_at: *const u8,
    /// How many bits these are.
    bits: u64,
    /// How many bytes in front of the first one may be written.
    headroom: u64,
    /// By how many bytes the packet begins behind the beginning of its frame, with [`flags::MOVED`].
    shift: i64,
    /// Bits that the parser has consumed.
    cursor: u64,
    /// Units of work left.
    work: u64,
    /// For a pass: those that each packet has.
    budget: u64,
    /// The memory of what is emitted, how many bits of it are, and how many there may be before it must grow.
    emitted_at: *mut u8,
    emitted: u64,
    emitted_room: u64,
    /// The parameters of the action that the last table chose.
    params_at: *const u64,
    /// For a pass: what [`crate::view`] says of the state, and the notes of its scout.
    view_at: *const u64,
    notes_at: *mut u64,
    /// Of what rows its scouts' answers list which: [`view::marks`].
    rows_wanted: u64,
    /// For a pass: the time.
    nanos: u64,
    micros: u64,
    /// For a pass: the frames of its packets, how many packets there are, which of them is at hand, and where their outcomes go.
    frames: Frames<'i>,
    count: u64,
    at: u64,
    outcomes_at: *mut PackedOutcome,
    /// What has become of the context since the packet at hand began, and what it was then: [`flags`].
    flags: u64,
    first_flags: u64,
    /// Of [`Arrival::Mixed`], what native code sees of the device of each packet.
    sights_at: *const Sight,
    /// For a pass, what helpers need: ports that are busy.
    busy_ports: &'i [u32],
    /// What a packet's random numbers depend on, beside its place in the burst: the device's seed and the number that its packet would have at the first
    /// place, modulo 2^64.
    chance: (u64, u64),
    uses: PassUses,
    /// The lots that follow, those that are meant, and whether there are several, 0 if not.
    lots: Parts<'i>,
    turn: Turn,
    are_many: u64,
    /// What is marked of any lot's state.
    marked: Marked,
    /// What native code sees of the devices of [`Arrival::Mixed`], none of others; all lots, and which of them helpers see if there are sights.
    sights: &'i [Sight],
    seen: &'i [Lot<'i>],
    lot: u32,
    /// The same for helpers.
    pub(crate) params: Params<'i>,
    pub(crate) limbs: &'i mut [u64],
    pub(crate) packet: &'i mut PacketContext,
    state: &'i State,
    pub(crate) code: &'i Code,
}

// Its size is a multiple of its alignment, and a page one of that.
const _: () = assert!(size_of::<Invocation<'_>>() == 512);

/// Packets from which on a scout goes before.
pub(crate) const WORTH_SCOUTING: usize = 4;

/// What has become of the context since the packet at hand began. A pass begins its packets without it, since few need it whole.
pub(crate) mod flags {
    /// It is this packet's: [`super::Invocation::begin`].
    pub(crate) const BEGUN: u64 = 1;
    /// It holds the packet's frame: [`super::Invocation::hold`].
    pub(crate) const HELD: u64 = 2;
    /// The program may have asked or told something.
    pub(crate) const ASKED: u64 = 4;
    /// The packet begins elsewhere than its frame does: [`super::Invocation::frame`].
    pub(crate) const MOVED: u64 = 16;
    /// Packets note the use of entries of some table. It is so of all packets of a lot.
    pub(crate) const NOTES_USE: u64 = 32;
    /// The queues of some port are not free. It is so of all packets of a lot.
    pub(crate) const ANY_BUSY: u64 = 64;
    /// Scouts go behind the first one, which notes for them what it has parsed. It is so of all packets of a lot.
    pub(crate) const SEVERAL_SCOUTS: u64 = 128;
}

/// Where native code finds the fields of an [`Invocation`].
pub(crate) mod offset {
    use super::Invocation;
    use std::mem::offset_of;

    pub(crate) const LIMBS: i32 = offset_of!(Invocation<'_>, limbs_at) as i32;
    pub(crate) const BYTES: i32 = offset_of!(Invocation<'_>, bytes_at) as i32;
    pub(crate) const BITS: i32 = offset_of!(Invocation<'_>, bits) as i32;
    pub(crate) const HEADROOM: i32 = offset_of!(Invocation<'_>, headroom) as i32;
    pub(crate) const SHIFT: i32 = offset_of!(Invocation<'_>, shift) as i32;
    pub(crate) const CURSOR: i32 = offset_of!(Invocation<'_>, cursor) as i32;
    pub(crate) const WORK: i32 = offset_of!(Invocation<'_>, work) as i32;
    pub(crate) const BUDGET: i32 = offset_of!(Invocation<'_>, budget) as i32;
    pub(crate) const EMITTED_AT: i32 = offset_of!(Invocation<'_>, emitted_at) as i32;
    pub(crate) const EMITTED: i32 = offset_of!(Invocation<'_>, emitted) as i32;
    pub(crate) const EMITTED_ROOM: i32 = offset_of!(Invocation<'_>, emitted_room) as i32;
    pub(crate) const NANOS: i32 = offset_of!(Invocation<'_>, nanos) as i32;
    pub(crate) const MICROS: i32 = offset_of!(Invocation<'_>, micros) as i32;
    pub(crate) const FRAMES: i32 = offset_of!(Invocation<'_>, frames.first) as i32;
    pub(crate) const COUNT: i32 = offset_of!(Invocation<'_>, count) as i32;
    pub(crate) const AT: i32 = offset_of!(Invocation<'_>, at) as i32;
    pub(crate) const OUTCOMES: i32 = offset_of!(Invocation<'_>, outcomes_at) as i32;
    pub(crate) const FLAGS: i32 = offset_of!(Invocation<'_>, flags) as i32;
    pub(crate) const FIRST_FLAGS: i32 = offset_of!(Invocation<'_>, first_flags) as i32;
    pub(crate) const SIGHTS: i32 = offset_of!(Invocation<'_>, sights_at) as i32;
    pub(crate) const NOTES: i32 = offset_of!(Invocation<'_>, notes_at) as i32;
    pub(crate) const ROWS_WANTED: i32 = offset_of!(Invocation<'_>, rows_wanted) as i32;
    pub(crate) const VIEW: i32 = offset_of!(Invocation<'_>, view_at) as i32;
    pub(crate) const ARE_MANY: i32 = offset_of!(Invocation<'_>, are_many) as i32;
    pub(crate) const PARAMS: i32 = offset_of!(Invocation<'_>, params_at) as i32;

    /// What [`Invocation::take_up`] writes for each lot, of all that native code otherwise finds as it was.
    pub(crate) const OF_LOT: [i32; 4] = [COUNT, VIEW, FIRST_FLAGS, BUDGET];
}

/// What helpers need to know of the program; native code names its elements by their positions.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) tables: IdVec<TableId, TableSite>,
    pub(crate) headers: Vec<HeaderSite>,
    pub(crate) stacks: Vec<StackSite>,
    pub(crate) lookaheads: Vec<Lookahead>,
    pub(crate) header_copies: Vec<HeaderCopy>,
    pub(crate) calls: Vec<ExternCall>,
    pub(crate) wides: Vec<WideStep>,
    pub(crate) scouts: Vec<ScoutSite>,
    /// What the first of several scouts notes for the others.
    pub(crate) parsed: Option<ParsedNotes>,
    pub(crate) constants: Vec<Box<[u64]>>,
    /// Where its scouts' answers list what the pass will read.
    pub(crate) rows: RowList,
    /// Tables whose keys native code looks up in hash tables, if they have no direct index, and limbs of their packed keys.
    pub(crate) hashed_tables: BTreeMap<TableId, usize>,
    /// Tables whose keys native code looks up in tries, where no scout has asked.
    pub(crate) trie_tables: BTreeSet<TableId>,
    /// Tables in whose direct index native code looks without asking whether there is one, and the number of the last slot that it may look at by itself.
    pub(crate) direct_tables: BTreeMap<TableId, u64>,
    /// Counters of which native code writes cells without asking whether they are there, and how many there must be.
    pub(crate) full_counters: BTreeMap<ExternId, u64>,
    /// Tables whose records native code reads, the default action's at least; and those of which it reads what entries have.
    pub(crate) recorded_tables: BTreeSet<TableId>,
    pub(crate) tables_read: BTreeSet<TableId>,
    pub(crate) errors: ParserErrors,
    /// Where a record is put together of what is not told in one; in front of it there is room for what a first record has there.
    pub(crate) settled: Slot,
    /// The first slot of the scratch of wide operations.
    pub(crate) wide_scratch: Slot,
    /// Limbs of frame and scratch together.
    pub(crate) limbs: usize,
    /// Whether a pass may leave a packet's beginning elsewhere than its frame's.
    pub(crate) may_move: bool,
}

impl Code {
    /// Whether packets' keys may be looked up by the table: otherwise native code always does that itself. A table that may be of few rules counts too, since only a state
    /// tells how many it has.
    pub(crate) fn is_searched(&self, table: TableId) -> bool {
        !self.hashed_tables.contains_key(&table) && !self.direct_tables.contains_key(&table)
    }

    /// The levels on which scouts have something to ask, of some state.
    pub(crate) fn scout_levels(&self) -> BTreeSet<usize> {
        let asked = self.scouts.iter().filter(|site| !site.is_direct());
        asked.map(|site| site.level).collect()
    }

    /// Whether what is derived of a state for this ([`view`]), and a context that has room for it, do for the other one, too.
    pub(crate) fn sees_as(&self, other: &Code) -> bool {
        self.limbs == other.limbs
            && self.scouts == other.scouts
            && self.parsed.as_ref().map(|parsed| parsed.level)
                == other.parsed.as_ref().map(|parsed| parsed.level)
            && self.hashed_tables == other.hashed_tables
            && self.trie_tables == other.trie_tables
            && self.direct_tables == other.direct_tables
            && self.full_counters == other.full_counters
            && self.recorded_tables == other.recorded_tables
            && self.tables_read == other.tables_read
    }

    /// The word behind the notes of all sites.
    pub(crate) fn end_of_scouts(&self) -> usize {
        let last = self.scouts.last();
        last.map_or(0, |site| site.first + site.words())
    }

    /// Whether it calls functions of the host.
    pub(crate) fn calls_natives(&self) -> bool {
        self.calls.iter().any(ExternCall::is_native)
    }
}

/// A function that was compiled.
pub(crate) type Native = unsafe extern "C" fn(&mut Invocation<'_>) -> u64;

/// No cursor of a packet is behind this, so that native code adds the bits of a header without overflow.
const MAX_CURSOR: usize = 1 << 48;

/// Runs a compiled parser or control of `code` on a packet.
pub(crate) fn run(
    native: Native,
    packet: &mut PacketContext,
    state: &State,
    code: &Code,
) -> Outcome {
    let mut limbs = std::mem::take(&mut packet.limbs);
    packet.cursor = packet.cursor.min(MAX_CURSOR);
    let mut invocation = Invocation::new(&mut limbs, packet, state, code);
    invocation.flags = flags::BEGUN | flags::HELD;
    invocation.cursor = invocation.packet.cursor as u64;
    invocation.work = invocation.packet.work_left.into();
    invocation.show_bytes();
    let number = enter(native, &mut invocation);
    invocation.take_back();
    packet.atomic.leave_all(&state.atomic);
    packet.limbs = limbs;
    Outcome::of(number)
}

/// A compiled scout of a pass.
#[derive(Clone, Copy)]
pub(crate) struct Scout {
    pub(crate) level: usize,
    /// Writes down questions.
    pub(crate) asks: Native,
    /// Answer those about hash tables, if there are any: from first lines, and from second ones.
    pub(crate) answers: Option<[Native; 2]>,
}

/// A compiled pass.
pub(crate) struct NativePass {
    pub(crate) run: Native,
    /// What goes before, in the order of levels, if it is worth it.
    pub(crate) scouts: Vec<Scout>,
    pub(crate) uses: PassUses,
    /// Which packets its functions take.
    pub(crate) arrival: Arrival,
}

/// Runs a compiled pass of `code` on a burst; how many packets have an outcome.
pub(crate) fn run_pass(
    pass: &NativePass,
    burst: &mut Burst<'_>,
    packet: &mut PacketContext,
    code: &Code,
) -> usize {
    let count = burst.order.len().min(burst.outcomes.len()).min(BURST);
    let (lots, Some(first)) = (burst.lots, burst.lots.first()) else {
        return 0;
    };
    let are_many = lots.len() > 1;
    let marked = Marked::of_any(lots);
    let mut room = [const { MaybeUninit::uninit() }; BURST];
    let sights = match pass.arrival {
        Arrival::InRuns => &[],
        Arrival::Mixed => sight::of_packets(lots, count, marked, &mut room),
    };
    let mut places: Places = [const { MaybeUninit::uninit() }; BURST + 1];
    let frames = Frames::of(burst.frames, burst.order, &mut places, count);
    let mut notes = std::mem::take(&mut packet.notes);
    notes::clear(code, &mut notes, count, marked.looked_at());
    let mut limbs = std::mem::take(&mut packet.limbs);
    packet.now = burst.now;
    let mut invocation = Invocation {
        notes_at: notes.as_mut_ptr(),
        rows_wanted: view::marks::wanted(are_many),
        nanos: burst.now.0,
        micros: burst.now.as_micros(),
        outcomes_at: burst.outcomes.as_mut_ptr(),
        frames,
        uses: pass.uses,
        are_many: are_many.into(),
        marked,
        sights_at: sights.as_ptr(),
        sights,
        seen: lots,
        ..Invocation::new(&mut limbs, packet, first.state(), code)
    };
    if count >= WORTH_SCOUTING {
        for &scout in &pass.scouts {
            invocation.scout(scout, lots, count, &mut notes);
        }
    }
    let done = invocation.go_through(pass.run, lots, count, burst.outcomes);
    packet.notes = notes;
    packet.limbs = limbs;
    done
}

/// The packets of each lot, of so many packets.
fn parts<'l>(lots: &'l [Lot<'l>], count: usize) -> Parts<'l> {
    Parts {
        lots: lots.iter(),
        end: 0,
        count,
    }
}

/// [`parts`].
struct Parts<'l> {
    lots: std::slice::Iter<'l, Lot<'l>>,
    end: usize,
    count: usize,
}

impl<'l> Iterator for Parts<'l> {
    type Item = (&'l Lot<'l>, Range<usize>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let lot = self.lots.next()?;
            let begin = self.end;
            self.end = self.count.min(begin + lot.frames);
            if begin < self.end {
                return Some((lot, begin..self.end));
            }
        }
    }
}

/// Whose lots native code goes through.
#[derive(Clone, Copy)]
enum Turn {
    /// The pass: through all of them.
    Pass,
    /// A function of the scout of this level: through those that have something to ask there.
    Scout(usize),
}

impl<'i> Invocation<'i> {
    /// Native code sees the packets of a lot.
    #[inline]
    fn take_up(&mut self, lot: &'i Lot<'i>, packets: &Range<usize>) {
        self.view_at = view::of_lot(lot);
        let marked = Marked::of(&lot.owner.derived);
        self.first_flags = sight::first_flags(lot, marked.are_several_scouted(self.are_many != 0));
        self.budget = lot.owner.work.units().into();
        self.see(lot, packets.start);
        (self.at, self.count) = (packets.start as u64, packets.end as u64);
    }

    /// Helpers see the device of a lot whose first packet is this one.
    #[inline]
    fn see(&mut self, lot: &'i Lot<'i>, begin: usize) {
        let owner = lot.owner;
        self.busy_ports = &owner.busy_ports;
        self.chance = (owner.seed, lot.first_packet.wrapping_sub(begin as u64));
        self.state = lot.state();
        self.packet.lane = owner.lane;
    }

    /// Helpers see the device of the packet at hand.
    #[inline]
    fn look(&mut self) {
        let sight = self.sights.get(self.at as usize);
        if let Some(&Sight { lot, begin, .. }) = sight
            && lot != self.lot
        {
            self.look_at(lot, begin);
        }
    }

    fn look_at(&mut self, number: u32, begin: u32) {
        if let Some(lot) = self.seen.get(number as usize) {
            self.packet.atomic.leave_all(&self.state.atomic);
            self.see(lot, begin as usize);
            self.lot = number;
        }
    }

    /// The state that the packet at hand sees.
    #[inline]
    pub(crate) fn state(&mut self) -> &'i State {
        self.look();
        self.state
    }

    /// The ports of the packet's device that are busy.
    pub(crate) fn busy_ports(&mut self) -> &'i [u32] {
        self.look();
        self.busy_ports
    }

    /// Native code sees the packets of the next lot that is meant; whether there is one.
    #[inline]
    pub(crate) fn take_up_next(&mut self) -> bool {
        let (turn, are_many) = (self.turn, self.are_many != 0);
        let is_meant = |lot: &Lot<'_>| match turn {
            Turn::Pass => true,
            Turn::Scout(level) => Marked::of(&lot.owner.derived).is_scouted(level, are_many),
        };
        let Some((lot, packets)) = self.lots.find(|(lot, _)| is_meant(lot)) else {
            return false;
        };
        self.packet.atomic.leave_all(&self.state.atomic);
        self.take_up(lot, &packets);
        true
    }

    /// Has native code go through lots, or through all packets where each may be another lot's; whether any are meant.
    #[inline]
    fn begin_turn(&mut self, turn: Turn, lots: &'i [Lot<'i>], count: usize) -> bool {
        if !self.sights.is_empty() {
            (self.at, self.count) = (0, self.sights.len() as u64);
            return match turn {
                Turn::Pass => true,
                Turn::Scout(level) => self.marked.is_scouted(level, self.are_many != 0),
            };
        }
        self.turn = turn;
        self.lots = parts(lots, count);
        self.take_up_next()
    }

    /// Runs the scout of a level on so many packets, and answers what it asks: for all lots together, so that they wait for memory together.
    fn scout(&mut self, scout: Scout, lots: &'i [Lot<'i>], count: usize, notes: &mut [u64]) {
        let Scout { level, .. } = scout;
        let are_many = lots.len() > 1;
        let asks = |lot: &Lot<'_>| Marked::of(&lot.owner.derived).is_scouted(level, are_many);
        self.show_notes(notes);
        if self.begin_turn(Turn::Scout(level), lots, count) {
            enter(scout.asks, self);
        }
        let code = self.code;
        let sites = || code.scouts.iter().filter(|site| site.is_searched_on(level));
        if let Some([first, second]) = scout.answers {
            let is_far = self.marked.asks_in_memory(level);
            notes::end_questions(code, level, notes, is_far);
            self.show_notes(notes);
            self.answer_all(first, level, lots, count);
            if notes::end_first_lines(code, level, notes, is_far) {
                self.show_notes(notes);
                self.answer_all(second, level, lots, count);
            }
            read_ahead(code.rows.take(notes));
        }
        // Of many lots each would be looked at for nothing.
        if sites().next().is_none() {
            return self.show_notes(notes);
        }
        if !self.sights.is_empty() {
            let sights = self.sights;
            let lot_of = |packet: usize| lots.get(sights.get(packet)?.lot as usize);
            sites().for_each(|site| notes::answer_mixed(site, notes, count, lot_of));
            return self.show_notes(notes);
        }
        if are_many {
            for (lot, packets) in parts(lots, count) {
                if asks(lot) {
                    sites().for_each(|site| {
                        notes::announce(site, notes, packets.clone(), lot.state())
                    });
                }
            }
        }
        for (lot, packets) in parts(lots, count) {
            if asks(lot) {
                sites().for_each(|site| notes::answer(site, notes, packets.clone(), lot, are_many));
            }
        }
        self.show_notes(notes);
    }

    /// Runs a function that answers for each lot that has something to ask on its level.
    fn answer_all(&mut self, native: Native, level: usize, lots: &'i [Lot<'i>], count: usize) {
        let mut goes_on = self.begin_turn(Turn::Scout(level), lots, count);
        while goes_on {
            enter(native, self);
            goes_on = self.take_up_next();
        }
    }

    /// Native code sees the notes, which Rust had in hand: a pointer from before that is not to be used any more.
    fn show_notes(&mut self, notes: &mut [u64]) {
        self.notes_at = notes.as_mut_ptr();
    }

    /// Runs the pass on so many packets, until one leaves it or tells something: no other may follow before the device has seen to it. How many have an
    /// outcome.
    fn go_through(
        &mut self,
        native: Native,
        lots: &'i [Lot<'i>],
        count: usize,
        outcomes: &[PackedOutcome],
    ) -> usize {
        if !self.begin_turn(Turn::Pass, lots, count) {
            return 0;
        }
        let done = enter(native, self) as usize;
        assert!(
            0 < done && done <= count,
            "not as many packets are done as there were"
        );
        self.at = done as u64 - 1;
        self.look();
        let has_left = matches!(outcomes[done - 1].unpack(), PassOutcome::Left { .. });
        if has_left {
            self.leave();
        }
        self.packet.atomic.leave_all(&self.state.atomic);
        done
    }
}

/// The number that a compiled function of the invocation's code returns.
fn enter(native: Native, invocation: &mut Invocation<'_>) -> u64 {
    assert!(
        invocation.limbs.len() >= invocation.code.limbs,
        "a context of another program"
    );
    // What native code touches by pointers is behind those at the front of the invocation: slots below `code.limbs`, which are there as was asserted; bytes of the
    // packet below `bits` and `headroom` bytes in front of them, both compared before; emitted bits below `emitted_room` and eight bytes behind; parameters as many
    // as the table's action has, as `TableSite::apply` made sure; of a burst `count` frames, where its places say, the bytes of which no helper moves but by `show_bytes`, and of
    // which it changes where they begin and how long they are, after it has compared both with `headroom` and with the longest frame; and as many outcomes, and of mixed packets as many sights, whose lots' words these are. Of each table the slots of a direct index, which a key of bits that are not outside is below the last of, or as many as `view::make` has
    // found there to be where native code does not ask; the slots of a trie, none behind the last one, and the lines of its nodes that targets lead to, which `view::make` has found there to be, and of which a node has one, or four by six bits; the lines of a hash table, of which a hash names none behind the last one, and which no lot's scout, nor its answers, write
    // down but for its own state; the records and counts of what a lookup found there, which `view::make` has seen to have what the code's layouts say, the limbs in front of the first record among that. Of each
    // counter cells below their number; and the notes of `code`'s scouts, which `notes::clear` has made long enough, and which stay where they are from the first scout on, since who asks is noted as a place there: answers are read
    // there where it clears them (`view::Marked::looked_at`), and what was parsed where the first scout has gone before, as it does for each lot that any scout asks for (`view::levels`).
    //
    // What it prefetches may be anywhere: that touches nothing.
    //
    // SAFETY: the function was compiled from a verified program for this `code`, and touches no more than that.
    unsafe { native(invocation) }
}

/// Loads from the rows of these numbers, as far as there are any, so that they are near when native code reads them. A load waits until the processor can have
/// one more miss under way; of what it is asked to prefetch, more than that at once, it may forget some. With loads a packet of 100,000 sessions, each with its
/// counter, took half of the cycles that it took with prefetches (docs/PERFORMANCE.md).
#[inline]
pub(crate) fn load_rows(rows: &view::Rows, numbers: &[u64]) {
    let mut seen = 0;
    // Rows are laid out so that none is in more lines than it must be.
    for behind in (0..rows.stride()).step_by(LINE) {
        for &number in numbers {
            if let Some(row) = rows.at(number) {
                // SAFETY: the row is one of those that `view::make` has found there in the state of the burst's lot, as `view::entries` made sure.
                seen ^= unsafe { first_word(row + behind) };
            }
        }
    }
    std::hint::black_box(seen);
}

/// The word in which a row begins, or a line of it: several small rows share one.
///
/// # Safety
///
/// The row is a record, or of what is counted or noted of entries, or a line of a hash table, in a state that lives.
#[inline(always)]
unsafe fn first_word(row: usize) -> u64 {
    let word = row & !(align_of::<AtomicU64>() - 1);
    let word = std::ptr::with_exposed_provenance_mut(word);
    // SAFETY: rows of a kind are whole words altogether, the first of which begins with the first row, and so are lines; they live as long as their state. Others write cells by atomic
    // stores alone, and records and keys not at all while the state is held. Nothing is written by this pointer, which is read once.
    unsafe { AtomicU64::from_ptr(word) }.load(Ordering::Relaxed)
}

/// Loads from lines of hash tables that scouts, or the answers from first lines, have written down, or rows that answers have listed: as in [`load_rows`]. It is so with many lots too, since they all
/// have been asked before.
pub(crate) fn read_ahead(places: &[u64]) {
    let mut seen = 0;
    for &place in places {
        // SAFETY: native code writes down lines of its lot's hash tables alone, which begin with a key that nobody changes while they are shown, and rows of numbers alone
        // that a lookup in the lot's state has given, of which the state has a record and all that its marks say to be there (`enter`).
        seen ^= unsafe { first_word(place as usize) };
    }
    std::hint::black_box(seen);
}

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

impl<'i> Invocation<'i> {
    /// An invocation with nothing in it but the context's memory.
    fn new(
        limbs: &'i mut [u64],
        packet: &'i mut PacketContext,
        state: &'i State,
        code: &'i Code,
    ) -> Invocation<'i> {
        let mut invocation = Invocation {
            limbs_at: limbs.as_mut_ptr(),
            bytes_at: std::ptr::null(),
            bits: 0,
            headroom: 0,
            shift: 0,
            cursor: 0,
            work: 0,
            budget: 0,
            emitted_at: std::ptr::null_mut(),
            emitted: 0,
            emitted_room: 0,
            params_at: std::ptr::null(),
            view_at: std::ptr::null(),
            notes_at: std::ptr::null_mut(),
            rows_wanted: 0,
            nanos: 0,
            micros: 0,
            frames: Frames::NONE,
            count: 0,
            at: 0,
            outcomes_at: std::ptr::null_mut(),
            flags: 0,
            first_flags: 0,
            sights_at: std::ptr::null(),
            busy_ports: &[],
            chance: (0, 0),
            uses: PassUses::default(),
            lots: parts(&[], 0),
            turn: Turn::Pass,
            are_many: 0,
            marked: Marked::default(),
            sights: &[],
            seen: &[],
            // Helpers have seen none.
            lot: u32::MAX,
            params: Params::Of(&[]),
            limbs,
            packet,
            state,
            code,
        };
        invocation.show_emitted();
        invocation
    }
}

impl Invocation<'_> {
    /// The context becomes that of the packet at hand: its length, its random numbers, its requests.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if !self.has_begun() {
            self.begin_context();
        }
    }

    fn begin_context(&mut self) {
        self.flags |= flags::BEGUN;
        self.packet.length = self.frame().len() as u32;
        self.packet.begin_block();
        if self.uses.may_draw {
            self.begin_random();
        }
        if self.uses.may_request {
            self.packet.requests = Requests::default();
        }
        if self.uses.has_checksums {
            self.packet.clear_checksums();
        }
    }

    fn begin_random(&mut self) {
        self.look();
        let (seed, first) = self.chance;
        self.packet.random = RandomStream::new(seed, first.wrapping_add(self.at));
    }

    /// The packet's frame, wherever it is; it begins where the packet does.
    pub(crate) fn frame(&mut self) -> &mut Frame {
        let (has_moved, shift) = (self.flags & flags::MOVED != 0, self.shift);
        self.flags &= !flags::MOVED;
        let is_elsewhere = self.flags & flags::HELD == 0;
        let frame = match self.frames.at(self.at) {
            Some(frame) if is_elsewhere => frame,
            _ => &mut self.packet.bytes,
        };
        if has_moved {
            // Native code has seen that there is room.
            let is_there = frame.move_front(shift as isize);
            debug_assert!(is_there);
        }
        frame
    }

    /// The packet becomes what was emitted, followed by what was not parsed, as far as its program has not asked for less.
    ///
    /// # Errors
    /// It would be too long.
    pub(crate) fn finish_deparse(&mut self) -> Result<(), FrameError> {
        self.frame();
        let truncated = self.requests().and_then(|requests| requests.truncate);
        let is_elsewhere = self.flags & flags::HELD == 0;
        let frame = self.frames.at(self.at);
        match frame.filter(|_| is_elsewhere) {
            Some(frame) => self.packet.finish_deparse_of(frame),
            None => self.packet.finish_deparse(),
        }?;
        if let Some(length) = truncated {
            self.frame().truncate(length as usize);
        }
        Ok(())
    }

    /// The context holds the packet's frame. Its bytes stay where they are.
    pub(crate) fn hold(&mut self) {
        self.frame();
        if self.flags & flags::HELD == 0 {
            self.flags |= flags::HELD;
            self.swap_frame();
            // Native code asks the burst's frame for it until the packet is through.
            let ingress = self.packet.bytes.ingress;
            if let Some(frame) = self.frames.at(self.at) {
                frame.ingress = ingress;
            }
        }
    }

    fn swap_frame(&mut self) {
        if let Some(frame) = self.frames.at(self.at) {
            std::mem::swap(&mut self.packet.bytes, frame);
        }
    }

    /// The program asks or tells something by what it calls next.
    pub(crate) fn note_asking(&mut self) {
        self.flags |= flags::ASKED;
    }

    /// Whether the program may have asked or told something.
    pub(crate) fn may_have_asked(&self) -> bool {
        self.flags & flags::ASKED != 0
    }

    /// Whether the context is that of the packet at hand.
    pub(crate) fn has_begun(&self) -> bool {
        self.flags & flags::BEGUN != 0
    }

    /// What the packet has asked, if it may have asked anything.
    pub(crate) fn requests(&self) -> Option<&Requests> {
        (self.has_begun() && self.uses.may_request).then_some(&self.packet.requests)
    }

    /// The packet at hand has an outcome and is still in its pass: its frame goes back to the others. Whether the device must see what it told.
    pub(crate) fn end_packet(&mut self) -> bool {
        self.frame();
        if self.flags & flags::HELD != 0 {
            self.swap_frame();
        }
        let stops = self.may_have_asked() && self.packet.has_told();
        self.flags = 0;
        stops
    }

    /// The packet at hand has left its pass: all that is known of it is in the context.
    fn leave(&mut self) {
        self.begin();
        self.hold();
        if !self.uses.may_draw {
            self.begin_random();
        }
        if !self.uses.may_request {
            self.packet.requests = Requests::default();
        }
        self.packet.begin_block();
        self.take_back();
    }
}

impl Invocation<'_> {
    /// The packet gets what native code has changed.
    pub(crate) fn take_back(&mut self) {
        self.packet.cursor = self.cursor as usize;
        self.packet.work_left = self.work as u32;
        self.packet.emitted.set_bits(self.emitted as usize);
    }

    /// Native code sees where the packet's cursor is now.
    pub(crate) fn show_cursor(&mut self) {
        self.cursor = self.packet.cursor as u64;
    }

    /// Native code sees how much work is left.
    pub(crate) fn show_work(&mut self) {
        self.work = self.packet.work_left.into();
    }

    /// Native code sees the packet's bytes as they are now.
    pub(crate) fn show_bytes(&mut self) {
        let frame = self.frame();
        let bits = frame.len() as u64 * 8;
        let (buffer, start) = frame.storage_mut();
        self.bytes_at = buffer.as_ptr().wrapping_add(start);
        (self.bits, self.headroom) = (bits, start as u64);
    }

    /// Native code sees what is emitted now.
    pub(crate) fn show_emitted(&mut self) {
        self.emitted = self.packet.emitted.bits() as u64;
        let (memory, room) = self.packet.emitted.storage();
        self.emitted_at = memory.as_mut_ptr();
        // What is longer than a frame is for helpers, which tell that it is.
        self.emitted_room = room.min(packet::MAX_FRAME * 8) as u64;
    }
}

impl<'i> Invocation<'i> {
    /// Native code sees the parameters of an action.
    pub(crate) fn show_params(&mut self, params: Params<'i>) {
        self.params = params;
        self.params_at = params.limbs(&self.packet.learned_params).as_ptr();
    }
}

/// A table's outcome as native code sees it: the position of the action that runs, or [`NO_ACTION`], and above it whether the table was hit.
pub(crate) fn applied_number(position: Option<u32>, hit: bool) -> u64 {
    u64::from(hit) << 32 | position.map_or(NO_ACTION, u64::from)
}

/// The position of no action.
pub(crate) const NO_ACTION: u64 = u32::MAX as u64;
