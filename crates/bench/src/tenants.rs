//! Measures the cost of virtual data planes. One program with all table entries is compared with
//! many vPDPs that each have a part of them, under the same packets.

use std::sync::Arc;

use driver::StepSource;
use exec::Engine;
use ir::Program;
use packet::{Frame, Nanos, PortId};
use support::rng::Rng;
use support::tsc_clock::Clock;
use switch::{Device, DeviceConfig};
use tenancy::{
    Condition, Connection, EncapHeader, Encapsulation, HypervisorError, Rule, Sharing, Spec,
    TenantSwitch, Vlan, VpdpId, Worker,
};

use crate::arrival::{Arrival, Mixed, Queues, take_part};
use crate::device::change;
use crate::latency::{self, Latencies, Wires};
use crate::measure::{Measured, Plan, Round, Side, Traffic, measure};
use crate::setup::{ItemSink, SetupError};
use crate::{Forward, Reading, SentFrames};

/// A part of a workload's tables and packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the part, from 0.
    pub number: usize,
    /// Number of parts.
    pub of: usize,
}

/// A shardable workload: its tables and packets can be divided into any number of independent
/// parts.
pub trait ShardableWorkload: Sync {
    /// Returns its name in reports.
    fn name(&self) -> &str;

    /// Returns the programs of its chain, in order.
    fn steps(&self) -> Vec<StepSource>;

    /// Returns the number of its ports, numbered from 0. It is the same for each part.
    fn ports(&self) -> u32;

    /// Generates the configuration of a part.
    ///
    /// # Errors
    /// The program is not the workload's.
    fn setup(
        &self,
        program: &Program,
        part: Part,
        setup: &mut ItemSink<'_>,
    ) -> Result<(), SetupError>;

    /// Writes a packet of a part, an untagged Ethernet frame: sets ingress port and bytes.
    fn packet(&self, choices: &mut Rng, part: Part, frame: &mut Frame);
}

/// Assignment of packets to vPDPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Each vPDP has separate ports.
    Whole,
    /// All vPDPs share their ports. A description header precedes each packet.
    Described,
    /// Ports are shared. Rules on port and VLAN assign packets to vPDPs.
    Rules,
}

impl Entry {
    /// All kinds of assignment.
    pub const ALL: [Entry; 3] = [Entry::Whole, Entry::Described, Entry::Rules];

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Entry::Whole => "ports",
            Entry::Described => "header",
            Entry::Rules => "table",
        }
    }

    /// Returns true if each port has packets of all vPDPs.
    fn mixes_ports(self) -> bool {
        self == Entry::Described
    }
}

/// Loads for the latency measurements, as fractions of the program's maximum rate: almost no
/// queueing, and some queueing.
const LIGHT: f64 = 0.1;
const HALF: f64 = 0.5;

/// The program on a device without vPDPs.
struct Native(switch::Worker);

impl Forward for Native {
    fn make_ready(&mut self, frames: &mut [Frame]) {
        for frame in frames {
            take_part(frame);
        }
    }

    fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut SentFrames) {
        self.0
            .forward(frames, now, |port, frame, _| out.take(port, frame));
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}

/// Virtual data planes, one per part.
struct Hosted {
    worker: Worker,
    ports: u32,
    /// Description header of each part, if packets are assigned by header.
    envelopes: Vec<EncapHeader>,
    /// Buffer for a packet with its header.
    described: Frame,
}

impl Forward for Hosted {
    fn make_ready(&mut self, frames: &mut [Frame]) {
        for frame in frames {
            let part = take_part(frame);
            match self.envelopes.get(part) {
                Some(envelope) => {
                    // Packets of workloads are far shorter than the maximum frame length.
                    let _ = self.described.assign(frame.bytes());
                    let _ = envelope.put_on(&mut self.described);
                    // Restores the default headroom of received frames.
                    let _ = frame.assign(self.described.bytes());
                }
                None => frame.ingress.0 += part as u32 * self.ports,
            }
        }
    }

    fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut SentFrames) {
        self.worker
            .forward(frames, now, |port, frame, _| out.take(port, frame));
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}

/// Error of the measurement.
#[derive(Debug)]
pub enum TenantsError {
    /// The entries do not fit a program.
    Setup(SetupError),
    /// The hypervisor refuses an operation.
    Refusal(HypervisorError),
    /// The number of vPDPs is not supported.
    Count(usize),
}

impl std::fmt::Display for TenantsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TenantsError::Setup(error) => error.fmt(f),
            TenantsError::Refusal(error) => error.fmt(f),
            TenantsError::Count(vpdps) => {
                write!(f, "a switch has 1 to {} vPDPs, not {vpdps}", VpdpId::MAX)
            }
        }
    }
}

impl std::error::Error for TenantsError {}

impl From<SetupError> for TenantsError {
    fn from(error: SetupError) -> Self {
        TenantsError::Setup(error)
    }
}

impl From<HypervisorError> for TenantsError {
    fn from(error: HypervisorError) -> Self {
        TenantsError::Refusal(error)
    }
}

/// Configuration of the measurement.
pub struct Tenants<'f> {
    /// The workload.
    pub function: &'f dyn ShardableWorkload,
    /// Its program, the same for one part and for all parts.
    pub program: Arc<Program>,
    /// Execution engine.
    pub engine: Arc<dyn Engine>,
    /// Number of vPDPs.
    pub vpdps: usize,
    /// Assignment of packets to vPDPs.
    pub entry: Entry,
    /// Arrival order of packets.
    pub arrival: Arrival,
}

/// Results for one configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantsReport {
    /// The program without vPDPs.
    pub native: Measured,
    /// The vPDPs.
    pub hosted: Measured,
    /// Both sides in the round with the median ratio, in which the machine was in the same
    /// condition for both.
    pub middle: (Round, Round),
    /// Latencies in memory at a tenth of the program's maximum rate: of the program without vPDPs,
    /// and of vPDPs.
    pub latencies: Latencies,
    /// The same at half of that rate.
    pub at_half: Latencies,
    /// Latencies from wire to wire of both, if wires are available.
    pub over_wires: Option<Latencies>,
}

impl TenantsReport {
    /// Returns the rate of vPDPs divided by the rate of the program without them: the median over
    /// rounds.
    pub fn ratio(&self) -> f64 {
        ratio(&self.middle)
    }
}

fn ratio((native, hosted): &(Round, Round)) -> f64 {
    hosted.mpps / native.mpps
}

/// Returns the round with the median ratio of the second side to the first.
fn middle_round(first: &Measured, second: &Measured) -> Option<(Round, Round)> {
    let rounds = first.rounds.iter().copied();
    let mut rounds: Vec<_> = rounds.zip(second.rounds.iter().copied()).collect();
    rounds.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    rounds.get(rounds.len() / 2).copied()
}

impl Tenants<'_> {
    /// Measures the program without and with vPDPs, alternately, on one worker. Also measures
    /// latencies, over `wires` too if given. `tell` is called with the progress from 0 to 1.
    ///
    /// # Errors
    /// The number of vPDPs is not supported, or the entries do not fit a program.
    pub fn measure(
        &self,
        plan: &Plan,
        wires: Option<&mut (dyn Wires + '_)>,
        tell: &mut (dyn FnMut(f64) + Send),
    ) -> Result<TenantsReport, TenantsError> {
        if !(1..=VpdpId::MAX.into()).contains(&self.vpdps) {
            return Err(TenantsError::Count(self.vpdps));
        }
        // Keep both alive, because the workers need them.
        let (_device, native) = self.native()?;
        let (_hypervisor, hosted) = self.hosted()?;
        let side = |name: &str, forward: Box<dyn Forward + Send>| Side {
            name: name.into(),
            forward,
        };
        let sides = vec![
            side("native", Box::new(native)),
            side("vpdps", Box::new(hosted)),
        ];
        let mixed = Mixed {
            function: self.function,
            parts: self.vpdps,
        };
        let queues = Queues {
            mixed,
            are_shared: self.entry.mixes_ports(),
        };
        let traffic: &dyn Traffic = match self.arrival {
            Arrival::Mixed => &mixed,
            Arrival::Queues => &queues,
        };
        let mut workers = [sides];
        let clock = Clock::new();
        let mut measured = measure(&mut workers, traffic, plan, &clock, tell).into_iter();
        let [sides] = &mut workers;
        let both = measured.next().zip(measured.next());
        let both = both.and_then(|(native, hosted)| {
            let middle = middle_round(&native, &hosted)?;
            Some((native, hosted, middle))
        });
        let ([one, other], Some((native, hosted, middle))) = (&mut sides[..], both) else {
            return Err(TenantsError::Count(self.vpdps));
        };
        // Below saturation, packets do not queue at ports, so the order is always mixed.
        let mut latencies_at = |share: f64| {
            let sides = [&mut *one.forward, &mut *other.forward] as [&mut dyn Forward; 2];
            latency::pairs(sides, &mixed, native.mpps * share, plan)
        };
        let (latencies, at_half) = (latencies_at(LIGHT), latencies_at(HALF));
        let sides = [&mut *one.forward, &mut *other.forward] as [&mut dyn Forward; 2];
        let over_wires = wires.map(|wires| latency::over_wires(sides, &mixed, wires));
        Ok(TenantsReport {
            native,
            hosted,
            middle,
            latencies,
            at_half,
            over_wires,
        })
    }

    fn native(&self) -> Result<(Device, Native), TenantsError> {
        let config = DeviceConfig::default();
        let mut device = Device::new(Arc::clone(&self.program), &*self.engine, &config)
            .map_err(|error| SetupError::Entry(error.to_string()))?;
        for number in 0..self.vpdps {
            self.fill(&mut device, number)?;
        }
        settle(&mut device);
        let worker = device.workers(1).pop();
        let worker = worker.ok_or_else(|| SetupError::Entry("no worker".into()))?;
        Ok((device, Native(worker)))
    }

    fn fill(&self, device: &mut Device, number: usize) -> Result<(), TenantsError> {
        let of = self.vpdps;
        self.function
            .setup(&self.program, Part { number, of }, &mut |item| {
                let applied = device.apply(change(item));
                applied.map_err(|error| SetupError::Entry(error.to_string()))?;
                Ok(())
            })?;
        Ok(())
    }

    fn hosted(&self) -> Result<(TenantSwitch, Hosted), TenantsError> {
        let mut hypervisor = TenantSwitch::new(Arc::clone(&self.engine));
        let ports = self.function.ports();
        let physical = |number: usize, port: u32| match self.entry {
            Entry::Described => PortId(port),
            Entry::Whole | Entry::Rules => PortId(number as u32 * ports + port),
        };
        let sharing = match self.entry {
            Entry::Whole => None,
            Entry::Described => Some(Sharing::Described(Encapsulation::Plain)),
            Entry::Rules => Some(Sharing::Rules),
        };
        let all = (0..self.vpdps).flat_map(|number| (0..ports).map(move |port| (number, port)));
        let all = all.map(|(number, port)| physical(number, port));
        if sharing.is_some() {
            hypervisor.share_ports(all, sharing)?;
        }
        let (mut envelopes, mut rules) = (Vec::new(), Vec::new());
        for number in 0..self.vpdps {
            let own: Vec<PortId> = (0..ports).map(|port| physical(number, port)).collect();
            let vpdp = hypervisor.create(Spec {
                name: number.to_string(),
                ports: own.iter().copied().map(Connection::Physical).collect(),
                ..Spec::default()
            })?;
            hypervisor.load(vpdp, Arc::clone(&self.program))?;
            if let Some(device) = hypervisor.device_mut(vpdp) {
                self.fill(device, number)?;
                settle(device);
            }
            match self.entry {
                Entry::Whole => {}
                Entry::Described => envelopes.push(EncapHeader::new(vpdp, Encapsulation::Plain)),
                Entry::Rules => rules.extend(own.into_iter().map(|port| rule(vpdp, port))),
            }
        }
        hypervisor.add_rules(rules)?;
        let worker = hypervisor.workers(1).pop();
        let worker = worker.ok_or_else(|| SetupError::Entry("no worker".into()))?;
        let hosted = Hosted {
            worker,
            ports,
            envelopes,
            described: Frame::new(),
        };
        Ok((hypervisor, hosted))
    }
}

/// Improves the device's indexes until they are final, and publishes them.
pub(crate) fn settle(device: &mut Device) {
    while device.improve(std::time::Duration::MAX) != switch::Improved::NoMore {}
    device.publish();
}

fn rule(vpdp: VpdpId, port: PortId) -> Rule {
    Rule {
        name: format!("port {port}"),
        vpdp,
        priority: 0,
        conditions: vec![Condition::Port(port), Condition::Vlan(Vlan::Untagged)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_round_is_that_of_the_median_ratio_whatever_rates_are() {
        let side = |rates: [f64; 3]| {
            let round = |mpps| Round {
                mpps,
                ticks_per_packet: 1.0 / mpps,
            };
            Measured {
                name: String::new(),
                mpps: rates[1],
                ticks_per_packet: 1.0,
                middle_half: (0.0, 0.0),
                sent: 1.0,
                rounds: rates.map(round).into(),
            }
        };
        // The machine is half as fast in the last round.
        let (first, second) = (side([10.0, 10.0, 5.0]), side([9.0, 7.0, 4.0]));
        let (native, hosted) = middle_round(&first, &second).unwrap();
        assert_eq!((native.mpps, hosted.mpps), (5.0, 4.0));
        assert!(
            middle_round(
                &side([1.0; 3]),
                &Measured {
                    rounds: Vec::new(),
                    ..side([1.0; 3])
                }
            )
            .is_none()
        );
    }
}
