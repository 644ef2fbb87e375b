//! Benchmark of ports: forwards frames from one veth interface to another, by different I/O
//! drivers and by a bare loop over the same rings, in turns.
//!
//! One thread first sends the frames, and then measures only the switch's part. The kernel's cost
//! of sending over the veth pair is in all results.

use packet::{Batch, Frame, Nanos};
use port::{
    AfPacketPort, AfXdpPort, Flows, Generator, GeneratorError, Order, Port, PortError, Sizes,
    Template, Testbed, TestbedError, XdpMode,
};
use std::fmt;
use std::time::{Duration, Instant};

use crate::latency::Wires;
use crate::measure::quantile;
use crate::{Forward, SentFrames};

/// Number of frames queued when the measurement starts.
const BURST: usize = 1024;
/// Time for the kernel to deliver these frames.
const ARRIVAL: Duration = Duration::from_micros(100);
/// Timeout for a frame over a veth pair.
const PATIENCE: Duration = Duration::from_millis(10);
/// Start time of frames over veth pairs. Later than all times of other measurements with the same
/// side, because time must not decrease.
const LATER: Nanos = Nanos::from_secs(1 << 21);
/// Minimum number of rounds.
const MIN_ROUNDS: usize = 5;

/// I/O driver of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A loop that forwards directly between AF_XDP rings, without [`Frame`]s.
    Bare,
    /// AF_XDP ports.
    Xdp,
    /// AF_PACKET ports.
    Packet,
}

impl Way {
    /// All I/O drivers.
    pub const ALL: [Self; 3] = [Self::Bare, Self::Xdp, Self::Packet];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Xdp => "af_xdp",
            Self::Packet => "af_packet",
        }
    }
}

/// Results of one I/O driver.
#[derive(Debug, Clone, PartialEq)]
pub struct CarriedFrames {
    /// The I/O driver.
    pub way: Way,
    /// Million frames per second.
    pub mpps: f64,
    /// Interquartile range of `mpps` over the rounds.
    pub middle_half: (f64, f64),
    /// Number of rounds.
    pub rounds: usize,
}

/// Error of the benchmark.
#[derive(Debug)]
pub enum IoError {
    /// The test bed cannot be created on this machine.
    Testbed(TestbedError),
    /// The frames cannot be generated.
    Frames(GeneratorError),
    /// A port failed.
    Port(PortError),
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Testbed(error) => error.fmt(f),
            Self::Frames(error) => error.fmt(f),
            Self::Port(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for IoError {}

impl From<TestbedError> for IoError {
    fn from(error: TestbedError) -> Self {
        Self::Testbed(error)
    }
}

impl From<PortError> for IoError {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

/// Test beds for AF_XDP and AF_PACKET, each with a source, a switch of two ports, and a sink.
pub struct Ports {
    xdp: Testbed<AfXdpPort>,
    packet: Testbed<AfPacketPort>,
    batch: Batch,
}

impl Ports {
    /// Creates the veth pairs and opens the ports. Needs root, or permission to create a user
    /// namespace.
    ///
    /// # Errors
    /// The machine does not allow it.
    pub fn open() -> Result<Self, IoError> {
        Ok(Self {
            xdp: Testbed::new(|id, name| AfXdpPort::open(id, name, XdpMode::Driver))?,
            packet: Testbed::new(AfPacketPort::open)?,
            batch: Batch::default(),
        })
    }

    /// Measures all I/O drivers with frames of this length, for about this time. `tell` is called
    /// with the progress from 0 to 1.
    ///
    /// # Errors
    /// A port fails, or frames cannot have this length.
    pub fn measure(
        &mut self,
        bytes: usize,
        time: Duration,
        tell: &mut dyn FnMut(f64),
    ) -> Result<Vec<CarriedFrames>, IoError> {
        let flows = Flows {
            count: 1024,
            order: Order::Zipf { skew: 0.0 },
        };
        let templates = vec![Template::udp4()];
        let mut frames =
            Generator::new(templates, flows, &Sizes::Fixed(bytes), 1).map_err(IoError::Frames)?;
        let mut mpps = Way::ALL.map(|_| Vec::new());
        let start = Instant::now();
        for round in 0.. {
            let share = start.elapsed().as_secs_f64() / time.as_secs_f64();
            if share >= 1.0 && round >= MIN_ROUNDS {
                break;
            }
            tell(share.min(1.0));
            for (way, mpps) in Way::ALL.into_iter().zip(&mut mpps) {
                mpps.extend(self.turn(way, &mut frames)?);
            }
        }
        let summary = |(way, mut mpps): (Way, Vec<f64>)| CarriedFrames {
            way,
            mpps: quantile(&mut mpps, 0.5),
            middle_half: (quantile(&mut mpps, 0.25), quantile(&mut mpps, 0.75)),
            rounds: mpps.len(),
        };
        Ok(Way::ALL.into_iter().zip(mpps).map(summary).collect())
    }

    fn turn(&mut self, way: Way, frames: &mut Generator) -> Result<Option<f64>, IoError> {
        let batch = &mut self.batch;
        match way {
            Way::Bare => turn(&mut self.xdp, frames, |bed| Ok(pass(bed))),
            Way::Xdp => turn(&mut self.xdp, frames, |bed| carry(bed, batch)),
            Way::Packet => turn(&mut self.packet, frames, |bed| carry(bed, batch)),
        }
    }
}

/// A switch of two AF_XDP ports, each with a veth pair. Frames are received at one port and sent
/// at the other.
pub struct Cables {
    bed: Testbed<AfXdpPort>,
    batch: Batch,
    out: SentFrames,
    leaving: Frame,
}

impl Cables {
    /// Creates the veth pairs and opens the ports. Needs root, or permission to create a user
    /// namespace.
    ///
    /// # Errors
    /// The machine does not allow it.
    pub fn open() -> Result<Self, IoError> {
        Ok(Self {
            bed: Testbed::new(|id, name| AfXdpPort::open(id, name, XdpMode::Driver))?,
            batch: Batch::default(),
            out: SentFrames::keeping(),
            leaving: Frame::new(),
        })
    }

    /// Waits until `look` returns frames. Returns `None` after a timeout.
    fn wait(&mut self, look: impl Fn(&mut Self) -> Result<usize, PortError>) -> Option<()> {
        let begin = Instant::now();
        while look(self).ok()? == 0 {
            if begin.elapsed() > PATIENCE {
                return None;
            }
        }
        Some(())
    }

    fn receive(&mut self) -> Result<usize, PortError> {
        let now = self.bed.now();
        self.bed.input.rx(&mut self.batch, now)
    }

    fn send_all(&mut self) {
        for (_, bytes) in self.out.take_kept() {
            // The bytes come from a frame, so they are not too long.
            let _ = self.leaving.assign(&bytes);
            self.bed.output.tx(std::slice::from_ref(&self.leaving));
        }
        self.out.flush();
    }
}

impl Wires for Cables {
    fn carry(&mut self, frame: &Frame, side: &mut dyn Forward) -> Option<Duration> {
        // Discard a frame that arrived after its timeout.
        while self.bed.take().ok()? > 0 {}
        self.batch.clear();
        let begin = Instant::now();
        self.bed.send(std::slice::from_ref(frame));
        self.wait(Self::receive)?;
        let came = self.batch.frames_mut();
        for came in &mut *came {
            came.ingress = frame.ingress;
        }
        side.forward(came, LATER + self.bed.now(), &mut self.out);
        self.send_all();
        self.wait(|cables| cables.bed.take())?;
        Some(begin.elapsed())
    }
}

/// Forwards the queued frames between the rings. Returns their number.
fn pass(bed: &mut Testbed<AfXdpPort>) -> u64 {
    let mut carried = 0;
    loop {
        match bed.input.pass_to(&mut bed.output) {
            0 => return carried,
            passed => carried += passed,
        }
    }
}

/// Forwards the queued frames by the [`Port`] trait. Returns their number.
fn carry<P: Port>(bed: &mut Testbed<P>, batch: &mut Batch) -> Result<u64, PortError> {
    let now = bed.now();
    let mut carried = 0;
    loop {
        batch.clear();
        match bed.input.rx(batch, now)? {
            0 => return Ok(carried),
            _ => carried += bed.output.tx(batch.frames()).sent,
        }
    }
}

/// Sends frames, forwards them, and returns the rate. Returns `None` if most frames had not
/// arrived when the measurement started, for instance because the kernel left them to a separate
/// thread.
fn turn<P: Port>(
    bed: &mut Testbed<P>,
    frames: &mut Generator,
    carry: impl FnOnce(&mut Testbed<P>) -> Result<u64, PortError>,
) -> Result<Option<f64>, IoError> {
    bed.offer(frames, BURST);
    std::thread::sleep(ARRIVAL);
    let start = Instant::now();
    let carried = carry(bed)?;
    let took = start.elapsed();
    let is_enough = carried as usize > BURST / 2;
    Ok(is_enough.then(|| carried as f64 / took.as_secs_f64() / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_measured_where_the_machine_has_interfaces() {
        let mut ports = match Ports::open() {
            Ok(ports) => ports,
            Err(error) => {
                eprintln!("skipped: {error}");
                return;
            }
        };
        let measured = ports
            .measure(60, Duration::from_millis(10), &mut |_| {})
            .unwrap();
        assert_eq!(measured.len(), 3);
        for carried in &measured {
            assert!(carried.mpps > 0.0 && carried.rounds > 0, "{measured:?}");
        }
        assert!(ports.measure(1 << 20, Duration::ZERO, &mut |_| {}).is_err());
    }
}
