//! What stands at the ends of links.

use packet::{Nanos, PortId};

use crate::topology::LinkSpec;

/// What a fabric is made of: a switch, a host, whatever takes packets at ports and sends them at ports. It owns no thread and no clock.
///
/// Times given to a node never go back. What is to happen at one time happens before [`Node::step`] with that time returns.
pub trait Node {
    /// Tells what the link at a port carries, before there are packets. A node that sends no faster and queues itself decides what it drops.
    fn attach(&mut self, port: PortId, link: &LinkSpec);

    /// A packet arrives. The next step processes it.
    fn receive(&mut self, port: PortId, bytes: &[u8], now: Nanos);

    /// Does all that is to be done by now.
    fn step(&mut self, now: Nanos);

    /// When something is to be done that needs no packet.
    fn next_time(&self) -> Option<Nanos>;

    /// Gives each packet that left to `take`, in the order of leaving: its port, its bytes, when it begins to leave, which may be later than now.
    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos));

    /// What became of all packets so far.
    fn tally(&self) -> Tally;
}

/// What became of a node's packets: received + made = delivered + sent + dropped + held, between any two steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Came in at a port.
    pub received: u64,
    /// Made here: a host's own, a switch's copies.
    pub made: u64,
    /// Reached their end here.
    pub delivered: u64,
    /// Left at a port.
    pub sent: u64,
    /// Dropped, by the reason's name.
    pub dropped: Vec<(&'static str, u64)>,
    /// Inside.
    pub held: u64,
}

impl Tally {
    /// All that was dropped.
    pub fn drops(&self) -> u64 {
        self.dropped.iter().map(|(_, packets)| packets).sum()
    }
}
