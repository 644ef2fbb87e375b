//! Sequence numbers against a naive model that remembers all of them.

use std::collections::HashMap;

use support::rng::Rng;
use telemetry::{
    Arrival, RESTART_RUN, ReportVersion, SequenceCounts, SequenceTracker, SequenceWindow, WINDOW,
    datagram_digest,
};

/// One start of a sequence: all numbers, extended, with their digests.
struct Model {
    modulus: i128,
    numbers: HashMap<i128, u16>,
    run: Vec<i128>,
    total: SequenceCounts,
}

impl Model {
    fn new(version: ReportVersion, first: u32, digest: u16) -> Model {
        let first = i128::from(first);
        Model {
            modulus: 1 << version.sequence_bits(),
            numbers: HashMap::from([(first, digest)]),
            run: Vec::new(),
            total: SequenceCounts {
                received: 1,
                ..SequenceCounts::default()
            },
        }
    }

    fn highest(&self) -> i128 {
        *self.numbers.keys().max().unwrap()
    }

    /// Missing numbers of this start.
    fn missing(&self) -> u64 {
        let lowest = self.numbers.keys().min().unwrap();
        (self.highest() - lowest + 1) as u64 - self.numbers.len() as u64
    }

    fn counts(&self) -> SequenceCounts {
        SequenceCounts {
            lost: self.total.lost + self.missing(),
            ..self.total
        }
    }

    fn observe(&mut self, number: u32, digest: u16) -> Arrival {
        let highest = self.highest();
        // The candidate nearest to the highest number.
        let base = highest.div_euclid(self.modulus) * self.modulus + i128::from(number);
        let candidates = [base - self.modulus, base, base + self.modulus];
        let place = candidates
            .into_iter()
            .find(|place| *place > highest && *place <= highest + self.modulus / 4)
            .or_else(|| {
                let window = i128::from(WINDOW);
                candidates
                    .into_iter()
                    .find(|place| *place <= highest && *place > highest - window)
            });
        let repeated = place.and_then(|place| self.numbers.get(&place));
        match (place, repeated) {
            (Some(_), Some(known)) if *known == digest => {
                self.total.repeated += 1;
                return Arrival::Repeated;
            }
            (Some(place), None) => {
                self.run.clear();
                self.total.received += 1;
                self.numbers.insert(place, digest);
                if place <= highest {
                    self.total.late += 1;
                    return Arrival::Late;
                }
                if place.div_euclid(self.modulus) != highest.div_euclid(self.modulus) {
                    self.total.wraps += 1;
                }
                return match place - highest {
                    1 => Arrival::Next,
                    step => Arrival::Gap {
                        missing: (step - 1) as u32,
                    },
                };
            }
            _ => {}
        }
        self.total.received += 1;
        let number = i128::from(number);
        if self
            .run
            .last()
            .is_none_or(|last| (last + 1) % self.modulus != number)
        {
            self.run.clear();
        }
        self.run.push(number);
        if self.run.len() as u32 == RESTART_RUN {
            self.total.lost += self.missing();
            self.total.restarts += 1;
            self.numbers = HashMap::from([(number, digest)]);
            self.run.clear();
            return Arrival::Restarted;
        }
        self.total.outside += 1;
        Arrival::Outside
    }
}

/// Plays a stream of datagrams with all kinds of faults against the model.
fn check_stream(version: ReportVersion, seed: u64, length: u32) -> SequenceCounts {
    let mask = ((1u64 << version.sequence_bits()) - 1) as u32;
    let mut rng = Rng::new(seed);
    let first = match seed % 3 {
        0 => 0,
        1 => mask - rng.below(u64::from(length)) as u32,
        _ => rng.bits() as u32 & mask,
    };
    let mut window = SequenceWindow::new(version, first, 0);
    let mut model = Model::new(version, first, 0);
    let mut sent = first;
    // Digests depend on the number and on the start.
    let mut start = 0u32;
    let digest = |number: u32, start: u32| (number ^ start.wrapping_mul(0x9e37)) as u16;
    for _ in 0..length {
        let number = match rng.below(100) {
            0..75 => {
                sent = sent.wrapping_add(1) & mask;
                sent
            }
            75..85 => {
                sent = sent.wrapping_add(2 + rng.below(5) as u32) & mask;
                sent
            }
            85..97 => sent.wrapping_sub(rng.below(12) as u32) & mask,
            97 => sent.wrapping_sub(rng.below(2 * WINDOW) as u32) & mask,
            98 => {
                // A large step: forward, back, or to nowhere.
                sent = sent.wrapping_add(rng.bits() as u32) & mask;
                sent
            }
            _ => {
                start += 1;
                sent = rng.below(4) as u32;
                sent
            }
        };
        let digest = digest(number, start);
        let expected = model.observe(number, digest);
        assert_eq!(window.observe(number, digest), expected, "seed {seed}");
        assert_eq!(window.counts(), model.counts(), "seed {seed}");
    }
    window.counts()
}

#[test]
fn every_datagram_has_the_place_of_the_naive_model() {
    let mut total = SequenceCounts::default();
    for seed in 0..300 {
        for version in [ReportVersion::V2, ReportVersion::V1] {
            total = total.plus(check_stream(version, seed, 300));
        }
    }
    // The streams have all kinds of faults.
    let SequenceCounts {
        received,
        lost,
        late,
        repeated,
        outside,
        restarts,
        wraps,
    } = total;
    for count in [received, lost, late, repeated, outside, restarts, wraps] {
        assert!(count > 100, "{total:?}");
    }
}

/// Expected places of numbers of 22 bits with equal digests, after the first number.
fn check(first: u32, rest: &[(u32, Arrival)]) -> SequenceCounts {
    let mut window = SequenceWindow::new(ReportVersion::V2, first, 1);
    for (number, arrival) in rest {
        assert_eq!(window.observe(*number, 1), *arrival, "number {number}");
    }
    window.counts()
}

#[test]
fn a_gap_a_wrap_a_late_and_a_repeated_datagram_are_distinguished() {
    use Arrival::*;
    const LAST: u32 = 0x3f_ffff;
    let counts = check(
        LAST - 2,
        &[(LAST - 1, Next), (LAST, Next), (0, Next), (1, Next)],
    );
    assert_eq!((counts.wraps, counts.lost, counts.received), (1, 0, 5));
    let counts = check(
        LAST,
        &[(3, Gap { missing: 3 }), (1, Late), (LAST, Repeated)],
    );
    assert_eq!((counts.wraps, counts.lost, counts.late), (1, 2, 1));
    assert_eq!((counts.repeated, counts.received), (1, 3));
    // Late over the wrap, and late before the first one.
    let counts = check(
        0,
        &[(LAST, Late), (LAST - 2, Late), (LAST - 1, Late), (1, Next)],
    );
    assert_eq!((counts.late, counts.lost, counts.wraps), (3, 0, 0));
}

#[test]
fn an_exporter_that_starts_again_is_not_taken_for_a_repetition() {
    let mut window = SequenceWindow::new(ReportVersion::V2, 0, 0);
    for number in 1..=500 {
        assert_eq!(window.observe(number, number as u16), Arrival::Next);
    }
    // The same numbers, other datagrams.
    let again: Vec<Arrival> = (0..10).map(|number| window.observe(number, 1000)).collect();
    assert_eq!(again[..3], [Arrival::Outside; 3]);
    assert_eq!(again[3], Arrival::Restarted);
    assert_eq!(again[4..], [Arrival::Next; 6]);
    let counts = window.counts();
    assert_eq!((counts.repeated, counts.restarts, counts.lost), (0, 1, 0));
    // A burst that the network delivers twice is repeated, and starts nothing.
    for number in 5..10 {
        assert_eq!(window.observe(number, 1000), Arrival::Repeated);
    }
    assert_eq!(window.observe(10, 0), Arrival::Next);
}

#[test]
fn exporters_are_counted_apart_and_their_number_is_bounded() {
    let mut tracker = SequenceTracker::new(2);
    let mut observe =
        |exporter: u32, number| tracker.observe(exporter, ReportVersion::V2, number, 0);
    assert_eq!(observe(1, 10), Arrival::First);
    assert_eq!(observe(2, 20), Arrival::First);
    assert_eq!(observe(3, 30), Arrival::Untracked);
    assert_eq!(observe(1, 11), Arrival::Next);
    assert_eq!(observe(2, 25), Arrival::Gap { missing: 4 });
    assert_eq!(observe(3, 31), Arrival::Untracked);
    let again = tracker.observe(1, ReportVersion::V1, 12, 0);
    assert_eq!(again, Arrival::Restarted);
    assert_eq!(tracker.untracked(), 2);
    assert_eq!(tracker.counts(&3), None);
    assert_eq!(tracker.counts(&2).unwrap().lost, 4);
    let total = tracker.total();
    assert_eq!((total.received, total.lost, total.restarts), (5, 4, 1));
    assert_eq!(tracker.iter().count(), 2);
}

#[test]
fn digests_of_different_datagrams_differ() {
    assert_eq!(datagram_digest(b"one"), datagram_digest(b"one"));
    assert_ne!(datagram_digest(b"one"), datagram_digest(b"two"));
}
