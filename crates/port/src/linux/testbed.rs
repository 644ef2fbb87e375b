//! A switch's surroundings to measure it in: a source and a sink of frames, each on a virtual cable to a
//! port of the switch, in network namespaces of their own.

use super::af_xdp::{AfXdpPort, XdpMode};
use super::netns::{Netns, NetnsError};
use super::rtnl::RtnlError;
use crate::{Generator, LinkState, Port, PortError};
use packet::{Batch, Frame, Nanos, PortId};
use std::fmt;
use std::time::{Duration, Instant};

/// How long a cable may take to come up.
const LINK_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no test bed.
#[derive(Debug)]
pub enum TestbedError {
    /// This machine has no network namespaces, or no virtual cables.
    Netns(NetnsError),
    /// A port cannot be opened.
    Port(PortError),
    /// A cable did not come up.
    NoLink {
        /// The interface at its end.
        name: String,
    },
}

impl fmt::Display for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TestbedError::Netns(error) => error.fmt(f),
            TestbedError::Port(error) => error.fmt(f),
            TestbedError::NoLink { name } => write!(f, "{name} did not come up"),
        }
    }
}

impl std::error::Error for TestbedError {}

impl From<NetnsError> for TestbedError {
    fn from(error: NetnsError) -> TestbedError {
        TestbedError::Netns(error)
    }
}

impl From<PortError> for TestbedError {
    fn from(error: PortError) -> TestbedError {
        TestbedError::Port(error)
    }
}

/// Two ports of one kind, which a switch joins, and what is around them.
///
/// Sending over a virtual cable carries a frame to the other end at once, in the sender's own time. So
/// one thread can offer frames, and then measure how long the switch takes for them and nothing else.
pub struct Testbed<P> {
    /// The switch's port 0, where the source's frames arrive.
    pub input: P,
    /// The switch's port 1, whose frames arrive at the sink.
    pub output: P,
    source: AfXdpPort,
    sink: AfXdpPort,
    _netns: [Netns; 3],
    frames: Batch,
    clock: Instant,
}

impl<P: Port> Testbed<P> {
    /// Lays the cables and opens the switch's ports by `open`, which is given each one's number and
    /// interface.
    ///
    /// # Errors
    /// This machine does not allow it.
    pub fn new(
        open: impl Fn(PortId, &str) -> Result<P, PortError> + Sync,
    ) -> Result<Testbed<P>, TestbedError>
    where
        P: Send,
    {
        let [before, switch, behind] = [Netns::create()?, Netns::create()?, Netns::create()?];
        for netns in [&before, &switch, &behind] {
            // Nobody but the source sends anything. Where this is forbidden, some frames more come.
            let silence = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            let _ = netns.run(silence)?;
        }
        lay(&switch, "in0", &before, "source0")?;
        lay(&switch, "out0", &behind, "sink0")?;
        let at_end = |netns: &Netns, name: &str| {
            netns.run(|| AfXdpPort::open(PortId(0), name, XdpMode::Driver))
        };
        let mut bed = Testbed {
            source: at_end(&before, "source0")??,
            sink: at_end(&behind, "sink0")??,
            input: switch.run(|| open(PortId(0), "in0"))??,
            output: switch.run(|| open(PortId(1), "out0"))??,
            _netns: [before, switch, behind],
            frames: Batch::with_capacity(Batch::USUAL),
            clock: Instant::now(),
        };
        bed.wait_up()?;
        Ok(bed)
    }

    /// Waits until all links carry frames: a kernel takes its time to notice.
    fn wait_up(&mut self) -> Result<(), TestbedError> {
        let mut unused = Batch::with_capacity(1);
        let ports: [&mut dyn Port; 3] = [&mut self.source, &mut self.input, &mut self.output];
        for port in ports {
            let start = Instant::now();
            while port.link() != LinkState::Up {
                if start.elapsed() > LINK_TIMEOUT {
                    let name = port.name().to_owned();
                    return Err(TestbedError::NoLink { name });
                }
                std::thread::sleep(Duration::from_millis(1));
                // Asking for frames makes the port look at its link.
                let _ = port.rx(&mut unused, Nanos::from(start.elapsed()));
                unused.clear();
            }
        }
        Ok(())
    }

    /// Has the source send `n` frames of the generator; how many of them its cable took. They wait at
    /// [`Testbed::input`], unless there are more than a port holds.
    pub fn offer(&mut self, generator: &mut Generator, n: usize) -> u64 {
        let mut sent = 0;
        let mut left = n;
        while left > 0 {
            self.frames.clear();
            let now = self.now();
            generator.fill(&mut self.frames, PortId(0), now);
            let frames = self.frames.frames();
            let frames = &frames[..frames.len().min(left)];
            sent += self.source.tx(frames).sent;
            left -= frames.len();
        }
        sent
    }

    /// Has the source send these frames; how many of them its cable took.
    pub fn send(&mut self, frames: &[Frame]) -> u64 {
        self.source.tx(frames).sent
    }

    /// Takes what has arrived at the sink; how many frames.
    ///
    /// # Errors
    /// The sink's end of the cable fails.
    pub fn take(&mut self) -> Result<usize, PortError> {
        self.frames.clear();
        self.sink
            .rx(&mut self.frames, Nanos::from(self.clock.elapsed()))
    }

    /// The time since the test bed was made: a clock for its ports.
    pub fn now(&self) -> Nanos {
        Nanos::from(self.clock.elapsed())
    }
}

/// Lays a cable from the switch to another namespace.
fn lay(switch: &Netns, name: &str, other: &Netns, end: &str) -> Result<(), NetnsError> {
    let failed = |e: RtnlError| NetnsError::Failed {
        doing: e.doing,
        source: e.source,
    };
    let mut rtnl = switch.rtnl()?;
    rtnl.add_veth(name, end, Some(other)).map_err(failed)?;
    rtnl.set_up(name).map_err(failed)?;
    other.rtnl()?.set_up(end).map_err(failed)
}
