//! The workload of HyperVDP, section V-D: each host sends large flows (elephants) and small flows
//! (mice) to random peers.

use packet::Nanos;
use port::{SplitMix, scale};

use crate::topology::{FlowKind, FlowSpec, HostId, WorkloadSpec};

impl WorkloadSpec {
    /// Returns the workload with the size of elephants multiplied by `share`, at least one byte.
    pub fn scaled(self, share: f64) -> WorkloadSpec {
        WorkloadSpec {
            elephant_bytes: ((self.elephant_bytes as f64 * share) as u64).max(1),
            ..self
        }
    }

    /// Generates all flows between `hosts` hosts. All start at time 0. The same seed gives the
    /// same peers.
    pub fn flows(&self, hosts: usize, seed: u64) -> Vec<FlowSpec> {
        let mut chance = SplitMix::new(seed);
        let mut flows = Vec::new();
        if hosts < 2 {
            return flows;
        }
        for from in 0..hosts {
            let kinds = [
                (FlowKind::Elephant, self.elephants, self.elephant_bytes),
                (FlowKind::Mouse, self.mice, self.mouse_bytes),
            ];
            for (kind, count, bytes) in kinds {
                flows.extend((0..count).map(|_| FlowSpec {
                    from: HostId(from),
                    to: HostId(peer(from, hosts, &mut chance)),
                    bytes,
                    at: Nanos::ZERO,
                    kind,
                }));
            }
        }
        flows
    }
}

/// Returns a random other host.
fn peer(own: usize, hosts: usize, chance: &mut SplitMix) -> usize {
    let other = scale((chance.draw() >> 32) as u32, hosts - 1);
    other + usize::from(other >= own)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: WorkloadSpec = WorkloadSpec {
        elephants: 4,
        elephant_bytes: 1_000_000,
        mice: 300,
        mouse_bytes: 100,
    };

    #[test]
    fn each_host_sends_to_all_others_and_never_to_itself() {
        let flows = SMALL.flows(4, 1);
        assert_eq!(flows.len(), 4 * 304);
        assert!(flows.iter().all(|flow| flow.from != flow.to));
        for from in 0..4 {
            for to in (0..4).filter(|to| *to != from) {
                let pair = (HostId(from), HostId(to));
                let count = flows.iter().filter(|f| (f.from, f.to) == pair).count();
                assert!((60..150).contains(&count), "{from} to {to}: {count}");
            }
        }
        assert_eq!(flows, SMALL.flows(4, 1));
        assert_ne!(flows, SMALL.flows(4, 2));
    }

    #[test]
    fn scaling_leaves_mice_and_numbers_as_they_are() {
        let scaled = SMALL.scaled(0.01);
        assert_eq!(scaled.elephant_bytes, 10_000);
        assert_eq!(
            (scaled.elephants, scaled.mice, scaled.mouse_bytes),
            (4, 300, 100)
        );
    }
}
