//! `l2`: a learning switch with known hosts.

use driver::StepSource;
use exec::Configuration;
use ir::Program;
use packet::{Frame, Nanos, PortId};
use support::rng::Rng;
use table::EntryIdx;

use super::Size;
use super::fill::Fill;
use super::flat::{BURST, Flat};
use crate::forward::{Forward, Reading, SentFrames};
use crate::names::Key;
use crate::setup::{Item, ItemSink, SetupError};
use crate::tenants::{Part, ShardableWorkload};
use crate::wire::{ETHERNET, be48, put16, put48};
use crate::{Hand, Workload};

/// Number of known hosts.
const STATIONS: u64 = 1 << 16;
/// Number of ports, numbered from 0.
const PORTS: u64 = 16;
/// Length of a frame, in bytes.
const LEN: usize = 64;

/// The workload.
pub(super) struct Switch {
    stations: u64,
    ports: Vec<u32>,
}

impl Switch {
    pub(super) fn new(size: Size) -> Self {
        let ports = 0..PORTS as u32;
        Self {
            stations: match size {
                Size::Full => STATIONS,
                Size::Small => 256,
            },
            ports: ports.collect(),
        }
    }
}

/// Returns the MAC address of a host: locally administered, unicast, in no particular order.
pub(super) fn address(station: u64) -> u64 {
    0x0200_0000_0000 | Rng::new(station).bits() >> 24
}

fn port(station: u64) -> u32 {
    (station % PORTS) as u32
}

fn write(frame: &mut Frame, src: u64, dst: u64, ingress: u32) {
    frame.ingress = PortId(ingress);
    if let Ok(bytes) = frame.make_space(LEN) {
        bytes.fill(0);
        put48(bytes, 0, dst);
        put48(bytes, 6, src);
        put16(bytes, 12, 0x0800);
    }
}

impl Switch {
    /// Adds the entries of these hosts, and the multicast group of all ports.
    fn set_up(
        &self,
        program: &Program,
        stations_of_part: impl Iterator<Item = u64>,
        setup: &mut ItemSink<'_>,
    ) -> Result<(), SetupError> {
        let mut fill = Fill { program, setup };
        let stations = fill.table("stations", "NoAction")?;
        let destinations = fill.table("destinations", "to_port")?;
        for station in stations_of_part {
            let (mac, port) = (Key::Is(address(station)), u64::from(port(station)));
            fill.add(&stations, &[mac, Key::Is(port)], &[])?;
            fill.add(&destinations, &[mac], &[port])?;
        }
        setup(Item::Multicast(1, self.ports.clone()))
    }

    /// Returns the number of groups of hosts in a part. A group has one host per port.
    fn groups(&self, part: Part) -> u64 {
        (self.stations / PORTS / part.of as u64).max(1)
    }

    /// Returns a host of a part.
    fn station(&self, part: Part, group: u64, port: u64) -> u64 {
        (group * part.of as u64 + part.number as u64) * PORTS + port
    }
}

impl ShardableWorkload for Switch {
    fn name(&self) -> &str {
        "l2"
    }

    fn steps(&self) -> Vec<StepSource> {
        vec![StepSource {
            step: "l2".to_owned(),
            text: Workload::source(self).to_owned(),
        }]
    }

    fn ports(&self) -> u32 {
        PORTS as u32
    }

    fn setup(
        &self,
        program: &Program,
        part: Part,
        setup: &mut ItemSink<'_>,
    ) -> Result<(), SetupError> {
        let groups = 0..self.groups(part);
        let ports = |group| (0..PORTS).map(move |port| self.station(part, group, port));
        self.set_up(program, groups.flat_map(ports), setup)
    }

    fn packet(&self, choices: &mut Rng, part: Part, frame: &mut Frame) {
        let groups = self.groups(part);
        let (from, hop) = (choices.below(PORTS), choices.between(1, PORTS - 1));
        let src = self.station(part, choices.below(groups), from);
        let dst = self.station(part, choices.below(groups), (from + hop) % PORTS);
        write(frame, address(src), address(dst), port(src));
    }
}

impl Workload for Switch {
    fn name(&self) -> &'static str {
        "l2"
    }

    fn about(&self) -> &'static str {
        "a learning switch with 65,536 stations: two exact lookups"
    }

    fn source(&self) -> &'static str {
        include_str!("../../programs/l2.p4")
    }

    fn setup(&self, program: &Program, setup: &mut ItemSink<'_>) -> Result<(), SetupError> {
        self.set_up(program, 0..self.stations, setup)
    }

    fn packet(&self, choices: &mut Rng, frame: &mut Frame) {
        let (src, hop) = (choices.below(self.stations), choices.between(1, PORTS - 1));
        let other = choices.below(self.stations) / PORTS * PORTS;
        let dst = other + (src + hop) % PORTS;
        write(frame, address(src), address(dst), port(src));
    }

    fn stray(&self, choices: &mut Rng, frame: &mut Frame) {
        let (src, dst) = (choices.below(self.stations), choices.below(self.stations));
        match choices.below(4) {
            // Destination on the ingress port.
            0 => write(frame, address(src), address(src), port(src)),
            // A host that has moved to another port.
            1 => write(frame, address(src), address(dst), port(src + 1)),
            2 => write(frame, address(src), 0xffff_ffff_ffff, port(src)),
            _ => {
                write(frame, address(src), address(dst), port(src));
                frame.truncate(ETHERNET - 1);
            }
        }
    }

    fn hand_over(&self, configuration: &mut Configuration) -> Result<Hand, SetupError> {
        Ok(Box::new(Loop {
            stations: Flat::new(configuration, "stations", |_, _| ())?,
            destinations: Flat::new(configuration, "destinations", |_, params| params[0] as u32)?,
            ports: self.ports.clone(),
            copy: Frame::new(),
            unknown: Vec::new(),
        }))
    }
}

struct Loop {
    stations: Flat<()>,
    destinations: Flat<u32>,
    ports: Vec<u32>,
    /// Buffer for copies of flooded frames.
    copy: Frame,
    /// Unknown hosts to report to the control plane.
    unknown: Vec<(u64, PortId)>,
}

/// Maximum number of queued reports.
const MAX_MESSAGES: usize = 65_536;

impl Loop {
    fn burst(&mut self, frames: &mut [Frame], out: &mut SentFrames) {
        let mut sources = [0; 2 * BURST];
        let mut destinations = [0; BURST];
        for (i, frame) in frames.iter().enumerate() {
            if let Some(bytes) = frame.bytes().first_chunk::<ETHERNET>() {
                destinations[i] = be48(bytes, 0);
                sources[2 * i] = be48(bytes, 6);
            }
            sources[2 * i + 1] = u64::from(frame.ingress.0);
        }
        let n = frames.len();
        let mut known = [None; BURST];
        let mut found: [Option<EntryIdx>; BURST] = [None; BURST];
        self.stations.find_batch(&sources[..2 * n], &mut known[..n]);
        self.destinations
            .find_batch(&destinations[..n], &mut found[..n]);
        for (i, frame) in frames.iter().enumerate() {
            if frame.len() < ETHERNET {
                continue;
            }
            if known[i].is_none() {
                self.report(sources[2 * i], frame.ingress);
            }
            match found[i].map(|idx| PortId(self.destinations.at(idx))) {
                Some(port) if port == frame.ingress => {}
                Some(port) => out.take(port, frame),
                None => self.flood(frame, out),
            }
        }
    }

    #[cold]
    fn report(&mut self, station: u64, port: PortId) {
        if self.unknown.len() < MAX_MESSAGES {
            self.unknown.push((station, port));
        }
    }

    #[cold]
    fn flood(&mut self, frame: &Frame, out: &mut SentFrames) {
        for port in self.ports.iter().map(|&port| PortId(port)) {
            if port != frame.ingress {
                self.copy.copy_from(frame);
                out.take(port, &self.copy);
            }
        }
    }
}

impl Forward for Loop {
    fn forward(&mut self, frames: &mut [Frame], _: Nanos, out: &mut SentFrames) {
        for burst in frames.chunks_mut(BURST) {
            self.burst(burst, out);
        }
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}
