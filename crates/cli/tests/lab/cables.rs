//! Virtual cables between the test and a switch in a separate namespace.

use std::time::{Duration, Instant};

use packet::{Batch, Frame, Nanos, PortId};
use port::{AfPacketPort, Netns, Port};

/// The interfaces `port0`, `port1`, ... in the switch's namespace, with their far ends, which are
/// ports of the test.
pub(crate) struct Cables {
    pub(crate) switch: Netns,
    /// The namespace of the far ends.
    pub(crate) far: Netns,
    pub(crate) ends: Vec<AfPacketPort>,
    pub(crate) clock: Instant,
}

impl Cables {
    /// Creates the cables. Returns `None`, and prints the reason, if the machine forbids
    /// namespaces.
    pub(crate) fn new(count: u32) -> Option<Cables> {
        let created = [Netns::create(), Netns::create()];
        let [Ok(switch), Ok(far)] = created else {
            println!("skipped: {created:?}");
            return None;
        };
        for netns in [&switch, &far] {
            let quiet = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            let _ = netns.run(quiet).unwrap();
        }
        let end = |n: u32| lay(&switch, &far, n);
        let ends = (0..count).map(end).collect();
        let clock = Instant::now();
        Some(Cables {
            switch,
            far,
            ends,
            clock,
        })
    }

    /// Removes a cable and creates it again.
    pub(crate) fn renew(&mut self, n: u32) {
        self.ends[n as usize] = self.renewed(n);
    }

    /// Creates a cable again that was removed.
    pub(crate) fn lay(&mut self, n: u32) {
        self.ends[n as usize] = lay(&self.switch, &self.far, n);
    }

    /// Removes a cable and creates it again. Returns its far end.
    pub(crate) fn renewed(&self, n: u32) -> AfPacketPort {
        let name = format!("port{n}");
        self.switch.rtnl().unwrap().delete_link(&name).unwrap();
        lay(&self.switch, &self.far, n)
    }

    /// Sends a frame by one end until it arrives at another, for at most five seconds. Returns
    /// the end where it arrives.
    pub(crate) fn carries(&mut self, from: usize, bytes: &[u8]) -> Option<usize> {
        self.carries_within(from, bytes, Duration::from_secs(5))
    }

    /// As [`Cables::carries`], with another time limit.
    pub(crate) fn carries_within(
        &mut self,
        from: usize,
        bytes: &[u8],
        within: Duration,
    ) -> Option<usize> {
        let frame = [Frame::from_bytes(bytes).unwrap()];
        let mut batch = Batch::default();
        let start = Instant::now();
        while start.elapsed() < within {
            self.ends[from].tx(&frame);
            std::thread::sleep(Duration::from_millis(5));
            for (number, end) in self.ends.iter_mut().enumerate() {
                batch.clear();
                let now = Nanos::from(self.clock.elapsed());
                let _ = end.rx(&mut batch, now);
                let is_there = batch.frames().iter().any(|frame| frame.bytes() == bytes);
                if number != from && is_there {
                    return Some(number);
                }
            }
        }
        None
    }
}

/// Creates a cable from a switch's namespace to another one, and opens its far end.
fn lay(switch: &Netns, far: &Netns, n: u32) -> AfPacketPort {
    let (near_name, far_name) = (format!("port{n}"), format!("end{n}"));
    let mut near = switch.rtnl().unwrap();
    near.add_veth(&near_name, &far_name, Some(far)).unwrap();
    near.set_up(&near_name).unwrap();
    far.rtnl().unwrap().set_up(&far_name).unwrap();
    far.run(|| AfPacketPort::open(PortId(n), &far_name))
        .unwrap()
        .unwrap()
}
