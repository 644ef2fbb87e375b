//! Common functions of the tests: a fabric with a plane, from a folder of the examples.
#![allow(dead_code, unreachable_pub)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use driver::{FileSystem, Options, Source};
use fabric::topology::{HostId, LinkSpec, PlaneSpec, ProgramSpec, SwitchSpec};
use fabric::{Node, NodeCounts, Simulation, SwitchNode, Topology};
use interp::Interp;
use ir::Program;
use packet::{Nanos, PortId};
use reflex::{
    CommandTarget, ElementIndex, FabricElement, FabricPlane, Loops, ManagedElement, MonitorIndex,
    MonitorKind, PlaneDriver, ReflexPlane, SharedDevice, SourceIndex,
};
use support::checksum::internet_checksum;
use switch::{Device, DeviceConfig};

/// A frame that arrived at a source.
pub type Arrived = (Nanos, SourceIndex, Vec<u8>);

/// A fabric with a plane.
pub struct Bed {
    pub simulation: Simulation,
    pub plane: FabricPlane,
    /// Devices of the switches by their names.
    pub devices: Vec<(String, SharedDevice)>,
    /// Names of the hosts.
    pub hosts: Vec<String>,
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
    let checked = loops.topology.is_some().then(|| topology.clone());
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
    let mut plane = ReflexPlane::new(loops.clone(), Nanos::ZERO);
    set_programs(&mut plane, &folder);
    if let Some(topology) = checked {
        let set = plane.set_topology(&topology);
        set.expect("the topology has all elements");
    }
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
        devices,
        hosts,
        reports,
    }
}

/// Gives monitors that are P4 programs a device on the interpreter.
fn set_programs(plane: &mut ReflexPlane, folder: &Path) {
    let loops = plane.loops().clone();
    for (at, monitor) in loops.monitors.iter().enumerate() {
        let MonitorKind::Program(spec) = &monitor.kind else {
            continue;
        };
        let files = FileSystem::default();
        let source = Source::File {
            path: &folder.join(&spec.program),
            files: &files,
        };
        let options = Options {
            defines: loops.program_macros(MonitorIndex(at)),
            ..Options::default()
        };
        let program = driver::compile(&source, &options).into_result();
        let program = program.unwrap_or_else(|error| panic!("{error}"));
        let entries = spec.entries.as_ref().map(|entries| folder.join(entries));
        let device = loaded(Arc::new(program), entries.as_deref());
        let monitor = plane.program_mut(MonitorIndex(at));
        monitor.expect("it is a program").set_device(device);
    }
}

/// Loads a program with its entries.
fn loaded<'p>(program: Arc<Program>, entries: impl IntoIterator<Item = &'p Path>) -> Device {
    let device = Device::new(program, &Interp, &DeviceConfig::default());
    let mut device = device.unwrap_or_else(|error| panic!("{error}"));
    for path in entries {
        let program = Arc::clone(device.program());
        let (file, text) = (path.display().to_string(), read(path));
        let entries = entries::read(&program, &file, &text);
        let entries = entries.unwrap_or_else(|errors| panic!("{}", errors[0]));
        apply_entries::apply_file(&mut device, &entries).unwrap_or_else(|error| panic!("{error}"));
    }
    device
}

thread_local! {
    /// Programs that were compiled: switches of a test share them.
    static PROGRAMS: RefCell<HashMap<PathBuf, Arc<Program>>> = RefCell::default();
}

fn program(path: &Path) -> Arc<Program> {
    let known = PROGRAMS.with_borrow(|programs| programs.get(path).cloned());
    if let Some(program) = known {
        return program;
    }
    let files = FileSystem::default();
    let source = Source::File {
        path,
        files: &files,
    };
    let compiled = driver::compile(&source, &Options::default());
    let program = compiled.into_result();
    let program = Arc::new(program.unwrap_or_else(|error| panic!("{error}")));
    PROGRAMS.with_borrow_mut(|programs| programs.insert(path.to_owned(), Arc::clone(&program)));
    program
}

pub fn device(spec: &SwitchSpec) -> Device {
    let PlaneSpec::Alone(function) = &spec.plane else {
        panic!("the example has virtual data planes");
    };
    let ProgramSpec::File(path) = &function.program else {
        panic!("the example has chains");
    };
    let entries = function.entries.iter().map(PathBuf::as_path);
    loaded(program(path), entries)
}

/// A frame that a [`Generator`] received.
#[derive(Clone, Debug)]
pub struct Delivered {
    pub at: Nanos,
    pub bytes: Vec<u8>,
}

/// A node in the place of a host that sends given frames at given times, and keeps what it
/// receives.
pub struct Generator {
    frames: std::vec::IntoIter<(Nanos, Vec<u8>)>,
    next: Option<(Nanos, Vec<u8>)>,
    ready: Vec<(Nanos, Vec<u8>)>,
    delivered: Rc<RefCell<Vec<Delivered>>>,
    made: u64,
    sent: u64,
}

impl Generator {
    /// Creates a node that sends these frames, in the order of their times.
    pub fn new(mut frames: Vec<(Nanos, Vec<u8>)>) -> Generator {
        frames.sort_by_key(|(at, _)| *at);
        let mut frames = frames.into_iter();
        Generator {
            next: frames.next(),
            frames,
            ready: Vec::new(),
            delivered: Rc::default(),
            made: 0,
            sent: 0,
        }
    }

    /// Puts it in the place of a host. Returns what it receives.
    pub fn replace(self, bed: &mut Bed, host: &str) -> Rc<RefCell<Vec<Delivered>>> {
        let delivered = Rc::clone(&self.delivered);
        let at = bed.hosts.iter().position(|name| name == host);
        let host = HostId(at.expect("the host is in the topology"));
        let replaced = bed.simulation.replace_host(host, Box::new(self));
        replaced.expect("nothing runs yet");
        delivered
    }
}

impl Node for Generator {
    fn attach(&mut self, _: PortId, _: &LinkSpec) {}

    fn receive(&mut self, _: PortId, bytes: &[u8], at: Nanos) {
        let bytes = bytes.to_vec();
        self.delivered.borrow_mut().push(Delivered { at, bytes });
    }

    fn step(&mut self, now: Nanos) {
        while let Some(next) = self.next.take_if(|(at, _)| *at <= now) {
            self.made += 1;
            self.ready.push(next);
            self.next = self.frames.next();
        }
    }

    fn next_time(&self) -> Option<Nanos> {
        self.next.as_ref().map(|(at, _)| *at)
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        for (at, frame) in self.ready.drain(..) {
            self.sent += 1;
            take(PortId(0), &frame, at);
        }
    }

    fn tally(&self) -> NodeCounts {
        let received = self.delivered.borrow().len() as u64;
        NodeCounts {
            received,
            delivered: received,
            made: self.made,
            sent: self.sent,
            held: self.made - self.sent,
            ..NodeCounts::default()
        }
    }
}

/// A UDP frame for the host with this MAC address, of this length.
pub fn udp_frame(mac: [u8; 6], from: ([u8; 4], u16), to: ([u8; 4], u16), bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes.max(60)];
    frame[..6].copy_from_slice(&mac);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 0x77, 0x08, 0x00]);
    let length = (frame.len() - 14) as u16;
    let ip = &mut frame[14..];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    (ip[8], ip[9]) = (64, 17);
    ip[12..16].copy_from_slice(&from.0);
    ip[16..20].copy_from_slice(&to.0);
    let checksum = internet_checksum(&ip[..20]);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    ip[20..22].copy_from_slice(&from.1.to_be_bytes());
    ip[22..24].copy_from_slice(&to.1.to_be_bytes());
    ip[24..26].copy_from_slice(&(length - 20).to_be_bytes());
    frame
}

/// Addresses and ports of a frame of [`udp_frame`]: source, destination, and their ports.
pub fn flow_of(frame: &[u8]) -> (Ipv4Addr, Ipv4Addr, u16, u16) {
    let address = |at: usize| {
        let octets: [u8; 4] = frame[at..at + 4].try_into().expect("four bytes");
        Ipv4Addr::from(octets)
    };
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    (address(26), address(30), port(34), port(36))
}

/// Checks that each datagram and each report is counted once.
pub fn check_counts(plane: &ReflexPlane) {
    let counts = plane.counts();
    let taken = counts.not_allowed + counts.malformed + counts.repeated + counts.accepted;
    assert_eq!(counts.received, taken, "{counts:?}");
    let classified = counts.classified + counts.unclassified;
    assert_eq!(counts.reports, classified, "{counts:?}");
    for at in 0..plane.loops().monitors.len() {
        let counts = plane.monitor_counts(MonitorIndex(at));
        let none = counts.no_path + counts.no_sample + counts.no_room;
        let samples = counts.normal + counts.alarms;
        assert_eq!(counts.reports, samples + none, "{counts:?}");
    }
}

/// Returns a topology without its traffic and faults.
pub fn without_traffic(fabric: &str) -> String {
    let sections = fabric.split_inclusive("\n\n");
    let kept = sections.filter(|it| !it.contains("[[traffic]]") && !it.contains("[[fault]]"));
    kept.collect()
}
