//! Validation of a split program: its section, its servers, and the switch that they are linked to.
//! Streams of packets are here, too.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use packet::Nanos;
use placement::{Nesting, OptionsError, PlacementOptions, Policy, SketchSize};
use split::{EntryPolicy, SplitPlacement, Window};
use toml_file::{FileMistake, Quantity, Spanned, Text};

use super::check::{Check, same_network};
use super::file::{self, File};
use super::{
    End, FlowOrder, FunctionSpec, HostSpec, Link, NodeId, PlaneSpec, ProgramSpec, ServerIndex,
    ServerSpec, ServiceSpec, SplitServer, SplitSpec, SwitchId, SwitchSpec, TrafficSpec,
};
use crate::traffic::{MAX_BYTES, MIN_BYTES};

/// Maximum number of servers of a split program.
const MAX_SERVERS: usize = 64;

/// Maximum number of workers of a server.
const MAX_WORKERS: u16 = 1024;

impl Check<'_> {
    /// Finds the switch that has links with servers.
    pub(super) fn split_switch(&mut self, file: &File) -> Option<SwitchId> {
        let ends = |link: &file::Link| {
            let node = |text: &Text| {
                let name = text.get_ref().split(':').next().unwrap_or_default();
                self.names.get(name).map(|(node, _)| *node)
            };
            link.ends.each_ref().map(node)
        };
        let found = file
            .links
            .iter()
            .find_map(|link| match ends(link.get_ref()) {
                [Some(NodeId::Switch(switch)), Some(NodeId::Server(_))]
                | [Some(NodeId::Server(_)), Some(NodeId::Switch(switch))] => Some(switch),
                _ => None,
            });
        if let (None, Some(first)) = (&file.split, file.servers.first()) {
            let name = first.get_ref().name.get_ref();
            let message = format!("the server {name} has no program to run");
            self.mistake(first, message, "add [split] with program = \"FILE.p4c\"");
        }
        if let Some(split) = &file.split
            && file.servers.is_empty()
        {
            let message = "a split program has no server".to_owned();
            self.mistake(split, message, "add [[server]] sections");
        }
        if file.servers.len() > MAX_SERVERS {
            let message = format!("there are {} servers", file.servers.len());
            let mend = format!("write at most {MAX_SERVERS}");
            self.mistake(&file.servers[MAX_SERVERS], message, mend);
        }
        found.filter(|_| file.split.is_some())
    }

    /// Returns the data plane of the switch of a split program, which is complete when its links
    /// are known. Refuses a program of its own.
    pub(super) fn split_plane(&mut self, switch: &Spanned<file::Switch>) -> PlaneSpec {
        let switch = switch.get_ref();
        let name = switch.name.get_ref();
        let vpdps = switch.vpdps.iter().map(|vpdp| &vpdp.get_ref().name);
        let message = format!("{name} runs the switch half of [split] and a program of its own");
        let mend = "remove one of the two";
        for text in switch.program.iter().chain(vpdps) {
            self.mistake(text, message.clone(), mend);
        }
        if let Some(entries) = &switch.entries {
            self.mistake(entries, message, mend);
        }
        PlaneSpec::Alone(FunctionSpec {
            program: ProgramSpec::File(self.directory.to_path_buf()),
            program_at: String::new(),
            entries: Vec::new(),
        })
    }

    pub(super) fn server(&mut self, server: &file::Server) -> ServerSpec {
        let workers = self.number(&server.workers, 1, 1u16);
        if let Some(given) = server.workers.as_ref().filter(|_| workers > MAX_WORKERS) {
            let message = format!("{workers} workers are too many");
            self.mistake(given, message, format!("write 1 to {MAX_WORKERS}"));
        }
        ServerSpec {
            name: server.name.get_ref().clone(),
            workers,
            service: ServiceSpec {
                time: self.time(&server.service, Nanos::ZERO),
                backlog: self.number(&server.backlog, 1, ServiceSpec::DEFAULT_BACKLOG),
            },
        }
    }

    /// Gives the split program to its switch. Checks that each server has a link with it.
    pub(super) fn place_split(
        &mut self,
        file: &File,
        switch: Option<SwitchId>,
        switches: &mut [SwitchSpec],
        servers: &[ServerSpec],
        links: &[Link],
    ) {
        // Links with errors are missing: their servers would be reported again.
        if links.len() < file.links.len() {
            return;
        }
        let mut ports: BTreeMap<ServerIndex, End> = BTreeMap::new();
        for link in links {
            let [a, b] = link.ends;
            for (end, other) in [(a, b), (b, a)] {
                if let NodeId::Server(server) = end.node {
                    ports.insert(server, other);
                }
            }
        }
        let mut placed = Vec::new();
        for (number, (server, written)) in servers.iter().zip(&file.servers).enumerate() {
            let name = &server.name;
            match ports.get(&ServerIndex(number)) {
                Some(end) if matches!(end.node, NodeId::Switch(id) if Some(id) == switch) => {
                    placed.push(SplitServer {
                        name: name.clone(),
                        port: end.port,
                        spec: server.clone(),
                    });
                }
                Some(end) if matches!(end.node, NodeId::Switch(_)) && switch.is_some() => {
                    let message = format!("the server {name} is at another switch than others");
                    let mend = "link all servers with the switch of [split]";
                    self.mistake(written, message, mend);
                }
                _ if file.split.is_none() => {}
                _ => {
                    let message = format!("the server {name} has no link with a switch");
                    let mend = format!("add a [[link]] with ends = [\"{name}\", \"SWITCH:PORT\"]");
                    self.mistake(written, message, mend);
                }
            }
        }
        if let (Some(split), Some(switch)) = (&file.split, switch) {
            let spec = self.split(split.get_ref(), placed);
            switches[switch.0].plane = PlaneSpec::Split(Box::new(spec));
        }
    }

    fn split(&mut self, split: &file::Split, servers: Vec<SplitServer>) -> SplitSpec {
        let order = match split
            .order
            .as_ref()
            .map(|order| (order, order.get_ref().as_str()))
        {
            None | Some((_, "strict")) => FlowOrder::Strict,
            Some((_, "loose")) => FlowOrder::Loose,
            Some((at, other)) => {
                let message = format!("\"{other}\" is no order");
                self.mistake(at, message, "write \"strict\" or \"loose\"");
                FlowOrder::Strict
            }
        };
        SplitSpec {
            program: self.directory.join(split.program.get_ref()),
            c_file: split.c.as_ref().map(|c| self.directory.join(c.get_ref())),
            entries: split
                .entries
                .as_ref()
                .map(|e| self.directory.join(e.get_ref())),
            mirror_all: split
                .mirror_all
                .as_ref()
                .map(|_| self.number(&split.mirror_all, 1, 1u32)),
            phv_bits: self.phv_bits(split),
            servers,
            install: self.time(&split.install, Nanos::ZERO),
            order,
            placement: self.placement(split),
        }
    }

    /// Returns the budget of the switch for the values of a packet, in bits.
    fn phv_bits(&mut self, split: &file::Split) -> Option<u64> {
        let given = split.phv.as_ref()?;
        let bytes = self.quantity(given, Quantity::Size)?;
        match bytes.checked_mul(8).filter(|bits| *bits > 0) {
            Some(bits) => Some(bits),
            None => {
                let message = format!("a budget of {bytes} bytes");
                self.mistake(
                    given,
                    message,
                    "write the bytes of the switch, as in \"200 B\"",
                );
                None
            }
        }
    }

    fn placement(&mut self, split: &file::Split) -> SplitPlacement {
        let default = PlacementOptions::default();
        let named = |names: &[&str]| format!("write one of {}", names.join(", "));
        let policy = split.placement.as_ref().map(|text| {
            let policy = EntryPolicy::named(text.get_ref());
            if policy.is_none() {
                let message = format!("\"{}\" is no placement", text.get_ref());
                let windows = Policy::ALL.map(EntryPolicy::Windows);
                let names = [EntryPolicy::Asked].into_iter().chain(windows);
                let names: Vec<&str> = names.map(EntryPolicy::name).collect();
                self.mistake(text, message, named(&names));
            }
            policy.unwrap_or_default()
        });
        let nesting = split.lpm.as_ref().map(|text| {
            let nesting = Nesting::named(text.get_ref());
            if nesting.is_none() {
                let message = format!("\"{}\" is no rule for prefixes", text.get_ref());
                self.mistake(text, message, named(&Nesting::ALL.map(Nesting::name)));
            }
            nesting.unwrap_or_default()
        });
        let sketch = split.sketch.as_ref().map(|text| {
            let size = sketch_size(text.get_ref());
            if size.is_none() {
                let message = format!("\"{}\" is no size of a sketch", text.get_ref());
                self.mistake(text, message, "write COLUMNSxROWS, as in \"1024x2\"");
            }
            size.unwrap_or(default.sketch)
        });
        let top = split
            .top
            .as_ref()
            .map(|_| self.number(&split.top, 0, default.top));
        let window = self.time(&split.window, Nanos(default.window.as_nanos() as u64));
        if let Some(text) = split.window.as_ref().filter(|_| window == Nanos::ZERO) {
            self.mistake(text, "a window of no time".to_owned(), "write \"100 ms\"");
        }
        let real = |given: &Option<Spanned<f64>>, default| {
            given.as_ref().map_or(default, |value| *value.get_ref())
        };
        let options = PlacementOptions {
            policy: match policy {
                Some(EntryPolicy::Windows(policy)) => policy,
                _ => default.policy,
            },
            top: top.unwrap_or(default.top),
            window: window.into(),
            epsilon: real(&split.epsilon, default.epsilon),
            sketch: sketch.unwrap_or(default.sketch),
            k: real(&split.k, default.k),
            age: self.number(&split.age, 1, default.age),
            margin: real(&split.margin, default.margin),
            ..default
        };
        if let Err(error) = options.check() {
            let line = match error {
                OptionsError::Sketch(_) => split.sketch.as_ref().map(|at| self.line(at)),
                OptionsError::Range { option, .. } => match option {
                    "epsilon" => split.epsilon.as_ref().map(|at| self.line(at)),
                    "k" => split.k.as_ref().map(|at| self.line(at)),
                    "margin" => split.margin.as_ref().map(|at| self.line(at)),
                    _ => split.age.as_ref().map(|at| self.line(at)),
                },
            };
            self.add(FileMistake {
                line: line.unwrap_or_else(|| self.line(&split.program)),
                message: error.to_string(),
                mend: "docs/reference/topology.md has the options of [split]".to_owned(),
            });
        }
        SplitPlacement {
            policy: policy.unwrap_or_default(),
            window: Window::Time(window),
            options,
            top,
            nesting: nesting.unwrap_or_default(),
        }
    }

    /// Validates a stream of packets.
    pub(super) fn traffic(
        &mut self,
        traffic: &Spanned<file::Traffic>,
        hosts: &[HostSpec],
    ) -> Option<TrafficSpec> {
        let traffic = traffic.get_ref();
        let (from, to) = self.peers(&traffic.from, &traffic.to)?;
        let packets = Some(traffic.packets.clone());
        let packets = self.number(&packets, 1, 1u64);
        let flows = self.number(&traffic.flows, 1, 1u32);
        let interval = Nanos(self.quantity(&traffic.interval, Quantity::Time)?);
        let alpha = traffic.alpha.as_ref().map_or(0.0, |alpha| *alpha.get_ref());
        if let Some(at) = &traffic.alpha
            && !(0.0..=10.0).contains(&alpha)
        {
            let message = format!("{alpha} is no exponent of Zipf's distribution");
            self.mistake(at, message, "write a number from 0 to 10, as in 0.9");
        }
        let bytes = traffic.bytes.as_ref();
        let bytes = bytes.and_then(|bytes| Some((bytes, self.quantity(bytes, Quantity::Size)?)));
        let bytes = match bytes {
            None => MIN_BYTES,
            Some((_, bytes)) if (MIN_BYTES..=MAX_BYTES).contains(&(bytes as usize)) => {
                bytes as usize
            }
            Some((at, bytes)) => {
                let message = format!("frames of {bytes} bytes");
                let mend = format!("write \"{MIN_BYTES} B\" to \"{MAX_BYTES} B\"");
                self.mistake(at, message, mend);
                MIN_BYTES
            }
        };
        let destinations = traffic.destinations.as_ref().map(|text| self.network(text));
        let first = destinations.map_or(hosts[to.0].address, |(network, _)| network);
        self.check_next_hop(traffic, &hosts[from.0], first);
        Some(TrafficSpec {
            from,
            to,
            packets,
            interval,
            flows,
            alpha,
            bytes,
            at: self.time(&traffic.at, Nanos::ZERO),
            destinations,
        })
    }

    /// Checks that a sender of a stream knows the MAC address of the next hop.
    fn check_next_hop(&mut self, traffic: &file::Traffic, from: &HostSpec, to: Ipv4Addr) {
        let hop = from.next_hop(to);
        let is_known = hop.is_some_and(|hop| from.neighbour(hop).is_some());
        if !is_known {
            let hop = hop.map_or("GATEWAY".to_owned(), |hop| hop.to_string());
            let message = format!("{} has no MAC address of {hop}", traffic.from.get_ref());
            let mend = format!("give the host neighbours = {{ \"{hop}\" = \"MAC\" }}");
            self.mistake(&traffic.from, message, mend);
        }
    }
}

impl HostSpec {
    /// Returns the address to which packets for `to` are sent: its own in the same network, else
    /// the gateway's.
    pub(crate) fn next_hop(&self, to: Ipv4Addr) -> Option<Ipv4Addr> {
        match same_network(self.address, to, self.prefix_len) {
            true => Some(to),
            false => self.gateway,
        }
    }

    /// Returns the MAC address of a static neighbor entry.
    pub(crate) fn neighbour(&self, address: Ipv4Addr) -> Option<[u8; 6]> {
        let mut known = self.neighbours.iter();
        known
            .find(|(known, _)| *known == address)
            .map(|(_, mac)| *mac)
    }
}

/// Parses a size such as `1024x2`.
fn sketch_size(text: &str) -> Option<SketchSize> {
    let (columns, rows) = text.split_once('x')?;
    Some(SketchSize {
        columns: columns.parse().ok()?,
        rows: rows.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_sketches_have_columns_and_rows() {
        let size = |columns, rows| Some(SketchSize { columns, rows });
        assert_eq!(sketch_size("1024x2"), size(1024, 2));
        assert_eq!(sketch_size("1024"), None);
        assert_eq!(sketch_size("x2"), None);
        assert_eq!(sketch_size("-1x2"), None);
    }
}
