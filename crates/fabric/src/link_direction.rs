//! One direction of a simulated link: a queue, a rate, a delay, and random losses from a seed.

use std::collections::VecDeque;

use packet::{Frame, Nanos};
use port::PerMillion;
use support::rng::Rng;

use crate::pacer::Pacer;
use crate::topology::LinkSpec;

/// Result of offering a frame to a link direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The frame arrives at the other end at this time.
    Arrives(Nanos),
    /// The frame is lost in transit.
    Lost,
    /// The queue is full.
    Overflows,
}

/// Counters of a link direction: offered + duplicated = arrived + lost + overflowed + in transit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineCounts {
    pub(crate) offered: u64,
    pub(crate) arrived: u64,
    pub(crate) arrived_bytes: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) overflowed: u64,
    /// Maximum number of queued frames.
    pub(crate) longest_queue: usize,
    /// Total transmission time of all frames.
    pub(crate) busy: Nanos,
}

/// Separates the random numbers of other faults from those of losses.
const FAULT_SEED: u64 = 0x66_61_75_6c_74;

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct LinkDirection {
    spec: LinkSpec,
    pacer: Pacer,
    chance: Rng,
    /// Random numbers of faults other than loss.
    fault_chance: Rng,
    counts: LineCounts,
    /// Frames in transit, in order of arrival. Frames overtake each other only by a fault.
    on_the_way: VecDeque<Frame>,
    /// Arrival of the last one.
    last_arrival: Nanos,
}

impl LinkDirection {
    pub(crate) fn new(spec: LinkSpec, seed: u64) -> LinkDirection {
        LinkDirection {
            pacer: Pacer::new(spec.rate),
            chance: Rng::new(seed),
            fault_chance: Rng::new(seed ^ FAULT_SEED),
            counts: LineCounts::default(),
            on_the_way: VecDeque::new(),
            last_arrival: Nanos::ZERO,
            spec,
        }
    }

    /// Decides what happens to a frame offered now. The caller must pass a frame that arrives to
    /// [`LinkDirection::put`].
    pub(crate) fn offer(&mut self, bytes: usize, now: Nanos) -> Delivery {
        self.counts.offered += 1;
        let waiting = self.pacer.waiting(now);
        let leaving = match self.pacer.room_at(self.spec.queue) {
            Some(_) => {
                self.counts.overflowed += 1;
                return Delivery::Overflows;
            }
            None => self.pacer.place(bytes, now),
        };
        let waits = usize::from(leaving.start > now);
        self.counts.longest_queue = self.counts.longest_queue.max(waiting + waits);
        self.counts.busy += leaving.end.since(leaving.start);
        if self.spec.faults.drop.hits(self.chance.bits()) {
            self.counts.lost += 1;
            return Delivery::Lost;
        }
        // A fault that ends does not let frames overtake those before them.
        self.last_arrival = self.last_arrival.max(leaving.end + self.spec.delay);
        Delivery::Arrives(self.last_arrival)
    }

    /// Adds a frame that will arrive to the frames in transit, with its faults. Returns true if
    /// it is duplicated: the caller adds the copy by [`LinkDirection::put_copy`].
    pub(crate) fn put(&mut self, mut frame: Frame) -> bool {
        let faults = self.spec.faults;
        let [duplicate, reorder, corrupt] = [faults.duplicate, faults.reorder, faults.corrupt];
        if [duplicate, reorder, corrupt] == [PerMillion(0); 3] {
            self.on_the_way.push_back(frame);
            return false;
        }
        // Each frame uses as many draws, so a rate does not change what the others hit.
        let draws: [u64; 4] = std::array::from_fn(|_| self.fault_chance.bits());
        if corrupt.hits(draws[2]) && !frame.is_empty() {
            let bit = draws[3] as usize % (frame.len() * 8);
            frame.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        }
        self.on_the_way.push_back(frame);
        let last = self.on_the_way.len() - 1;
        if last > 0 && reorder.hits(draws[1]) {
            self.on_the_way.swap(last - 1, last);
        }
        duplicate.hits(draws[0])
    }

    /// Adds a copy of a frame that is duplicated.
    pub(crate) fn put_copy(&mut self, frame: Frame) {
        self.counts.duplicated += 1;
        self.on_the_way.push_back(frame);
    }

    /// Removes and returns the frame that arrives next.
    pub(crate) fn take(&mut self) -> Option<Frame> {
        let frame = self.on_the_way.pop_front()?;
        self.counts.arrived += 1;
        self.counts.arrived_bytes += frame.len() as u64;
        Some(frame)
    }

    /// Sets delay and faults of the frames from now on. Rate and queue stay.
    pub(crate) fn set(&mut self, spec: &LinkSpec) {
        self.spec.delay = spec.delay;
        self.spec.faults = spec.faults;
    }

    pub(crate) fn counts(&self) -> LineCounts {
        self.counts
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.on_the_way.len() as u64
    }

    pub(crate) fn spec(&self) -> &LinkSpec {
        &self.spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::BitRate;
    use port::{FaultRates, PerMillion};

    fn line(queue: usize, loss: u32) -> LinkDirection {
        let spec = LinkSpec {
            rate: Some(BitRate(8_000_000_000)),
            delay: Nanos(500),
            faults: FaultRates {
                drop: PerMillion(loss),
                ..FaultRates::default()
            },
            queue,
        };
        LinkDirection::new(spec, 1)
    }

    #[test]
    fn a_frame_arrives_after_its_time_on_the_line_and_the_delay() {
        let mut line = line(10, 0);
        assert_eq!(line.offer(100, Nanos(0)), Delivery::Arrives(Nanos(600)));
        assert_eq!(line.offer(100, Nanos(10)), Delivery::Arrives(Nanos(700)));
    }

    #[test]
    fn a_frame_does_not_overtake_those_before_it_when_the_delay_falls() {
        let mut line = line(10, 0);
        let plain = *line.spec();
        let slow = LinkSpec {
            delay: Nanos(5000),
            ..plain
        };
        line.set(&slow);
        assert_eq!(line.offer(100, Nanos(0)), Delivery::Arrives(Nanos(5100)));
        line.set(&plain);
        assert_eq!(line.offer(100, Nanos(200)), Delivery::Arrives(Nanos(5100)));
        assert_eq!(line.offer(100, Nanos(6000)), Delivery::Arrives(Nanos(6600)));
    }

    #[test]
    fn a_full_queue_takes_no_more_until_a_frame_has_begun_to_leave() {
        let mut line = line(2, 0);
        let carried: Vec<Delivery> = (0..4).map(|_| line.offer(100, Nanos(0))).collect();
        // One frame is being sent, two are queued.
        assert_eq!(carried[3], Delivery::Overflows);
        assert_eq!(line.offer(100, Nanos(99)), Delivery::Overflows);
        assert_eq!(line.offer(100, Nanos(100)), Delivery::Arrives(Nanos(900)));
        assert_eq!(line.counts().longest_queue, 2);
        assert_eq!(line.counts().overflowed, 2);
    }

    #[test]
    fn losses_come_as_often_as_they_should_and_by_the_seed() {
        let outcomes = |seed| -> Vec<bool> {
            let mut line = line(1, 100_000);
            line.chance = Rng::new(seed);
            (0..10_000)
                .map(|n| line.offer(100, Nanos(n * 100)) == Delivery::Lost)
                .collect()
        };
        let lost = outcomes(1).iter().filter(|lost| **lost).count();
        assert!((900..1100).contains(&lost), "{lost}");
        assert_eq!(outcomes(1), outcomes(1));
        assert_ne!(outcomes(1), outcomes(2));
    }
}
