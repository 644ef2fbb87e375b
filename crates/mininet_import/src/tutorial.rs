//! `topology.json` of the P4 tutorials.

use std::collections::BTreeSet;

use json_text::{JsonMember, JsonNode};

use crate::addresses::{HostCommand, host_command};
use crate::names::number_switches;
use crate::network::{ImportedHost, ImportedLink, ImportedSwitch, LinkEnd, MininetNetwork};
use crate::reader::Reader;

const FILE_KEYS: &[&str] = &["hosts", "switches", "links"];
const HOST_KEYS: &[&str] = &["ip", "mac", "commands"];
const SWITCH_KEYS: &[&str] = &["program", "runtime_json", "cli_input", "cpu_port"];

/// Reads a network.
pub(crate) fn network(reader: &mut Reader, file: &JsonNode) -> Option<MininetNetwork> {
    for member in file.members().unwrap_or_default() {
        if !FILE_KEYS.contains(&member.key.as_str()) {
            let mend = "the tutorials' files have hosts, switches and links";
            reader.unknown(member, FILE_KEYS, mend);
        }
    }
    let members = |reader: &mut Reader, key: &str| {
        let node = file.get(key);
        node.map_or(&[][..], |node| reader.members(key, node))
    };
    let (hosts, switches) = (members(reader, "hosts"), members(reader, "switches"));
    let imported_hosts = hosts.iter().filter_map(|member| host(reader, member));
    let imported_hosts: Vec<ImportedHost> = imported_hosts.collect();
    let imported_switches = switches.iter().map(|member| switch(reader, member));
    let mut imported_switches: Vec<ImportedSwitch> = imported_switches.collect();
    number_switches(&mut imported_switches, 0);
    let names = Names {
        hosts: hosts.iter().map(|host| host.key.as_str()).collect(),
        switches: switches.iter().map(|switch| switch.key.as_str()).collect(),
    };
    let links = reader.items("links", file.get("links")?);
    let links = links.iter().filter_map(|item| link(reader, item, &names));
    Some(MininetNetwork {
        links: links.collect(),
        hosts: imported_hosts,
        switches: imported_switches,
        ..MininetNetwork::default()
    })
}

struct Names<'n> {
    hosts: BTreeSet<&'n str>,
    switches: BTreeSet<&'n str>,
}

fn host(reader: &mut Reader, member: &JsonMember) -> Option<ImportedHost> {
    reader.check_name(member);
    let (mut address, mut mac, mut commands) = (None, None, &[][..]);
    for own in reader.members("a host", &member.node) {
        match own.key.as_str() {
            "ip" => address = reader.address(own),
            "mac" => mac = reader.mac(own),
            "commands" => commands = reader.items("commands", &own.node),
            _ => reader.unknown(own, HOST_KEYS, "hosts have ip, mac and commands"),
        }
    }
    let is_complete = member.node.get("ip").is_some() && member.node.get("mac").is_some();
    if !is_complete {
        let message = format!("the host {} needs an ip and a mac", member.key);
        reader.mistake(&member.key_at, message, "add \"ip\" and \"mac\"");
    }
    let (address, prefix_len) = address?;
    let mut host = ImportedHost {
        name: member.key.clone(),
        mac: mac?,
        address,
        prefix_len,
        gateway: None,
        neighbours: Vec::new(),
        setup: Vec::new(),
    };
    for command in commands {
        match command.text() {
            Some(text) => run(&mut host, text),
            None => {
                let message = "a command is a text".to_owned();
                reader.mistake(&command.at, message, "write it in quotes");
            }
        }
    }
    Some(host)
}

/// Makes a command of a host part of its configuration, or adds it to the commands that are run.
fn run(host: &mut ImportedHost, command: &str) {
    match host_command(host, command) {
        HostCommand::Gateway(gateway) => host.gateway = Some(gateway),
        HostCommand::Neighbour(address, mac) => host.neighbours.push((address, mac)),
        HostCommand::Nothing => {}
        HostCommand::Other => host.setup.push(command.to_owned()),
    }
}

fn switch(reader: &mut Reader, member: &JsonMember) -> ImportedSwitch {
    reader.check_name(member);
    let mut switch = ImportedSwitch {
        name: member.key.clone(),
        ..ImportedSwitch::default()
    };
    for own in reader.members("a switch", &member.node) {
        match own.key.as_str() {
            "program" => switch.program = reader.text(own),
            "runtime_json" | "cli_input" => switch.entries.extend(reader.text(own)),
            "cpu_port" => {
                let port = reader.number(own).and_then(|port| u32::try_from(port).ok());
                switch.cpu_port = port;
            }
            "priority_queues" => {
                let mend = "a port has eight priorities where the program sets one";
                reader.ignore(own, mend);
            }
            _ => {
                let mend = "switches have program, runtime_json, cli_input and cpu_port";
                reader.unknown(own, SWITCH_KEYS, mend);
            }
        }
    }
    switch
}

/// Reads a link: two ends, and in the next places its latency and its bandwidth.
fn link(reader: &mut Reader, item: &JsonNode, names: &Names<'_>) -> Option<ImportedLink> {
    let parts = reader.items("a link", item);
    let ([a, b], rest) = parts.split_first_chunk().or_else(|| {
        let message = "a link has two ends".to_owned();
        reader.mistake(&item.at, message, "write [\"h1\", \"s1-p1\"]");
        None
    })?;
    if let Some(extra) = rest.get(2) {
        let message = "a link has two ends, a latency and a bandwidth".to_owned();
        reader.mistake(&extra.at, message, "leave this out");
    }
    let (a, b) = (end(reader, a, names), end(reader, b, names));
    Some(ImportedLink {
        ends: [a?, b?],
        bits_per_second: rest.get(1).and_then(|node| reader.rate(node)),
        delay_ns: rest.first().map_or(0, |node| reader.delay(node)),
        loss: 0.0,
        queue: None,
    })
}

/// Reads an end: `h1`, or `s1-p1`, where the port may also be written `s1-eth1` or `s1:1`.
fn end(reader: &mut Reader, node: &JsonNode, names: &Names<'_>) -> Option<LinkEnd> {
    let written = node.text().unwrap_or_default();
    if names.hosts.contains(written) {
        reader.use_end(&node.at, written, None);
        return Some(LinkEnd {
            node: written.to_owned(),
            port: None,
        });
    }
    let (name, port) = written.rsplit_once(['-', ':']).unwrap_or((written, ""));
    let digits = port.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    match (names.switches.contains(name), digits.parse()) {
        (true, Ok(port)) => {
            reader.use_end(&node.at, name, Some(port));
            Some(LinkEnd {
                node: name.to_owned(),
                port: Some(port),
            })
        }
        (is_switch, _) => {
            let mend = match is_switch || names.switches.contains(written) {
                true => "write its port, as in \"s1-p1\"",
                false => "name a host, or a switch with its port, as in \"s1-p1\"",
            };
            let message = format!("\"{written}\" is no end of a link");
            reader.mistake(&node.at, message, mend);
            None
        }
    }
}
