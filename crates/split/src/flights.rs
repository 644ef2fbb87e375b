//! Counts of the packets that fly to servers in one window, for the placement of entries.
//!
//! The policy `threshold` counts them in a sketch and notes each key above the threshold once. The
//! policies `heap` and `random` note all keys with their exact counts.

use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use placement::hash::RowHashes;
use placement::{Policy, Sketch, SketchSize};

/// Places that are tried for a key before it is given up.
const PROBES: usize = 32;

/// Policy, sketch and number of keys of a window.
#[derive(Clone, Copy, Debug)]
pub struct FlightOptions {
    /// The policy.
    pub policy: Policy,
    /// Size of the sketch.
    pub sketch: SketchSize,
    /// Number of keys that can be noted, rounded up to a power of two.
    pub reports: usize,
}

/// Counts of one window. The workers of a switch share them.
#[derive(Debug)]
pub struct Flights {
    policy: Policy,
    sketch: Sketch,
    /// For each cut, the number of packets and the threshold.
    cuts: Box<[(AtomicU64, AtomicU64)]>,
    slots: Box<[Slot]>,
    /// Keys of the slots, `stride` words each.
    keys: Box<[AtomicU64]>,
    stride: usize,
    /// Packets with keys that found no slot.
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Slot {
    /// Hash of cut and key, never 0; 0: free.
    tag: AtomicU64,
    count: AtomicU32,
    /// Number of the cut plus 1 when the key is written.
    cut: AtomicU32,
}

/// Key that was noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightReport {
    /// Number of the cut.
    pub cut: u16,
    /// The key, zero-padded to whole words.
    pub key: Vec<u8>,
    /// Packets, or an estimate.
    pub packets: u64,
}

/// Counts of a window, as the switch reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowCounts {
    /// Packets that flew, by cut from the first one on.
    pub flown: Vec<u64>,
    /// The keys that were noted.
    pub reports: Vec<FlightReport>,
}

impl WindowCounts {
    /// Returns the number of packets that flew at a cut.
    pub fn packets(&self, cut: u16) -> u64 {
        let at = usize::from(cut).checked_sub(1);
        at.and_then(|at| self.flown.get(at)).copied().unwrap_or(0)
    }
}

impl Flights {
    /// Creates the counts of a window. `cuts` is the number of cuts, and `key_bytes` the length of
    /// the longest key.
    pub(crate) fn new(options: &FlightOptions, cuts: usize, key_bytes: usize) -> Flights {
        let slots = options.reports.next_power_of_two().max(PROBES);
        let stride = key_bytes.div_ceil(8).max(1);
        let size = match options.policy {
            Policy::Threshold => options.sketch,
            _ => SketchSize {
                columns: 1,
                rows: 1,
            },
        };
        Flights {
            policy: options.policy,
            sketch: Sketch::new(size),
            cuts: (0..=cuts)
                .map(|_| (AtomicU64::new(0), AtomicU64::new(u64::MAX)))
                .collect(),
            slots: (0..slots).map(|_| Slot::default()).collect(),
            keys: (0..slots * stride).map(|_| AtomicU64::new(0)).collect(),
            stride,
            lost: AtomicU64::new(0),
        }
    }

    /// Sets the threshold of a cut: keys with more packets are noted.
    pub(crate) fn set_threshold(&self, cut: u16, threshold: u64) {
        if let Some((_, place)) = self.cuts.get(usize::from(cut)) {
            place.store(threshold, Relaxed);
        }
    }

    /// Copies the thresholds of another window.
    pub(crate) fn copy_thresholds(&self, other: &Flights) {
        for (to, from) in self.cuts.iter().zip(&other.cuts) {
            to.1.store(from.1.load(Relaxed), Relaxed);
        }
    }

    /// Counts a request. `tagged` is the number of the cut in two bytes, and the key. Called for
    /// each packet.
    pub(crate) fn count(&self, cut: u16, tagged: &[u8]) {
        let Some((packets, threshold)) = self.cuts.get(usize::from(cut)) else {
            return;
        };
        packets.fetch_add(1, Relaxed);
        match self.policy {
            Policy::None => {}
            Policy::Threshold => {
                let estimate = self.sketch.count(tagged);
                if u64::from(estimate) > threshold.load(Relaxed) {
                    self.note(cut, tagged);
                }
            }
            Policy::Random | Policy::Heap => self.note(cut, tagged),
        }
    }

    fn note(&self, cut: u16, tagged: &[u8]) {
        let mut hashes = RowHashes::new(tagged);
        let (low, high) = (hashes.next_row(), hashes.next_row());
        let tag = (u64::from(high) << 32 | u64::from(low)).max(1);
        let mask = self.slots.len() - 1;
        for at in (0..PROBES).map(|probe| (low as usize ^ high as usize).wrapping_add(probe) & mask)
        {
            let slot = &self.slots[at];
            let mut found = slot.tag.load(Acquire);
            if found == 0 {
                match slot.tag.compare_exchange(0, tag, Release, Acquire) {
                    Ok(_) => {
                        self.write_key(at, &tagged[2..]);
                        slot.cut.store(u32::from(cut) + 1, Release);
                        found = tag;
                    }
                    Err(other) => found = other,
                }
            }
            if found == tag {
                slot.count.fetch_add(1, Relaxed);
                return;
            }
        }
        self.lost.fetch_add(1, Relaxed);
    }

    fn write_key(&self, at: usize, key: &[u8]) {
        let words = &self.keys[at * self.stride..(at + 1) * self.stride];
        for (word, bytes) in words.iter().zip(key.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_be_bytes(padded), Relaxed);
        }
    }

    /// Returns the number of packets that flew at a cut.
    pub fn packets(&self, cut: u16) -> u64 {
        let cut = self.cuts.get(usize::from(cut));
        cut.map_or(0, |(packets, _)| packets.load(Relaxed))
    }

    /// Returns the number of packets with keys that could not be noted.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Returns the counts of the window. `key_bytes` has the length of a cut's keys.
    pub fn counts(&self, key_bytes: impl Fn(u16) -> usize) -> WindowCounts {
        WindowCounts {
            flown: (1..self.cuts.len() as u16)
                .map(|cut| self.packets(cut))
                .collect(),
            reports: self.reports(key_bytes),
        }
    }

    /// Returns the keys that were noted. `key_bytes` has the length of a cut's keys.
    pub fn reports(&self, key_bytes: impl Fn(u16) -> usize) -> Vec<FlightReport> {
        let slots = self.slots.iter().enumerate();
        let noted = slots.filter_map(|(at, slot)| {
            let cut = slot.cut.load(Acquire).checked_sub(1)? as u16;
            let words = &self.keys[at * self.stride..(at + 1) * self.stride];
            let bytes = words
                .iter()
                .flat_map(|word| word.load(Relaxed).to_be_bytes());
            let key: Vec<u8> = bytes.take(key_bytes(cut)).collect();
            let packets = match self.policy {
                Policy::Threshold => {
                    let tagged = [&cut.to_be_bytes()[..], &key].concat();
                    u64::from(self.sketch.estimate(&tagged))
                }
                _ => u64::from(slot.count.load(Relaxed)),
            };
            Some(FlightReport { cut, key, packets })
        });
        let mut noted: Vec<FlightReport> = noted.collect();
        noted.sort_by(|a, b| (a.cut, &a.key).cmp(&(b.cut, &b.key)));
        noted
    }

    /// Sets all counts to zero. Thresholds stay.
    pub(crate) fn clear(&self) {
        self.sketch.clear();
        self.cuts
            .iter()
            .for_each(|(packets, _)| packets.store(0, Relaxed));
        for slot in &self.slots {
            slot.tag.store(0, Relaxed);
            slot.count.store(0, Relaxed);
            slot.cut.store(0, Relaxed);
        }
        self.lost.store(0, Relaxed);
    }
}
