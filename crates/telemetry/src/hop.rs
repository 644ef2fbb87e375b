//! Values of one hop: what a node measured of a packet.

use packet::Nanos;

/// Identity of a node in its INT domain (INT 2.1, section 4.1: node ID; earlier: switch ID).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntNodeId(pub u32);

impl std::fmt::Display for IntNodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Interfaces of one level that a packet came and left by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interfaces<T> {
    /// The interface that received the packet.
    pub ingress: T,
    /// The interface that sent it.
    pub egress: T,
}

/// Occupancy of a queue or a buffer, in the exporter's unit: bytes, cells or packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Occupancy {
    /// Number of the queue or buffer.
    pub id: u8,
    /// Fill level, at most 24 bits.
    pub level: u32,
}

/// Local time of a node, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HopTime {
    /// All 64 bits (INT 2.x, Report 2.0).
    Full(u64),
    /// The lower 32 bits (INT and Report 0.5 and 1.0): they wrap after 4.29 s.
    Low(u32),
}

impl HopTime {
    /// Returns the span from `earlier` to this time on the same clock. A span of 32-bit times is
    /// below 4.29 s. `None` if the widths differ, or if 64-bit times run backwards.
    #[inline]
    pub fn since(self, earlier: HopTime) -> Option<Nanos> {
        match (self, earlier) {
            (HopTime::Full(end), HopTime::Full(start)) => end.checked_sub(start).map(Nanos),
            (HopTime::Low(end), HopTime::Low(start)) => {
                Some(Nanos(u64::from(end.wrapping_sub(start))))
            }
            _ => None,
        }
    }

    /// Returns the time as it is stored, in nanoseconds.
    pub const fn nanoseconds(self) -> u64 {
        match self {
            HopTime::Full(time) => time,
            HopTime::Low(time) => time as u64,
        }
    }
}

/// Values of one hop. `None` is a value that was not requested, or that the node does not know: it
/// wrote all ones (INT 2.1, section 5.8: "invalid"). All ones are recognised per metadata of 4 or 8
/// bytes, not per half of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// The node.
    pub node: Option<IntNodeId>,
    /// Interfaces of level 1, mostly physical ports.
    pub interfaces: Option<Interfaces<u16>>,
    /// Time in the node, in nanoseconds unless its metadata semantics define another unit.
    pub latency: Option<u32>,
    /// Queue of the packet.
    pub queue: Option<Occupancy>,
    /// Local time when the packet was received.
    pub ingress_time: Option<HopTime>,
    /// Local time when the packet was sent.
    pub egress_time: Option<HopTime>,
    /// Interfaces of level 2, mostly logical ones.
    pub logical_interfaces: Option<Interfaces<u32>>,
    /// Utilisation of the egress interface, in the exporter's unit.
    pub tx_utilisation: Option<u32>,
    /// Shared buffer.
    pub buffer: Option<Occupancy>,
}

impl Hop {
    /// Returns the time in the node: the hop latency, else the span between the node's own times,
    /// which are of one clock.
    #[inline]
    pub fn residence(&self) -> Option<Nanos> {
        if let Some(latency) = self.latency {
            return Some(Nanos(u64::from(latency)));
        }
        self.egress_time?.since(self.ingress_time?)
    }

    /// Returns these values, with those of `other` where this hop has none.
    #[must_use]
    pub fn or(self, other: Hop) -> Hop {
        Hop {
            node: self.node.or(other.node),
            interfaces: self.interfaces.or(other.interfaces),
            latency: self.latency.or(other.latency),
            queue: self.queue.or(other.queue),
            ingress_time: self.ingress_time.or(other.ingress_time),
            egress_time: self.egress_time.or(other.egress_time),
            logical_interfaces: self.logical_interfaces.or(other.logical_interfaces),
            tx_utilisation: self.tx_utilisation.or(other.tx_utilisation),
            buffer: self.buffer.or(other.buffer),
        }
    }
}

/// A drop that the exporter reports (Report 2.0, section 3.3.1: bit 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DropRecord {
    /// Queue that the packet was in or meant for.
    pub queue: u8,
    /// Reason, a number of the exporter.
    pub reason: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_of_one_clock_and_one_width() {
        use HopTime::{Full, Low};
        assert_eq!(Full(1500).since(Full(400)), Some(Nanos(1100)));
        assert_eq!(Full(400).since(Full(1500)), None);
        assert_eq!(Low(100).since(Low(0xffff_ff9c)), Some(Nanos(200)));
        assert_eq!(Full(100).since(Low(50)), None);
        assert_eq!(Low(100).since(Full(50)), None);
    }

    #[test]
    fn residence_is_the_stated_latency_else_the_span_of_the_hops_times() {
        let mut hop = Hop {
            latency: Some(700),
            ingress_time: Some(HopTime::Full(1000)),
            egress_time: Some(HopTime::Full(1900)),
            ..Hop::default()
        };
        assert_eq!(hop.residence(), Some(Nanos(700)));
        hop.latency = None;
        assert_eq!(hop.residence(), Some(Nanos(900)));
        hop.egress_time = None;
        assert_eq!(hop.residence(), None);
    }
}
