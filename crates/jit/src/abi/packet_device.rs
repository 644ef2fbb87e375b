//! Device of each packet in an interleaved burst ([`Arrival::Mixed`](crate::translate::Arrival)),
//! as native code accesses it.

use std::mem::{MaybeUninit, offset_of};

use exec::{BURST, BurstSegment};

use super::flags;
use crate::view::{self, Marked};

/// Device of a packet, as native code accesses it. Helpers find the device by the segment
/// ([`super::Invocation::state`]).
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct PacketDevice {
    /// The values that [`super::Invocation::take_up`] sets for a segment.
    view_at: *const u64,
    first_flags: u64,
    budget: u64,
    /// Index of the burst segment, and index of its first packet.
    pub(super) lot: u32,
    pub(super) begin: u32,
}

/// Offsets of the fields, and the shift that converts an index into a byte offset.
pub(crate) const VIEW: i32 = offset_of!(PacketDevice, view_at) as i32;
pub(crate) const FIRST_FLAGS: i32 = offset_of!(PacketDevice, first_flags) as i32;
pub(crate) const BUDGET: i32 = offset_of!(PacketDevice, budget) as i32;
pub(crate) const SHIFT: i64 = size_of::<PacketDevice>().ilog2() as i64;

const _: () = assert!(size_of::<PacketDevice>() == 1 << SHIFT);

/// Storage for the packet devices of a burst.
pub(super) type Room = [MaybeUninit<PacketDevice>; BURST];

/// Returns the devices of the first `count` packets, as far as the segments reach. `marked`
/// combines the marks of all segments.
pub(super) fn of_packets<'r>(
    lots: &[BurstSegment<'_>],
    count: usize,
    marked: Marked,
    room: &'r mut Room,
) -> &'r [PacketDevice] {
    // The first prefetch pass saves its parsed fields for all packets or for none.
    let are_several = marked.are_several_scouted(lots.len() > 1);
    let mut end = 0;
    for (lot, number) in lots.iter().zip(0..) {
        let begin = end;
        end = count.min(begin + lot.frames);
        for place in &mut room[begin..end] {
            place.write(PacketDevice {
                view_at: view::of_lot(lot),
                first_flags: first_flags(lot, are_several),
                budget: lot.owner.work.units().into(),
                lot: number,
                begin: begin as u32,
            });
        }
    }
    // SAFETY: the first `end` elements were written, segment after segment without gaps.
    unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), end) }
}

/// Returns the initial [`flags`] of a segment's packets. `are_several` is true if several prefetch
/// passes run.
#[inline(always)]
pub(super) fn first_flags(lot: &BurstSegment<'_>, are_several: bool) -> u64 {
    let given = |truth: bool, flag: u64| if truth { flag } else { 0 };
    let marked = Marked::of(&lot.owner.derived);
    given(marked.notes_use(), flags::NOTES_USE)
        | given(!lot.owner.busy_ports.is_empty(), flags::ANY_BUSY)
        | given(are_several, flags::SEVERAL_SCOUTS)
}
