//! Common functions of the tests: a fabric with a plane, from a folder of the examples.
#![allow(dead_code, unreachable_pub)]

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use driver::{FileSystem, Options, Source};
use fabric::topology::{HostId, PlaneSpec, ProgramSpec, SwitchSpec};
use fabric::{Node, Simulation, SwitchNode, Topology};
use interp::Interp;
use packet::Nanos;
use reflex::{
    CommandTarget, ElementIndex, FabricElement, FabricPlane, Loops, ManagedElement, PlaneDriver,
    ReflexPlane, SharedDevice, SourceIndex,
};
use switch::{Device, DeviceConfig};

/// A frame that arrived at a source.
pub type Arrived = (Nanos, SourceIndex, Vec<u8>);

/// A fabric with a plane.
pub struct Bed {
    pub simulation: Simulation,
    pub plane: FabricPlane,
    pub reports: Rc<RefCell<Vec<Arrived>>>,
}

/// Returns the folder of an example.
pub fn example(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/reflex");
    root.join(name)
}

/// Reads a text.
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Creates the fabric and the plane of an example. `edit` changes the texts of topology and loops.
pub fn bed(name: &str, edit: impl Fn(String, String) -> (String, String)) -> Bed {
    let folder = example(name);
    let texts = (
        read(&folder.join("fabric.toml")),
        read(&folder.join("loops.toml")),
    );
    let (fabric, loops) = edit(texts.0, texts.1);
    let topology = Topology::read("fabric.toml", &fabric, &folder);
    let topology = topology.unwrap_or_else(|error| panic!("{error}"));
    let loops = Loops::read("loops.toml", &loops).unwrap_or_else(|error| panic!("{error}"));
    let hosts: Vec<String> = topology
        .hosts
        .iter()
        .map(|host| host.name.clone())
        .collect();
    let mut devices = Vec::new();
    let simulation = Simulation::new(topology, &mut |spec| {
        let device = SharedDevice::new(device(spec));
        devices.push((spec.name.clone(), device.clone()));
        Ok(Box::new(SwitchNode::new(device, spec.service)) as Box<dyn Node>)
    });
    let mut simulation = simulation.unwrap_or_else(|error| panic!("{error}"));
    let elements = loops.elements.iter().enumerate();
    let elements = elements.map(|(at, element)| {
        let mut found = devices
            .iter()
            .filter(|(name, _)| element.device.switch() == Some(name));
        let device = found.next().expect("the element is a switch").1.clone();
        let program = device.with(|device| Arc::clone(device.program()));
        let managed = ManagedElement::new(&loops, ElementIndex(at), &program);
        let managed = managed.unwrap_or_else(|error| panic!("{error}"));
        Box::new(FabricElement::new(device, managed)) as Box<dyn CommandTarget>
    });
    let elements = elements.collect();
    let plane = ReflexPlane::new(loops.clone(), Nanos::ZERO);
    let plane = FabricPlane::new(PlaneDriver::new(plane, elements));
    let reports: Rc<RefCell<Vec<Arrived>>> = Rc::default();
    for (at, source) in loops.sources.iter().enumerate() {
        let host = hosts
            .iter()
            .position(|host| Some(host.as_str()) == source.listen.host());
        let host = HostId(host.expect("the source is a host"));
        let (source, arrived) = (SourceIndex(at), Rc::clone(&reports));
        let observe = move |frame: &[u8], at: Nanos| {
            arrived.borrow_mut().push((at, source, frame.to_vec()));
        };
        let node = Box::new(plane.node(source, Box::new(observe)));
        simulation
            .replace_host(host, node)
            .expect("nothing runs yet");
    }
    Bed {
        simulation,
        plane,
        reports,
    }
}

fn device(spec: &SwitchSpec) -> Device {
    let PlaneSpec::Alone(function) = &spec.plane else {
        panic!("the example has virtual data planes");
    };
    let ProgramSpec::File(path) = &function.program else {
        panic!("the example has chains");
    };
    let files = FileSystem::default();
    let source = Source::File {
        path,
        files: &files,
    };
    let compiled = driver::compile(&source, &Options::default());
    let program = Arc::new(
        compiled
            .into_result()
            .unwrap_or_else(|error| panic!("{error}")),
    );
    let device = Device::new(program, &Interp, &DeviceConfig::default());
    let mut device = device.unwrap_or_else(|error| panic!("{error}"));
    if let Some(path) = &function.entries {
        let program = Arc::clone(device.program());
        let (file, text) = (path.display().to_string(), read(path));
        let entries = entries::read(&program, &file, &text);
        let entries = entries.unwrap_or_else(|errors| panic!("{}", errors[0]));
        apply_entries::apply_file(&mut device, &entries).unwrap_or_else(|error| panic!("{error}"));
    }
    device
}
