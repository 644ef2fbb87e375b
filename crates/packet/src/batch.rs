//! A batch: frames that are received, processed or sent together.

use crate::Frame;

/// Up to `capacity` frames. The frames behind the last used one keep their buffers, so that filling
/// a batch again allocates nothing. To keep a frame, swap an empty one in with [`std::mem::swap`].
#[derive(Debug)]
pub struct Batch {
    slots: Vec<Frame>,
    len: usize,
    /// No frame is added from here on; at most the number of slots.
    limit: usize,
}

impl Batch {
    /// Frames in a batch unless there is a reason for another number: enough to spread a system
    /// call's cost, few enough to stay in the first-level cache.
    pub const USUAL: usize = 64;

    /// An empty batch for `capacity` frames, at least one.
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

    /// Number of frames that fit.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Number of frames.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no frame.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of frames that still fit.
    pub fn room(&self) -> usize {
        self.limit - self.len
    }

    /// Calls `fill` with room for so many more frames at most.
    pub fn with_room<T>(&mut self, room: usize, fill: impl FnOnce(&mut Batch) -> T) -> T {
        let limit = self.limit;
        self.limit = limit.min(self.len.saturating_add(room));
        let filled = fill(self);
        self.limit = limit;
        filled
    }

    /// The frames, in order of arrival.
    pub fn frames(&self) -> &[Frame] {
        &self.slots[..self.len]
    }

    /// The frames, in order of arrival, to be changed or swapped.
    pub fn frames_mut(&mut self) -> &mut [Frame] {
        &mut self.slots[..self.len]
    }

    /// One more frame, empty, for the caller to fill; none if the batch is full.
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

    /// Forgets the last frame, if there is one.
    pub fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
    }

    /// Forgets all frames and keeps their buffers.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::with_capacity(Batch::USUAL)
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
