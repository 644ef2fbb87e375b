//! The frames of a burst, as native code and helpers reach them.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use exec::BURST;
use packet::Frame;
use table::prefetch::prefetch_at;

/// Where native code finds the parts of a [`Frame`].
pub(crate) const BUFFER: i32 = Frame::LAYOUT.buffer as i32;
pub(crate) const START: i32 = Frame::LAYOUT.start as i32;
pub(crate) const LEN: i32 = Frame::LAYOUT.len as i32;
pub(crate) const INGRESS: i32 = Frame::LAYOUT.ingress as i32;

// Of the two words of a pointer to a slice, as a `Box<[u8]>` is one, the first is where that is.
const _: () = {
    #[repr(C)]
    struct Words {
        _pointer: *const u8,
        len: usize,
    }
    // SAFETY: both are a pointer and a length, which may be any numbers.
    let words = unsafe { std::mem::transmute::<&[u8], Words>(&[0; 3]) };
    assert!(words.len == 3);
};

/// The frames of a burst, in the order in which they go. Native code and helpers, which take turns, reach them by the same pointers.
#[repr(C)]
pub(super) struct Frames<'i> {
    pub(super) first: *const *mut Frame,
    count: usize,
    lent: PhantomData<&'i mut [Frame]>,
}

/// Where the frames of a burst are. Native code may load the place behind the last one, which it does not look at.
pub(super) type Places = [MaybeUninit<*mut Frame>; BURST + 1];

impl<'i> Frames<'i> {
    pub(super) const NONE: Frames<'i> = Frames {
        first: std::ptr::null(),
        count: 0,
        lent: PhantomData,
    };

    /// So many of these frames, in this order; where they are is written into `places`, and asked for.
    #[inline]
    pub(super) fn of(
        frames: &'i mut [Frame],
        order: &[u32],
        places: &'i mut Places,
        count: usize,
    ) -> Frames<'i> {
        for &number in &order[..count] {
            // Who has put frames in order leaves no pattern that the processor would foresee.
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

    /// The frame at a place, if there is one.
    #[inline]
    pub(super) fn at(&mut self, place: u64) -> Option<&mut Frame> {
        let is_there = place < self.count as u64;
        // SAFETY: the frames and their places are lent for as long as this lives, there are more places than `place`, each is a frame's, and native code waits for the helper that has the
        // reference.
        is_there.then(|| unsafe { &mut **self.first.add(place as usize) })
    }
}
