//! Sequence numbers of datagrams: gaps, late and repeated datagrams, and new starts of each
//! exporter, in bounded memory.
//!
//! Numbers are extended to 64 bits from the highest one: the difference modulo the width, taken as
//! a signed number, is a step forward or back (RFC 1982; RFC 3550, appendix A.1). So a wrap is a
//! step as any other. A window of [`WINDOW`] numbers below the highest remembers which have
//! arrived, with a digest of their datagrams: the same number with the same digest is a duplicate,
//! with another digest it is of a sequence that started again.

use std::collections::HashMap;
use std::hash::Hash;

use support::checksum;

use crate::report::ReportVersion;

/// Numbers below the highest one that are remembered: a report that is later than this is not
/// known to be late or repeated.
pub const WINDOW: u64 = 1024;

/// Successive numbers without a place in the sequence that prove a new start.
pub const RESTART_RUN: u32 = 4;

const BITS: usize = 64;
const WORDS: usize = WINDOW as usize / BITS;

/// Place of an arrived datagram in its exporter's sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The exporter's first datagram.
    First,
    /// The number after the highest one.
    Next,
    /// A higher number; those between are missing, so far.
    Gap {
        /// Number of the missing ones.
        missing: u32,
    },
    /// A missing number that arrives late.
    Late,
    /// A number that has arrived before, with an equal datagram: a duplicate.
    Repeated,
    /// A number without a place: too far from the others, or one that has arrived before with
    /// another datagram. It is much too late, or of a sequence that started again.
    Outside,
    /// The last of [`RESTART_RUN`] successive numbers that do not continue the sequence: the
    /// exporter started again. Its numbers are counted from here.
    Restarted,
    /// The tracker has no room for the exporter. The datagram is not placed.
    Untracked,
}

/// Counts of one exporter's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceCounts {
    /// Datagrams without the repeated ones.
    pub received: u64,
    /// Missing numbers. A late datagram takes its number away.
    pub lost: u64,
    /// Late datagrams.
    pub late: u64,
    /// Repeated datagrams.
    pub repeated: u64,
    /// Datagrams without a place.
    pub outside: u64,
    /// Starts after the first one.
    pub restarts: u64,
    /// Passes of the highest number from the last value of its width to the first one.
    pub wraps: u64,
}

impl SequenceCounts {
    /// Returns the sums.
    #[must_use]
    pub fn plus(self, other: SequenceCounts) -> SequenceCounts {
        SequenceCounts {
            received: self.received + other.received,
            lost: self.lost + other.lost,
            late: self.late + other.late,
            repeated: self.repeated + other.repeated,
            outside: self.outside + other.outside,
            restarts: self.restarts + other.restarts,
            wraps: self.wraps + other.wraps,
        }
    }
}

/// Sequence of one exporter: its highest number, and the window below it.
#[derive(Clone, Debug)]
pub struct SequenceWindow {
    version: ReportVersion,
    /// Highest number, extended. It begins above the window, so that numbers below it exist.
    highest: u64,
    /// Lowest number of this start, extended.
    lowest: u64,
    /// Bit `n % WINDOW` is set if number `n` of the window has arrived.
    seen: [u64; WORDS],
    /// Digest of the datagram with number `n` at `n % WINDOW`.
    digests: [u16; WINDOW as usize],
    /// Last number without a place, and the length of its run.
    odd: u32,
    odd_run: u32,
    counts: SequenceCounts,
}

impl SequenceWindow {
    /// Creates the sequence of an exporter from its first number.
    pub fn new(version: ReportVersion, first: u32, digest: u16) -> SequenceWindow {
        let mut window = SequenceWindow {
            version,
            highest: 0,
            lowest: 0,
            seen: [0; WORDS],
            digests: [0; WINDOW as usize],
            odd: 0,
            odd_run: 0,
            counts: SequenceCounts {
                received: 1,
                ..SequenceCounts::default()
            },
        };
        window.start(first, digest);
        window
    }

    /// Returns the counts.
    pub fn counts(&self) -> SequenceCounts {
        self.counts
    }

    fn start(&mut self, first: u32, digest: u16) {
        // One modulus up: the extended number keeps its value modulo the width.
        self.highest = self.modulus() + u64::from(first & self.mask());
        self.lowest = self.highest;
        self.seen = [0; WORDS];
        self.mark(self.highest, digest);
        self.odd_run = 0;
    }

    fn modulus(&self) -> u64 {
        1 << self.version.sequence_bits()
    }

    fn mask(&self) -> u32 {
        (self.modulus() - 1) as u32
    }

    fn mark(&mut self, number: u64, digest: u16) {
        let bit = (number % WINDOW) as usize;
        self.seen[bit / BITS] |= 1 << (bit % BITS);
        self.digests[bit] = digest;
    }

    fn is_marked(&self, number: u64) -> bool {
        let bit = (number % WINDOW) as usize;
        self.seen[bit / BITS] >> (bit % BITS) & 1 != 0
    }

    /// Clears the marks of the numbers after `from` up to `to`.
    fn clear(&mut self, from: u64, to: u64) {
        if to - from >= WINDOW {
            self.seen = [0; WORDS];
            return;
        }
        for number in from + 1..=to {
            let bit = (number % WINDOW) as usize;
            self.seen[bit / BITS] &= !(1 << (bit % BITS));
        }
    }

    /// Places a datagram in the sequence and counts it.
    #[inline]
    pub fn observe(&mut self, number: u32, digest: u16) -> Arrival {
        let mask = self.mask();
        let step = number.wrapping_sub(self.highest as u32) & mask;
        if step == 1 {
            self.advance(1, digest);
            return Arrival::Next;
        }
        self.observe_other(number & mask, step, digest)
    }

    fn advance(&mut self, step: u64, digest: u16) {
        let modulus = self.modulus();
        let next = self.highest + step;
        self.clear(self.highest, next);
        self.counts.wraps += u64::from(next / modulus != self.highest / modulus);
        self.counts.received += 1;
        self.counts.lost += step - 1;
        self.highest = next;
        self.mark(next, digest);
        self.odd_run = 0;
    }

    fn observe_other(&mut self, number: u32, step: u32, digest: u16) -> Arrival {
        // A quarter of the width: a larger step forward is as likely a new start.
        if step != 0 && u64::from(step) <= self.modulus() / 4 {
            self.advance(u64::from(step), digest);
            return Arrival::Gap { missing: step - 1 };
        }
        let back = u64::from(step.wrapping_neg() & self.mask());
        if back >= WINDOW {
            return self.unplaced(number, digest);
        }
        let place = self.highest - back;
        if self.is_marked(place) {
            if self.digests[(place % WINDOW) as usize] != digest {
                return self.unplaced(number, digest);
            }
            self.counts.repeated += 1;
            return Arrival::Repeated;
        }
        self.odd_run = 0;
        self.mark(place, digest);
        self.counts.received += 1;
        self.counts.late += 1;
        if place < self.lowest {
            // Sent before the first one that arrived. The numbers between are missing.
            self.counts.lost += self.lowest - place - 1;
            self.lowest = place;
        } else {
            self.counts.lost -= 1;
        }
        Arrival::Late
    }

    /// Counts a datagram without a place, and starts again after a run of them.
    fn unplaced(&mut self, number: u32, digest: u16) -> Arrival {
        let is_successor = self.odd_run > 0 && number == self.odd.wrapping_add(1) & self.mask();
        self.odd_run = if is_successor { self.odd_run + 1 } else { 1 };
        self.odd = number;
        self.counts.received += 1;
        if self.odd_run >= RESTART_RUN {
            self.counts.restarts += 1;
            self.start(number, digest);
            return Arrival::Restarted;
        }
        self.counts.outside += 1;
        Arrival::Outside
    }
}

/// Returns the digest of a datagram's payload for [`SequenceTracker::observe`]: its Internet
/// checksum's sum.
#[inline]
pub fn datagram_digest(payload: &[u8]) -> u16 {
    checksum::ones_complement_sum(payload)
}

/// Sequences of all exporters, by a key: [`crate::Exporter`], or one with the source address.
/// Its memory is bounded by the number of exporters, and is allocated at once.
#[derive(Clone, Debug)]
pub struct SequenceTracker<K> {
    windows: HashMap<K, SequenceWindow>,
    max_exporters: usize,
    untracked: u64,
}

impl<K: Copy + Eq + Hash> SequenceTracker<K> {
    /// Creates a tracker of at most this number of exporters.
    pub fn new(max_exporters: usize) -> SequenceTracker<K> {
        SequenceTracker {
            windows: HashMap::with_capacity(max_exporters),
            max_exporters,
            untracked: 0,
        }
    }

    /// Places a datagram in its exporter's sequence and counts it. An exporter that changes the
    /// version of its reports starts again.
    #[inline]
    pub fn observe(
        &mut self,
        exporter: K,
        version: ReportVersion,
        number: u32,
        digest: u16,
    ) -> Arrival {
        if let Some(window) = self.windows.get_mut(&exporter) {
            if window.version == version {
                return window.observe(number, digest);
            }
            let mut next = SequenceWindow::new(version, number, digest);
            next.counts = window.counts;
            next.counts.received += 1;
            next.counts.restarts += 1;
            *window = next;
            return Arrival::Restarted;
        }
        if self.windows.len() >= self.max_exporters {
            self.untracked += 1;
            return Arrival::Untracked;
        }
        self.windows
            .insert(exporter, SequenceWindow::new(version, number, digest));
        Arrival::First
    }

    /// Returns the counts of an exporter.
    pub fn counts(&self, exporter: &K) -> Option<SequenceCounts> {
        Some(self.windows.get(exporter)?.counts())
    }

    /// Returns the exporters and their counts, in any order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, SequenceCounts)> {
        self.windows
            .iter()
            .map(|(key, window)| (key, window.counts()))
    }

    /// Returns the sum of the counts of all exporters.
    pub fn total(&self) -> SequenceCounts {
        let counts = self.windows.values().map(SequenceWindow::counts);
        counts.fold(SequenceCounts::default(), SequenceCounts::plus)
    }

    /// Returns the number of datagrams of exporters that had no room.
    pub fn untracked(&self) -> u64 {
        self.untracked
    }
}
