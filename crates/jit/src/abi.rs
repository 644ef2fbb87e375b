//! Interface between Rust and native code. Native code is entered with one [`Invocation`]. It reads
//! and writes the first fields of that structure by their offsets.
//!
//! The only argument of native code is a pointer to the invocation. Native code reaches these
//! regions through the pointers at its front: the packet's limbs, its bytes, the buffer of emitted
//! bits, and the parameters of the running action. For everything else it calls functions of
//! [`crate::helpers`], which use the invocation as a Rust structure.

pub(crate) mod frames;
mod outcome;
pub(crate) mod packet_device;

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
    BURST, Burst, BurstSegment, PackedOutcome, PacketContext, ParserErrors, PassOutcome,
    RandomStream, Requests, State,
};
use ir::{ExternId, TableId};
use packet::{Frame, FrameError};

use crate::lookup_buffer::RowAddresses;
use crate::translate::{BurstLayout, FastPathUses, ParsedFields, PrefetchSite, RegisterShape};
use crate::view::Marked;
use crate::{lookup_buffer, view};
use frames::{Frames, Places};
pub(crate) use outcome::Outcome;
use packet_device::PacketDevice;

/// Arguments and results of one call into native code: a packet in one parser or control, or a
/// burst on the fast path. Native code knows the offsets of the fields that [`offset`] names.
///
/// The alignment keeps the structure within one page. On the stack it could start at any address,
/// and two words written across a page boundary cost 60 cycles per burst. Whether that happened
/// would depend on the caller.
#[repr(C, align(512))]
pub(crate) struct Invocation<'i> {
    /// Address of the packet's first limb.
    limbs_at: *mut u64,
    /// Address of the packet's first byte.
    bytes_at: *const u8,
    /// Length of the packet in bits.
    bits: u64,
    /// Number of bytes before the first one that may be written.
    headroom: u64,
    /// Distance in bytes from the start of the frame to the start of the packet. Valid with
    /// [`flags::MOVED`].
    shift: i64,
    /// Number of bits that the parser has consumed.
    cursor: u64,
    /// Units of work that are left.
    work: u64,
    /// For the fast path: the work budget of each packet.
    budget: u64,
    /// Buffer of emitted bits: its address, the number of bits in it, and its capacity in bits.
    emitted_at: *mut u8,
    emitted: u64,
    emitted_room: u64,
    /// Parameters of the action that the last table selected.
    params_at: *const u64,
    /// For the fast path: the words that [`crate::view`] derives from the state, and the lookup
    /// buffer of its prefetch passes.
    view_at: *const u64,
    notes_at: *mut u64,
    /// Mask that selects the rows which the lookup results list for prefetching: [`view::marks`].
    rows_wanted: u64,
    /// For the fast path: the current time.
    nanos: u64,
    micros: u64,
    /// For the fast path: the frames of the burst, the number of packets, the index of the current
    /// packet, and the outcomes.
    frames: Frames<'i>,
    count: u64,
    at: u64,
    outcomes_at: *mut PackedOutcome,
    /// Changes of the context since the current packet began, and their initial value: [`flags`].
    flags: u64,
    first_flags: u64,
    /// For [`BurstLayout::Interleaved`], the device of each packet.
    sights_at: *const PacketDevice,
    /// For helpers on the fast path: the busy ports.
    busy_ports: &'i [u32],
    /// Inputs of a packet's random numbers, apart from its index in the burst. They are the
    /// device's seed and the number that a packet at index 0 would have, modulo 2^64.
    chance: (u64, u64),
    uses: FastPathUses,
    /// The remaining burst segments, the function that walks them, and 1 if there are several
    /// segments, else 0.
    lots: Parts<'i>,
    turn: Turn,
    are_many: u64,
    /// Marks of the states of all segments, combined.
    marked: Marked,
    /// Packet devices of [`BurstLayout::Interleaved`], empty otherwise. Then all segments, and the
    /// index of the one that helpers see if there are packet devices.
    sights: &'i [PacketDevice],
    seen: &'i [BurstSegment<'i>],
    lot: u32,
    /// Parameters of the running action, for helpers.
    pub(crate) params: Params<'i>,
    pub(crate) limbs: &'i mut [u64],
    pub(crate) packet: &'i mut PacketContext,
    state: &'i State,
    pub(crate) code: &'i Code,
}

// Its size is equal to its alignment, which divides the size of a page. So it never crosses a page
// boundary.
const _: () = assert!(size_of::<Invocation<'_>>() == 512);

/// Minimum number of packets in a burst for which prefetch passes run.
pub(crate) const WORTH_SCOUTING: usize = 4;

/// Changes of the context since the current packet began. The fast path starts packets without a
/// prepared context, since few packets need one.
pub(crate) mod flags {
    /// The context belongs to this packet: [`super::Invocation::begin`].
    pub(crate) const BEGUN: u64 = 1;
    /// The context holds the packet's frame: [`super::Invocation::hold`].
    pub(crate) const HELD: u64 = 2;
    /// The program may have issued a request or a notification to the device.
    pub(crate) const ASKED: u64 = 4;
    /// The packet does not start where its frame starts: [`super::Invocation::frame`].
    pub(crate) const MOVED: u64 = 16;
    /// Packets record the use of entries of some table. The same for all packets of a segment.
    pub(crate) const NOTES_USE: u64 = 32;
    /// The queues of some port are not free. The same for all packets of a segment.
    pub(crate) const ANY_BUSY: u64 = 64;
    /// More prefetch passes follow the first one, which saves its parsed fields for them. The same
    /// for all packets of a segment.
    pub(crate) const SEVERAL_SCOUTS: u64 = 128;
}

/// Offsets of the fields of an [`Invocation`] that native code accesses.
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

    /// Offsets of the fields that [`Invocation::take_up`] writes for each segment. Native code may
    /// assume that all other fields stay unchanged.
    pub(crate) const OF_LOT: [i32; 4] = [COUNT, VIEW, FIRST_FLAGS, BUDGET];
}

/// Side tables for helpers, derived from the program. Native code names their elements by index.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) tables: IdVec<TableId, TableSite>,
    pub(crate) headers: Vec<HeaderSite>,
    pub(crate) stacks: Vec<StackSite>,
    pub(crate) lookaheads: Vec<Lookahead>,
    pub(crate) header_copies: Vec<HeaderCopy>,
    pub(crate) calls: Vec<ExternCall>,
    pub(crate) wides: Vec<WideStep>,
    pub(crate) scouts: Vec<PrefetchSite>,
    /// Layout of the fields that the first of several prefetch passes saves for the others.
    pub(crate) parsed: Option<ParsedFields>,
    pub(crate) constants: Vec<Box<[u64]>>,
    /// Position of the list of rows to prefetch in the lookup buffer.
    pub(crate) rows: RowAddresses,
    /// Tables that native code searches as hash tables, unless they have a direct index, with the
    /// number of limbs of their packed keys.
    pub(crate) hashed_tables: BTreeMap<TableId, usize>,
    /// Tables that native code searches as tries, for packets without a prefetched lookup.
    pub(crate) trie_tables: BTreeSet<TableId>,
    /// Tables that must have a direct index, with the last slot that native code may access. Native
    /// code does not check that the index exists.
    pub(crate) direct_tables: BTreeMap<TableId, u64>,
    /// Counters of which native code writes cells without a bounds check, with the number of cells
    /// that they must have.
    pub(crate) full_counters: BTreeMap<ExternId, u64>,
    /// Registers of which native code accesses cells, with the shape that they must have.
    pub(crate) registers: BTreeMap<ExternId, RegisterShape>,
    /// Tables of which native code reads records, at least the default action's, and those of which
    /// it reads entries' records.
    pub(crate) recorded_tables: BTreeSet<TableId>,
    pub(crate) tables_read: BTreeSet<TableId>,
    pub(crate) errors: ParserErrors,
    /// Scratch area in which a helper assembles a record that is not in the table, such as that of
    /// an action profile's member. The limbs before it hold the data that precede a first record.
    pub(crate) settled: Slot,
    /// First slot of the scratch area of wide operations.
    pub(crate) wide_scratch: Slot,
    /// Number of limbs of frame and scratch together.
    pub(crate) limbs: usize,
    /// True if the fast path may move a packet's start away from its frame's start.
    pub(crate) may_move: bool,
}

impl Code {
    /// Returns true if keys may be looked up by the table's own code. Returns false if native code
    /// always performs the lookup. A table that may be small counts as searched, since its size is
    /// known only with a state.
    pub(crate) fn is_searched(&self, table: TableId) -> bool {
        !self.hashed_tables.contains_key(&table) && !self.direct_tables.contains_key(&table)
    }

    /// Returns the schedule levels on which prefetch passes perform lookups for some state.
    pub(crate) fn scout_levels(&self) -> BTreeSet<usize> {
        let asked = self.scouts.iter().filter(|site| !site.is_direct());
        asked.map(|site| site.level).collect()
    }

    /// Returns true if the data derived from a state ([`view`]) and a context with enough room also
    /// serve the other code.
    pub(crate) fn sees_as(&self, other: &Code) -> bool {
        self.limbs == other.limbs
            && self.scouts == other.scouts
            && self.parsed.as_ref().map(|parsed| parsed.level)
                == other.parsed.as_ref().map(|parsed| parsed.level)
            && self.hashed_tables == other.hashed_tables
            && self.trie_tables == other.trie_tables
            && self.direct_tables == other.direct_tables
            && self.full_counters == other.full_counters
            && self.registers == other.registers
            && self.recorded_tables == other.recorded_tables
            && self.tables_read == other.tables_read
    }

    /// Returns the index of the first word after the lookup buffers of all sites.
    pub(crate) fn end_of_scouts(&self) -> usize {
        let last = self.scouts.last();
        last.map_or(0, |site| site.first + site.words())
    }

    /// Returns true if the code calls host functions.
    pub(crate) fn calls_natives(&self) -> bool {
        self.calls.iter().any(ExternCall::is_native)
    }
}

/// Compiled function.
pub(crate) type Native = unsafe extern "C" fn(&mut Invocation<'_>) -> u64;

/// Maximum cursor of a packet. Native code can add the bits of a header to it without overflow.
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

/// Compiled prefetch pass.
#[derive(Clone, Copy)]
pub(crate) struct PrefetchPass {
    pub(crate) level: usize,
    /// Function that writes the lookup keys.
    pub(crate) asks: Native,
    /// Lookup functions for hash tables, if there are any: one for the first lines of the keys, one
    /// for their second lines.
    pub(crate) answers: Option<[Native; 2]>,
}

/// Compiled fast path.
pub(crate) struct NativeFastPath {
    pub(crate) run: Native,
    /// Prefetch passes, ascending by level. They run only for bursts that are large enough.
    pub(crate) scouts: Vec<PrefetchPass>,
    pub(crate) uses: FastPathUses,
    /// Order of the packets that its functions process.
    pub(crate) arrival: BurstLayout,
}

/// Runs a compiled fast path of `code` on a burst. Returns the number of packets that have an
/// outcome.
pub(crate) fn run_pass(
    pass: &NativeFastPath,
    burst: &mut Burst<'_>,
    packet: &mut PacketContext,
    code: &Code,
) -> usize {
    let count = burst.order.len().min(burst.outcomes.len()).min(BURST);
    let (lots, Some(first)) = (burst.segments, burst.segments.first()) else {
        return 0;
    };
    let are_many = lots.len() > 1;
    let marked = Marked::of_any(lots);
    let mut room = [const { MaybeUninit::uninit() }; BURST];
    let sights = match pass.arrival {
        BurstLayout::Grouped => &[],
        BurstLayout::Interleaved => packet_device::of_packets(lots, count, marked, &mut room),
    };
    let mut places: Places = [const { MaybeUninit::uninit() }; BURST + 1];
    let frames = Frames::of(burst.frames, burst.order, &mut places, count);
    let mut notes = std::mem::take(&mut packet.notes);
    lookup_buffer::clear(code, &mut notes, count, marked.looked_at());
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

/// Returns the packet ranges of the segments, limited to `count` packets.
fn parts<'l>(lots: &'l [BurstSegment<'l>], count: usize) -> Parts<'l> {
    Parts {
        lots: lots.iter(),
        end: 0,
        count,
    }
}

/// Iterator of [`parts`].
struct Parts<'l> {
    lots: std::slice::Iter<'l, BurstSegment<'l>>,
    end: usize,
    count: usize,
}

impl<'l> Iterator for Parts<'l> {
    type Item = (&'l BurstSegment<'l>, Range<usize>);

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

/// Function that walks the segments of a burst.
#[derive(Clone, Copy)]
enum Turn {
    /// The fast path, over all segments.
    Pass,
    /// A function of the prefetch pass of this level, over the segments that have lookups there.
    Prefetch(usize),
}

impl<'i> Invocation<'i> {
    /// Sets the fields for the packets of a segment.
    #[inline]
    fn take_up(&mut self, lot: &'i BurstSegment<'i>, packets: &Range<usize>) {
        self.view_at = view::of_lot(lot);
        let marked = Marked::of(&lot.owner.derived);
        self.first_flags =
            packet_device::first_flags(lot, marked.are_several_scouted(self.are_many != 0));
        self.budget = lot.owner.work.units().into();
        self.see(lot, packets.start);
        (self.at, self.count) = (packets.start as u64, packets.end as u64);
    }

    /// Sets the fields that helpers read to the device of a segment, of which `begin` is the first
    /// packet.
    #[inline]
    fn see(&mut self, lot: &'i BurstSegment<'i>, begin: usize) {
        let owner = lot.owner;
        self.busy_ports = &owner.busy_ports;
        self.chance = (owner.seed, lot.first_packet.wrapping_sub(begin as u64));
        self.state = lot.state();
        self.packet.lane = owner.lane;
    }

    /// Sets the fields that helpers read to the device of the current packet.
    #[inline]
    fn look(&mut self) {
        let sight = self.sights.get(self.at as usize);
        if let Some(&PacketDevice { lot, begin, .. }) = sight
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

    /// Returns the state that the current packet uses.
    #[inline]
    pub(crate) fn state(&mut self) -> &'i State {
        self.look();
        self.state
    }

    /// Returns the busy ports of the packet's device.
    pub(crate) fn busy_ports(&mut self) -> &'i [u32] {
        self.look();
        self.busy_ports
    }

    /// Switches to the next segment of the current walk. Returns false if there is none.
    #[inline]
    pub(crate) fn take_up_next(&mut self) -> bool {
        let (turn, are_many) = (self.turn, self.are_many != 0);
        let is_meant = |lot: &BurstSegment<'_>| match turn {
            Turn::Pass => true,
            Turn::Prefetch(level) => Marked::of(&lot.owner.derived).is_scouted(level, are_many),
        };
        let Some((lot, packets)) = self.lots.find(|(lot, _)| is_meant(lot)) else {
            return false;
        };
        self.packet.atomic.leave_all(&self.state.atomic);
        self.take_up(lot, &packets);
        true
    }

    /// Starts a walk over the segments, or over all packets if each may belong to another segment.
    /// Returns true if there is any packet to process.
    #[inline]
    fn begin_turn(&mut self, turn: Turn, lots: &'i [BurstSegment<'i>], count: usize) -> bool {
        if !self.sights.is_empty() {
            (self.at, self.count) = (0, self.sights.len() as u64);
            return match turn {
                Turn::Pass => true,
                Turn::Prefetch(level) => self.marked.is_scouted(level, self.are_many != 0),
            };
        }
        self.turn = turn;
        self.lots = parts(lots, count);
        self.take_up_next()
    }

    /// Runs the prefetch pass of a level on `count` packets and performs its lookups. It does so
    /// for all segments together, so that their memory accesses overlap.
    fn scout(
        &mut self,
        scout: PrefetchPass,
        lots: &'i [BurstSegment<'i>],
        count: usize,
        notes: &mut [u64],
    ) {
        let PrefetchPass { level, .. } = scout;
        let are_many = lots.len() > 1;
        let asks =
            |lot: &BurstSegment<'_>| Marked::of(&lot.owner.derived).is_scouted(level, are_many);
        self.show_notes(notes);
        if self.begin_turn(Turn::Prefetch(level), lots, count) {
            enter(scout.asks, self);
        }
        let code = self.code;
        let sites = || code.scouts.iter().filter(|site| site.is_searched_on(level));
        if let Some([first, second]) = scout.answers {
            let is_far = self.marked.asks_in_memory(level);
            lookup_buffer::end_questions(code, level, notes, is_far);
            self.show_notes(notes);
            self.answer_all(first, level, lots, count);
            if lookup_buffer::end_first_lines(code, level, notes, is_far) {
                self.show_notes(notes);
                self.answer_all(second, level, lots, count);
            }
            read_ahead(code.rows.take(notes));
        }
        // Without this exit each of many segments would be visited for nothing.
        if sites().next().is_none() {
            return self.show_notes(notes);
        }
        if !self.sights.is_empty() {
            let sights = self.sights;
            let lot_of = |packet: usize| lots.get(sights.get(packet)?.lot as usize);
            sites().for_each(|site| lookup_buffer::answer_mixed(site, notes, count, lot_of));
            return self.show_notes(notes);
        }
        if are_many {
            for (lot, packets) in parts(lots, count) {
                if asks(lot) {
                    sites().for_each(|site| {
                        lookup_buffer::announce(site, notes, packets.clone(), lot.state())
                    });
                }
            }
        }
        for (lot, packets) in parts(lots, count) {
            if asks(lot) {
                sites().for_each(|site| {
                    lookup_buffer::answer(site, notes, packets.clone(), lot, are_many)
                });
            }
        }
        self.show_notes(notes);
    }

    /// Runs a lookup function for each segment that has lookups on its level.
    fn answer_all(
        &mut self,
        native: Native,
        level: usize,
        lots: &'i [BurstSegment<'i>],
        count: usize,
    ) {
        let mut goes_on = self.begin_turn(Turn::Prefetch(level), lots, count);
        while goes_on {
            enter(native, self);
            goes_on = self.take_up_next();
        }
    }

    /// Publishes the address of the lookup buffer after Rust code has borrowed it. Pointers from
    /// before that borrow are no longer valid.
    fn show_notes(&mut self, notes: &mut [u64]) {
        self.notes_at = notes.as_mut_ptr();
    }

    /// Runs the fast path on `count` packets. It stops at a packet that leaves the fast path or
    /// notifies the device, since the device must handle that first. Returns the number of packets
    /// that have an outcome.
    fn go_through(
        &mut self,
        native: Native,
        lots: &'i [BurstSegment<'i>],
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

/// Runs a compiled function of the invocation's code and returns its result.
fn enter(native: Native, invocation: &mut Invocation<'_>) -> u64 {
    assert!(
        invocation.limbs.len() >= invocation.code.limbs,
        "a context of another program"
    );
    // SAFETY: the function was compiled from a verified program for this `code`. It accesses only
    // the memory below.
    // - Limbs: indices below `code.limbs`, which is asserted above.
    // - Packet bytes: below `bits`, and at most `headroom` bytes before them. Generated code
    //   compares both.
    // - Emitted bits: below `emitted_room`, plus eight bytes of slack.
    // - Parameters: as many as the action of the table has (`TableSite::apply`).
    // - Frames of a burst: `count` of them, at the listed addresses. Their bytes move only in
    //   helpers that call `show_bytes`. Start and length change only after comparison with
    //   `headroom` and the maximum frame length.
    // - Outcomes: `count` of them.
    // - Packet devices of an interleaved burst: `count` of them, with the words of their own
    //   segments.
    // - Direct indices: a key without bits outside the index selects a slot up to the last one.
    //   Where native code does not compare, `view::make` has checked the number of slots.
    // - Tries: slots up to the last one, and the lines of nodes that targets lead to, as found by
    //   `view::make`. A node has one line, or four selected by six bits.
    // - Hash tables: a hash selects a line up to the last one. Prefetch passes and lookup functions
    //   store only lines of the packet's own state.
    // - Records and counters of found entries: `view::make` has compared their layouts with those
    //   of the code. They include the limbs before the first record.
    // - Counter cells: below the number of cells.
    // - Register cells and their locks: below the number of cells, which `view::make` has checked.
    //   Other threads access them as atomic words. Cells of several words are written only by the
    //   one that has the lock.
    // - Lookup buffer: `lookup_buffer::clear` has made it long enough. It stays in place from the
    //   first prefetch pass on, since packets are named by their position in it.
    // - Lookup results: read only at sites that `lookup_buffer::clear` clears
    //   (`view::Marked::looked_at`).
    // - Parsed fields: read only after the first prefetch pass. That pass runs for each segment for
    //   which any later one runs (`view::levels`).
    //
    // Prefetch instructions may name any address, since they access nothing.
    unsafe { native(invocation) }
}

/// Loads from the rows of these numbers, so that they are in a near cache when native code reads
/// them. Numbers without a row are skipped. The processor delays a load while its miss buffers are
/// full, but may discard prefetches beyond that number. With loads a packet took half as many
/// cycles as with prefetches, in a test with 100,000 sessions that each have a counter
/// (docs/explanation/performance.md).
#[inline]
pub(crate) fn load_rows(rows: &view::Rows, numbers: &[u64]) {
    let mut seen = 0;
    // Rows are aligned so that each occupies as few lines as possible.
    for behind in (0..rows.stride()).step_by(LINE) {
        for &number in numbers {
            if let Some(row) = rows.at(number) {
                // SAFETY: `view::make` has found the row in the state of the segment, as
                // `view::entries` checks.
                seen ^= unsafe { first_word(row + behind) };
            }
        }
    }
    std::hint::black_box(seen);
}

/// Loads the aligned word that contains the first byte of a row or of one of its lines. Several
/// small rows may share a word.
///
/// # Safety
///
/// The row is a record, a counter or usage cell of an entry, or a line of a hash table. Its state
/// is alive.
#[inline(always)]
unsafe fn first_word(row: usize) -> u64 {
    let word = row & !(align_of::<AtomicU64>() - 1);
    let word = std::ptr::with_exposed_provenance_mut(word);
    // SAFETY:
    // - Rows of one kind occupy whole words. The first word starts with the first row. The same
    //   holds for lines.
    // - They live as long as their state.
    // - Other threads write cells only by atomic stores. Records and keys are not written while the
    //   state is held.
    // - This pointer is used for one read and for no write.
    unsafe { AtomicU64::from_ptr(word) }.load(Ordering::Relaxed)
}

/// Loads from listed addresses, as [`load_rows`] does. These are lines of hash tables that prefetch
/// passes or first-line lookups have stored, or rows that lookup results list. Loads are right for
/// many segments too, since all lookups have been issued before.
pub(crate) fn read_ahead(places: &[u64]) {
    let mut seen = 0;
    for &place in places {
        // SAFETY: the address is one of these:
        // - a line of a hash table of the packet's state, which starts with a key that is not
        //   written while it is published,
        // - a row that a lookup in the packet's state has found, for which the state has all data
        //   that its marks name (`enter`).
        seen ^= unsafe { first_word(place as usize) };
    }
    std::hint::black_box(seen);
}

/// Number of bytes of a cache line.
pub(crate) const LINE: usize = 64;

impl<'i> Invocation<'i> {
    /// Returns an invocation that contains only the memory of the context.
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
            uses: FastPathUses::default(),
            lots: parts(&[], 0),
            turn: Turn::Pass,
            are_many: 0,
            marked: Marked::default(),
            sights: &[],
            seen: &[],
            // Helpers have seen no segment yet.
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
    /// Prepares the context for the current packet: length, random numbers, and requests.
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

    /// Returns the packet's frame, wherever it is stored, and moves its start to the packet's
    /// start.
    pub(crate) fn frame(&mut self) -> &mut Frame {
        let (has_moved, shift) = (self.flags & flags::MOVED != 0, self.shift);
        self.flags &= !flags::MOVED;
        let is_elsewhere = self.flags & flags::HELD == 0;
        let frame = match self.frames.at(self.at) {
            Some(frame) if is_elsewhere => frame,
            _ => &mut self.packet.bytes,
        };
        if has_moved {
            // Native code has checked the headroom.
            let is_there = frame.move_front(shift as isize);
            debug_assert!(is_there);
        }
        frame
    }

    /// Replaces the packet by the emitted bits followed by the unparsed payload. Truncates it if
    /// the program requests that.
    ///
    /// # Errors
    /// The packet would be too long.
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

    /// Makes the packet the frame of a split program that the program has requested, and returns
    /// the port. Returns none without such a request. Native code must not read the packet's bytes
    /// afterwards.
    pub(crate) fn finish_frame(&mut self) -> Option<Result<u32, FrameError>> {
        let frame = self.requests()?.frame?;
        self.hold();
        let finished = self.packet.finish_frame(frame);
        Some(finished.map(|()| frame.port))
    }

    /// Moves the packet's frame into the context. Its bytes stay at their address.
    pub(crate) fn hold(&mut self) {
        self.frame();
        if self.flags & flags::HELD == 0 {
            self.flags |= flags::HELD;
            self.swap_frame();
            // Native code reads the ingress port from the burst's frame until the packet is
            // finished.
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

    /// Records that the next call may issue a request or a notification to the device.
    pub(crate) fn note_asking(&mut self) {
        self.flags |= flags::ASKED;
    }

    /// Returns true if the program may have issued a request or a notification.
    pub(crate) fn may_have_asked(&self) -> bool {
        self.flags & flags::ASKED != 0
    }

    /// Returns true if the context belongs to the current packet.
    pub(crate) fn has_begun(&self) -> bool {
        self.flags & flags::BEGUN != 0
    }

    /// Returns the requests of the packet, if it may have any.
    pub(crate) fn requests(&self) -> Option<&Requests> {
        (self.has_begun() && self.uses.may_request).then_some(&self.packet.requests)
    }

    /// Ends the current packet, which has an outcome on the fast path, and returns its frame to the
    /// burst. Returns true if the device must handle the packet's notifications.
    pub(crate) fn end_packet(&mut self) -> bool {
        self.frame();
        if self.flags & flags::HELD != 0 {
            self.swap_frame();
        }
        let stops = self.may_have_asked() && self.packet.has_told();
        self.flags = 0;
        stops
    }

    /// Completes the context of the current packet, which has left the fast path.
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
    /// Copies the fields that native code changes into the packet's context.
    pub(crate) fn take_back(&mut self) {
        self.packet.cursor = self.cursor as usize;
        self.packet.work_left = self.work as u32;
        self.packet.emitted.set_bits(self.emitted as usize);
    }

    /// Publishes the packet's cursor to native code.
    pub(crate) fn show_cursor(&mut self) {
        self.cursor = self.packet.cursor as u64;
    }

    /// Publishes the remaining work to native code.
    pub(crate) fn show_work(&mut self) {
        self.work = self.packet.work_left.into();
    }

    /// Publishes address and length of the packet's bytes to native code.
    pub(crate) fn show_bytes(&mut self) {
        let frame = self.frame();
        let bits = frame.len() as u64 * 8;
        let (buffer, start) = frame.storage_mut();
        self.bytes_at = buffer.as_ptr().wrapping_add(start);
        (self.bits, self.headroom) = (bits, start as u64);
    }

    /// Publishes the emitted bits to native code.
    pub(crate) fn show_emitted(&mut self) {
        self.emitted = self.packet.emitted.bits() as u64;
        let (memory, room) = self.packet.emitted.storage();
        self.emitted_at = memory.as_mut_ptr();
        // Helpers emit packets that are longer than a frame, since they report the error.
        self.emitted_room = room.min(packet::MAX_FRAME * 8) as u64;
    }
}

impl<'i> Invocation<'i> {
    /// Publishes the parameters of an action to native code.
    pub(crate) fn show_params(&mut self, params: Params<'i>) {
        self.params = params;
        self.params_at = params.limbs(&self.packet.learned_params).as_ptr();
    }
}

/// Encodes the outcome of a table for native code: the position of the action in the lower half, or
/// [`NO_ACTION`], and the hit flag above it.
pub(crate) fn applied_number(position: Option<u32>, hit: bool) -> u64 {
    u64::from(hit) << 32 | position.map_or(NO_ACTION, u64::from)
}

/// Position that means no action.
pub(crate) const NO_ACTION: u64 = u32::MAX as u64;
