//! NanoPUs of a topology, and the requests that hosts send to them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use nanopu::{Cost, CostTable, Image, MAX_CORES};
use packet::Nanos;
use support::mac::MacAddress;
use toml_file::{Quantity, Spanned, Text};

use super::check::Check;
use super::file;
use super::{HostId, HostSpec, NanopuIndex, NodeId, Topology};

/// Bytes of memory of a nanoPU by default.
const MEMORY: u64 = 16 << 20;
/// Bytes of memory of a nanoPU, at least and at most.
const MIN_MEMORY: u64 = 1_000_000;
const MAX_MEMORY: u64 = 4 << 30;
/// Messages of all series of requests, at most.
const MAX_MESSAGES: usize = 10_000_000;
/// Bytes of a request without contents.
const MESSAGE_BYTES: usize = 16;

/// A nanoPU: a device of crate `nanopu`, with one port.
#[derive(Clone, Debug, PartialEq)]
pub struct NanopuSpec {
    /// Its name and its addresses, as a host has them.
    pub host: HostSpec,
    /// Path of its program.
    pub image_file: Option<PathBuf>,
    /// Its program, which [`Topology::load_images`] sets.
    pub image: Option<Arc<Image>>,
    /// Number of cores.
    pub cores: usize,
    /// Bytes of memory.
    pub memory_bytes: usize,
    /// Costs. Link and switch are those of the topology.
    pub costs: CostTable,
}

/// A series of messages of a host to a nanoPU. A host has at most one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestsSpec {
    /// The sender.
    pub from: HostId,
    /// The receiver.
    pub to: NanopuIndex,
    /// Context of the receiver.
    pub context: u16,
    /// Number of messages.
    pub messages: usize,
    /// Time between messages.
    pub interval: Nanos,
    /// Time of the first message.
    pub at: Nanos,
    /// Contents of the messages, by turns.
    pub contents: Vec<Vec<u8>>,
}

impl Topology {
    /// Loads the programs of nanoPUs that have none yet. `load` gets the path of an image and the
    /// bytes of memory.
    ///
    /// # Errors
    /// The first error of `load`, or a nanoPU without an image.
    pub fn load_images(
        &mut self,
        load: &mut dyn FnMut(&PathBuf, usize) -> Result<Image, String>,
    ) -> Result<(), String> {
        let mut loaded: BTreeMap<(PathBuf, usize), Arc<Image>> = BTreeMap::new();
        for nanopu in self.nanopus.iter_mut().filter(|it| it.image.is_none()) {
            let name = &nanopu.host.name;
            let Some(path) = &nanopu.image_file else {
                return Err(format!(
                    "nanoPU {name} has no image; add image = \"FILE.elf\" to its section"
                ));
            };
            let key = (path.clone(), nanopu.memory_bytes);
            let image = match loaded.get(&key) {
                Some(image) => Arc::clone(image),
                None => {
                    let image = load(path, nanopu.memory_bytes);
                    let image = image.map_err(|error| format!("nanoPU {name}: {error}"))?;
                    let image = Arc::new(image);
                    loaded.insert(key, Arc::clone(&image));
                    image
                }
            };
            nanopu.image = Some(image);
        }
        Ok(())
    }

    /// Returns the MAC address to which a host sends packets for an address: a static neighbor
    /// entry, or the one that the topology has.
    pub fn hop_mac(&self, from: HostId, to: Ipv4Addr) -> Option<[u8; 6]> {
        self.hosts.get(from.0)?.hop_mac(to, &self.mac_addresses())
    }

    /// Returns the MAC addresses of hosts and nanoPUs.
    pub(crate) fn mac_addresses(&self) -> BTreeMap<Ipv4Addr, [u8; 6]> {
        let nanopus = self.nanopus.iter().map(|nanopu| &nanopu.host);
        mac_addresses(self.hosts.iter().chain(nanopus))
    }
}

fn mac_addresses<'h>(hosts: impl Iterator<Item = &'h HostSpec>) -> BTreeMap<Ipv4Addr, [u8; 6]> {
    hosts.map(|host| (host.address, host.mac)).collect()
}

impl Check<'_> {
    /// Reads a nanoPU.
    pub(super) fn nanopu(&mut self, nanopu: &file::Nanopu) -> NanopuSpec {
        let derived = || {
            // The one that the model itself writes into frames.
            let address = nanopu.ip.get_ref().split('/').next().unwrap_or_default();
            let [a, b, c, d] = address.parse().unwrap_or(Ipv4Addr::LOCALHOST).octets();
            let mac = MacAddress([2, 0, a, b, c, d]).to_string();
            Spanned::new(nanopu.ip.span(), mac)
        };
        let host = self.host(&file::Host {
            name: nanopu.name.clone(),
            mac: nanopu.mac.clone().unwrap_or_else(derived),
            ip: nanopu.ip.clone(),
            agent: None,
            gateway: nanopu.gateway.clone(),
            neighbours: nanopu.neighbours.clone(),
            setup: Vec::new(),
        });
        let cores = self.number(&nanopu.cores, 1, 1usize);
        if let Some(given) = nanopu.cores.as_ref().filter(|_| cores > MAX_CORES) {
            let message = format!("{cores} cores are too many");
            self.mistake(given, message, format!("write 1 to {MAX_CORES}"));
        }
        let memory = nanopu.memory.as_ref();
        let memory = memory.and_then(|text| Some((text, self.quantity(text, Quantity::Size)?)));
        let memory = match memory {
            None => MEMORY,
            Some((_, bytes)) if (MIN_MEMORY..=MAX_MEMORY).contains(&bytes) => bytes,
            Some((text, bytes)) => {
                let message = format!("a memory of {bytes} bytes");
                self.mistake(text, message, "write \"1 MB\" to \"4 GB\"");
                MEMORY
            }
        };
        NanopuSpec {
            host,
            image_file: nanopu
                .image
                .as_ref()
                .map(|image| self.directory.join(image.get_ref())),
            image: None,
            cores: cores.min(MAX_CORES),
            memory_bytes: memory as usize,
            costs: self.costs(&nanopu.costs),
        }
    }

    fn costs(&mut self, given: &BTreeMap<String, Spanned<i64>>) -> CostTable {
        let mut costs = CostTable::default();
        for (name, value) in given {
            if let Err(error) = costs.set_text(&format!("{name}={}", value.get_ref())) {
                let mend = "`polyplane nanopu costs` prints the names and values of costs";
                self.mistake(value, error.to_string(), mend);
            }
            let is_of_links = [Cost::Link, Cost::Switch, Cost::SwitchQueue]
                .iter()
                .any(|cost| cost.name() == name);
            if is_of_links {
                let message = format!("the cost {name} has no effect in a topology");
                let mend = "give the [[link]] a delay and a queue, and the [[switch]] a service";
                self.mistake(value, message, mend);
            }
        }
        costs
    }

    /// Reads a series of requests.
    pub(super) fn requests(
        &mut self,
        requests: &Spanned<file::Requests>,
        hosts: &[HostSpec],
        nanopus: &[NanopuSpec],
    ) -> Option<RequestsSpec> {
        let given = requests.get_ref();
        let from = self.host_id(&given.from);
        let to = self.nanopu_id(&given.to);
        let (from, to) = (from?, to?);
        let messages = self.number(&Some(given.messages.clone()), 1, 1usize);
        if messages > MAX_MESSAGES {
            let message = format!("{messages} messages are too many");
            self.mistake(
                &given.messages,
                message,
                format!("write 1 to {MAX_MESSAGES}"),
            );
        }
        let interval = Nanos(self.quantity(&given.interval, Quantity::Time)?);
        let contents = self.contents(given)?;
        let known = mac_addresses(hosts.iter().chain(nanopus.iter().map(|it| &it.host)));
        let ends = [&hosts[from.0], &nanopus[to.0].host];
        for [own, other] in [ends, [ends[1], ends[0]]] {
            if own.hop_mac(other.address, &known).is_none() {
                let hop = own.next_hop(other.address);
                let hop = hop.map_or("GATEWAY".to_owned(), |hop| hop.to_string());
                let message = format!("{} has no MAC address of {hop}", own.name);
                let mend = format!("give it a gateway and neighbours = {{ \"{hop}\" = \"MAC\" }}");
                self.mistake(requests, message, mend);
            }
        }
        Some(RequestsSpec {
            from,
            to,
            context: self.number(&given.context, 0, 0u16),
            messages,
            interval,
            at: self.time(&given.at, Nanos::from_micros(10)),
            contents,
        })
    }

    /// Reads the contents of messages: texts of hexadecimal digits, or a number of zero bytes.
    fn contents(&mut self, given: &file::Requests) -> Option<Vec<Vec<u8>>> {
        let most = usize::from(nanopu::MAX_MESSAGE);
        match (&given.contents, &given.bytes) {
            (None, None) => Some(vec![vec![0; MESSAGE_BYTES]]),
            (None, Some(text)) => {
                let bytes = self.quantity(text, Quantity::Size)?;
                if !(1..=most as u64).contains(&bytes) {
                    let message = format!("a message of {bytes} bytes");
                    self.mistake(text, message, format!("write \"1 B\" to \"{most} B\""));
                    return None;
                }
                Some(vec![vec![0; bytes as usize]])
            }
            (Some(contents), None) => {
                let read = contents.get_ref().iter().map(|text| hex(text, most));
                let read: Option<Vec<Vec<u8>>> = read.collect();
                let read = read.filter(|all| !all.is_empty());
                if read.is_none() {
                    let message = "these are no contents of messages".to_owned();
                    let mend = format!(
                        "write texts of 1 to {most} bytes in hexadecimal digits, as in [\"00ff\"]"
                    );
                    self.mistake(contents, message, mend);
                }
                read
            }
            (Some(contents), Some(_)) => {
                let message = "requests have contents and a number of bytes".to_owned();
                self.mistake(contents, message, "remove one of the two");
                None
            }
        }
    }

    fn nanopu_id(&mut self, text: &Text) -> Option<NanopuIndex> {
        let name = text.get_ref();
        match self.node(text, name)? {
            NodeId::Nanopu(nanopu) => Some(nanopu),
            NodeId::Host(_) | NodeId::Switch(_) | NodeId::Server(_) => {
                let message = format!("{name} is no nanoPU");
                self.mistake(text, message, "name a [[nanopu]]");
                None
            }
        }
    }

    /// Checks the number of messages of all series of requests.
    pub(super) fn check_messages(
        &mut self,
        written: &[Spanned<file::Requests>],
        requests: &[RequestsSpec],
    ) {
        let all = requests.iter().map(|it| it.messages);
        let all = all.fold(0, usize::saturating_add);
        let is_one = requests.iter().any(|it| it.messages > MAX_MESSAGES);
        if let Some(last) = written.last().filter(|_| all > MAX_MESSAGES && !is_one) {
            let message = format!("{all} messages of all requests are too many");
            let mend = format!("let them be {MAX_MESSAGES} at most");
            self.mistake(last, message, mend);
        }
    }

    /// Checks that a host sends at most one series of requests.
    pub(super) fn check_senders(&mut self, written: &[Spanned<file::Requests>]) {
        let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
        for requests in written {
            let from = &requests.get_ref().from;
            let line = self.line(from);
            if let Some(first) = lines.insert(from.get_ref(), line) {
                let message = format!("{} sends two series of requests", from.get_ref());
                let mend = format!("line {first} has one already; name another host");
                self.mistake(from, message, mend);
            }
        }
    }
}

/// Reads hexadecimal digits, of 1 to `most` bytes.
fn hex(text: &str, most: usize) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| high << 4 | low);
    (rest.is_empty() && (1..=most).contains(&pairs.len())).then(|| bytes.collect())
}
