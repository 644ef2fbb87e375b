//! What native code sees of each packet's device, where each packet may be another one's ([`Arrival::Mixed`](crate::translate::Arrival)).

use std::mem::{MaybeUninit, offset_of};

use exec::{BURST, Lot};

use super::flags;
use crate::view::{self, Marked};

/// A packet's device, as native code sees it; helpers find it by the lot ([`super::Invocation::state`]).
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Sight {
    /// As [`super::Invocation::take_up`] has it for a lot.
    view_at: *const u64,
    first_flags: u64,
    budget: u64,
    /// The lot, and the first of its packets.
    pub(super) lot: u32,
    pub(super) begin: u32,
}

/// Where its parts are, and how far the number of one is shifted.
pub(crate) const VIEW: i32 = offset_of!(Sight, view_at) as i32;
pub(crate) const FIRST_FLAGS: i32 = offset_of!(Sight, first_flags) as i32;
pub(crate) const BUDGET: i32 = offset_of!(Sight, budget) as i32;
pub(crate) const SHIFT: i64 = size_of::<Sight>().ilog2() as i64;

const _: () = assert!(size_of::<Sight>() == 1 << SHIFT);

/// Room for the sights of a burst.
pub(super) type Room = [MaybeUninit<Sight>; BURST];

/// The sights of so many packets, as far as lots have them, of any of which that is marked.
pub(super) fn of_packets<'r>(
    lots: &[Lot<'_>],
    count: usize,
    marked: Marked,
    room: &'r mut Room,
) -> &'r [Sight] {
    // The first scout notes what it has parsed for all packets or for none.
    let are_several = marked.are_several_scouted(lots.len() > 1);
    let mut end = 0;
    for (lot, number) in lots.iter().zip(0..) {
        let begin = end;
        end = count.min(begin + lot.frames);
        for place in &mut room[begin..end] {
            place.write(Sight {
                view_at: view::of_lot(lot),
                first_flags: first_flags(lot, are_several),
                budget: lot.owner.work.units().into(),
                lot: number,
                begin: begin as u32,
            });
        }
    }
    // SAFETY: the first ones, so many, were written, one lot's behind the other's.
    unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), end) }
}

/// What has become of the context of a lot's packets when they begin, where several scouts go before or one at most: [`flags`].
#[inline(always)]
pub(super) fn first_flags(lot: &Lot<'_>, are_several: bool) -> u64 {
    let given = |truth: bool, flag: u64| if truth { flag } else { 0 };
    let marked = Marked::of(&lot.owner.derived);
    given(marked.notes_use(), flags::NOTES_USE)
        | given(!lot.owner.busy_ports.is_empty(), flags::ANY_BUSY)
        | given(are_several, flags::SEVERAL_SCOUTS)
}
