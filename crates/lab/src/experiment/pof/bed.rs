//! Switches and NICs of the experiment: tables and flows from text, frames, and an offloader with
//! its NIC in simulated time.

use std::sync::Arc;

use bench::measure::{Packets, Traffic};
use bench::{Forward, Reading, SentFrames};
use exec::Engine;
use interp::Interp;
use jit::Jit;
use offload::model::{ModelConfig, ModelNic};
use offload::{
    Flow, FlowTracer, OffloadCommand, Offloader, OffloaderOptions, Target, TargetEvent, View,
};
use packet::{Frame, Nanos, PortId};
use pof::{Forwarder, ForwarderOptions};
use pof_runtime::pof_role;
use support::checksum::internet_checksum;
use support::rng::Rng;

/// The port at which packets come in.
pub(super) const INGRESS: PortId = PortId(0);

/// Bytes of a frame without its frame check sequence: 64 on the wire.
pub(super) const FRAME: usize = 60;

/// Bytes that a frame takes on the wire beside its own: frame check sequence, preamble and gap.
const WIRE_BYTES: f64 = 24.0;

/// Bits a second of the paper's generator.
const LINE_RATE: f64 = 20e9;

/// Returns the million frames of this length a second that the paper's generator offers.
pub(super) fn line_mpps(bytes: usize) -> f64 {
    LINE_RATE / 8e6 / (bytes as f64 + WIRE_BYTES)
}

/// The engines, by name.
pub(super) fn engines() -> [(&'static str, Arc<dyn Engine>); 2] {
    [("jit", jit()), ("interp", Arc::new(Interp))]
}

pub(super) fn jit() -> Arc<dyn Engine> {
    Arc::new(Jit::new(Arc::new(Interp)))
}

/// Returns a switch with the tables and flows of a text.
///
/// # Errors
/// A line is wrong, or the switch refuses it.
pub(super) fn forwarder(engine: Arc<dyn Engine>, text: &str) -> Result<Forwarder, String> {
    let made = Forwarder::new(engine, ForwarderOptions::default());
    let mut forwarder = made.map_err(|error| error.to_string())?;
    apply(&mut forwarder, text)?;
    Ok(forwarder)
}

/// Makes the objects of a text.
///
/// # Errors
/// A line is wrong, or the switch refuses it.
pub(super) fn apply(forwarder: &mut Forwarder, text: &str) -> Result<(), String> {
    let made = forwarder.make_text(text);
    made.map_err(|error| error.to_string())
}

/// Returns a frame of UDP over IPv4.
pub(super) fn udp(source: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 0, 0, 7, 0, 0, 64, 17]);
    frame[16..18].copy_from_slice(&(length as u16 - 14).to_be_bytes());
    frame[26..30].copy_from_slice(&source.to_be_bytes());
    frame[30..34].copy_from_slice(&[2, 2, 2, 1]);
    frame[34..38].copy_from_slice(&[0x5A, 0x5A, 0x07, 0xD0]);
    frame[38..40].copy_from_slice(&(length as u16 - 34).to_be_bytes());
    let checksum = internet_checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// Returns the frames that a switch makes of one.
pub(super) fn outputs(forwarder: &mut Forwarder, frame: &[u8]) -> Vec<(PortId, Vec<u8>)> {
    let mut sent = Vec::new();
    let device = forwarder.device();
    // The frames of the experiment are short.
    if device.receive(INGRESS, frame).is_ok() {
        device.step(device.now() + Nanos(1));
        device.drain_sent(|port, bytes, _| sent.push((port, bytes.to_vec())));
    }
    sent
}

/// Frames of flows with consecutive source addresses, alike often.
pub(super) struct Flows {
    pub(super) first: u32,
    pub(super) count: u32,
}

impl Traffic for Flows {
    fn packets(&self, seed: u64) -> Packets<'_> {
        let mut rng = Rng::new(seed);
        let frames: Vec<Vec<u8>> = (0..self.count)
            .map(|flow| udp(self.first + flow, FRAME))
            .collect();
        Box::new(move |frame| {
            let _ = frame.assign(&frames[rng.index(frames.len())]);
            frame.ingress = INGRESS;
        })
    }
}

/// A switch as a side of a measurement.
pub(super) struct OnForwarder(pub(super) Forwarder);

impl Forward for OnForwarder {
    fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut SentFrames) {
        let device = self.0.device();
        device.forward(frames, now, |port, frame, _| out.take(port, frame));
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}

/// Returns the tracer of a switch's flows.
///
/// # Errors
/// No packet of the program can be offloaded: a defect.
pub(super) fn tracer(forwarder: &Forwarder) -> Result<FlowTracer, String> {
    FlowTracer::new(forwarder.program(), pof_role).map_err(|reason| reason.to_string())
}

/// A switch, the offloader and the NIC in memory, in simulated time.
pub(super) struct Bed {
    pub(super) forwarder: Forwarder,
    pub(super) offloader: Offloader,
    pub(super) nic: ModelNic,
    pub(super) now: Nanos,
}

impl Bed {
    /// Creates a switch with the tables and flows of a text, and an empty NIC.
    ///
    /// # Errors
    /// The text is wrong.
    pub(super) fn new(text: &str) -> Result<Bed, String> {
        Bed::with(text, OffloaderOptions::default())
    }

    /// Creates a switch and a NIC, as [`Bed::new`] does, with these settings of the offloader.
    ///
    /// # Errors
    /// The text is wrong.
    pub(super) fn with(text: &str, options: OffloaderOptions) -> Result<Bed, String> {
        let forwarder = forwarder(Arc::new(Interp), text)?;
        let tracer = tracer(&forwarder)?;
        Ok(Bed {
            offloader: Offloader::new(tracer, options),
            nic: ModelNic::new(ModelConfig::default()),
            now: Nanos::from_secs(1),
            forwarder,
        })
    }

    /// Returns the flow of a frame.
    ///
    /// # Errors
    /// It has none.
    pub(super) fn flow(&mut self, frame: &[u8]) -> Result<Flow, String> {
        let mut tracer = tracer(&self.forwarder)?;
        let flow = tracer.trace_in(self.forwarder.device(), INGRESS, frame);
        flow.map_err(|reason| reason.to_string())
    }

    /// Notes a thousand packets of a frame in software.
    pub(super) fn observe(&mut self, frame: &[u8]) {
        let device = self.forwarder.device();
        let view = View {
            state: &device.state(),
            replication: device.replication(),
        };
        self.offloader.observe(self.now, view, INGRESS, frame, 1000);
    }

    /// Lets the offloader do what is due.
    pub(super) fn decide(&mut self) -> Vec<OffloadCommand> {
        let device = self.forwarder.device();
        let view = View {
            state: &device.state(),
            replication: device.replication(),
        };
        self.offloader.step(self.now, view, &self.nic)
    }

    /// Gives commands to the NIC. Returns the number of rules that it adds, replaces or removes.
    pub(super) fn give(&mut self, commands: Vec<OffloadCommand>) -> usize {
        let (nic, now) = (&mut self.nic, self.now);
        let mut rules = 0;
        for command in commands {
            match command {
                OffloadCommand::Add(added) => {
                    rules += added.len();
                    nic.add(now, added);
                }
                OffloadCommand::Replace(replaced) => {
                    rules += replaced.len();
                    nic.replace(now, replaced);
                }
                OffloadCommand::Remove(removed) => {
                    rules += removed.len();
                    nic.remove(now, &removed);
                }
                OffloadCommand::Read(read) => nic.read(now, &read),
                OffloadCommand::Credit(credit) => {
                    credit.apply(self.forwarder.device(), |_, _| false);
                }
            }
        }
        rules
    }

    /// Takes what has happened in the NIC by now. Returns true if rules were added or removed.
    pub(super) fn poll(&mut self) -> bool {
        let mut events = Vec::new();
        self.nic.poll(self.now, &mut events);
        let is_change = |event: &TargetEvent| !matches!(event, TargetEvent::Counts(..));
        let has_changed = events.iter().any(is_change);
        for event in events {
            let commands = self.offloader.event(self.now, event);
            self.give(commands);
        }
        has_changed
    }

    /// Waits until the NIC has nothing to do. Returns the time of its last change from now.
    pub(super) fn settle(&mut self) -> Nanos {
        let (start, mut last) = (self.now, self.now);
        while let Some(at) = self.nic.next_time() {
            self.now = self.now.max(at);
            if self.poll() {
                last = self.now;
            }
        }
        Nanos(last.0 - start.0)
    }
}
