//! Batches: frames that are received, processed or sent together.

use crate::Frame;

/// Batch of at most `capacity` frames. The unused frames after the last one keep their buffers, so
/// filling a batch again allocates nothing. To keep a frame, swap an empty one in with
/// [`std::mem::swap`].
#[derive(Debug)]
pub struct Batch {
    slots: Vec<Frame>,
    len: usize,
    /// Maximum number of frames for now, at most the number of slots.
    limit: usize,
}

impl Batch {
    /// Default number of frames. It is large enough to amortise the cost of a system call, and
    /// small enough for the first-level cache.
    pub const DEFAULT: usize = 64;

    /// Creates an empty batch for `capacity` frames, at least one.
    pub fn with_capacity(capacity: usize) -> Batch {
        let mut slots = Vec::new();
        slots.resize_with(capacity.max(1), Frame::new);
        let limit = slots.len();
        Batch {
            slots,
            len: 0,
            limit,
        }
    }

    /// Returns the maximum number of frames.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no frames.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of frames that still fit.
    pub fn room(&self) -> usize {
        self.limit - self.len
    }

    /// Calls `fill` with the batch limited to at most `room` more frames.
    pub fn with_room<T>(&mut self, room: usize, fill: impl FnOnce(&mut Batch) -> T) -> T {
        let limit = self.limit;
        self.limit = limit.min(self.len.saturating_add(room));
        let filled = fill(self);
        self.limit = limit;
        filled
    }

    /// Returns the frames, in order of arrival.
    pub fn frames(&self) -> &[Frame] {
        &self.slots[..self.len]
    }

    /// Returns the frames, in order of arrival, for writing or swapping.
    pub fn frames_mut(&mut self) -> &mut [Frame] {
        &mut self.slots[..self.len]
    }

    /// Adds an empty frame for the caller to fill. Returns `None` if the batch is full.
    #[inline]
    pub fn push(&mut self) -> Option<&mut Frame> {
        if self.len == self.limit {
            return None;
        }
        let frame = self.slots.get_mut(self.len)?;
        frame.reset();
        self.len += 1;
        Some(frame)
    }

    /// Removes the last frame, if there is one.
    pub fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
    }

    /// Removes all frames and keeps their buffers.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::with_capacity(Batch::DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_batch_takes_no_more_frames() {
        let mut batch = Batch::with_capacity(2);
        assert!(batch.push().is_some() && batch.push().is_some());
        assert!(batch.push().is_none());
        assert_eq!((batch.len(), batch.room()), (2, 0));
        batch.pop();
        assert_eq!(batch.room(), 1);
    }

    #[test]
    fn a_batch_with_less_room_takes_no_more_than_that_until_it_has_its_own_again() {
        let mut batch = Batch::with_capacity(4);
        batch.push();
        let pushed = batch.with_room(2, |batch| {
            let nested = batch.with_room(9, |batch| batch.room());
            let mut rooms = vec![nested];
            while batch.push().is_some() {
                rooms.push(batch.room());
            }
            rooms
        });
        assert_eq!(pushed, [2, 1, 0]);
        assert_eq!((batch.len(), batch.room()), (3, 1));
        assert!(batch.push().is_some() && batch.push().is_none());
    }

    #[test]
    fn a_cleared_batch_hands_out_empty_frames() {
        let mut batch = Batch::with_capacity(0);
        batch.push().unwrap().assign(&[1, 2, 3]).unwrap();
        batch.clear();
        assert!(batch.is_empty());
        assert!(batch.push().unwrap().is_empty());
        assert_eq!(batch.frames().len(), 1);
    }
}
