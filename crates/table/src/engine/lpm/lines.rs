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
    /// Memory that was left, and that snapshots may still show.
    left: Vec<Weak<[Line]>>,
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
        let left = self.left.iter().filter_map(Weak::upgrade);
        let left: usize = left.map(|lines| size_of_val(&lines[..])).sum();
        size_of_val(&self.shared[..]) + left
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
        }
    }

    /// Frees the lines that no snapshot shows any more: those that were retired before all that are held.
    fn reclaim(&mut self) {
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
            self.make_room();
        }
    }

    /// Frees what waits; there are more lines if that is not much. What waited may be of the other size, then the next call adds some.
    fn make_room(&mut self) {
        let is_much = self.waiting * ROOM_SHARE > self.used;
        let more = if is_much { 0 } else { self.used / 4 + LEAST };
        self.leave(fresh(&self.shared, self.shared.len() + more));
    }

    /// Goes on with other memory, which no snapshot shows.
    fn leave(&mut self, shared: Arc<[Line]>) {
        let left = std::mem::replace(&mut self.shared, shared);
        self.left.retain(|lines| lines.strong_count() > 0);
        self.left.push(Arc::downgrade(&left));
        self.shown.clear();
        self.free_retired(self.retired.len());
    }
}

/// So many lines, of which the first are the same as these.
fn fresh(lines: &[Line], count: usize) -> Arc<[Line]> {
    let line = |place| lines.get(place).cloned().unwrap_or_default();
    (0..count).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_a_snapshot_shows_never_changes_and_lines_that_none_shows_are_written_again(
            steps in proptest::collection::vec((0u8..8, any::<prop::sample::Index>()), 0..300)
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

    #[test]
    fn changes_beside_a_reader_of_the_last_snapshots_take_no_more_memory() {
        let mut lines = Lines::new();
        let mut nodes: Vec<Target> = (0..1000).map(|_| lines.add(&[[7; 16]])).collect();
        let mut held = VecDeque::from([lines.snapshot()]);
        let mut room = 0;
        for change in 0..10_000 {
            let node = &mut nodes[change * 7919 % 1000];
            lines.retire(*node);
            *node = lines.add(&[[change as u32; 16]]);
            held.push_back(lines.snapshot());
            held.truncate(4);
            held.pop_front();
            if change == 100 {
                room = lines.memory();
            }
        }
        assert_eq!(lines.memory(), room);
    }

    #[test]
    fn a_snapshot_that_is_held_for_long_costs_the_memory_that_it_shows_and_once() {
        let mut lines = Lines::new();
        let mut node = lines.add(&[[1; 16]]);
        let held = lines.snapshot();
        let mut newest = lines.snapshot();
        for change in 0..10_000 {
            lines.retire(node);
            node = lines.add(&[[change; 16]]);
            newest = lines.snapshot();
        }
        let (place, _) = node.lines().unwrap_or_default();
        assert_eq!(newest.all()[place as usize].image(), [9999; 16]);
        assert!(lines.memory() <= 4 * LEAST * size_of::<Line>());
        drop(held);
        assert!(lines.shown.len() < 4 * LEAST);
    }
}
