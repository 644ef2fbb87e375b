//! A network as the text of a topology file in TOML.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::network::{ImportedHost, ImportedLink, ImportedSwitch, LinkEnd, MininetNetwork};

impl MininetNetwork {
    /// Returns the network as a topology file (docs/reference/topology.md) with this name.
    pub fn to_toml(&self, name: &str) -> String {
        let mut text = format!("name = {}\n", quoted(name));
        for switch in &self.switches {
            let default = self.program.as_deref();
            write_switch(&mut text, switch, default);
        }
        self.hosts
            .iter()
            .for_each(|host| write_host(&mut text, host));
        self.links
            .iter()
            .for_each(|link| write_link(&mut text, link));
        text
    }
}

/// Adds a line `key = value`.
fn line(text: &mut String, key: &str, value: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{key} = {value}");
}

fn write_switch(text: &mut String, switch: &ImportedSwitch, default: Option<&str>) {
    text.push_str("\n[[switch]]\n");
    line(text, "name", &quoted(&switch.name));
    if let Some(program) = switch.program.as_deref().or(default) {
        line(text, "program", &quoted(program));
    }
    match &switch.entries[..] {
        [] => {}
        [one] => line(text, "entries", &quoted(one)),
        several => {
            let files: Vec<String> = several.iter().map(|file| quoted(file)).collect();
            line(text, "entries", &format!("[{}]", files.join(", ")));
        }
    }
    line(text, "p4runtime", &quoted(&switch.p4runtime));
    line(text, "device", &switch.device.to_string());
    if let Some(port) = switch.cpu_port {
        line(text, "cpu_port", &port.to_string());
    }
}

fn write_host(text: &mut String, host: &ImportedHost) {
    text.push_str("\n[[host]]\n");
    line(text, "name", &quoted(&host.name));
    line(text, "mac", &quoted(&host.mac.to_string()));
    let address = format!("{}/{}", host.address, host.prefix_len);
    line(text, "ip", &quoted(&address));
    if let Some(gateway) = host.gateway {
        line(text, "gateway", &quoted(&gateway.to_string()));
    }
    if !host.neighbours.is_empty() {
        // The last entry of an address counts, as in a kernel's table.
        let known: BTreeMap<_, _> = host.neighbours.iter().copied().collect();
        let pairs = known
            .iter()
            .map(|(address, mac)| format!("\"{address}\" = \"{mac}\""));
        let pairs: Vec<String> = pairs.collect();
        line(text, "neighbours", &format!("{{ {} }}", pairs.join(", ")));
    }
    if !host.setup.is_empty() {
        let commands: Vec<String> = host.setup.iter().map(|command| quoted(command)).collect();
        line(text, "setup", &format!("[{}]", commands.join(", ")));
    }
}

fn write_link(text: &mut String, link: &ImportedLink) {
    text.push_str("\n[[link]]\n");
    let ends: Vec<String> = link.ends.iter().map(end).collect();
    line(text, "ends", &format!("[{}]", ends.join(", ")));
    if let Some(rate) = link.bits_per_second {
        line(text, "rate", &quoted(&format!("{rate} bit/s")));
    }
    if link.delay_ns > 0 {
        line(text, "delay", &quoted(&format!("{} ns", link.delay_ns)));
    }
    if link.loss > 0.0 {
        line(text, "loss", &format!("{:?}", link.loss));
    }
    if let Some(queue) = link.queue {
        line(text, "queue", &queue.to_string());
    }
}

fn end(end: &LinkEnd) -> String {
    match end.port {
        Some(port) => quoted(&format!("{}:{port}", end.node)),
        None => quoted(&end.node),
    }
}

/// Returns a text as a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if c.is_control() => {
                // Writing to a string does not fail.
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
