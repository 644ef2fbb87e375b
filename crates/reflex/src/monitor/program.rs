//! The monitor that is a P4 program: a report is a packet of it, a command a frame that it sends.
//!
//! `reflex.p4` of `sema` declares the headers; [`report_packet`] writes the first two of them,
//! [`Command::read`] reads the third.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use packet::{Nanos, PortId};
use switch::Device;
use telemetry::{FlowKey, Hop, HopTime, L4Ports, ReportedHops};

use super::{Finding, MonitoredReport, Observation, Targets};
use crate::decision::{Measured, PathNodes, Subject};
use crate::fabric_node::FrameObserver;
use crate::permission::{MAX_HOPS, PathPorts, Wish};

/// Port of a program at which reports arrive.
const REPORT_PORT: PortId = PortId(0);
/// Port of a program to which it sends commands.
const COMMAND_PORT: PortId = PortId(1);
/// Version of the headers.
const VERSION: u8 = 1;
/// Lengths of the headers.
const REPORT_BYTES: usize = 60;
const HOP_BYTES: usize = 40;
const COMMAND_BYTES: usize = 68;
/// Permissions that are not named.
const EVERY_REFLEX: u16 = 0xfffe;
const FIRST_REFLEX_ON_PATH: u16 = 0xffff;

/// A monitor that is a P4 program on a device. Its reports are no samples until it has one.
///
/// A frame leaves the program in the step of its report, unless the device has a queue with a rate:
/// then it leaves with a later report, and its decision has the path of that one.
pub struct ProgramMonitor {
    device: Option<Device>,
    /// Memory of a report packet.
    packet: Vec<u8>,
    observer: Option<FrameObserver>,
    malformed: u64,
}

impl ProgramMonitor {
    /// Creates a monitor without a program.
    pub(crate) fn new() -> ProgramMonitor {
        ProgramMonitor {
            device: None,
            packet: Vec::with_capacity(REPORT_BYTES + MAX_HOPS * HOP_BYTES),
            observer: None,
            malformed: 0,
        }
    }

    /// Gives it a device with its program and entries. State of an earlier device is lost.
    pub fn set_device(&mut self, device: Device) {
        self.device = Some(device);
    }

    /// Returns the device, to replace its program, change its entries or read its state between
    /// reports. It gets packets from the plane alone.
    pub fn device_mut(&mut self) -> Option<&mut Device> {
        self.device.as_mut()
    }

    /// Has each report packet passed to a function before the program gets it.
    pub fn set_observer(&mut self, observer: FrameObserver) {
        self.observer = Some(observer);
    }

    /// Returns the number of frames to the port of commands that were no command.
    pub(crate) fn malformed(&self) -> u64 {
        self.malformed
    }

    pub(crate) fn take(
        &mut self,
        report: &MonitoredReport<'_>,
        now: Nanos,
        findings: &mut Vec<Finding>,
    ) -> Observation {
        let Some(device) = &mut self.device else {
            return Observation::NoSample;
        };
        report_packet(report, now, &mut self.packet);
        if let Some(observer) = &mut self.observer {
            observer(&self.packet, now);
        }
        if device.receive(REPORT_PORT, &self.packet).is_err() {
            // Not reached: the packet is shorter than the longest frame.
            return Observation::NoSample;
        }
        device.step(now);
        let (malformed, before) = (&mut self.malformed, findings.len());
        device.drain_sent(|port, frame, _| {
            if port != COMMAND_PORT {
                return;
            }
            match Command::read(frame) {
                Some(command) => findings.push(command.finding(report)),
                None => *malformed += 1,
            }
        });
        match findings.len() > before {
            true => Observation::Alarm,
            false => Observation::Normal,
        }
    }
}

/// Returns a byte with these bits, the first one at the top.
fn bits(flags: [bool; 8]) -> u8 {
    flags
        .into_iter()
        .fold(0, |byte, flag| byte << 1 | u8::from(flag))
}

/// Returns an address as 128 bits; an IPv4 address is in the lower 32.
fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Writes the packet of a report: report header and hop headers. A hop after the first
/// [`MAX_HOPS`] is missing.
fn report_packet(report: &MonitoredReport<'_>, now: Nanos, packet: &mut Vec<u8>) {
    packet.clear();
    packet.resize(REPORT_BYTES, 0);
    let (has_path, is_complete, is_cut) = match &report.hops {
        ReportedHops::Path(path) => {
            let mut hops = path.hops();
            hops.by_ref()
                .take(MAX_HOPS)
                .for_each(|hop| put_hop(&hop, packet));
            (true, path.gaps().is_complete(), hops.next().is_some())
        }
        ReportedHops::Hop(hop) => {
            put_hop(hop, packet);
            (false, false, false)
        }
        ReportedHops::None => (false, false, false),
    };
    let facts = &report.facts;
    let ports = facts.flow.and_then(|flow| flow.ports);
    let hop_count = (packet.len() - REPORT_BYTES) / HOP_BYTES;
    let header = &mut packet[..REPORT_BYTES];
    header[0] = VERSION;
    header[1] = hop_count as u8;
    header[2] = bits([
        facts.flow.is_some(),
        ports.is_some(),
        facts.node.is_some(),
        report.frame_bytes.is_some(),
        facts.queue.is_some(),
        facts.drop_reason.is_some(),
        has_path,
        is_complete && !is_cut,
    ]);
    let node = facts.node.map_or(0, |node| node.0);
    header[4..8].copy_from_slice(&node.to_be_bytes());
    header[8..16].copy_from_slice(&now.0.to_be_bytes());
    header[16..20].copy_from_slice(&report.frame_bytes.unwrap_or(0).to_be_bytes());
    header[21] = facts.queue.unwrap_or(0);
    header[22] = facts.drop_reason.unwrap_or(0);
    if let Some(ports) = ports {
        header[24..26].copy_from_slice(&ports.source.to_be_bytes());
        header[26..28].copy_from_slice(&ports.destination.to_be_bytes());
    }
    if let Some(flow) = facts.flow {
        header[3] = if flow.source.is_ipv4() { 4 } else { 6 };
        header[20] = flow.protocol;
        header[28..44].copy_from_slice(&address_bits(flow.source).to_be_bytes());
        header[44..60].copy_from_slice(&address_bits(flow.destination).to_be_bytes());
    }
}

/// Appends a hop header.
fn put_hop(hop: &Hop, packet: &mut Vec<u8>) {
    let latency = hop.residence();
    let mut header = [0; HOP_BYTES];
    header[0] = bits([
        hop.node.is_some(),
        hop.interfaces.is_some(),
        latency.is_some(),
        hop.queue.is_some(),
        hop.ingress_time.is_some(),
        hop.egress_time.is_some(),
        false,
        false,
    ]);
    if let Some(queue) = hop.queue {
        header[1] = queue.id;
        header[12..16].copy_from_slice(&queue.level.to_be_bytes());
    }
    if let Some(ports) = hop.interfaces {
        header[2..4].copy_from_slice(&ports.ingress.to_be_bytes());
        header[4..6].copy_from_slice(&ports.egress.to_be_bytes());
    }
    let node = hop.node.map_or(0, |node| node.0);
    header[8..12].copy_from_slice(&node.to_be_bytes());
    let time = |time: Option<HopTime>| time.map_or(0, HopTime::nanoseconds).to_be_bytes();
    header[16..24].copy_from_slice(&latency.map_or(0, |latency| latency.0).to_be_bytes());
    header[24..32].copy_from_slice(&time(hop.ingress_time));
    header[32..40].copy_from_slice(&time(hop.egress_time));
    packet.extend_from_slice(&header);
}

/// Change that a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Nothing,
    Entry,
    Port(u32),
    Rate(u64),
    Value(u64),
}

/// Command of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Command {
    ask: Ask,
    subject: Subject,
    reflex: u16,
    measured: u64,
    limit: u64,
}

impl Command {
    /// Reads the header of a command. `None` for other frames.
    fn read(frame: &[u8]) -> Option<Command> {
        let header: &[u8; COMMAND_BYTES] = frame.first_chunk()?;
        let [version, change, subject, ip_version, ..] = *header;
        if version != VERSION {
            return None;
        }
        let number = |at: usize, bytes: usize| {
            let bytes = header[at..at + bytes].iter();
            bytes.fold(0u128, |number, byte| number << 8 | u128::from(*byte))
        };
        let argument = number(12, 8) as u64;
        let address = |at: usize| address(ip_version, number(at, 16));
        Some(Command {
            ask: match change {
                0 => Ask::Nothing,
                1 => Ask::Entry,
                2 => Ask::Port(u32::try_from(argument).ok()?),
                3 => Ask::Rate(argument),
                4 => Ask::Value(argument),
                _ => return None,
            },
            subject: match subject {
                0 => Subject::Tenant,
                1 => Subject::Flow(FlowKey {
                    source: address(36)?,
                    destination: address(52)?,
                    protocol: header[6],
                    ports: (header[7] & 1 == 1).then(|| L4Ports {
                        source: number(8, 2) as u16,
                        destination: number(10, 2) as u16,
                    }),
                }),
                2 => Subject::Host(address(36)?),
                _ => return None,
            },
            reflex: number(4, 2) as u16,
            measured: number(20, 8) as u64,
            limit: number(28, 8) as u64,
        })
    }

    /// Returns the finding of a command about the packet of a report.
    fn finding(&self, report: &MonitoredReport<'_>) -> Finding {
        let path = match &report.hops {
            ReportedHops::Path(path) => Some(path),
            ReportedHops::Hop(_) | ReportedHops::None => None,
        };
        let nodes = path.map(|path| PathNodes::new(super::nodes(path)));
        let nodes = nodes.unwrap_or_default();
        Finding {
            subject: self.subject,
            path: nodes,
            measured: Measured::ByProgram {
                measured: self.measured,
                limit: self.limit,
            },
            wish: match self.ask {
                Ask::Nothing => None,
                Ask::Entry => Some(Wish::Entry(path.map(PathPorts::new).unwrap_or_default())),
                Ask::Port(port) => Some(Wish::Port(port)),
                Ask::Rate(rate) => Some(Wish::Rate(rate)),
                Ask::Value(value) => Some(Wish::Value(value)),
            },
            targets: match self.reflex {
                EVERY_REFLEX => Targets::All,
                FIRST_REFLEX_ON_PATH => Targets::FirstOf(nodes),
                number => Targets::Of(usize::from(number)),
            },
        }
    }
}

/// Returns the address in 128 bits. `None` if it has more bits than its version.
fn address(ip_version: u8, bits: u128) -> Option<IpAddr> {
    match ip_version {
        4 => Some(Ipv4Addr::from_bits(u32::try_from(bits).ok()?).into()),
        6 => Some(Ipv6Addr::from_bits(bits).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use support::rng::Rng;
    use telemetry::{IntNodeId, Interfaces, Occupancy};

    use super::*;
    use crate::classify::ReportFacts;

    /// Returns a command that is right: an entry to a port, for a flow of IPv4.
    fn command() -> [u8; COMMAND_BYTES] {
        let mut command = [0; COMMAND_BYTES];
        command[..8].copy_from_slice(&[1, 2, 1, 4, 0, 3, 17, 1]);
        command[8..12].copy_from_slice(&[0, 80, 0, 90]);
        command[19] = 7;
        command[27] = 11;
        command[35] = 10;
        command[48..52].copy_from_slice(&[10, 0, 0, 1]);
        command[64..].copy_from_slice(&[10, 0, 0, 2]);
        command
    }

    #[test]
    fn a_command_is_read_and_bytes_after_it_are_ignored() {
        let mut frame = command().to_vec();
        frame.extend([9; 30]);
        let expected = Command {
            ask: Ask::Port(7),
            subject: Subject::Flow(FlowKey {
                source: Ipv4Addr::new(10, 0, 0, 1).into(),
                destination: Ipv4Addr::new(10, 0, 0, 2).into(),
                protocol: 17,
                ports: Some(L4Ports {
                    source: 80,
                    destination: 90,
                }),
            }),
            reflex: 3,
            measured: 11,
            limit: 10,
        };
        assert_eq!(Command::read(&frame), Some(expected));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        // Offset and value of a byte.
        for (at, value) in [
            (0, 2),  // version
            (1, 5),  // change
            (2, 3),  // subject
            (3, 5),  // IP version
            (14, 1), // a port of more than 32 bits
            (40, 1), // an IPv4 address of more than 32 bits
        ] {
            let mut command = command();
            command[at] = value;
            assert_eq!(Command::read(&command), None, "byte {at}");
        }
        for end in 0..COMMAND_BYTES {
            assert_eq!(Command::read(&command()[..end]), None, "{end} bytes");
        }
    }

    #[test]
    fn any_bytes_are_a_command_or_refused() {
        let mut rng = Rng::new(1);
        let mut read = 0;
        for _ in 0..100_000 {
            let mut bytes = command();
            for _ in 0..rng.index(4) {
                bytes[rng.index(COMMAND_BYTES)] = rng.bits() as u8;
            }
            read += u32::from(Command::read(&bytes[..rng.index(COMMAND_BYTES + 1)]).is_some());
            read += u32::from(Command::read(&bytes).is_some());
        }
        assert!(read > 10_000);
    }

    #[test]
    fn a_report_packet_has_what_is_known_and_zeros_for_the_rest() {
        let hop = Hop {
            node: Some(IntNodeId(7)),
            interfaces: Some(Interfaces {
                ingress: 1,
                egress: 2,
            }),
            queue: Some(Occupancy { id: 3, level: 400 }),
            ..Hop::default()
        };
        let report = MonitoredReport {
            facts: ReportFacts {
                flow: None,
                node: Some(IntNodeId(7)),
                ingress_port: Some(1),
                egress_port: Some(2),
                queue: Some(3),
                drop_reason: None,
            },
            hops: ReportedHops::Hop(hop),
            frame_bytes: Some(100),
        };
        let mut packet = vec![9; 200];
        report_packet(&report, Nanos(5), &mut packet);
        let mut expected = [0; REPORT_BYTES + HOP_BYTES];
        // Node, length and queue are known.
        expected[..3].copy_from_slice(&[1, 1, 0b0011_1000]);
        (expected[7], expected[15], expected[19], expected[21]) = (7, 5, 100, 3);
        let header = &mut expected[REPORT_BYTES..];
        header[..6].copy_from_slice(&[0b1101_0000, 3, 0, 1, 0, 2]);
        header[11] = 7;
        header[14..16].copy_from_slice(&[1, 144]);
        assert_eq!(packet, expected);
    }
}
