//! The paper's policies (figure 14(b)) as work that can be measured: the chain, what is in its tables, and packets that each function lets through.

use std::net::Ipv4Addr;
use std::sync::Arc;

use bench::measure::{Measured, Packets, Plan, Traffic};
use bench::tenants::{Divisible, Entry, Part, Tenants, TenantsReport};
use bench::{Choices, Item, Setup, SetupError};
use entries::{EntryAction, Update};
use exec::Engine;
use ir::Program;
use packet::{Frame, PortId};

use super::emitted;

/// Ports of each virtual data plane.
const PORTS: u32 = 8;
/// Stations in all parts together, evenly on all ports.
const STATIONS: usize = 2048;
/// The router's address; behind L3_SW it is every packet's source.
const ROUTER: Mac = Mac([2, 0, 1, 0, 0, 0xfe]);
/// The destination port that FW lets through.
const SERVICE: u16 = 53;
/// Bytes of Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 42;

/// A policy whose packets have this many bytes.
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) program: Arc<Program>,
    /// At least the headers'.
    pub(super) bytes: usize,
}

#[derive(Clone, Copy)]
struct Mac([u8; 6]);

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A station of a part.
#[derive(Clone, Copy)]
struct Station {
    part: u8,
    number: u16,
}

impl Station {
    fn port(self) -> u32 {
        u32::from(self.number) % PORTS
    }

    fn mac(self) -> Mac {
        let [high, low] = self.number.to_be_bytes();
        Mac([2, 0, 0, self.part, high, low])
    }

    fn address(self) -> Ipv4Addr {
        let [high, low] = self.number.to_be_bytes();
        Ipv4Addr::new(10, self.part, high, low)
    }
}

impl Policy {
    /// The policy's program has a table of this name.
    fn has(&self, table: &str) -> bool {
        let names = self.program.tables.values();
        let mut last = names.map(|table| table.name.rsplit('.').next());
        last.any(|name| name == Some(table))
    }

    /// Stations of each of so many parts: a multiple of the ports.
    fn stations(&self, part: Part) -> u16 {
        let groups = STATIONS / part.of.max(1) / PORTS as usize;
        groups.max(1) as u16 * PORTS as u16
    }

    /// What is in the tables for a part, as the text of an entries file.
    pub(super) fn entries(&self, part: Part) -> String {
        let number = part.number as u8;
        let mut text = String::new();
        for station in 0..self.stations(part) {
            self.add_station(
                Station {
                    part: number,
                    number: station,
                },
                &mut text,
            );
        }
        let net = format!("10.{number}.0.0 &&& 255.255.0.0");
        if self.has("rules") {
            text += &format!(
                "rules {{ hdr.ipv4.src: {net}; hdr.ipv4.dst: {net}; hdr.ipv4.protocol: 17; dst_port: {SERVICE}; }} -> permit() priority 1\n"
            );
        }
        if self.has("classes") {
            text += &format!(
                "classes {{ hdr.ipv4.src: {net}; }} -> class(queue: 0, dscp: 46) priority 1\n"
            );
        }
        text
    }

    fn add_station(&self, station: Station, text: &mut String) {
        let (mac, port, address) = (station.mac(), station.port(), station.address());
        let source = if self.is_routed() { ROUTER } else { mac };
        let lines = [
            (
                "known_source",
                format!(
                    "hdr.ethernet.src: {mac}; standard_metadata.ingress_port: {port}; }} -> NoAction()"
                ),
            ),
            (
                "forward",
                format!("hdr.ethernet.dst: {mac}; }} -> to_port({port})"),
            ),
            (
                "routes",
                format!("hdr.ipv4.dst: {address}/32; }} -> next_hop({port}, {ROUTER}, {mac})"),
            ),
            (
                "bindings",
                format!(
                    "standard_metadata.ingress_port: {port}; hdr.ethernet.src: {source}; source: {address}; }} -> NoAction()"
                ),
            ),
        ];
        for (table, line) in lines.iter().filter(|(table, _)| self.has(table)) {
            *text += &format!("{table} {{ {line}\n");
        }
    }

    fn is_routed(&self) -> bool {
        self.has("routes")
    }
}

impl Policy {
    /// Measures it alone and in so many virtual data planes.
    ///
    /// # Errors
    /// It does not take its entries, or packets are lost.
    pub(super) fn measure(
        &self,
        engine: Arc<dyn Engine>,
        vpdps: usize,
        entry: Entry,
        plan: &Plan,
        tell: &mut (dyn FnMut(f64) + Send),
    ) -> Result<TenantsReport, String> {
        let tenants = Tenants {
            function: self,
            program: Arc::clone(&self.program),
            engine,
            vpdps,
            entry,
        };
        let report = tenants.measure(plan, tell);
        let report = report.map_err(|error| error.to_string())?;
        check_all_sent(&report.native)?;
        check_all_sent(&report.hosted)?;
        Ok(report)
    }
}

/// What drops packets does another thing than what is to be measured.
///
/// # Errors
/// It does.
pub(super) fn check_all_sent(measured: &Measured) -> Result<(), String> {
    match measured.sent < 1.0 {
        true => Err(format!("{} does not send all packets on", measured.name)),
        false => Ok(()),
    }
}

impl Divisible for Policy {
    fn name(&self) -> &str {
        &self.name
    }

    fn ports(&self) -> u32 {
        PORTS
    }

    fn setup(
        &self,
        program: &Program,
        part: Part,
        setup: &mut Setup<'_>,
    ) -> Result<(), SetupError> {
        let read = emitted::read(program, &self.entries(part));
        for update in read.map_err(SetupError::Entry)? {
            if let Update::Insert(table, entry) = update
                && let EntryAction::Call(call) = entry.action
            {
                setup(Item::Entry {
                    table,
                    keys: entry.keys,
                    priority: entry.priority,
                    call,
                })?;
            }
        }
        Ok(())
    }

    fn packet(&self, choices: &mut Choices, part: Part, frame: &mut Frame) {
        let stations = self.stations(part).into();
        let station = |number: u64| Station {
            part: part.number as u8,
            number: number as u16,
        };
        let from = choices.below(stations);
        // Never back to its own port.
        let hop = choices.between(1, u64::from(PORTS) - 1);
        let to = choices.below(stations) / u64::from(PORTS) * u64::from(PORTS)
            + (from + hop) % u64::from(PORTS);
        let (from, to) = (station(from), station(to));
        frame.ingress = PortId(from.port());
        let next = if self.is_routed() { ROUTER } else { to.mac() };
        if let Ok(bytes) = frame.make_space(self.bytes.max(HEADERS)) {
            write(bytes, next, from, to);
        }
    }
}

/// Writes a UDP packet; its checksums are right when the function has computed IPv4's.
fn write(bytes: &mut [u8], next: Mac, from: Station, to: Station) {
    bytes.fill(0);
    let length = (bytes.len() - 14) as u16;
    bytes[..6].copy_from_slice(&next.0);
    bytes[6..12].copy_from_slice(&from.mac().0);
    bytes[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
    bytes[16..18].copy_from_slice(&length.to_be_bytes());
    bytes[22..24].copy_from_slice(&[64, 17]);
    bytes[26..30].copy_from_slice(&from.address().octets());
    bytes[30..34].copy_from_slice(&to.address().octets());
    bytes[34..36].copy_from_slice(&1000u16.to_be_bytes());
    bytes[36..38].copy_from_slice(&SERVICE.to_be_bytes());
    bytes[38..40].copy_from_slice(&(length - 20).to_be_bytes());
}

/// What is given to the emitted hypervisor and the chain beside it: each path through a parser has entries of its own there, and how large tables are
/// is not what is compared.
pub(super) const SMALL: Part = Part { number: 0, of: 16 };

impl Traffic for Policy {
    /// Packets of the small part.
    fn packets(&self, seed: u64) -> Packets<'_> {
        let mut choices = Choices::new(seed);
        Box::new(move |frame| self.packet(&mut choices, SMALL, frame))
    }
}
