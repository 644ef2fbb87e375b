//! Event queue of the simulation, ordered by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use packet::Nanos;

/// Queue of future events. Events of the same time are processed in the order in which they were
/// added.
#[derive(Debug)]
pub(crate) struct Events<T> {
    heap: BinaryHeap<Reverse<Event<T>>>,
    made: u64,
}

#[derive(Debug)]
struct Event<T> {
    at: Nanos,
    number: u64,
    what: T,
}

impl<T> Event<T> {
    fn key(&self) -> (Nanos, u64) {
        (self.at, self.number)
    }
}

impl<T> PartialEq for Event<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Event<T> {}

impl<T> PartialOrd for Event<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Event<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> Default for Events<T> {
    fn default() -> Self {
        Events {
            heap: BinaryHeap::new(),
            made: 0,
        }
    }
}

impl<T> Events<T> {
    /// Adds an event at this time.
    pub(crate) fn push(&mut self, at: Nanos, what: T) {
        self.made += 1;
        self.heap.push(Reverse(Event {
            at,
            number: self.made,
            what,
        }));
    }

    /// Removes and returns the next event with a time up to `end`.
    pub(crate) fn pop_by(&mut self, end: Nanos) -> Option<(Nanos, T)> {
        self.next_time().filter(|at| *at <= end)?;
        self.heap.pop().map(|Reverse(event)| (event.at, event.what))
    }

    /// Returns the time of the next event.
    pub(crate) fn next_time(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(event)| event.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a list sorted by time. A stable sort keeps the order of insertion.
        #[test]
        fn events_happen_by_time_and_then_in_the_order_of_making(times in prop::collection::vec(0u64..20, 0..200), slice in 1u64..25) {
            let mut events = Events::default();
            for (number, at) in times.iter().enumerate() {
                events.push(Nanos(*at), number);
            }
            let mut naive: Vec<(Nanos, usize)> = times.iter().enumerate().map(|(number, at)| (Nanos(*at), number)).collect();
            naive.sort_by_key(|(at, _)| *at);
            let mut happened = Vec::new();
            for end in (0..=20 + slice).step_by(slice as usize) {
                while let Some(event) = events.pop_by(Nanos(end)) {
                    prop_assert!(event.0 <= Nanos(end));
                    happened.push(event);
                }
            }
            prop_assert_eq!(happened, naive);
        }
    }
}
