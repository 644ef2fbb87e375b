//! `ctl port` and `ctl drops`: the ports of a running switch, and its drops.

use clap::{Args, Subcommand};
use p4info::polyplane::ports::v1::change_request::Change;
use p4info::polyplane::ports::v1::{Drops, PortDetails, Traffic};
use port::PortSpec;
use serde_json::json;
use support::text_table::align;

use super::link::Link;
use crate::{amount, out};

#[derive(Args)]
pub(super) struct PortOptions {
    #[command(subcommand)]
    action: PortCommand,
}

#[derive(Subcommand)]
enum PortCommand {
    /// List the ports with links, drivers and counts.
    List,
    /// Add a port: an interface, tap:NAME or ring:NAME, that the switch's --port-allow permits.
    Add {
        /// The port and its interface.
        #[arg(value_name = "NUMBER=INTERFACE")]
        port: PortSpec,
    },
    /// Remove a port. Its interface is free afterwards.
    Remove {
        /// The port.
        #[arg(value_name = "NUMBER")]
        port: u32,
    },
    /// Close a port, and open it again.
    Reopen {
        /// The port.
        #[arg(value_name = "NUMBER")]
        port: u32,
    },
}

pub(super) fn port(link: &mut Link, options: &PortOptions, as_json: bool) -> Result<(), String> {
    let (change, verb) = match &options.action {
        PortCommand::List => return list(link, as_json),
        PortCommand::Add { port } => (Change::Add(port.to_string()), "added"),
        PortCommand::Remove { port } => (Change::Remove(*port), "removed"),
        PortCommand::Reopen { port } => (Change::Reopen(*port), "open again"),
    };
    let changed = link.client.change_port(change);
    let changed = changed.map_err(|error| link.explain(&error))?;
    match (changed, as_json) {
        (Some(port), true) => out::json(&port_json(&port)),
        (None, true) => out::json(&json!({})),
        (Some(port), false) => {
            let driver = match port.driver.as_str() {
                "" => String::new(),
                driver => format!(", by {driver}"),
            };
            let state = port.state.unwrap_or_default();
            let number = state.port;
            out::line(&format!("port {number} ({}) is {verb}{driver}", state.name));
        }
        (None, false) => {}
    }
    Ok(())
}

fn list(link: &mut Link, as_json: bool) -> Result<(), String> {
    let details = link.client.port_details();
    let details = match details.map_err(|error| link.explain(&error))? {
        Some(listed) => listed.ports,
        // The server knows the states only.
        None => {
            let states = link.client.port_states();
            let states = states.map_err(|error| link.explain(&error))?;
            let Some(states) = states else {
                return Err("the server does not report its ports".to_owned());
            };
            let details = states.into_iter().map(|state| PortDetails {
                state: Some(state),
                ..PortDetails::default()
            });
            details.collect()
        }
    };
    if as_json {
        out::json(&details.iter().map(port_json).collect::<Vec<_>>());
        return Ok(());
    }
    out::text(&align(&details.iter().map(port_row).collect::<Vec<_>>()));
    Ok(())
}

/// Shows the drops of a switch by reason: those of its program and device, and those of its ports.
pub(super) fn drops(link: &mut Link, as_json: bool) -> Result<(), String> {
    let listed = link.client.port_details();
    let listed = listed.map_err(|error| link.explain(&error))?;
    let Some(listed) = listed else {
        return Err("the server does not report drops; its metrics may have them".to_owned());
    };
    if as_json {
        let of_port = |port: &PortDetails| {
            let state = port.state.clone().unwrap_or_default();
            json!({ "port": state.port, "name": state.name, "dropped": drops_json(&port.dropped) })
        };
        out::json(&json!({
            "dropped": drops_json(&listed.dropped),
            "ports": listed.ports.iter().map(of_port).collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    let mut rows = Vec::new();
    let mut add = |place: &str, all: &[Drops]| {
        rows.extend(all.iter().map(|drops| {
            let packets = amount::count(drops.packets, "packet");
            vec![place.to_owned(), drops.reason.clone(), packets]
        }));
    };
    add("switch", &listed.dropped);
    for port in &listed.ports {
        let state = port.state.clone().unwrap_or_default();
        add(
            &format!("port {} ({})", state.port, state.name),
            &port.dropped,
        );
    }
    if rows.is_empty() {
        out::line("no packet was dropped");
        return Ok(());
    }
    out::text(&align(&rows));
    Ok(())
}

fn drops_json(all: &[Drops]) -> Vec<serde_json::Value> {
    let one = |drops: &Drops| json!({ "reason": drops.reason, "packets": drops.packets });
    all.iter().map(one).collect()
}

fn port_json(port: &PortDetails) -> serde_json::Value {
    let state = port.state.clone().unwrap_or_default();
    let traffic = |traffic: Option<Traffic>| {
        traffic.map(|traffic| json!({ "packets": traffic.packets, "bytes": traffic.bytes }))
    };
    json!({
        "port": state.port,
        "name": state.name,
        "up": state.is_up,
        "driver": port.driver,
        "received": traffic(port.received),
        "sent": traffic(port.sent),
        "dropped": drops_json(&port.dropped),
    })
}

fn port_row(port: &PortDetails) -> Vec<String> {
    let state = port.state.clone().unwrap_or_default();
    let mut row = vec![
        format!("port {}", state.port),
        state.name,
        (if state.is_up { "up" } else { "down" }).to_owned(),
    ];
    let traffic = [("received", port.received), ("sent", port.sent)];
    row.extend(traffic.into_iter().filter_map(|(verb, traffic)| {
        let packets = amount::count(traffic?.packets, "packet");
        Some(format!("{verb} {packets}"))
    }));
    let dropped: u64 = port.dropped.iter().map(|drops| drops.packets).sum();
    if port.received.is_some() {
        row.push(format!("dropped {dropped}"));
    }
    row.push(port.driver.clone());
    row
}
