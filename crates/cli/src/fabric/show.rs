//! `polyplane fabric show`: prints a topology as text, as JSON, or as a picture.

use std::path::PathBuf;

use clap::Args;
use fabric::Topology;
use fabric::topology::{
    FunctionSpec, HostId, HostSpec, LinkSpec, NodeId, PlaneSpec, ServiceSpec, SharedSpec,
    SplitSpec, SwitchSpec, VpdpSpec,
};
use packet::Nanos;
use serde::Serialize;
use support::mac::MacAddress;

use crate::{Ended, amount, out};

#[derive(Args)]
pub(super) struct Options {
    /// The topology (docs/reference/topology.md).
    #[arg(value_name = "TOPO.toml")]
    topology: PathBuf,
    /// Draw it into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Maximum number of flows that are listed as text.
const MAX_FLOWS: usize = 20;

#[derive(Serialize)]
struct Json<'a> {
    fabric: &'a str,
    seed: u64,
    switches: Vec<SwitchJson<'a>>,
    servers: Vec<ServerJson<'a>>,
    nanopus: Vec<NanopuJson<'a>>,
    hosts: Vec<HostJson<'a>>,
    links: Vec<LinkJson>,
    pings: Vec<PingJson<'a>>,
    flows: Vec<FlowJson<'a>>,
    traffic: Vec<TrafficJson<'a>>,
    requests: Vec<RequestsJson<'a>>,
    workload: Option<WorkloadJson>,
    commands: Vec<CommandJson<'a>>,
}

#[derive(Serialize)]
struct PingJson<'a> {
    from: &'a str,
    to: &'a str,
    count: u16,
    interval_seconds: f64,
    at_seconds: f64,
}

#[derive(Serialize)]
struct FlowJson<'a> {
    from: &'a str,
    to: &'a str,
    bytes: u64,
    at_seconds: f64,
}

#[derive(Serialize)]
struct ServerJson<'a> {
    name: &'a str,
    workers: u16,
    service_seconds: f64,
    backlog: usize,
}

#[derive(Serialize)]
struct TrafficJson<'a> {
    from: &'a str,
    to: &'a str,
    packets: u64,
    interval_seconds: f64,
    flows: u32,
    alpha: f64,
    bytes: usize,
    at_seconds: f64,
    destinations: Option<String>,
}

#[derive(Serialize)]
struct NanopuJson<'a> {
    #[serde(flatten)]
    host: HostJson<'a>,
    image: Option<String>,
    cores: usize,
    memory_bytes: usize,
}

#[derive(Serialize)]
struct RequestsJson<'a> {
    from: &'a str,
    to: &'a str,
    context: u16,
    messages: usize,
    interval_seconds: f64,
    at_seconds: f64,
}

/// Flows of each host.
#[derive(Serialize)]
struct WorkloadJson {
    elephants: u32,
    elephant_bytes: u64,
    mice: u32,
    mouse_bytes: u64,
}

#[derive(Serialize)]
struct CommandJson<'a> {
    host: &'a str,
    run: &'a [String],
    is_server: bool,
}

#[derive(Serialize)]
struct SwitchJson<'a> {
    name: &'a str,
    #[serde(flatten)]
    plane: PlaneJson<'a>,
    service_seconds: f64,
    backlog: usize,
}

/// Packet processing of a switch.
#[derive(Serialize)]
#[serde(untagged)]
enum PlaneJson<'a> {
    Alone(FunctionJson),
    Split(SplitJson<'a>),
    Aggregate {
        slots: u32,
    },
    Shared {
        vpdps: Vec<VpdpJson<'a>>,
        shared: Vec<SharingJson>,
        rules: Vec<String>,
    },
}

#[derive(Serialize)]
struct SplitJson<'a> {
    split_program: String,
    entries: Option<String>,
    servers: Vec<&'a str>,
    install_seconds: f64,
    order: &'static str,
    placement: &'static str,
    top: Option<u64>,
    lpm: &'static str,
}

#[derive(Serialize)]
struct FunctionJson {
    program: String,
    entries: Vec<String>,
}

#[derive(Serialize)]
struct VpdpJson<'a> {
    id: u16,
    name: &'a str,
    ports: Vec<String>,
    #[serde(flatten)]
    function: FunctionJson,
}

#[derive(Serialize)]
struct SharingJson {
    port: u32,
    by: String,
}

#[derive(Serialize)]
struct HostJson<'a> {
    name: &'a str,
    mac: String,
    ip: String,
    gateway: Option<String>,
}

#[derive(Serialize)]
struct LinkJson {
    ends: [String; 2],
    bits_per_second: Option<u64>,
    delay_seconds: f64,
    loss: f64,
    queue: usize,
}

pub(super) fn run(options: &Options) -> Result<Ended, String> {
    let topology = super::read(&options.topology)?;
    if let Some(file) = &options.svg {
        let drawn = super::svg::draw(&topology)?;
        std::fs::write(file, drawn)
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        out::note(&format!("{} is drawn", file.display()));
    }
    match options.json {
        true => out::json(&json(&topology)),
        false => text(&topology),
    }
    Ok(Ended::Well)
}

fn text(topology: &Topology) {
    out::line(&format!(
        "{}: {}, {}, {}",
        topology.name,
        several(topology.switches.len(), "switch", "switches"),
        amount::count(topology.hosts.len() as u64, "host"),
        amount::count(topology.links.len() as u64, "link")
    ));
    for switch in &topology.switches {
        switch_text(switch);
    }
    for server in &topology.servers {
        out::line(&format!(
            "server {}: {}, {}",
            server.name,
            amount::count(server.workers.into(), "worker"),
            time_text(server.service)
        ));
    }
    for nanopu in &topology.nanopus {
        let image = nanopu.image_file.as_ref();
        let image = image.map_or("no image".to_owned(), |path| path.display().to_string());
        let cores = amount::count(nanopu.cores as u64, "core");
        host_text("nanoPU", &nanopu.host, &format!(", {image}, {cores}"));
    }
    for host in &topology.hosts {
        host_text("host", host, "");
    }
    for link in &topology.links {
        let [a, b] = link.ends.map(|end| topology.end_text(end));
        out::line(&format!("link {a} -- {b}: {}", link_text(&link.spec)));
    }
    for requests in &topology.requests {
        out::line(&format!(
            "requests {} to {}: {}, one each {}{}",
            topology.name_of(NodeId::Host(requests.from)),
            topology.name_of(NodeId::Nanopu(requests.to)),
            amount::count(requests.messages as u64, "message"),
            amount::time(requests.interval.into()),
            start_text(requests.at)
        ));
    }
    let host = |id: HostId| topology.name_of(NodeId::Host(id));
    for ping in &topology.pings {
        out::line(&format!(
            "ping {} to {}: {}, {} apart{}",
            host(ping.from),
            host(ping.to),
            amount::count(ping.count.into(), "request"),
            amount::time(ping.interval.into()),
            start_text(ping.at)
        ));
    }
    for flow in topology.flows.iter().take(MAX_FLOWS) {
        out::line(&format!(
            "flow {} to {}: {}{}",
            host(flow.from),
            host(flow.to),
            amount::bytes(flow.bytes),
            start_text(flow.at)
        ));
    }
    for traffic in &topology.traffic {
        out::line(&format!(
            "traffic {} to {}: {} of {}, one each {}{}",
            host(traffic.from),
            host(traffic.to),
            amount::count(traffic.packets, "packet"),
            amount::count(traffic.flows.into(), "flow"),
            amount::time(traffic.interval.into()),
            start_text(traffic.at)
        ));
    }
    let more = topology.flows.len().saturating_sub(MAX_FLOWS) as u64;
    if more > 0 {
        out::line(&format!("and {}", amount::count(more, "other flow")));
    }
    for command in &topology.commands {
        let kind = if command.is_server {
            "server"
        } else {
            "command"
        };
        let name = host(command.host);
        out::line(&format!("{kind} at {name}: {}", command.run.join(" ")));
    }
    if let Some(workload) = topology.workload {
        out::line(&format!(
            "workload: each host sends {} of {} and {} of {}",
            amount::count(u64::from(workload.elephants), "elephant"),
            amount::bytes(workload.elephant_bytes),
            several(workload.mice as usize, "mouse", "mice"),
            amount::bytes(workload.mouse_bytes)
        ));
    }
}

/// Writes the addresses of a host or a nanoPU.
fn host_text(kind: &str, host: &HostSpec, more: &str) {
    let gateway = host.gateway.map(|gateway| format!(", by {gateway}"));
    out::line(&format!(
        "{kind} {}: {}/{}, {}{}{more}",
        host.name,
        host.address,
        host.prefix_len,
        MacAddress(host.mac),
        gateway.unwrap_or_default()
    ));
}

/// Formats a count, as [`amount::count`] does, for nouns with another plural.
fn several(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn switch_text(switch: &SwitchSpec) {
    let (name, time) = (&switch.name, time_text(switch.service));
    match &switch.plane {
        PlaneSpec::Alone(function) => out::line(&format!(
            "switch {name}: {}, {time}",
            function_text(function)
        )),
        PlaneSpec::Split(split) => {
            let servers: Vec<&str> = split.servers.iter().map(|s| s.name.as_str()).collect();
            out::line(&format!(
                "switch {name}: switch half of {}, servers {}, {time}",
                split.program.display(),
                servers.join(", ")
            ));
        }
        PlaneSpec::Aggregate { slots } => {
            let slots = amount::count((*slots).into(), "slot");
            out::line(&format!("switch {name}: {slots} for reductions, {time}"));
        }
        PlaneSpec::Shared(shared) => {
            let vpdps = amount::count(shared.vpdps.len() as u64, "virtual data plane");
            out::line(&format!("switch {name}: {vpdps}, {time}"));
            shared_text(shared);
        }
    }
}

fn shared_text(shared: &SharedSpec) {
    for vpdp in &shared.vpdps {
        out::line(&format!(
            "  vPDP {} {} at {}: {}",
            vpdp.id,
            vpdp.name,
            ports(vpdp).join(", "),
            function_text(&vpdp.function)
        ));
    }
    for sharing in &shared.sharings {
        let (port, how) = sharing.it;
        out::line(&format!("  port {port} shared: {how}"));
    }
    for rule in &shared.rules {
        out::line(&format!("  rule {}", rule.it));
    }
}

fn ports(vpdp: &VpdpSpec) -> Vec<String> {
    vpdp.ports.iter().map(ToString::to_string).collect()
}

fn function_text(function: &FunctionSpec) -> String {
    let entries: Vec<String> = paths(&function.entries);
    match entries.is_empty() {
        true => function.program.to_string(),
        false => format!("{} with {}", function.program, entries.join(" and ")),
    }
}

/// Formats a start time; nothing for that of the simulation.
fn start_text(at: Nanos) -> String {
    match at {
        Nanos::ZERO => String::new(),
        at => format!(", from {} on", amount::time(at.into())),
    }
}

fn time_text(service: ServiceSpec) -> String {
    format!("{} a packet", amount::time(service.time.into()))
}

fn link_text(spec: &LinkSpec) -> String {
    let rate = spec.rate.map(|rate| amount::bit_rate(rate.0 as f64));
    let rate = rate.unwrap_or_else(|| "no limit".to_owned());
    let delay = amount::time(spec.delay.into());
    let loss = match spec.faults.drop.0 {
        0 => String::new(),
        loss => format!(", {} % lost", f64::from(loss) / 1e4),
    };
    format!("{rate}, {delay}, queue of {}{loss}", spec.queue)
}

fn function_json(function: &FunctionSpec) -> FunctionJson {
    FunctionJson {
        program: function.program.to_string(),
        entries: paths(&function.entries),
    }
}

fn paths(files: &[PathBuf]) -> Vec<String> {
    files
        .iter()
        .map(|path| path.display().to_string())
        .collect()
}

fn split_json(split: &SplitSpec) -> SplitJson<'_> {
    let entries = split.entries.as_ref();
    SplitJson {
        split_program: split.program.display().to_string(),
        entries: entries.map(|path| path.display().to_string()),
        servers: split.servers.iter().map(|s| s.name.as_str()).collect(),
        install_seconds: split.install.as_secs_f64(),
        order: split.order.name(),
        placement: split.placement.policy.name(),
        top: split.placement.top,
        lpm: split.placement.nesting.name(),
    }
}

fn plane_json(plane: &PlaneSpec) -> PlaneJson<'_> {
    let shared = match plane {
        PlaneSpec::Alone(function) => return PlaneJson::Alone(function_json(function)),
        PlaneSpec::Split(split) => return PlaneJson::Split(split_json(split)),
        PlaneSpec::Aggregate { slots } => return PlaneJson::Aggregate { slots: *slots },
        PlaneSpec::Shared(shared) => shared,
    };
    let vpdps = shared.vpdps.iter().map(|vpdp| VpdpJson {
        id: vpdp.id.get(),
        name: &vpdp.name,
        ports: ports(vpdp),
        function: function_json(&vpdp.function),
    });
    let sharings = shared.sharings.iter().map(|sharing| SharingJson {
        port: sharing.it.0.0,
        by: sharing.it.1.to_string(),
    });
    PlaneJson::Shared {
        vpdps: vpdps.collect(),
        shared: sharings.collect(),
        rules: shared
            .rules
            .iter()
            .map(|rule| rule.it.to_string())
            .collect(),
    }
}

fn host_json(host: &HostSpec) -> HostJson<'_> {
    HostJson {
        name: &host.name,
        mac: MacAddress(host.mac).to_string(),
        ip: format!("{}/{}", host.address, host.prefix_len),
        gateway: host.gateway.map(|gateway| gateway.to_string()),
    }
}

fn json(topology: &Topology) -> Json<'_> {
    let switches = topology.switches.iter().map(|switch| SwitchJson {
        name: &switch.name,
        plane: plane_json(&switch.plane),
        service_seconds: switch.service.time.as_secs_f64(),
        backlog: switch.service.backlog,
    });
    let hosts = topology.hosts.iter().map(host_json);
    let nanopus = topology.nanopus.iter().map(|nanopu| NanopuJson {
        host: host_json(&nanopu.host),
        image: nanopu
            .image_file
            .as_ref()
            .map(|path| path.display().to_string()),
        cores: nanopu.cores,
        memory_bytes: nanopu.memory_bytes,
    });
    let requests = topology.requests.iter().map(|requests| RequestsJson {
        from: topology.name_of(NodeId::Host(requests.from)),
        to: topology.name_of(NodeId::Nanopu(requests.to)),
        context: requests.context,
        messages: requests.messages,
        interval_seconds: requests.interval.as_secs_f64(),
        at_seconds: requests.at.as_secs_f64(),
    });
    let servers = topology.servers.iter().map(|server| ServerJson {
        name: &server.name,
        workers: server.workers,
        service_seconds: server.service.time.as_secs_f64(),
        backlog: server.service.backlog,
    });
    let links = topology.links.iter().map(|link| LinkJson {
        ends: link.ends.map(|end| topology.end_text(end)),
        bits_per_second: link.spec.rate.map(|rate| rate.0),
        delay_seconds: link.spec.delay.as_secs_f64(),
        loss: f64::from(link.spec.faults.drop.0) / 1e6,
        queue: link.spec.queue,
    });
    let host = |id: HostId| topology.name_of(NodeId::Host(id));
    let pings = topology.pings.iter().map(|ping| PingJson {
        from: host(ping.from),
        to: host(ping.to),
        count: ping.count,
        interval_seconds: ping.interval.as_secs_f64(),
        at_seconds: ping.at.as_secs_f64(),
    });
    let flows = topology.flows.iter().map(|flow| FlowJson {
        from: host(flow.from),
        to: host(flow.to),
        bytes: flow.bytes,
        at_seconds: flow.at.as_secs_f64(),
    });
    let traffic = topology.traffic.iter().map(|traffic| TrafficJson {
        from: host(traffic.from),
        to: host(traffic.to),
        packets: traffic.packets,
        interval_seconds: traffic.interval.as_secs_f64(),
        flows: traffic.flows,
        alpha: traffic.alpha,
        bytes: traffic.bytes,
        at_seconds: traffic.at.as_secs_f64(),
        destinations: traffic
            .destinations
            .map(|(network, len)| format!("{network}/{len}")),
    });
    let workload = topology.workload.map(|workload| WorkloadJson {
        elephants: workload.elephants,
        elephant_bytes: workload.elephant_bytes,
        mice: workload.mice,
        mouse_bytes: workload.mouse_bytes,
    });
    let commands = topology.commands.iter().map(|command| CommandJson {
        host: host(command.host),
        run: &command.run,
        is_server: command.is_server,
    });
    Json {
        fabric: &topology.name,
        seed: topology.seed,
        switches: switches.collect(),
        servers: servers.collect(),
        nanopus: nanopus.collect(),
        hosts: hosts.collect(),
        links: links.collect(),
        pings: pings.collect(),
        flows: flows.collect(),
        traffic: traffic.collect(),
        requests: requests.collect(),
        workload,
        commands: commands.collect(),
    }
}
