//! `polyplane reflex run`: loops in a simulated fabric.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use ::reflex::{
    CommandTarget, ElementIndex, FabricElement, FabricPlane, FrameObserver, Loops, ManagedElement,
    PlaneDriver, SharedDevice, SourceIndex,
};
use clap::Args;
use command::switches::{Maker, SwitchPlane};
use command::topology::run_simulation;
use fabric::topology::HostId;
use fabric::{Node, Simulation, SwitchNode};
use packet::Nanos;
use port::PcapWriter;
use runtime::ProcessSetup;

use super::show::Report;
use crate::engine::Choice;
use crate::fabric::read as read_topology;
use crate::{Ended, out};

#[derive(Args)]
pub(crate) struct Options {
    /// The loop file.
    #[arg(value_name = "LOOPS.toml")]
    loops: PathBuf,
    /// The topology, with a host in the place of each source (docs/reference/topology.md).
    #[arg(long, value_name = "TOPO.toml")]
    fabric: PathBuf,
    /// Maximum simulated time in seconds.
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
    /// Write what arrives at a source's host to a capture, for `polyplane reflex replay`. Give one
    /// for each source.
    #[arg(long, value_name = "HOST=FILE")]
    capture: Vec<String>,
    #[command(flatten)]
    choice: Choice,
    /// Write JSON: each decision, and the counts.
    #[arg(long)]
    json: bool,
}

/// A capture of what arrives at a source, and the first error.
struct Capture {
    writer: PcapWriter,
    error: Option<String>,
}

/// A capture that its node and the end of the run share.
type SharedCapture = Rc<RefCell<Capture>>;

pub(super) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    let loops = super::read(&options.loops)?;
    let topology = read_topology(&options.fabric)?;
    let hosts: Vec<String> = topology.hosts.iter().map(|it| it.name.clone()).collect();
    let sources = loops.sources.iter();
    let sources = sources.map(|source| {
        let host = hosts.iter().position(|host| *host == source.host);
        host.map(HostId).ok_or_else(|| {
            let (file, host) = (options.fabric.display(), &source.host);
            format!("{file} has no host {host}; the loop file gets reports there")
        })
    });
    let sources: Vec<HostId> = sources.collect::<Result<_, _>>()?;
    let mut maker = Maker::new(options.choice, topology.seed);
    let mut devices: Vec<(String, SharedDevice)> = Vec::new();
    let simulation = Simulation::new(topology, &mut |spec| {
        let is_element = loops.elements.iter().any(|it| it.device == spec.name);
        if !is_element {
            return maker.make(spec);
        }
        let SwitchPlane::Alone(device) = maker.plane(spec)? else {
            return Err("loops change switches with one program, not tenants".to_owned());
        };
        let device = SharedDevice::new(*device);
        devices.push((spec.name.clone(), device.clone()));
        Ok(Box::new(SwitchNode::new(device, spec.service)) as Box<dyn Node>)
    });
    let mut simulation = simulation.map_err(|error| error.to_string())?;
    let elements = elements(&loops, &devices)?;
    let plane = super::plane(loops, &options.loops, Nanos::ZERO)?;
    let plane = FabricPlane::new(PlaneDriver::new(plane, elements));
    let wanted = super::by_source(plane.get().plane().loops(), &options.capture)?;
    let captures = wanted.into_iter().map(|file| {
        let writer = file.map(|file| PcapWriter::create(&file)).transpose();
        let writer = writer.map_err(|error| error.to_string())?;
        Ok(writer.map(|writer| {
            let error = None;
            Rc::new(RefCell::new(Capture { writer, error }))
        }))
    });
    let captures: Vec<Option<SharedCapture>> = captures.collect::<Result<_, String>>()?;
    for (at, host) in sources.into_iter().enumerate() {
        let node = plane.node(SourceIndex(at), observer(captures[at].clone()));
        let replaced = simulation.replace_host(host, Box::new(node));
        replaced.map_err(|error| error.to_string())?;
    }
    let end = Nanos::from_secs(options.seconds);
    let (signal, _) = run_simulation(&mut simulation, end, &|| early.take_signal())?;
    simulation
        .check_conservation()
        .map_err(|unbalanced| unbalanced.to_string())?;
    let report = Report::new(&plane.get(), simulation.now());
    drop(simulation);
    for capture in captures.into_iter().flatten().filter_map(Rc::into_inner) {
        let Capture { writer, error } = capture.into_inner();
        let written = writer.finish().map_err(|error| error.to_string());
        error.map_or(written, Err)?;
    }
    match options.json {
        true => out::json(&report),
        false => out::text(&report.text()),
    }
    match signal {
        Some(signal) => Err(format!("interrupted by {signal}")),
        None => Ok(Ended::Well),
    }
}

/// Joins each element with its switch.
fn elements(
    loops: &Loops,
    devices: &[(String, SharedDevice)],
) -> Result<Vec<Box<dyn CommandTarget>>, String> {
    let elements = loops.elements.iter().enumerate();
    let elements = elements.map(|(at, element)| {
        let mut found = devices.iter().filter(|(name, _)| *name == element.device);
        let Some((_, device)) = found.next() else {
            let (name, device) = (&element.name, &element.device);
            return Err(format!(
                "element {name}: the topology has no switch {device}"
            ));
        };
        let program = device.with(|device| Arc::clone(device.program()));
        let managed = ManagedElement::new(loops, ElementIndex(at), &program);
        let managed = managed.map_err(|error| error.to_string())?;
        Ok(Box::new(FabricElement::new(device.clone(), managed)) as Box<dyn CommandTarget>)
    });
    elements.collect()
}

/// Returns the function that writes frames to the capture, if there is one.
fn observer(capture: Option<SharedCapture>) -> FrameObserver {
    let Some(capture) = capture else {
        return Box::new(|_, _| {});
    };
    Box::new(move |frame, at| {
        let Capture { writer, error } = &mut *capture.borrow_mut();
        if error.is_none() {
            *error = writer.write(frame, at).err().map(|error| error.to_string());
        }
    })
}
