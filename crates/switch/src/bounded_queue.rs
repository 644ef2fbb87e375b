//! Queue to the control plane, bounded in items and in bytes.

use std::collections::VecDeque;

/// Maximum number of items. Further ones are lost.
pub(crate) const MAX_WAITING: usize = 65_536;

/// Maximum number of bytes of all items. Further ones are lost.
const MAX_BYTES: usize = 16 << 20;

/// Bounded queue of items with their sizes.
pub(crate) struct BoundedQueue<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
}

impl<T> Default for BoundedQueue<T> {
    fn default() -> Self {
        BoundedQueue {
            items: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<T> BoundedQueue<T> {
    /// Appends an item of `bytes` bytes, which is created only if it fits. Returns false if it does
    /// not fit.
    pub(crate) fn push(&mut self, bytes: usize, make: impl FnOnce() -> T) -> bool {
        let has_room = self.has_room(bytes);
        if has_room {
            self.bytes += bytes;
            self.items.push_back((make(), bytes));
        }
        has_room
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.items.len() < MAX_WAITING && bytes <= MAX_BYTES - self.bytes
    }

    /// Moves the oldest items to another queue, as many as fit there.
    pub(crate) fn move_to(&mut self, other: &mut BoundedQueue<T>) {
        while let Some((_, bytes)) = self.items.front() {
            if !other.has_room(*bytes) {
                return;
            }
            let bytes = *bytes;
            if let Some(item) = self.pop() {
                other.push(bytes, || item);
            }
        }
    }

    /// Returns true if the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Removes and returns the oldest item.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let (item, bytes) = self.items.pop_front()?;
        self.bytes -= bytes;
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_many_items_and_so_many_bytes() {
        let mut outbox = BoundedQueue::default();
        assert!(outbox.push(MAX_BYTES - 1, || 1));
        assert!(!outbox.push(2, || 2));
        assert!(outbox.push(1, || 3));
        assert_eq!(outbox.pop(), Some(1));
        assert!((0..MAX_WAITING - 1).all(|_| outbox.push(0, || 4)));
        assert!(!outbox.push(0, || 5));
        assert_eq!(outbox.pop(), Some(3));
        assert!((0..MAX_WAITING - 1).all(|_| outbox.pop() == Some(4)));
        assert!(outbox.push(MAX_BYTES, || 6));
    }

    #[test]
    fn what_has_no_room_elsewhere_stays_in_its_order() {
        let (mut one, mut other) = (BoundedQueue::default(), BoundedQueue::default());
        assert!((1..5).all(|item| one.push(MAX_BYTES / 4, || item)));
        assert!(other.push(MAX_BYTES / 2, || 0));
        one.move_to(&mut other);
        let all = |outbox: &mut BoundedQueue<u32>| -> Vec<u32> {
            std::iter::from_fn(|| outbox.pop()).collect()
        };
        assert_eq!(all(&mut other), [0, 1, 2]);
        assert_eq!(all(&mut one), [3, 4]);
    }
}
