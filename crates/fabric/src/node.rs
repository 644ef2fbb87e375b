//! The interface of nodes: the ends of links.

use packet::{Nanos, PortId};

use crate::halves::SplitCounts;
use crate::topology::{DiskFate, LinkSpec};

/// A node of the fabric, such as a switch or a host. It receives and sends packets at ports. It
/// has no thread and no clock.
///
/// Times passed to a node never decrease. All work that is due at a time is done when
/// [`Node::step`] with that time returns.
pub trait Node {
    /// Sets the properties of the link at a port, before the first packet. A node that queues its
    /// packets and sends no faster than the link decides itself which packets to drop.
    fn attach(&mut self, port: PortId, link: &LinkSpec);

    /// Delivers a packet. The next step processes it.
    fn receive(&mut self, port: PortId, bytes: &[u8], now: Nanos);

    /// Does all work that is due at `now`.
    fn step(&mut self, now: Nanos);

    /// Returns the time of the node's next action without a packet.
    fn next_time(&self) -> Option<Nanos>;

    /// Passes each sent packet to `take`, in order: its port, its bytes, and the start of its
    /// transmission, which may be later than now.
    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos));

    /// Returns the packet counters so far.
    fn tally(&self) -> NodeCounts;

    /// Removes and returns the nodes of the servers that were created with this switch, in the
    /// order of the topology.
    fn take_servers(&mut self) -> Vec<Box<dyn Node>> {
        Vec::new()
    }

    /// Returns true if the last step may have changed the next action of a node that was created
    /// together with this one.
    fn changed_others(&mut self) -> bool {
        false
    }

    /// Returns true if the node has a clock of its own, which may deviate.
    fn has_clock(&self) -> bool {
        false
    }

    /// Sets the node's clock ahead from `now` on, and lets it gain these billionths of the time. A
    /// node without a clock of its own does nothing.
    fn set_clock(&mut self, now: Nanos, ahead: Nanos, drift: i64) {
        let _ = (now, ahead, drift);
    }

    /// Ends a pause, in which the node was not called, or the time from a crash to the restart. A
    /// node that acts by itself between its calls makes up for nothing of it.
    fn resume(&mut self, from: Nanos, now: Nanos) {
        let _ = (from, now);
    }

    /// Stops the node at once: it is not called before [`Node::restart`].
    fn crash(&mut self) {}

    /// Starts the node again after a crash. Packets that were inside are lost.
    ///
    /// # Errors
    /// The node has no such start. The message says why, and what to do.
    fn restart(&mut self, disk: DiskFate, now: Nanos) -> Result<(), String> {
        let _ = now;
        match disk {
            DiskFate::Kept => Ok(()),
            DiskFate::Lost => Err("it has no disk to lose; take `disk` away".to_owned()),
        }
    }

    /// Returns the counters of a split program, if this node is its switch.
    fn split_counts(&self) -> Option<SplitCounts> {
        None
    }
}

/// Packet counters of a node. Between two steps, received + made = delivered + sent + dropped +
/// held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Packets received at ports.
    pub received: u64,
    /// Packets made by the node: by a host's applications, or by replication in a switch.
    pub made: u64,
    /// Packets delivered to this node as their destination.
    pub delivered: u64,
    /// Packets sent at ports.
    pub sent: u64,
    /// Dropped packets, by name of the reason.
    pub dropped: Vec<(&'static str, u64)>,
    /// Packets inside the node.
    pub held: u64,
    /// Processing time of all packets.
    pub busy: Nanos,
}

impl NodeCounts {
    /// Adds the counters of the same node at another time.
    pub(crate) fn add(&mut self, other: NodeCounts) {
        self.received += other.received;
        self.made += other.made;
        self.delivered += other.delivered;
        self.sent += other.sent;
        self.held += other.held;
        self.busy += other.busy;
        self.dropped.extend(other.dropped);
    }

    /// Returns the total number of dropped packets.
    pub fn drops(&self) -> u64 {
        self.dropped.iter().map(|(_, packets)| packets).sum()
    }
}
