//! `p4app.json` of p4-utils.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::Range;

use json_text::{JsonMember, JsonNode};
use support::mac::MacAddress;

use crate::addresses::{AssignmentStrategy, mac_of, network_of};
use crate::names::{NaturalKey, number_switches};
use crate::network::{ImportedHost, ImportedLink, ImportedSwitch, LinkEnd, MininetNetwork};
use crate::reader::{HostAddress, Reader, host_address};

const LOGS: &str = "`trace FILTER` at the prompt shows packets step by step";
const CAPTURES: &str = "give --pcap DIR, which captures each link";
const NODES: &str = "switches are Polyplane's, and hosts are network namespaces";
const SCRIPTS: &str = "run it in a second shell, or as `h1 COMMAND` at the prompt or in a script";

const FILE_KEYS: &[&str] = &["p4_src", "topology", "cli"];
const TOPOLOGY_KEYS: &[&str] = &[
    "links",
    "hosts",
    "switches",
    "default",
    "assignment_strategy",
];
const SWITCH_KEYS: &[&str] = &["p4_src", "cli_input", "grpc_port"];
const LINK_KEYS: &[&str] = &[
    "bw",
    "delay",
    "loss",
    "max_queue_size",
    "port1",
    "port2",
    "addr1",
    "addr2",
    "params1",
    "params2",
];

/// Reads a network.
pub(crate) fn network(reader: &mut Reader, file: &JsonNode) -> Option<MininetNetwork> {
    let mut program = None;
    for member in file.members().unwrap_or_default() {
        match member.key.as_str() {
            "topology" => {}
            "p4_src" => program = reader.text(member),
            // There is a prompt where standard input is a terminal.
            "cli" => {
                reader.truth(member);
            }
            "pcap_dump" => reader.ignore(member, CAPTURES),
            "enable_log" => reader.ignore(member, LOGS),
            "tasks_file" | "exec_scripts" => reader.ignore(member, SCRIPTS),
            "host_node" | "switch_node" | "router_node" | "mininet_module" => {
                reader.ignore(member, NODES);
            }
            "compiler_module" => reader.ignore(member, "Polyplane compiles the P4 text itself"),
            "client_module" => reader.ignore(member, "`polyplane ctl` is a client of the switches"),
            _ => {
                let mend = "the how-to \"from BMv2\" lists the keys that are read";
                reader.unknown(member, FILE_KEYS, mend);
            }
        }
    }
    let topology = file.get("topology")?;
    let mut builder = Builder::new(reader, topology);
    builder.read_links(topology);
    builder.assign_ports();
    builder.assign_addresses();
    builder.add_neighbours();
    let hosts = builder.hosts.into_values().map(|host| host.host);
    Some(MininetNetwork {
        program,
        hosts: hosts.collect(),
        switches: builder.switches,
        links: builder.links.into_iter().map(|link| link.link).collect(),
        warnings: Vec::new(),
    })
}

/// A host, while its addresses are assigned.
struct HostDraft {
    host: ImportedHost,
    /// True if its address is known.
    has_address: bool,
    /// True if its MAC address is known.
    has_mac: bool,
    at: Range<usize>,
}

/// A link, while the ports of its ends are assigned.
struct LinkDraft {
    link: ImportedLink,
    /// The MAC address of a switch's port that the file gives.
    switch_mac: Option<MacAddress>,
}

/// Values of a link, or of the defaults of all links.
#[derive(Clone, Default)]
struct LinkValues {
    bits_per_second: Option<u64>,
    delay_ns: u64,
    loss: f64,
    queue: Option<u64>,
    /// Port, MAC address and IP address of both ends.
    ports: [Option<u32>; 2],
    macs: [Option<MacAddress>; 2],
    addresses: [Option<HostAddress>; 2],
}

struct Builder<'r> {
    reader: &'r mut Reader,
    /// By natural order of their names.
    hosts: BTreeMap<NaturalKey, HostDraft>,
    switches: Vec<ImportedSwitch>,
    routers: BTreeSet<String>,
    links: Vec<LinkDraft>,
    strategy: AssignmentStrategy,
    defaults: LinkValues,
    /// Static ARP entries between hosts of a network, and for gateways.
    auto_arp: bool,
    auto_gateway_arp: bool,
}

impl<'r> Builder<'r> {
    fn new(reader: &'r mut Reader, topology: &JsonNode) -> Builder<'r> {
        let mut builder = Builder {
            reader,
            hosts: BTreeMap::new(),
            switches: Vec::new(),
            routers: BTreeSet::new(),
            links: Vec::new(),
            strategy: AssignmentStrategy::Plain,
            defaults: LinkValues::default(),
            auto_arp: true,
            auto_gateway_arp: true,
        };
        for member in builder.reader.members("topology", topology) {
            match member.key.as_str() {
                "links" => {}
                "assignment_strategy" => builder.strategy(member),
                "default" => builder.defaults(member),
                "hosts" => builder.hosts(member),
                "switches" => builder.switches(member),
                "routers" => {
                    let mend = "routers of FRR and their links are left out";
                    builder.reader.ignore(member, mend);
                    let names = member.node.members().unwrap_or_default().iter();
                    builder.routers = names.map(|router| router.key.clone()).collect();
                }
                _ => {
                    let mend = "topologies have links, hosts, switches, default and \
                                assignment_strategy";
                    builder.reader.unknown(member, TOPOLOGY_KEYS, mend);
                }
            }
        }
        builder
    }

    fn strategy(&mut self, member: &JsonMember) {
        self.strategy = match member.node.text() {
            Some("l2") => AssignmentStrategy::L2,
            Some("mixed") => AssignmentStrategy::Mixed,
            Some("l3") => AssignmentStrategy::L3,
            _ => {
                let message = "there is no such strategy".to_owned();
                self.reader.mistake(
                    &member.node.at,
                    message,
                    "write \"l2\", \"mixed\" or \"l3\"",
                );
                AssignmentStrategy::Plain
            }
        };
    }

    fn defaults(&mut self, member: &JsonMember) {
        let mut defaults = LinkValues::default();
        for own in self.reader.members("default", &member.node) {
            match own.key.as_str() {
                "auto_arp_tables" => self.auto_arp = self.reader.truth(own).unwrap_or(true),
                "auto_gw_arp" => self.auto_gateway_arp = self.reader.truth(own).unwrap_or(true),
                _ => self.link_value(own, &mut defaults),
            }
        }
        self.defaults = defaults;
    }

    fn hosts(&mut self, member: &JsonMember) {
        for own in self.reader.members("hosts", &member.node) {
            self.reader.check_name(own);
            let mut gateway = None;
            for option in self.reader.members("a host", &own.node) {
                match option.key.as_str() {
                    "defaultRoute" => {
                        let text = option.node.text().unwrap_or_default();
                        gateway = text.trim_start_matches("via").trim().parse().ok();
                        if gateway.is_none() {
                            let message = "this is no default route".to_owned();
                            let mend = "write \"via 10.0.1.254\"";
                            self.reader.mistake(&option.node.at, message, mend);
                        }
                    }
                    "dhcp" => {
                        let mend = "run a DHCP client as `h1 COMMAND` at the prompt";
                        self.reader.ignore(option, mend);
                    }
                    "scheduler" | "socket_path" => self.reader.ignore(option, SCRIPTS),
                    "log_enabled" | "log_dir" => self.reader.ignore(option, LOGS),
                    "host_node" => self.reader.ignore(option, NODES),
                    _ => self.reader.ignore(option, "hosts have defaultRoute"),
                }
            }
            let host = ImportedHost {
                name: own.key.clone(),
                mac: MacAddress([0; 6]),
                address: Ipv4Addr::UNSPECIFIED,
                prefix_len: 0,
                gateway,
                neighbours: Vec::new(),
                setup: Vec::new(),
            };
            let draft = HostDraft {
                host,
                has_address: false,
                has_mac: false,
                at: own.key_at.clone(),
            };
            self.hosts.insert(NaturalKey::new(&own.key), draft);
        }
    }

    fn switches(&mut self, member: &JsonMember) {
        for own in self.reader.members("switches", &member.node) {
            self.reader.check_name(own);
            let switch = self.switch(own);
            self.switches.push(switch);
        }
        // Device numbers of p4-utils begin at 1.
        number_switches(&mut self.switches, 1);
    }

    fn switch(&mut self, member: &JsonMember) -> ImportedSwitch {
        let mut switch = ImportedSwitch {
            name: member.key.clone(),
            ..ImportedSwitch::default()
        };
        for own in self.reader.members("a switch", &member.node) {
            match own.key.as_str() {
                "p4_src" => switch.program = self.reader.text(own),
                "cli_input" => switch.entries.extend(self.reader.text(own)),
                "grpc_port" => {
                    if let Some(port) = self.reader.number(own) {
                        switch.p4runtime = format!("127.0.0.1:{port}");
                    }
                }
                "cpu_port" => {
                    if self.reader.truth(own) == Some(true) {
                        let mend = "controllers have the packets of port 510 by P4Runtime, and no \
                                    interface of their own";
                        self.reader.ignore(own, mend);
                    }
                }
                "thrift_port" => {
                    let mend =
                        "switches speak P4Runtime; `polyplane ctl` replaces simple_switch_CLI";
                    self.reader.ignore(own, mend);
                }
                "pcap_dump" | "pcap_dir" => self.reader.ignore(own, CAPTURES),
                "log_enabled" | "log_dir" => self.reader.ignore(own, LOGS),
                "switch_node" | "sw_bin" => self.reader.ignore(own, NODES),
                "priority_queues_num" => {
                    let mend = "a port has eight priorities where the program sets one";
                    self.reader.ignore(own, mend);
                }
                _ => {
                    let mend = "switches have p4_src, cli_input and grpc_port";
                    self.reader.unknown(own, SWITCH_KEYS, mend);
                }
            }
        }
        switch
    }

    fn read_links(&mut self, topology: &JsonNode) {
        let Some(links) = topology.get("links") else {
            return;
        };
        for item in self.reader.items("links", links) {
            if let Some(link) = self.link(item) {
                self.links.push(link);
            }
        }
        let links = &mut self.links;
        links.sort_by_key(|link| {
            link.link
                .ends
                .each_ref()
                .map(|end| NaturalKey::new(&end.node))
        });
    }

    fn link(&mut self, item: &JsonNode) -> Option<LinkDraft> {
        let parts = self.reader.items("a link", item);
        let (nodes, options) = match parts {
            [a, b] => ([a, b], None),
            [a, b, options] => ([a, b], Some(options)),
            _ => {
                let message = "a link has two nodes, and options".to_owned();
                let mend = "write [\"h1\", \"s1\", {\"bw\": 10}]";
                self.reader.mistake(&item.at, message, mend);
                return None;
            }
        };
        let mut values = self.defaults.clone();
        let options = options.map_or(&[][..], |node| {
            self.reader.members("a link's options", node)
        });
        for own in options {
            self.link_value(own, &mut values);
        }
        let names = nodes.map(|node| node.text().unwrap_or_default().to_owned());
        if names.iter().any(|name| self.routers.contains(name)) {
            return None;
        }
        let mut switch_mac = None;
        let mut ends = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let is_switch = self.switches.iter().any(|switch| switch.name == *name);
            let key = NaturalKey::new(name);
            if let Some(host) = self
                .hosts
                .get_mut(&key)
                .filter(|host| host.host.name == *name)
            {
                set_interface(host, values.macs[at], values.addresses[at]);
            } else if is_switch {
                switch_mac = values.macs[at];
            } else {
                let message = format!("there is no host and no switch \"{name}\"");
                let mend = "add it to \"hosts\" or \"switches\"";
                self.reader.mistake(&nodes[at].at, message, mend);
                return None;
            }
            let port = if is_switch { values.ports[at] } else { None };
            if port.is_some() {
                self.reader.use_end(&nodes[at].at, name, port);
            }
            ends.push(LinkEnd {
                node: name.clone(),
                port,
            });
        }
        Some(LinkDraft {
            link: ImportedLink {
                ends: ends.try_into().ok()?,
                bits_per_second: values.bits_per_second,
                delay_ns: values.delay_ns,
                loss: values.loss,
                queue: values.queue,
            },
            switch_mac,
        })
    }

    fn link_value(&mut self, member: &JsonMember, values: &mut LinkValues) {
        let port =
            |reader: &mut Reader| reader.number(member).and_then(|it| u32::try_from(it).ok());
        match member.key.as_str() {
            "bw" => values.bits_per_second = self.reader.rate(&member.node),
            "delay" => values.delay_ns = self.reader.delay(&member.node),
            "loss" => values.loss = self.loss(member),
            "max_queue_size" => values.queue = self.reader.number(member).filter(|it| *it > 0),
            "port1" => values.ports[0] = port(self.reader),
            "port2" => values.ports[1] = port(self.reader),
            "addr1" => values.macs[0] = self.reader.mac(member),
            "addr2" => values.macs[1] = self.reader.mac(member),
            "params1" => values.addresses[0] = self.interface(member),
            "params2" => values.addresses[1] = self.interface(member),
            "weight" => {
                let mend = "entries decide on paths, and nothing here computes them";
                self.reader.ignore(member, mend);
            }
            "intfName1" | "intfName2" => {
                let mend = "a host's interface is eth0, a switch's ports have numbers";
                self.reader.ignore(member, mend);
            }
            _ => {
                let mend = "links have bw, delay, loss, max_queue_size, ports and addresses";
                self.reader.unknown(member, LINK_KEYS, mend);
            }
        }
    }

    /// Reads a loss in percent. Returns the share.
    fn loss(&mut self, member: &JsonMember) -> f64 {
        match member
            .node
            .float()
            .filter(|loss| (0.0..=100.0).contains(loss))
        {
            Some(percent) => percent / 100.0,
            None => {
                let message = "this is no loss".to_owned();
                self.reader.mistake(
                    &member.node.at,
                    message,
                    "write a number of percent, from 0 to 100",
                );
                0.0
            }
        }
    }

    /// Reads the parameters of an interface, of which the address counts.
    fn interface(&mut self, member: &JsonMember) -> Option<HostAddress> {
        let mut address = None;
        for own in self.reader.members("parameters", &member.node) {
            match own.key.as_str() {
                "ip" => match own.node.text().and_then(host_address) {
                    Some(parsed) => address = Some(parsed),
                    None => {
                        self.reader.address(own);
                    }
                },
                _ => self.reader.ignore(own, "an interface has \"ip\""),
            }
        }
        address
    }

    /// Numbers the ports of switches that the file does not number: from 1, in the order of links
    /// by the names of their nodes.
    fn assign_ports(&mut self) {
        let mut taken: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for end in self.links.iter().flat_map(|link| &link.link.ends) {
            let ports = taken.entry(end.node.clone()).or_default();
            ports.extend(end.port);
        }
        for link in &mut self.links {
            for end in &mut link.link.ends {
                let is_host = !self.switches.iter().any(|switch| switch.name == end.node);
                let Some(ports) = taken.get_mut(&end.node).filter(|_| !is_host) else {
                    continue;
                };
                let port = end.port.unwrap_or_else(|| free(ports, 1));
                ports.insert(port);
                end.port = Some(port);
            }
        }
    }

    /// Gives the hosts the addresses of the strategy, where the file gives none.
    fn assign_addresses(&mut self) {
        let mut taken: BTreeMap<u16, BTreeSet<u16>> = BTreeMap::new();
        let places: Vec<(NaturalKey, u16)> = self.places();
        let mut given: BTreeSet<(u16, u16)> = BTreeSet::new();
        let scope = |strategy, switch| match strategy {
            AssignmentStrategy::Mixed | AssignmentStrategy::L3 => switch,
            AssignmentStrategy::L2 | AssignmentStrategy::Plain => 0,
        };
        // Names with a number keep it, so these come first.
        for (key, switch) in &places {
            if let Some(number) = self.own_number(key) {
                taken
                    .entry(scope(self.strategy, *switch))
                    .or_default()
                    .insert(number);
            }
        }
        for (key, switch) in places {
            let numbers = taken.entry(scope(self.strategy, switch)).or_default();
            let number = match self.own_number(&key) {
                Some(number) => number,
                None => free(numbers, 1),
            };
            let strategy = self.strategy;
            let gateway_arp = self.auto_gateway_arp;
            let Some(draft) = self.hosts.get_mut(&key) else {
                continue;
            };
            numbers.insert(number);
            if !given.insert((scope(self.strategy, switch), number)) {
                let message = format!("{} has the address of another host", draft.host.name);
                let mend = "give hosts other numbers in their names";
                self.reader.mistake(&draft.at, message, mend);
                continue;
            }
            let Some((address, prefix_len, gateway)) = strategy.address(switch, number) else {
                let message = format!("{} has no address in this strategy", draft.host.name);
                let mend = "a host's number is from 1 to 253, and a switch's with \"l3\"";
                self.reader.mistake(&draft.at.clone(), message, mend);
                continue;
            };
            // A strategy sets all addresses; without one those of the file count.
            let is_given = strategy == AssignmentStrategy::Plain && draft.has_address;
            if !is_given {
                draft.host.address = address;
                draft.host.prefix_len = prefix_len;
                draft.host.gateway = gateway.or(draft.host.gateway);
            }
            if strategy != AssignmentStrategy::Plain || !draft.has_mac {
                draft.host.mac = mac_of(draft.host.address, 0);
            }
            if let Some(gateway) = gateway.filter(|_| gateway_arp) {
                let mac = mac_of(draft.host.address, 1);
                draft.host.neighbours.push((gateway, mac));
            }
        }
    }

    /// Returns the number in the name of a host (`h12`), if a strategy uses it.
    fn own_number(&self, key: &NaturalKey) -> Option<u16> {
        match self.strategy {
            AssignmentStrategy::Plain => None,
            _ => u16::try_from(key.number_after("h")?).ok(),
        }
    }

    /// Returns the hosts with links, each with the device number of its switch, in the order of
    /// their links.
    fn places(&mut self) -> Vec<(NaturalKey, u16)> {
        let mut places = Vec::new();
        let mut linked = BTreeSet::new();
        for link in &self.links {
            let [a, b] = &link.link.ends;
            for (end, other) in [(a, b), (b, a)] {
                let key = NaturalKey::new(&end.node);
                let Some(host) = self.hosts.get_mut(&key).filter(|_| end.port.is_none()) else {
                    continue;
                };
                if !linked.insert(key.clone()) {
                    let message = format!("the host {} has several links", end.node);
                    self.reader
                        .mistake(&host.at, message, "a host has one link");
                    continue;
                }
                let mut switches = self.switches.iter();
                let switch = switches.find(|switch| switch.name == other.node);
                let device = switch.and_then(|switch| u16::try_from(switch.device).ok());
                // A gateway of the file is at the port of the switch, if that has an address.
                if let (Some(gateway), Some(mac)) = (host.host.gateway, link.switch_mac) {
                    host.host.neighbours.push((gateway, mac));
                }
                places.push((key, device.unwrap_or_default()));
            }
        }
        places
    }

    /// Adds the static ARP entries of hosts in one network.
    fn add_neighbours(&mut self) {
        if !self.auto_arp {
            return;
        }
        let all: Vec<(Ipv4Addr, u8, MacAddress)> = self
            .hosts
            .values()
            .map(|it| (it.host.address, it.host.prefix_len, it.host.mac))
            .collect();
        for draft in self.hosts.values_mut() {
            let host = &mut draft.host;
            let own = network_of(host.address, host.prefix_len);
            let near = all.iter().filter(|(address, prefix_len, _)| {
                *address != host.address
                    && *prefix_len == host.prefix_len
                    && network_of(*address, *prefix_len) == own
            });
            let near: Vec<(Ipv4Addr, MacAddress)> = near.map(|(ip, _, mac)| (*ip, *mac)).collect();
            host.neighbours.extend(near);
        }
    }
}

fn set_interface(host: &mut HostDraft, mac: Option<MacAddress>, address: Option<HostAddress>) {
    if let Some(mac) = mac {
        host.host.mac = mac;
        host.has_mac = true;
    }
    if let Some((address, prefix_len)) = address {
        host.host.address = address;
        host.host.prefix_len = prefix_len;
        host.has_address = true;
    }
}

/// Returns the lowest number from `first` on that is not taken.
fn free<N: Copy + Ord + std::ops::Add<Output = N> + From<u8>>(taken: &BTreeSet<N>, first: N) -> N {
    let mut number = first;
    while taken.contains(&number) {
        number = number + N::from(1);
    }
    number
}
