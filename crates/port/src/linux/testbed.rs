//! Test bed of a switch for measurements: a source and a sink, each connected by a veth pair to a
//! port of the switch. All are in private network namespaces.

use super::af_xdp::{AfXdpPort, XdpMode};
use super::netns::{Netns, NetnsError};
use super::rtnl::RtnlError;
use crate::{Generator, LinkState, Port, PortError};
use packet::{Batch, Frame, Nanos, PortId};
use std::fmt;
use std::time::{Duration, Instant};

/// Maximum time for a veth link to come up.
const LINK_TIMEOUT: Duration = Duration::from_secs(5);

/// Error of creating a test bed.
#[derive(Debug)]
pub enum TestbedError {
    /// The machine does not support network namespaces or veth pairs.
    Netns(NetnsError),
    /// A port cannot be opened.
    Port(PortError),
    /// A veth link did not come up.
    NoLink {
        /// The interface.
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

/// A test bed with two open switch ports, `input` and `output`, a source and a sink.
///
/// Sending over a veth pair delivers the frame to the other end synchronously, in the sender's
/// time. So one thread can first send frames, and then measure only the time of the switch.
pub struct Testbed<P> {
    /// The switch's port 0, which receives the source's frames.
    pub input: P,
    /// The switch's port 1, which sends to the sink.
    pub output: P,
    source: AfXdpPort,
    sink: AfXdpPort,
    _netns: [Netns; 3],
    frames: Batch,
    clock: Instant,
}

impl<P: Port> Testbed<P> {
    /// Creates the veth pairs and opens the switch's ports. `open` gets each port's number and
    /// interface.
    ///
    /// # Errors
    /// The machine does not support it.
    pub fn new(
        open: impl Fn(PortId, &str) -> Result<P, PortError> + Sync,
    ) -> Result<Testbed<P>, TestbedError>
    where
        P: Send,
    {
        let [before, switch, behind] = [Netns::create()?, Netns::create()?, Netns::create()?];
        for netns in [&before, &switch, &behind] {
            // Only the source must send frames, so IPv6 autoconfiguration is disabled. If that is
            // forbidden, a few more frames arrive.
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
            frames: Batch::with_capacity(Batch::DEFAULT),
            clock: Instant::now(),
        };
        bed.wait_up()?;
        Ok(bed)
    }

    /// Waits until all links are up. The kernel reports a carrier with a delay.
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
                // A receive call makes the port query its link.
                let _ = port.rx(&mut unused, Nanos::from(start.elapsed()));
                unused.clear();
            }
        }
        Ok(())
    }

    /// Sends `n` frames of the generator from the source. Returns the number of frames that the
    /// link accepted. They are queued at [`Testbed::input`], up to the port's capacity.
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

    /// Sends these frames from the source. Returns the number of frames that the link accepted.
    pub fn send(&mut self, frames: &[Frame]) -> u64 {
        self.source.tx(frames).sent
    }

    /// Receives the frames that arrived at the sink. Returns their number.
    ///
    /// # Errors
    /// The sink's port fails.
    pub fn take(&mut self) -> Result<usize, PortError> {
        self.frames.clear();
        self.sink
            .rx(&mut self.frames, Nanos::from(self.clock.elapsed()))
    }

    /// Returns the time since the test bed was created: the clock of its ports.
    pub fn now(&self) -> Nanos {
        Nanos::from(self.clock.elapsed())
    }
}

/// Creates a veth pair between the switch's namespace and another one.
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
