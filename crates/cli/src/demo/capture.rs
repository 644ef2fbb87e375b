//! The demo on machines without network namespaces: the program processes the built-in captures.

use std::collections::BTreeMap;

use packet::PortId;
use port::{PcapError, PcapReader};
use serde::Serialize;
use sha2::{Digest, Sha256};
use switch::Device;

use super::report::{said, verdict};
use super::traffic::Seen;
use crate::captures::Captures;
use crate::{Ended, amount, out};
use runtime::report::{self, DeviceReport, PortReport, Traffic};
use support::text_table;

/// Packets that the host at each port sends.
const CAPTURES: [(PortId, &str, &[u8]); 2] = [
    (FROM, "router.pcap", super::CAPTURE_0),
    (TO, "router-port1.pcap", super::CAPTURE_1),
];

/// Ports of the host that sends the data and of the one that receives it.
const FROM: PortId = PortId(0);
const TO: PortId = PortId(1);

#[derive(Serialize)]
struct Report {
    intact: bool,
    /// The TCP data in the capture.
    sent: Seen,
    /// The TCP data after the router.
    received: Seen,
    ports: Vec<PortReport>,
    #[serde(flatten)]
    device: DeviceReport,
}

/// Processes the captures and compares the TCP data on both sides of the router.
pub(super) fn run(mut device: Device, json: bool) -> Result<Ended, String> {
    let mut captures = open().map_err(|e| e.to_string())?;
    let (mut sent, mut received) = (Data::default(), Data::default());
    let mut ports: BTreeMap<PortId, [Traffic; 2]> = BTreeMap::new();
    while let Some((port, frame)) = captures.next_packet() {
        if port == FROM {
            sent.take(frame.bytes());
        }
        ports.entry(port).or_default()[0].count(frame.len());
        // Packets of a capture fit into a frame.
        let taken = device.receive(port, frame.bytes());
        debug_assert!(taken.is_ok());
        device.step(frame.arrival);
        device.drain_sent(|port, bytes, _| {
            ports.entry(port).or_default()[1].count(bytes.len());
            if port == TO {
                received.take(bytes);
            }
        });
    }
    let (sent, received) = (sent.seen(), received.seen());
    let report = Report {
        intact: sent == received && sent.bytes > 0,
        sent,
        received,
        ports: ports.into_iter().map(port_report).collect(),
        device: DeviceReport::of(&device),
    };
    report.write(json);
    Ok(verdict(report.intact))
}

fn open() -> Result<Captures, PcapError> {
    let open = |(port, name, bytes): (PortId, &str, &'static [u8])| {
        Ok((port, PcapReader::new(name.to_owned(), Box::new(bytes))?))
    };
    let readers: Result<Vec<_>, PcapError> = CAPTURES.into_iter().map(open).collect();
    readers.map(Captures::new)
}

fn port_report((port, [received, sent]): (PortId, [Traffic; 2])) -> PortReport {
    let capture = CAPTURES.iter().find(|(of, _, _)| *of == port);
    PortReport {
        port: port.0,
        name: capture.map_or("no capture", |(_, name, _)| name).to_owned(),
        received,
        sent,
        dropped: Vec::new(),
        up: None,
    }
}

impl Report {
    fn write(&self, json: bool) {
        if json {
            return out::json(self);
        }
        let row = |name: &str, seen: &Seen| {
            let bytes = amount::bytes(seen.bytes);
            vec![name.to_owned(), format!("{bytes}, SHA-256 {}", seen.sha256)]
        };
        let rows = [
            row("TCP data in the capture", &self.sent),
            row("TCP data behind the router", &self.received),
        ];
        out::text(&text_table::align(&rows));
        out::text(&report::text(&self.ports, &self.device));
        out::line(said(self.intact));
    }
}

/// TCP data of the packets of one side, in packet order.
#[derive(Default)]
struct Data {
    bytes: u64,
    hash: Sha256,
}

impl Data {
    fn take(&mut self, frame: &[u8]) {
        if let Some(payload) = tcp_payload(frame) {
            self.bytes += payload.len() as u64;
            self.hash.update(payload);
        }
    }

    fn seen(self) -> Seen {
        Seen::new(self.bytes, self.hash)
    }
}

/// Returns the TCP payload of an Ethernet frame with IPv4, if it has one.
fn tcp_payload(frame: &[u8]) -> Option<&[u8]> {
    const ETHERNET: usize = 14;
    const TCP: u8 = 6;
    if frame.get(12..ETHERNET)? != [0x08, 0x00] {
        return None;
    }
    let ipv4 = frame.get(ETHERNET..)?;
    let total_len = usize::from(u16::from_be_bytes([*ipv4.get(2)?, *ipv4.get(3)?]));
    let header_len = usize::from(ipv4.first()? & 0xf) * 4;
    if *ipv4.get(9)? != TCP {
        return None;
    }
    let tcp = ipv4.get(header_len..total_len)?;
    tcp.get(usize::from(*tcp.get(12)? >> 4) * 4..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_a_frame_is_found_behind_its_headers_and_without_padding() {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00]);
        let mut ipv4 = vec![0; 20];
        (ipv4[0], ipv4[3], ipv4[9]) = (0x45, 43, 6);
        let mut tcp = vec![0; 20];
        tcp[12] = 0x50;
        frame.extend(ipv4);
        frame.extend(tcp);
        frame.extend(b"abc\0\0\0");
        assert_eq!(tcp_payload(&frame), Some(b"abc".as_slice()));
        frame[23] = 17;
        assert_eq!(tcp_payload(&frame), None);
        assert_eq!(tcp_payload(&frame[..30]), None);
    }

    #[test]
    fn the_captures_that_ship_with_the_demo_are_whole_and_have_data() {
        let mut captures = open().unwrap();
        let mut sent = [0, 0];
        while let Some((port, frame)) = captures.next_packet() {
            let payload = tcp_payload(frame.bytes()).unwrap_or_default();
            sent[port.0 as usize] += payload.len();
        }
        assert!(captures.errors().is_empty());
        assert!(sent[0] > 1000 && sent[1] == 0, "{sent:?}");
    }
}
