//! `polyplane reflex run`: loops in a simulated fabric. [`super::live`] has real sources.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ::reflex::{
    CommandTarget, ElementIndex, FabricElement, FabricPlane, FrameObserver, Loops, MakeMember,
    ManagedElement, MemberNode, PlaneDriver, ReflexPlane, SharedDevice, SourceIndex,
};
use clap::Args;
use command::switches::{Maker, SwitchPlane};
use command::topology::run_simulation;
use fabric::topology::{HostId, NodeId, SwitchId};
use fabric::{Node, Simulation, SwitchNode, Topology};
use packet::Nanos;
use port::PcapWriter;
use runtime::ProcessSetup;

use super::live;
use super::show::{self, Report};
use crate::engine::Choice;
use crate::fabric::read as read_topology;
use crate::{Ended, out};

/// Simulated time by default.
const SIMULATED: Duration = Duration::from_secs(600);

#[derive(Args)]
pub(crate) struct Options {
    /// The loop file.
    #[arg(value_name = "LOOPS.toml")]
    loops: PathBuf,
    /// Simulate this topology, with a host in the place of each source
    /// (docs/reference/topology.md). Without it, sources and switches are real.
    #[arg(long, value_name = "TOPO.toml")]
    fabric: Option<PathBuf>,
    /// Maximum time in seconds, as in 20 or 0.5. A simulated run ends after 600 by default, a real
    /// one at a signal.
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Write what arrives at a source (a host's name, or its `listen`) to a capture, for
    /// `polyplane reflex replay`. Give one for each source.
    #[arg(long, value_name = "SOURCE=FILE")]
    capture: Vec<String>,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    live: live::LiveOptions,
    /// Write JSON: each decision, and the counts. In a real run an event a line, then the counts.
    #[arg(long)]
    json: bool,
}

/// Reads a time in seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|it| *it > 0.0 && *it <= 1e6);
    let time = seconds.map(Duration::from_secs_f64);
    time.ok_or_else(|| "write a number of seconds up to 1000000, as in 20 or 0.5".to_owned())
}

/// A capture of what arrives at a source or at a monitor's program, and the first error.
pub(super) struct Capture {
    writer: PcapWriter,
    error: Option<String>,
}

/// A capture that its node and the end of the run share.
pub(super) type SharedCapture = Rc<RefCell<Option<Capture>>>;

/// Creates a capture.
pub(super) fn create(file: &Path) -> Result<SharedCapture, String> {
    let writer = PcapWriter::create(file).map_err(|error| error.to_string())?;
    let error = None;
    Ok(Rc::new(RefCell::new(Some(Capture { writer, error }))))
}

/// Ends a capture.
///
/// # Errors
/// The first error of a write.
pub(super) fn finish(capture: &SharedCapture) -> Result<(), String> {
    let Some(Capture { writer, error }) = capture.borrow_mut().take() else {
        return Ok(());
    };
    let written = writer.finish().map_err(|error| error.to_string());
    error.map_or(written, Err)
}

pub(super) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    let loops = super::read(&options.loops)?;
    let Some(fabric) = &options.fabric else {
        let run = live::LiveRun {
            file: &options.loops,
            node: None,
            time: options.seconds,
            json: options.json,
            choice: options.choice,
            captures: super::by_source(&loops, &options.capture)?,
        };
        return live::run(loops, &run, &options.live, early);
    };
    if options.live.is_given() {
        let refusal = "--control and --spin are of real runs: take them or --fabric away";
        return Err(refusal.to_owned());
    }
    let topology = read_topology(fabric)?;
    check_names(&loops, &options.loops, &topology, fabric)?;
    let hosts: Vec<String> = topology.hosts.iter().map(|it| it.name.clone()).collect();
    let sources = loops.sources.iter();
    let sources = sources.map(|source| {
        let name = source.listen.host();
        let host = hosts.iter().position(|host| Some(host.as_str()) == name);
        host.map(HostId)
            .ok_or_else(|| format!("{} is no host of the topology", source.listen))
    });
    let sources: Vec<HostId> = sources.collect::<Result<_, _>>()?;
    // The nodes of the store run at hosts, each with a plane of its own.
    let placed = MemberNode::are_placed(&loops, &topology).then(|| topology.clone());
    let mut maker = Maker::new(options.choice, topology.seed);
    let mut devices: Vec<(String, SharedDevice)> = Vec::new();
    let simulation = Simulation::new(topology, &mut |spec| {
        let is_element = loops
            .elements
            .iter()
            .any(|it| it.device.switch() == Some(&spec.name));
        if !is_element {
            return maker.make(spec);
        }
        let SwitchPlane::Alone(device) = maker.plane(spec)? else {
            return Err("loops change switches with one program, not tenants".to_owned());
        };
        let device = SharedDevice::new(*device);
        devices.push((spec.name.clone(), device.clone()));
        let node = SwitchNode::new(device, spec.service);
        Ok(Box::new(match maker.loader(spec)? {
            Some(load) => node.with_loader(load),
            None => node,
        }) as Box<dyn Node>)
    });
    let mut simulation = simulation.map_err(|error| error.to_string())?;
    let elements = elements(&loops, &devices)?;
    if let Some(topology) = placed {
        return run_members(loops, options, early, simulation, &topology, &elements);
    }
    let elements = elements.into_iter();
    let elements = elements.map(|it| Box::new(it) as Box<dyn CommandTarget>);
    let elements = elements.collect();
    let plane = super::plane(loops, &options.loops, options.choice, Nanos::ZERO)?;
    let plane = FabricPlane::new(PlaneDriver::new(plane, elements));
    show::keys_text(&plane.get())
        .iter()
        .for_each(|line| out::note(line));
    let wanted = super::by_source(plane.get().plane().loops(), &options.capture)?;
    let captures = wanted.into_iter();
    let captures = captures.map(|file| file.map(|file| create(&file)).transpose());
    let captures: Vec<Option<SharedCapture>> = captures.collect::<Result<_, String>>()?;
    for (at, host) in sources.into_iter().enumerate() {
        let node = plane.node(SourceIndex(at), observer(captures[at].clone()));
        let replaced = simulation.replace_host(host, Box::new(node));
        replaced.map_err(|error| error.to_string())?;
    }
    let end = options.seconds.unwrap_or(SIMULATED).into();
    let (signal, _) = run_simulation(&mut simulation, end, &|| early.take_signal())?;
    simulation
        .check_conservation()
        .map_err(|unbalanced| unbalanced.to_string())?;
    let report = Report::new(&plane.get(), simulation.now());
    drop(simulation);
    captures.iter().flatten().try_for_each(finish)?;
    match options.json {
        true => out::json(&report),
        false => out::text(&report.text()),
    }
    match signal {
        Some(signal) => Err(format!("interrupted by {signal}")),
        None => Ok(Ended::Well),
    }
}

/// Runs the members of a store at their hosts, and prints the report of each.
fn run_members(
    loops: Loops,
    options: &Options,
    early: &ProcessSetup,
    mut simulation: Simulation,
    topology: &Topology,
    elements: &[FabricElement],
) -> Result<Ended, String> {
    let (file, choice) = (options.loops.clone(), options.choice);
    let make: MakeMember = {
        let (loops, elements) = (loops.clone(), elements.to_vec());
        Rc::new(move |replica| {
            let mut plane = ReflexPlane::with_store(loops.clone(), replica);
            super::prepare(&mut plane, &file, choice, Nanos::ZERO)?;
            let elements = elements.iter().cloned();
            let elements = elements.map(|it| Box::new(it) as Box<dyn CommandTarget>);
            Ok(PlaneDriver::new(plane, elements.collect()))
        })
    };
    let wanted = super::by_source(&loops, &options.capture)?;
    let captures = wanted.into_iter();
    let captures = captures.map(|file| file.map(|file| create(&file)).transpose());
    let captures: Vec<Option<SharedCapture>> = captures.collect::<Result<_, String>>()?;
    let mut members = Vec::new();
    for (host, mut member) in MemberNode::all(&loops, topology, &make)? {
        for source in member.sources().collect::<Vec<_>>() {
            member.observe(source, observer(captures[source.0].clone()));
        }
        let name = topology.hosts[host.0].name.clone();
        members.push((name, member.plane()));
        let replaced = simulation.replace_host(host, Box::new(member));
        replaced.map_err(|error| error.to_string())?;
    }
    let end = options.seconds.unwrap_or(SIMULATED).into();
    let (signal, _) = run_simulation(&mut simulation, end, &|| early.take_signal())?;
    simulation
        .check_conservation()
        .map_err(|unbalanced| unbalanced.to_string())?;
    let reports = members.iter().map(|(host, plane)| {
        let plane = plane.get();
        let state = plane.plane().store().states().next();
        let name = state.map_or("", |state| &loops.store.nodes[state.node]);
        show::MemberReport::new(name, host, Report::new(&plane, simulation.now()))
    });
    let reports: Vec<show::MemberReport> = reports.collect();
    drop(simulation);
    captures.iter().flatten().try_for_each(finish)?;
    match options.json {
        true => out::json(&show::MemberReports { members: reports }),
        false => reports.iter().for_each(|report| out::text(&report.text())),
    }
    match signal {
        Some(signal) => Err(format!("interrupted by {signal}")),
        None => Ok(Ended::Well),
    }
}

/// Checks that hosts, switches and ports that the loops name are in the topology.
///
/// # Errors
/// All that are not, each with its line.
fn check_names(
    loops: &Loops,
    loops_file: &Path,
    topology: &Topology,
    fabric: &Path,
) -> Result<(), String> {
    let (file, fabric) = (loops_file.display(), fabric.display());
    let mut mistakes = Vec::new();
    for source in &loops.sources {
        let (line, listen) = (source.line, &source.listen);
        let hosts: Vec<&str> = topology.hosts.iter().map(|it| it.name.as_str()).collect();
        match listen.host() {
            None => mistakes.push(format!(
                "{file}:{line}: error: {listen} is real, and {fabric} is simulated\n  = hint: write listen = \"host:NAME\", or take --fabric away"
            )),
            Some(host) if !hosts.contains(&host) => mistakes.push(format!(
                "{file}:{line}: error: {fabric} has no host {host}\n  = hint: one of: {}",
                hosts.join(", ")
            )),
            Some(_) => {}
        }
    }
    let switches: Vec<&str> = topology
        .switches
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    for (at, element) in loops.elements.iter().enumerate() {
        let line = element.line;
        let Some(name) = element.device.switch() else {
            mistakes.push(format!(
                "{file}:{line}: error: element {} is a real switch, and {fabric} is simulated\n  = hint: name a switch of the topology, or take --fabric away",
                element.name
            ));
            continue;
        };
        let Some(switch) = switches.iter().position(|it| *it == name) else {
            mistakes.push(format!(
                "{file}:{line}: error: {fabric} has no switch {name}\n  = hint: one of: {}",
                switches.join(", ")
            ));
            continue;
        };
        let linked = linked_ports(topology, SwitchId(switch));
        for reflex in loops.reflexes.iter().filter(|it| it.element.0 == at) {
            let ports = reflex.change.ports().iter();
            for port in ports.filter(|port| !linked.contains(port)) {
                let all: Vec<String> = linked.iter().map(u32::to_string).collect();
                mistakes.push(format!(
                    "{file}:{}: error: port {port} of {name} has no link in {fabric}\n  = hint: ports with links: {}",
                    reflex.line,
                    all.join(", ")
                ));
            }
        }
    }
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(mistakes.join("\n")),
    }
}

/// Returns the numbers of the ports of a switch that have links.
fn linked_ports(topology: &Topology, switch: SwitchId) -> BTreeSet<u32> {
    let ends = topology.links.iter().flat_map(|link| &link.ends);
    let own = ends.filter(|end| end.node == NodeId::Switch(switch));
    own.map(|end| end.port.0).collect()
}

/// Joins each element with its switch.
fn elements(
    loops: &Loops,
    devices: &[(String, SharedDevice)],
) -> Result<Vec<FabricElement>, String> {
    let elements = loops.elements.iter().enumerate();
    let elements = elements.map(|(at, element)| {
        let name = element.device.switch();
        let mut found = devices.iter().filter(|(it, _)| Some(it.as_str()) == name);
        let Some((_, device)) = found.next() else {
            return Err(format!(
                "element {}: it is no switch of the topology",
                element.name
            ));
        };
        let program = device.with(|device| Arc::clone(device.program()));
        let managed = ManagedElement::new(loops, ElementIndex(at), &program);
        let managed = managed.map_err(|error| error.to_string())?;
        Ok(FabricElement::new(device.clone(), managed))
    });
    elements.collect()
}

/// Returns the function that writes frames to the capture, if there is one.
pub(super) fn observer(capture: Option<SharedCapture>) -> FrameObserver {
    let Some(capture) = capture else {
        return Box::new(|_, _| {});
    };
    Box::new(move |frame, at| {
        if let Some(Capture { writer, error }) = &mut *capture.borrow_mut()
            && error.is_none()
        {
            *error = writer.write(frame, at).err().map(|error| error.to_string());
        }
    })
}
