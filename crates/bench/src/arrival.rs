//! In which order packets of a function's parts come: each from anywhere, or as a worker takes them from ports that are full.

use std::collections::VecDeque;

use packet::{Batch, Frame, PortId};

use crate::Choices;
use crate::measure::{Packets, Traffic};
use crate::tenants::{Divisible, Part};

/// Whose the next packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Anybody's, whoever's the one before was: few packets of a round are one vPDP's where there are many. No order is harder.
    Mixed,
    /// Packets come like that, but faster than they are carried: they wait in queues of their ports, from which a worker of `polyplane host` takes 64 at
    /// once, port by port.
    Queues,
}

impl Arrival {
    /// Its name, as rows have it.
    pub fn name(self) -> &'static str {
        match self {
            Arrival::Mixed => "mixed",
            Arrival::Queues => "queues",
        }
    }
}

const PART_SHIFT: u32 = 16;

/// Takes the part out of a frame's port.
pub(crate) fn take_part(frame: &mut Frame) -> usize {
    let part = frame.ingress.0 >> PART_SHIFT;
    frame.ingress = PortId(frame.ingress.0 & ((1 << PART_SHIFT) - 1));
    part as usize
}

/// Packets of all parts; the part stands in the port's upper half until a side makes them its own.
#[derive(Clone, Copy)]
pub(crate) struct Mixed<'f> {
    pub(crate) function: &'f dyn Divisible,
    pub(crate) parts: usize,
}

impl Mixed<'_> {
    /// A packet of any part, or of this one; its port.
    fn write(&self, choices: &mut Choices, part: Option<usize>, frame: &mut Frame) -> usize {
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
        let mut choices = Choices::new(seed);
        Box::new(move |frame| {
            self.write(&mut choices, None, frame);
        })
    }
}

/// Packets that a port gives a worker of `polyplane host` at once.
const TURN: usize = Batch::USUAL;

/// Packets that may wait at a port; more are missed.
const MOST_QUEUED: usize = 4 * TURN;

/// The same packets, as they are taken from ports that are full.
pub(crate) struct Queues<'f> {
    pub(crate) mixed: Mixed<'f>,
    /// Whether each port has packets of all parts; otherwise each part has ports of its own.
    pub(crate) are_shared: bool,
}

impl Traffic for Queues<'_> {
    fn packets(&self, seed: u64) -> Packets<'_> {
        let mut poll = Poll::new(self, seed);
        Box::new(move |frame| poll.next(frame))
    }
}

/// A packet that waits.
struct Queued {
    ingress: PortId,
    bytes: Vec<u8>,
}

/// A worker's way from port to port, over and over.
struct Poll<'q> {
    queues: &'q Queues<'q>,
    choices: Choices,
    /// What waits at each port.
    waiting: Vec<VecDeque<Queued>>,
    /// The port whose turn it is.
    at: usize,
    /// Packets that it may still give in this turn.
    left: usize,
    /// Packets that come before it has nothing more to give, by whichever of its owner's ports: so many that only one by which hardly any come has too few.
    coming: usize,
}

impl<'q> Poll<'q> {
    fn new(queues: &'q Queues<'q>, seed: u64) -> Poll<'q> {
        let Mixed { function, parts } = queues.mixed;
        let owners = if queues.are_shared { 1 } else { parts };
        let ports = owners * function.ports() as usize;
        let mut choices = Choices::new(seed);
        // A pass is shorter than the way round many ports: each begins elsewhere.
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

    /// Ports of one owner.
    fn ports(&self) -> usize {
        self.queues.mixed.function.ports() as usize
    }

    fn begin_turn(&mut self) {
        self.left = TURN;
        self.coming = MOST_QUEUED * self.ports();
    }

    fn next(&mut self, frame: &mut Frame) {
        loop {
            if self.left == 0 {
                self.at = (self.at + 1) % self.waiting.len();
                self.begin_turn();
            }
            if let Some(queued) = self.waiting[self.at].pop_front() {
                // It was a frame's: it is not too long for one.
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

    /// Whether the next packet comes by the port whose turn it is; otherwise it waits at its own.
    fn comes_here(&mut self, frame: &mut Frame) -> bool {
        self.coming -= 1;
        let owner = self.at / self.ports();
        let part = (!self.queues.are_shared).then_some(owner);
        let port = self.queues.mixed.write(&mut self.choices, part, frame);
        let place = owner * self.ports() + port;
        if place != self.at && self.waiting[place].len() < MOST_QUEUED {
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

    /// The part and the port of each of so many packets.
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
