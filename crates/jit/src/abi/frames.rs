//! Frames of a burst, as native code and helpers access them.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use exec::BURST;
use packet::Frame;
use table::prefetch::prefetch_at;

/// Offsets of the fields of a [`Frame`].
pub(crate) const BUFFER: i32 = Frame::LAYOUT.buffer as i32;
pub(crate) const START: i32 = Frame::LAYOUT.start as i32;
pub(crate) const LEN: i32 = Frame::LAYOUT.len as i32;
pub(crate) const INGRESS: i32 = Frame::LAYOUT.ingress as i32;

// A pointer to a slice, such as a `Box<[u8]>`, has two words. The first one is the address.
const _: () = {
    #[repr(C)]
    struct Words {
        _pointer: *const u8,
        len: usize,
    }
    // SAFETY: both types are an address and a length. All bit patterns are valid for `Words`.
    let words = unsafe { std::mem::transmute::<&[u8], Words>(&[0; 3]) };
    assert!(words.len == 3);
};

/// Frames of a burst in processing order. Native code and helpers run alternately and use the same
/// pointers.
#[repr(C)]
pub(super) struct Frames<'i> {
    pub(super) first: *const *mut Frame,
    count: usize,
    lent: PhantomData<&'i mut [Frame]>,
}

/// Array of the addresses of a burst's frames. Native code may load the element after the last
/// address, but does not use it.
pub(super) type Places = [MaybeUninit<*mut Frame>; BURST + 1];

impl<'i> Frames<'i> {
    pub(super) const NONE: Frames<'i> = Frames {
        first: std::ptr::null(),
        count: 0,
        lent: PhantomData,
    };

    /// Selects `count` of these frames in this order. Writes their addresses into `places` and
    /// prefetches the frames.
    #[inline]
    pub(super) fn of(
        frames: &'i mut [Frame],
        order: &[u32],
        places: &'i mut Places,
        count: usize,
    ) -> Frames<'i> {
        for &number in &order[..count] {
            // The order of the frames has no pattern that a hardware prefetcher recognizes.
            prefetch_at(frames[number as usize].address());
        }
        let first = frames.as_mut_ptr();
        places[count].write(std::ptr::null_mut());
        for (place, &number) in places.iter_mut().zip(&order[..count]) {
            place.write(first.wrapping_add(number as usize));
        }
        Frames {
            first: places.as_ptr().cast(),
            count,
            lent: PhantomData,
        }
    }

    /// Returns the frame at an index, if there is one.
    #[inline]
    pub(super) fn at(&mut self, place: u64) -> Option<&mut Frame> {
        let is_there = place < self.count as u64;
        // SAFETY:
        // - The frames and the array of addresses are borrowed for the lifetime of `self`.
        // - The array has more than `place` elements, and each is the address of a frame.
        // - Native code does not run while a helper holds the reference.
        is_there.then(|| unsafe { &mut **self.first.add(place as usize) })
    }
}
