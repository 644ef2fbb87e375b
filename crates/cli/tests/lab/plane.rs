//! Reflex planes as processes: a switch, reports of a sender, and a running plane.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4rt::client::{Client, Endpoint};
use reflex_runtime::{ControlClient, KeyOperation};
use support::checksum::internet_checksum;
use telemetry::{
    Associations, EmbeddedInt, Exporter, Hop, HopTime, Instructions, IntContents, IntNodeId,
    IntStack, NextProtocol, PacketKind, ReportEvent, ReportHeader, ReportVersion, ReportWriter,
};

use super::{Running, example, polyplane};

/// Time within which something must happen: a failure, and no measurement.
pub(crate) const SOON: Duration = Duration::from_secs(40);
/// Reports of a flow before one that is slow.
pub(crate) const WINDOW: u32 = 10;

/// Waits until `found` returns something.
pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(start.elapsed() < SOON, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns UDP ports that nothing uses now.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let sockets: [UdpSocket; N] =
        std::array::from_fn(|_| UdpSocket::bind("127.0.0.1:0").expect("a port is free"));
    sockets.map(|socket| socket.local_addr().expect("it is bound").port())
}

/// A switch with the INT program.
pub(crate) fn switch(address: &str) -> (Running, String) {
    let program = format!("1={}", example("int/int.p4"));
    let mut command = polyplane();
    command.args(["serve", "--p4runtime", address, "--device", &program]);
    let mut running = Running::start(&mut command);
    let address = running.served_address().trim().to_owned();
    (running, address)
}

/// Returns the entries of the detour table, as metadata and port.
pub(crate) fn detours(address: &str) -> Vec<(String, Vec<u8>)> {
    let endpoint = Endpoint {
        address: address.to_owned(),
        tls: None,
    };
    let Ok(mut client) = Client::connect(&endpoint, 1, "") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let all = Entity::TableEntry(rt::TableEntry::default());
    let read = client.read(vec![all], |entity| {
        if let Entity::TableEntry(entry) = entity
            && entry.r#match.len() == 5
        {
            let action = entry.action.and_then(|action| action.r#type);
            let Some(rt::table_action::Type::Action(action)) = action else {
                panic!("the entry has an action");
            };
            let owner = String::from_utf8(entry.metadata).expect("a text");
            found.push((owner, action.params[0].value.clone()));
        }
    });
    read.map_or(Vec::new(), |()| found)
}

/// The sender of reports of node 9.
pub(crate) struct Sender {
    pub(crate) socket: UdpSocket,
    to: u16,
    sequence: u32,
}

impl Sender {
    pub(crate) fn new(to: u16) -> Sender {
        Sender {
            socket: UdpSocket::bind("127.0.0.1:0").expect("a port is free"),
            to,
            sequence: 0,
        }
    }

    /// Sends a report of a packet that five nodes took `latency` nanoseconds each for.
    pub(crate) fn send(&mut self, flow: u16, latency: u32) {
        let report = self.report(flow, latency);
        let sent = self.socket.send_to(&report, ("127.0.0.1", self.to));
        sent.expect("the machine sends to itself");
    }

    /// Returns a frame with a report.
    pub(crate) fn frame(&mut self, flow: u16, latency: u32) -> Vec<u8> {
        let report = self.report(flow, latency);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        frame.extend((28 + report.len() as u16).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 9, 10, 9, 0, 99]);
        let checksum = internet_checksum(&frame[14..]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        frame.extend([0x80, 0, 0x7f, 0xfe]);
        frame.extend((8 + report.len() as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(report);
        frame
    }

    pub(crate) fn report(&mut self, flow: u16, latency: u32) -> Vec<u8> {
        let mut entries = Vec::new();
        for hop in 1..=5u32 {
            entries.extend(hop.to_be_bytes());
            entries.extend([0, 1, 0, 1]);
            entries.extend(latency.to_be_bytes());
        }
        let stack = IntStack::new(Instructions(0xe000), 3, &entries).expect("whole hops");
        let mut packet = vec![0x45, 0x17 << 2, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
        packet.extend([10, 0, 1, 1, 10, 0, 2, 1]);
        packet.extend(flow.to_be_bytes());
        packet.extend([19, 136, 0, 0, 0, 0]);
        let int = EmbeddedInt {
            next: NextProtocol::Payload { dscp: 0 },
            contents: IntContents::Md(stack),
        };
        int.write(&mut packet).expect("INT 2.1 is written");
        self.sequence += 1;
        let header = ReportHeader {
            version: ReportVersion::V2,
            exporter: Exporter {
                node: Some(IntNodeId(9)),
                hardware: 0,
            },
            sequence: self.sequence,
        };
        let event = ReportEvent {
            associations: Associations {
                tracked: true,
                ..Associations::default()
            },
            hop: Hop {
                ingress_time: Some(HopTime::Full(1)),
                ..Hop::default()
            },
            drop: None,
            packet: Some((PacketKind::Ipv4, &packet)),
            max_packet: 256,
        };
        let mut out = Vec::new();
        let mut writer = ReportWriter::new(&header, &mut out);
        writer.event(&event).expect("one report fits");
        out
    }

    /// Sends reports of a flow, of which the last one is slow.
    pub(crate) fn slow_flow(&mut self, flow: u16) {
        for _ in 0..WINDOW {
            self.send(flow, 100);
        }
        self.send(flow, 5000);
    }
}

/// Loops with one source and one element at a P4Runtime server.
pub(crate) fn loops(listen: &str, element: &str, store: &str) -> String {
    format!(
        r#"
name = "live"
[[element]]
name = "leaf1"
device = "p4runtime:{element}"
[[source]]
listen = "{listen}"
from = [{{ node = 9, address = "127.0.0.1" }}]
int_dscp = 23
[[monitor]]
name = "slow paths"
kind = "path_latency"
match = ["ip.dst 10.0.2.0/24"]
window = {WINDOW}
above = "10 us"
reflex = "detour"
[[reflex]]
name = "detour"
element = "leaf1"
table = "IntIngress.detour"
key = ["ip.src", "ip.dst", "ip.protocol", "l4.src", "l4.dst"]
action = "IntIngress.via"
ports = [3, 4]
{store}
"#
    )
}

/// A running plane with its control socket.
pub(crate) struct Plane {
    pub(crate) running: Running,
    pub(crate) control: PathBuf,
}

impl Plane {
    pub(crate) fn start(arguments: &[&str], control: String) -> Plane {
        let mut command: Command = polyplane();
        command.arg("reflex").args(arguments);
        command.args(["--control", &control, "--json"]);
        let mut running = Running::start(&mut command);
        // Full pipes would stop it.
        let err = BufReader::new(running.0.stderr.take().expect("it is piped"));
        std::thread::spawn(move || {
            for line in err.lines().map_while(Result::ok) {
                println!("{line}");
            }
        });
        let out = BufReader::new(running.0.stdout.take().expect("it is piped"));
        std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(drop));
        Plane {
            running,
            control: control.into(),
        }
    }

    pub(crate) fn client(&self) -> ControlClient {
        wait_for("a control socket", || {
            ControlClient::connect(&self.control).ok()
        })
    }

    pub(crate) fn show(&self) -> serde_json::Value {
        self.client()
            .show()
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Does an operation, repeated while there is no leader or the outcome is not known.
    pub(crate) fn operate(&self, operation: &KeyOperation) -> Option<String> {
        let mut client = self.client();
        wait_for("an operation", || client.operate(operation.clone()).ok())
    }

    pub(crate) fn kill(&mut self) {
        self.running.signal("KILL");
        self.running.0.wait().expect("it was started here");
    }
}
