//! A detector by hand for one layout: Report 2.0 about an IPv4 packet over UDP with INT-MD of three
//! words a hop. Anything else is passed over. State is by flow, and not by path as in the product.

use support::rng::mix;

/// Samples of an average.
const WINDOW: usize = 10;
/// Bytes from the start of the payload to the IPv4 header: group header, individual header, main
/// contents of INT with one metadata value of eight bytes.
const IP: usize = 8 + 4 + 8 + 8;
/// Bytes from there to the first hop: IPv4 header, UDP header, shim header, INT-MD header.
const HOPS: usize = IP + 20 + 8 + 4 + 12;
/// Bytes of a hop.
const HOP: usize = 12;

/// State of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Addresses and ports; 0 is no flow.
    key: (u64, u32),
    sum: u32,
    count: u16,
    next: u16,
    samples: [u32; WINDOW],
}

/// The detector.
pub(super) struct HandWritten {
    slots: Vec<Slot>,
    above: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u32::from_be_bytes(*field))
}

impl HandWritten {
    pub(super) fn new(flows: usize, above: u32) -> HandWritten {
        HandWritten {
            slots: vec![Slot::default(); (2 * flows).next_power_of_two()],
            above,
        }
    }

    /// Takes a report. Returns true if the latency is more than the average.
    #[inline]
    pub(super) fn observe(&mut self, payload: &[u8]) -> bool {
        // Version 2, RepType 1 with InType 4, and 15 words of shim, INT-MD and five hops.
        let is_known = payload.len() >= HOPS + 5 * HOP
            && payload[0] >> 4 == 2
            && payload[8] == 0x14
            && payload[IP] == 0x45
            && payload[IP + 9] == 17
            && payload[HOPS - 15] == 18;
        if !is_known {
            return false;
        }
        let mut latency = 0u32;
        for hop in 0..5 {
            let value = u32_at(payload, HOPS + hop * HOP + 8);
            if value == u32::MAX {
                return false;
            }
            latency = latency.wrapping_add(value);
        }
        let addresses =
            u64::from(u32_at(payload, IP + 12)) << 32 | u64::from(u32_at(payload, IP + 16));
        let key = (addresses, u32_at(payload, IP + 20));
        let mask = self.slots.len() - 1;
        let mut at = mix(key.0 ^ u64::from(key.1) << 16) as usize & mask;
        while self.slots[at].key != key {
            if self.slots[at].key == (0, 0) {
                self.slots[at].key = key;
                break;
            }
            at = (at + 1) & mask;
        }
        let slot = &mut self.slots[at];
        if usize::from(slot.count) == WINDOW {
            if latency > slot.sum / WINDOW as u32 + self.above {
                return true;
            }
            slot.sum -= slot.samples[usize::from(slot.next)];
        } else {
            slot.count += 1;
        }
        slot.samples[usize::from(slot.next)] = latency;
        slot.sum += latency;
        slot.next = (slot.next + 1) % WINDOW as u16;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::reports::five_hops;
    use super::*;

    #[test]
    fn a_jump_of_a_flow_is_found_and_other_flows_are_normal() {
        let mut detector = HandWritten::new(4, 1000);
        for flow in [1, 70_000] {
            for _ in 0..WINDOW {
                assert!(!detector.observe(&five_hops(flow, 500).unwrap()));
            }
        }
        assert!(detector.observe(&five_hops(1, 900).unwrap()));
        assert!(!detector.observe(&five_hops(70_000, 700).unwrap()));
        assert!(!detector.observe(&[0x20; 20]));
    }
}
