//! Common functions of the tests: compile programs, parse and simulate topologies.
#![allow(dead_code, unreachable_pub)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use driver::{FileSystem, Options, Source};
use exec::Engine;
use fabric::topology::{PlaneSpec, ProgramSpec, SwitchSpec};
use fabric::{Node, Report, Simulation, SwitchNode, Topology};
use interp::Interp;
use packet::Nanos;
use switch::{Device, DeviceConfig};

/// A time limit that no simulation reaches.
pub const LONG: Nanos = Nanos::from_secs(1000);

/// Returns the directory of the examples.
pub fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Parses a topology from text. Its file names are relative to the examples.
pub fn topology(text: &str) -> Topology {
    Topology::read("test.toml", text, &examples()).unwrap_or_else(|error| panic!("{error}"))
}

/// Creates a simulation on the interpreter.
pub fn simulation(topology: Topology) -> Simulation {
    let simulation = Simulation::new(topology, &mut |spec| make(spec, &Interp));
    simulation.unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a simulation until all flows and pings are complete.
pub fn run(text: &str) -> Report {
    let mut simulation = simulation(topology(text));
    finish(&mut simulation)
}

/// Runs until all flows and pings are complete. Checks completion and packet conservation.
pub fn finish(simulation: &mut Simulation) -> Report {
    simulation.run(LONG, &mut |_| true).unwrap();
    simulation.check_conservation().unwrap();
    let report = simulation.report();
    assert!(simulation.is_done(), "{report:#?}");
    report
}

/// Creates a switch with its program and entries.
pub fn make(spec: &SwitchSpec, engine: &dyn Engine) -> Result<Box<dyn Node>, String> {
    let PlaneSpec::Alone(function) = &spec.plane else {
        return Err("virtual data planes are made elsewhere".to_owned());
    };
    let ProgramSpec::File(program) = &function.program else {
        return Err("chains are made elsewhere".to_owned());
    };
    let program = Arc::new(compile(program)?);
    let device = Device::new(program, engine, &DeviceConfig::default());
    let mut device = device.map_err(|error| error.to_string())?;
    for path in &function.entries {
        add_entries(&mut device, path)?;
    }
    Ok(Box::new(SwitchNode::new(device, spec.service)))
}

/// Adds the entries of a file to a device.
pub fn add_entries(device: &mut Device, path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let program = Arc::clone(device.program());
    let file = path.display().to_string();
    let entries = entries::read(&program, &file, &text);
    let entries = entries.map_err(|errors| format!("{}", errors[0]))?;
    apply_entries::apply_file(device, &entries).map_err(|error| error.to_string())
}

/// Compiles a program.
pub fn compile(path: &Path) -> Result<ir::Program, String> {
    let files = FileSystem::default();
    let source = Source::File {
        path,
        files: &files,
    };
    let compiled = driver::compile(&source, &Options::default());
    Ok(compiled.into_result()?)
}
