//! Flows that a server knows: their hashes, with the time of the last packet.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use packet::Nanos;

/// Number of places.
const PLACES: usize = 1 << 18;

/// Places at which a flow can be.
const PROBES: usize = 16;

/// Flows that one server knows. Its workers share them. A flow that finds no free place takes that
/// of the one that was idle the longest.
#[derive(Debug)]
pub struct KnownFlows {
    /// For each place, the flow and the time of its last packet in milliseconds plus 1; 0: free.
    places: Box<[AtomicU64]>,
    forgotten: AtomicU64,
}

impl Default for KnownFlows {
    fn default() -> Self {
        KnownFlows {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            forgotten: AtomicU64::new(0),
        }
    }
}

impl KnownFlows {
    /// Notes a packet of a flow. Called for each packet.
    pub fn note(&self, flow: u32, now: Nanos) {
        let new = u64::from(flow) << 32 | u64::from(millis(now));
        // Two workers may look for a place at once.
        for _ in 0..PROBES {
            let mut oldest = (u32::MAX, 0);
            let mut free = None;
            for at in (0..PROBES).map(|probe| (flow as usize + probe) % PLACES) {
                let place = self.places[at].load(Relaxed);
                if place == 0 {
                    free = Some(at);
                    break;
                }
                if (place >> 32) as u32 == flow {
                    self.places[at].store(new, Relaxed);
                    return;
                }
                oldest = oldest.min((place as u32, at));
            }
            let (at, before) = match free {
                Some(at) => (at, 0),
                None => (oldest.1, self.places[oldest.1].load(Relaxed)),
            };
            let taken = self.places[at].compare_exchange(before, new, Relaxed, Relaxed);
            if taken.is_ok() {
                self.forgotten.fetch_add(u64::from(before != 0), Relaxed);
                return;
            }
        }
    }

    /// Returns the flows with a packet since this time, in order.
    pub fn since(&self, time: Nanos) -> Vec<u32> {
        let first = millis(time);
        let places = self.places.iter().map(|place| place.load(Relaxed));
        let known = places.filter(|&place| place != 0 && place as u32 >= first);
        let mut flows: Vec<u32> = known.map(|place| (place >> 32) as u32).collect();
        flows.sort_unstable();
        flows.dedup();
        flows
    }

    /// Forgets all flows.
    pub fn clear(&self) {
        self.places.iter().for_each(|place| place.store(0, Relaxed));
    }

    /// Returns the number of flows that left because there were too many.
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Relaxed)
    }
}

fn millis(time: Nanos) -> u32 {
    (time.0 / 1_000_000) as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_known_from_their_first_packet_on() {
        let flows = KnownFlows::default();
        for flow in 0..10_000u32 {
            flows.note(
                flow.wrapping_mul(0x9e37_79b9),
                Nanos::from_millis(u64::from(flow)),
            );
        }
        assert_eq!(flows.since(Nanos(0)).len(), 10_000);
        assert_eq!(flows.since(Nanos::from_millis(9000)).len(), 1000);
        assert_eq!(flows.forgotten(), 0);
    }

    #[test]
    fn the_longest_idle_flow_leaves_if_there_are_too_many() {
        let flows = KnownFlows::default();
        // All of them have the same places.
        let flow = |number: u32| number * PLACES as u32;
        for number in 0..=PROBES as u32 {
            flows.note(flow(number), Nanos::from_millis(u64::from(number)));
        }
        assert_eq!(flows.forgotten(), 1);
        let known = flows.since(Nanos(0));
        assert!(!known.contains(&flow(0)) && known.contains(&flow(PROBES as u32)));
    }
}
