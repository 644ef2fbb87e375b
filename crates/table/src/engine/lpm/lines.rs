//! [`Lines`]: memory for the parts of trie nodes that packets read, shared by all snapshots.
//!
//! A line that is part of some snapshot never changes. A node that changes gets new lines. Its old
//! lines are retired and reused when no held snapshot contains them. A change therefore writes the
//! lines on its path only and copies no others. Packets that switch to the next snapshot find
//! nearly all lines at the same addresses, in their caches.
//!
//! Bounds. If no free line is left, all lines are copied to new memory, which no snapshot uses yet,
//! so no line there has to wait. The new memory is larger only if few lines were waiting. A
//! snapshot that is held for long thus costs the memory that it uses, once.

use super::node::{Image, Line, Target, WIDE_LINES};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Lines of a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct ShownLines {
    lines: Arc<[Line]>,
    /// While it is held, lines that were in use when it was created are not overwritten.
    _held: Arc<()>,
    /// While it is held, the memory of the lines counts as in use.
    _memory: Arc<()>,
}

impl ShownLines {
    #[inline(always)]
    pub(crate) fn all(&self) -> &[Line] {
        &self.lines
    }

    pub(crate) fn memory(&self) -> usize {
        size_of_val(&self.lines[..])
    }
}

/// Allocator of lines by index. Index 0 is never allocated.
#[derive(Debug)]
pub(crate) struct Lines {
    shared: Arc<[Line]>,
    /// Held by all snapshots that use `shared`.
    memory: Arc<()>,
    /// Lines from this index on were never allocated.
    used: usize,
    /// Indices of free lines: single ones, and groups of four.
    free: [Vec<u32>; 2],
    /// Nodes that have new lines now, in the order of the last snapshot that contains the old ones.
    retired: VecDeque<Target>,
    /// Snapshots that may still be held, in order.
    shown: VecDeque<Shown>,
    /// Number of lines of the nodes in `retired`.
    waiting: usize,
    /// Replaced memory that snapshots may still use: a token that these hold, and its size in
    /// bytes. References to the lines themselves, even weak ones, would keep all of their memory
    /// allocated.
    left: Vec<(Weak<()>, usize)>,
}

/// Snapshot that may still be held.
#[derive(Debug)]
struct Shown {
    held: Arc<()>,
    /// Number of nodes that were retired after it was taken and before the next one was.
    retired: usize,
}

/// Minimum number of lines.
const MIN: usize = 16;
/// Fraction of the used lines that is kept as spare room: one in `ROOM_SHARE`.
const ROOM_SHARE: usize = 8;

impl Lines {
    pub(crate) fn new() -> Self {
        Self {
            shared: fresh(&[], MIN),
            memory: Arc::new(()),
            used: 1,
            free: Default::default(),
            retired: VecDeque::new(),
            shown: VecDeque::new(),
            waiting: 0,
            left: Vec::new(),
        }
    }

    /// Frees all lines and makes room for `lines` new ones, with the usual spare room.
    pub(crate) fn start_over(&mut self, lines: usize) {
        let used = lines + 1;
        self.leave(fresh(&[], (used + used / ROOM_SHARE).max(MIN)));
        self.free = Default::default();
        self.used = 1;
    }

    /// Returns the approximate size of the lines in bytes, including memory that only packets hold.
    pub(crate) fn memory(&self) -> usize {
        let held = self.left.iter().filter(|left| is_held(left));
        let held: usize = held.map(|(_, bytes)| bytes).sum();
        size_of_val(&self.shared[..]) + held
    }

    /// Returns the number of lines that there is room for.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.shared.len()
    }

    pub(crate) fn get(&self, place: usize) -> &Line {
        &self.shared[place]
    }

    /// Creates a node with these lines, one or [`WIDE_LINES`]. Packets do not know of it yet.
    pub(crate) fn add(&mut self, images: &[Image]) -> Target {
        let is_wide = images.len() > 1;
        let place = self.take(is_wide);
        for (line, image) in self.shared[place as usize..].iter().zip(images) {
            line.set(image);
        }
        Target::node(place, is_wide)
    }

    /// Returns a copy of a node, with the target of one branch (`slot`) changed. Packets do not
    /// know of it yet. The old node is retired.
    pub(crate) fn replace(&mut self, node: Target, slot: u32, target: Target) -> Target {
        let mut images = [Image::default(); WIDE_LINES];
        let (place, count) = node.lines().unwrap_or((0, 1));
        for (image, line) in images
            .iter_mut()
            .zip(&self.shared[place as usize..][..count])
        {
            *image = line.image();
        }
        let changed = node.line(slot);
        let word = node.word(slot, self.get(changed));
        images[changed - place as usize][word] = target.0;
        self.retire(node);
        self.add(&images[..count])
    }

    /// Returns the target of a branch of a node.
    pub(crate) fn follow(&self, node: Target, slot: u32) -> Target {
        node.follow(slot, self.get(node.line(slot)))
    }

    /// Retires the lines of a node that nothing points to any more. Does nothing if `node` is a
    /// value.
    pub(crate) fn retire(&mut self, node: Target) {
        let Some((_, count)) = node.lines() else {
            return;
        };
        match self.shown.back_mut() {
            Some(shown) => {
                shown.retired += 1;
                self.retired.push_back(node);
                self.waiting += count;
            }
            None => self.give(node),
        }
    }

    /// Returns the current lines for packets.
    pub(crate) fn snapshot(&mut self) -> ShownLines {
        self.reclaim();
        let held = match self.shown.back() {
            // Nothing was retired since that snapshot, so it is the same.
            Some(Shown { held, retired: 0 }) => held.clone(),
            _ => {
                let held = Arc::new(());
                self.shown.push_back(Shown {
                    held: held.clone(),
                    retired: 0,
                });
                held
            }
        };
        ShownLines {
            lines: self.shared.clone(),
            _held: held,
            _memory: self.memory.clone(),
        }
    }

    /// Frees the lines that no held snapshot contains: those that were retired before the oldest
    /// held snapshot was taken. Drops the records of replaced memory that no snapshot uses.
    fn reclaim(&mut self) {
        self.left.retain(is_held);
        while let Some(shown) = self.shown.front_mut()
            && Arc::get_mut(&mut shown.held).is_some()
        {
            let retired = shown.retired;
            self.shown.pop_front();
            self.free_retired(retired);
        }
    }

    fn free_retired(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(node) = self.retired.pop_front() {
                self.waiting -= node.lines().map_or(0, |(_, count)| count);
                self.give(node);
            }
        }
    }

    fn give(&mut self, node: Target) {
        if let Some((place, count)) = node.lines() {
            self.free[usize::from(count > 1)].push(place);
        }
    }

    /// Allocates one line, or [`WIDE_LINES`] adjacent ones. Returns the index of the first.
    fn take(&mut self, is_wide: bool) -> u32 {
        let count = if is_wide { WIDE_LINES } else { 1 };
        loop {
            if let Some(place) = self.free[usize::from(is_wide)].pop() {
                return place;
            }
            if self.used + count <= self.shared.len() {
                let place = self.used as u32;
                self.used += count;
                return place;
            }
            self.make_room(is_wide);
        }
    }

    /// Frees lines of snapshots that were released since the last one was taken. If none has the
    /// right size, copies all lines to new memory, which frees all waiting ones. The new memory is
    /// larger if only few were waiting. If those have the wrong size, the next call enlarges it.
    fn make_room(&mut self, is_wide: bool) {
        self.reclaim();
        if !self.free[usize::from(is_wide)].is_empty() {
            return;
        }
        let is_much = self.waiting * ROOM_SHARE > self.used;
        let more = if is_much { 0 } else { self.used / 4 + MIN };
        self.leave(fresh(&self.shared, self.shared.len() + more));
    }

    /// Switches to new memory, which no snapshot uses.
    fn leave(&mut self, shared: Arc<[Line]>) {
        let left = std::mem::replace(&mut self.shared, shared);
        let memory = std::mem::replace(&mut self.memory, Arc::new(()));
        let bytes = size_of_val(&left[..]);
        self.left.push((Arc::downgrade(&memory), bytes));
        drop(memory);
        self.shown.clear();
        self.reclaim();
        self.free_retired(self.retired.len());
    }
}

/// Returns true if some snapshot still uses replaced memory.
fn is_held((memory, _): &(Weak<()>, usize)) -> bool {
    memory.strong_count() > 0
}

/// Allocates `count` lines. The first ones are copies of `lines`.
fn fresh(lines: &[Line], count: usize) -> Arc<[Line]> {
    let line = |place| lines.get(place).cloned().unwrap_or_default();
    (0..count).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_size::usual_or_interpreted;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_a_snapshot_shows_never_changes_and_lines_that_none_shows_are_written_again(
            steps in proptest::collection::vec((0u8..8, any::<prop::sample::Index>()), 0..usual_or_interpreted(300, 40))
        ) {
            let mut lines = Lines::new();
            let mut nodes: Vec<(Target, u32)> = Vec::new();
            let mut held: Vec<(ShownLines, Vec<(Target, u32)>)> = Vec::new();
            for (number, (step, which)) in (1..).zip(steps) {
                match step {
                    0..4 if nodes.len() < 12 => {
                        let count = if step == 0 { WIDE_LINES } else { 1 };
                        nodes.push((lines.add(&vec![[number; 16]; count]), number));
                    }
                    0..4 => lines.retire(nodes.swap_remove(which.index(nodes.len())).0),
                    4..6 => held.push((lines.snapshot(), nodes.clone())),
                    _ if held.is_empty() => {}
                    _ => drop(held.swap_remove(which.index(held.len()))),
                }
                let now = (lines.snapshot(), nodes.clone());
                for (shown, then) in held.iter().chain([&now]) {
                    for &(node, number) in then {
                        let (place, count) = node.lines().unwrap_or_default();
                        let of_node = &shown.all()[place as usize..][..count];
                        prop_assert!(of_node.iter().all(|line| line.image() == [number; 16]));
                    }
                }
            }
            prop_assert!(lines.room() < 200);
        }
    }

    /// Many times the minimum number of lines.
    const CHANGES: usize = usual_or_interpreted(10_000, 100);

    #[test]
    fn changes_beside_a_reader_of_the_last_snapshots_take_no_more_memory() {
        const NODES: usize = usual_or_interpreted(1000, 20);
        // Number of changes after which the memory no longer grows.
        const SETTLED: usize = usual_or_interpreted(100, 40);
        let mut lines = Lines::new();
        let mut nodes: Vec<Target> = (0..NODES).map(|_| lines.add(&[[7; 16]])).collect();
        let mut held = VecDeque::new();
        let mut room = 0;
        for change in 0..CHANGES {
            let node = &mut nodes[change * 7919 % NODES];
            lines.retire(*node);
            *node = lines.add(&[[change as u32; 16]]);
            held.push_back(lines.snapshot());
            held.drain(..held.len().saturating_sub(4));
            if change == SETTLED {
                room = lines.memory();
            }
        }
        assert_eq!((held.len(), lines.memory()), (4, room));
        assert_eq!(room, of_one(&lines));
    }

    /// Returns the size of the lines in use if no snapshot holds others.
    fn of_one(lines: &Lines) -> usize {
        lines.room() * size_of::<Line>()
    }

    #[test]
    fn memory_that_was_left_is_its_holders_alone_and_goes_with_the_last() {
        let mut lines = Lines::new();
        let mut held = Vec::new();
        for number in 1..=5 {
            lines.add(&[[number; 16]]);
            let shown = lines.snapshot();
            held.push([shown.clone(), shown]);
            lines.start_over(number as usize * usual_or_interpreted(100, 20));
        }
        let all: usize = held.iter().map(|[shown, _]| shown.memory()).sum();
        assert_eq!(lines.memory(), all + of_one(&lines));
        for [shown, _] in &held {
            let pins = (
                Arc::strong_count(&shown.lines),
                Arc::weak_count(&shown.lines),
            );
            assert_eq!(pins, (2, 0), "two of us hold it, and nothing else does");
        }
        let one_each: Vec<_> = held.into_iter().map(|[shown, _]| shown).collect();
        assert_eq!(lines.memory(), all + of_one(&lines));
        drop(one_each);
        assert_eq!(lines.memory(), of_one(&lines));
        lines.snapshot();
        assert!(lines.left.is_empty(), "{:?}", lines.left);
    }

    #[test]
    fn lines_of_a_snapshot_that_was_let_go_are_written_before_there_are_others() {
        let mut lines = Lines::new();
        let mut node = lines.add(&[[1; 16]]);
        let held = lines.snapshot();
        while lines.used < lines.room() {
            lines.retire(node);
            node = lines.add(&[[2; 16]]);
        }
        let (before, room) = (lines.shared.as_ptr(), lines.room());
        drop(held);
        lines.retire(node);
        lines.add(&[[3; 16]]);
        assert_eq!((lines.shared.as_ptr(), lines.room()), (before, room));
        // While a snapshot is held, its lines are not reused.
        let held = lines.snapshot();
        (0..room).for_each(|_| _ = lines.add(&[[4; 16]]));
        assert_ne!(lines.shared.as_ptr(), before);
        assert_eq!(lines.memory(), held.memory() + of_one(&lines));
    }

    #[test]
    fn a_snapshot_that_is_held_for_long_costs_the_memory_that_it_shows_and_once() {
        let mut lines = Lines::new();
        let mut node = lines.add(&[[1; 16]]);
        let held = lines.snapshot();
        let mut newest = lines.snapshot();
        for change in 0..CHANGES as u32 {
            lines.retire(node);
            node = lines.add(&[[change; 16]]);
            newest = lines.snapshot();
        }
        let (place, _) = node.lines().unwrap_or_default();
        assert_eq!(
            newest.all()[place as usize].image(),
            [CHANGES as u32 - 1; 16]
        );
        assert!(lines.room() <= 2 * MIN && lines.shown.len() <= lines.room());
        assert_eq!(lines.memory(), held.memory() + of_one(&lines));
        drop(held);
        assert_eq!(lines.memory(), of_one(&lines));
    }
}
