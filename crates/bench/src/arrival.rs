//! Arrival order of the packets of a workload divided between vPDPs: mixed at random, or as a
//! worker polls full port queues.

use std::collections::VecDeque;

use packet::{Batch, Frame, PortId};
use support::rng::Rng;

use crate::measure::{Packets, Traffic};
use crate::tenants::{Part, ShardableWorkload};

/// Order in which the packets of different vPDPs arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Each packet belongs to a random vPDP, independent of the packet before. With many vPDPs,
    /// each has few packets per burst. This is the hardest order.
    Mixed,
    /// Packets arrive mixed, but faster than they are forwarded, so they queue at their ports. A
    /// worker of `polyplane host` receives up to 64 packets per port, port by port.
    Queues,
}

impl Arrival {
    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Arrival::Mixed => "mixed",
            Arrival::Queues => "queues",
        }
    }
}

const PART_SHIFT: u32 = 16;

/// Removes the part number from a frame's ingress port and returns it.
pub(crate) fn take_part(frame: &mut Frame) -> usize {
    let part = frame.ingress.0 >> PART_SHIFT;
    frame.ingress = PortId(frame.ingress.0 & ((1 << PART_SHIFT) - 1));
    part as usize
}

/// Packets of all parts in random order. The part number is in the upper half of the ingress port
/// until a side removes it.
#[derive(Clone, Copy)]
pub(crate) struct Mixed<'f> {
    pub(crate) function: &'f dyn ShardableWorkload,
    pub(crate) parts: usize,
}

impl Mixed<'_> {
    /// Writes a packet of the given part, or of a random part. Returns its port.
    fn write(&self, choices: &mut Rng, part: Option<usize>, frame: &mut Frame) -> usize {
        let of = self.parts;
        let number = part.unwrap_or_else(|| choices.below(of as u64) as usize);
        self.function.packet(choices, Part { number, of }, frame);
        let port = frame.ingress.0;
        frame.ingress = PortId(port | (number as u32) << PART_SHIFT);
        port as usize
    }
}

impl Traffic for Mixed<'_> {
    fn packets(&self, seed: u64) -> Packets<'_> {
        let mut choices = Rng::new(seed);
        Box::new(move |frame| {
            self.write(&mut choices, None, frame);
        })
    }
}

/// Maximum number of packets that a worker of `polyplane host` receives from a port in one turn.
const TURN: usize = Batch::DEFAULT;

/// Capacity of a port's queue. Excess packets are dropped.
const MAX_QUEUED: usize = 4 * TURN;

/// The same packets, in the order in which a worker receives them from full port queues.
pub(crate) struct Queues<'f> {
    pub(crate) mixed: Mixed<'f>,
    /// True if each port has packets of all parts. Otherwise each part has separate ports.
    pub(crate) are_shared: bool,
}

impl Traffic for Queues<'_> {
    fn packets(&self, seed: u64) -> Packets<'_> {
        let mut poll = Poll::new(self, seed);
        Box::new(move |frame| poll.next(frame))
    }
}

/// A queued packet.
struct Queued {
    ingress: PortId,
    bytes: Vec<u8>,
}

/// State of a worker that polls the ports round robin.
struct Poll<'q> {
    queues: &'q Queues<'q>,
    choices: Rng,
    /// Queue of each port.
    waiting: Vec<VecDeque<Queued>>,
    /// Index of the current port.
    at: usize,
    /// Number of packets that the current port may still deliver in this turn.
    left: usize,
    /// Number of packets to generate for the ports of the current owner before the turn ends
    /// early. It is so large that only a port with hardly any traffic delivers fewer packets than
    /// a full turn.
    coming: usize,
}

impl<'q> Poll<'q> {
    fn new(queues: &'q Queues<'q>, seed: u64) -> Poll<'q> {
        let Mixed { function, parts } = queues.mixed;
        let owners = if queues.are_shared { 1 } else { parts };
        let ports = owners * function.ports() as usize;
        let mut choices = Rng::new(seed);
        // A measurement is shorter than a cycle over many ports, so each starts at a random port.
        let at = choices.below(ports as u64) as usize;
        let mut poll = Poll {
            queues,
            choices,
            waiting: (0..ports).map(|_| VecDeque::new()).collect(),
            at,
            left: 0,
            coming: 0,
        };
        poll.begin_turn();
        poll
    }

    /// Returns the number of ports of one owner.
    fn ports(&self) -> usize {
        self.queues.mixed.function.ports() as usize
    }

    fn begin_turn(&mut self) {
        self.left = TURN;
        self.coming = MAX_QUEUED * self.ports();
    }

    fn next(&mut self, frame: &mut Frame) {
        loop {
            if self.left == 0 {
                self.at = (self.at + 1) % self.waiting.len();
                self.begin_turn();
            }
            if let Some(queued) = self.waiting[self.at].pop_front() {
                // The bytes come from a frame, so they are not too long.
                let _ = frame.assign(&queued.bytes);
                frame.ingress = queued.ingress;
                self.left -= 1;
                return;
            }
            if self.coming == 0 {
                self.left = 0;
            } else if self.comes_here(frame) {
                self.left -= 1;
                return;
            }
        }
    }

    /// Generates the next packet. Returns true if it is for the current port. Otherwise the packet
    /// is queued at its port.
    fn comes_here(&mut self, frame: &mut Frame) -> bool {
        self.coming -= 1;
        let owner = self.at / self.ports();
        let part = (!self.queues.are_shared).then_some(owner);
        let port = self.queues.mixed.write(&mut self.choices, part, frame);
        let place = owner * self.ports() + port;
        if place != self.at && self.waiting[place].len() < MAX_QUEUED {
            self.waiting[place].push_back(Queued {
                ingress: frame.ingress,
                bytes: frame.bytes().to_vec(),
            });
        }
        place == self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::{self, Size};

    const PARTS: usize = 4;

    /// Returns the part and the port of each of `packets` packets.
    fn came(are_shared: bool, packets: usize) -> Vec<(usize, u32)> {
        let function = workloads::divisible("l2", Size::Small).unwrap();
        let mixed = Mixed {
            function: &*function,
            parts: PARTS,
        };
        let queues = Queues { mixed, are_shared };
        let mut next = queues.packets(7);
        let mut frame = Frame::new();
        let mut one = || {
            next(&mut frame);
            (take_part(&mut frame), frame.ingress.0)
        };
        (0..packets).map(|_| one()).collect()
    }

    #[test]
    fn ports_of_their_own_give_a_turn_of_packets_each_one_port_behind_the_other() {
        let all = came(false, 64 * TURN);
        let turns: Vec<_> = all.chunks(TURN).collect();
        assert!(
            turns
                .iter()
                .all(|turn| turn.iter().all(|one| one == &turn[0]))
        );
        let ports = workloads::divisible("l2", Size::Small).unwrap().ports() as usize;
        let place = |turn: &[(usize, u32)]| turn[0].0 * ports + turn[0].1 as usize;
        for two in turns.windows(2) {
            assert_eq!(place(two[1]), (place(two[0]) + 1) % (PARTS * ports));
        }
    }

    #[test]
    fn a_shared_port_gives_packets_of_all_parts() {
        for turn in came(true, 16 * TURN).chunks(TURN) {
            assert!(turn.iter().all(|(_, port)| *port == turn[0].1));
            for part in 0..PARTS {
                assert!(turn.iter().any(|(other, _)| *other == part), "{part}");
            }
        }
    }
}
