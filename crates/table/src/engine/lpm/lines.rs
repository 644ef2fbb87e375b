//! [`Lines`]: what packets read of the nodes of tries, in memory that all snapshots share.
//!
//! A line that some snapshot shows never changes. A node that changes gets other lines, and those that it had wait until nobody holds a snapshot that
//! shows them any more; then they are written again. So a change costs the lines on its way and no copy of the others, and packets that change over to
//! the next snapshot find nearly all lines where they were, in their caches.
//!
//! Bounds. When no line is left, all are copied to other memory, which no snapshot shows yet, so none has to wait there. There are only more of them if
//! few waited. Whoever holds a snapshot for long pays for it with the memory that it shows, once.

use super::node::{Image, Line, Target, WIDE_LINES};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// What a snapshot has of the lines.
#[derive(Debug, Clone)]
pub(crate) struct ShownLines {
    lines: Arc<[Line]>,
    /// While anybody has it, lines that were in use when it was made are not written.
    _held: Arc<()>,
    /// While anybody has it, the memory that the lines are in is in use.
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

/// Lines, by place. Place 0 is never given out.
#[derive(Debug)]
pub(crate) struct Lines {
    shared: Arc<[Line]>,
    /// Those who show `shared` have it.
    memory: Arc<()>,
    /// Those from here on were never given out.
    used: usize,
    /// Places of lines that nobody uses: one by one, and four together.
    free: [Vec<u32>; 2],
    /// Nodes that have other lines now, by the snapshot that showed them last, in that order.
    retired: VecDeque<Target>,
    /// Snapshots that may be held, in order.
    shown: VecDeque<Shown>,
    /// How many lines are of nodes in `retired`.
    waiting: usize,
    /// Memory that was left, and that snapshots may still show: who shows it, and its bytes. What would refer to the lines themselves, however weakly,
    /// would keep all their memory.
    left: Vec<(Weak<()>, usize)>,
}

/// A snapshot.
#[derive(Debug)]
struct Shown {
    held: Arc<()>,
    /// How many nodes were retired since it was taken, and before the next one was.
    retired: usize,
}

/// Lines that there are at least.
const LEAST: usize = 16;
/// Of the lines in use, the share that there is room for beside them.
const ROOM_SHARE: usize = 8;

impl Lines {
    pub(crate) fn new() -> Self {
        Self {
            shared: fresh(&[], LEAST),
            memory: Arc::new(()),
            used: 1,
            free: Default::default(),
            retired: VecDeque::new(),
            shown: VecDeque::new(),
            waiting: 0,
            left: Vec::new(),
        }
    }

    /// All lines are free, and there are about so many.
    pub(crate) fn start_over(&mut self, lines: usize) {
        self.leave(fresh(&[], lines.max(LEAST)));
        self.free = Default::default();
        self.used = 1;
    }

    /// There are no more lines than are worth it, after many were taken at once.
    pub(crate) fn fit(&mut self) {
        let enough = (self.used + self.used / ROOM_SHARE).max(LEAST);
        if self.shared.len() > enough {
            self.leave(fresh(&self.shared[..self.used], enough));
        }
    }

    /// About how many bytes the lines take, also those that only packets hold.
    pub(crate) fn memory(&self) -> usize {
        let held = self.left.iter().filter(|left| is_held(left));
        let held: usize = held.map(|(_, bytes)| bytes).sum();
        size_of_val(&self.shared[..]) + held
    }

    /// How many there is room for.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.shared.len()
    }

    pub(crate) fn get(&self, place: usize) -> &Line {
        &self.shared[place]
    }

    /// A node with these lines, of which packets do not know yet: one or [`WIDE_LINES`].
    pub(crate) fn add(&mut self, images: &[Image]) -> Target {
        let is_wide = images.len() > 1;
        let place = self.take(is_wide);
        for (line, image) in self.shared[place as usize..].iter().zip(images) {
            line.set(image);
        }
        Target::node(place, is_wide)
    }

    /// The node with another target in a slot, of which packets do not know yet either; what it was is retired.
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

    /// Where a slot of a node leads to.
    pub(crate) fn follow(&self, node: Target, slot: u32) -> Target {
        node.follow(slot, self.get(node.line(slot)))
    }

    /// Nothing leads to the node's lines from now on; if it is a node.
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

    /// The lines of this moment, for packets.
    pub(crate) fn snapshot(&mut self) -> ShownLines {
        self.reclaim();
        let held = match self.shown.back() {
            // What that snapshot shows, this one shows.
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

    /// Frees the lines that no snapshot shows any more: those that were retired before all that are held. Forgets memory that none shows.
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

    /// The place of one line, or of [`WIDE_LINES`] side by side.
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

    /// Frees lines of snapshots that were let go since the last one was taken. If none of them suits, frees all that wait; there are more lines if that is
    /// not much. What waited may be of the other size, then the next call adds some.
    fn make_room(&mut self, is_wide: bool) {
        self.reclaim();
        if !self.free[usize::from(is_wide)].is_empty() {
            return;
        }
        let is_much = self.waiting * ROOM_SHARE > self.used;
        let more = if is_much { 0 } else { self.used / 4 + LEAST };
        self.leave(fresh(&self.shared, self.shared.len() + more));
    }

    /// Goes on with other memory, which no snapshot shows.
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

/// Whether some snapshot still shows memory that was left.
fn is_held((memory, _): &(Weak<()>, usize)) -> bool {
    memory.strong_count() > 0
}

/// So many lines, of which the first are the same as these.
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

    /// Many times the lines that there are at least.
    const CHANGES: usize = usual_or_interpreted(10_000, 100);

    #[test]
    fn changes_beside_a_reader_of_the_last_snapshots_take_no_more_memory() {
        const NODES: usize = usual_or_interpreted(1000, 20);
        // After so many changes there is no more memory.
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

    /// What lines take that nobody holds others of.
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
        // While one is held, they wait.
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
        assert!(lines.room() <= 2 * LEAST && lines.shown.len() <= lines.room());
        assert_eq!(lines.memory(), held.memory() + of_one(&lines));
        drop(held);
        assert_eq!(lines.memory(), of_one(&lines));
    }
}
