//! P4Runtime of the switches of a real fabric, and the names by which `polyplane ctl` finds them.

use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fabric::Topology;
use fabric::topology::{NodeId, SwitchId};
use p4rt::{CpuNumbers, Listen, Reach, Server, Urgency};
use packet::PortId;
use port::PortSpec;
use runtime::{ChannelEnd, ControllerChannel, ControllerLink, Served, compile_pool, cpu_numbers};
use switch::{Device, DeviceConfig};
use tenancy::Compilations;

use super::namespaces::interface;
use crate::engine::Choice;
use crate::{control, out};

/// Directory in which running switches have a file with their address.
const NAMES: &str = "/run/polyplane/switches";

/// First port of the servers of switches for which the topology names none.
const FIRST_SERVER: u16 = 50_051;

/// State that all servers of a fabric share.
pub(super) struct Servers {
    choice: Choice,
    seed: u64,
    compilations: Compilations,
    /// True once a missing name was reported.
    has_warned: AtomicBool,
}

/// A switch with its server.
pub(super) struct ServedSwitch {
    pub(super) channel: ChannelEnd,
    pub(super) controllers: ControllerChannel,
    /// The file with its address, as long as it runs. `None` if there is none, which was said.
    pub(super) name: Option<NameFile>,
    /// Its ports, which are listed.
    pub(super) ports: Vec<PortSpec>,
    /// Address of its server.
    pub(super) address: SocketAddr,
    /// Its device number there.
    pub(super) device: u64,
}

impl Servers {
    pub(super) fn new(choice: Choice, seed: u64) -> Servers {
        Servers {
            choice,
            seed,
            compilations: Compilations::new(compile_pool()),
            has_warned: AtomicBool::new(false),
        }
    }

    /// Starts the server of a switch.
    ///
    /// # Errors
    /// Its address is no address of this machine, or is in use.
    pub(super) fn serve(
        &self,
        topology: &Topology,
        switch: SwitchId,
        device: &Device,
    ) -> Result<ServedSwitch, String> {
        let spec = &topology.switches[switch.0];
        let (address, id) = match &spec.p4runtime {
            Some((address, id)) => (given_address(address)?, *id),
            None => (usual_address(switch), 1),
        };
        let cpu: CpuNumbers = match spec.cpu_port {
            Some(port) => port.into(),
            None => cpu_numbers(Some(device.program().arch)),
        };
        let ports = ports(topology, switch)?;
        let link = ControllerLink {
            id,
            // `polyplane ctl` asks for device 1, BMv2's tools for device 0.
            second_id: Some(u64::from(id != 1)),
            cpu,
            ports: &ports,
            workers: 1,
            engine: Arc::from(self.choice.engine()),
            config: DeviceConfig {
                seed: self.seed,
                ..DeviceConfig::default()
            },
            compilations: &self.compilations,
            extensions: &[],
        };
        let served = Served {
            program: Some(device.program()),
            notes: device.notes(),
        };
        let (config, channel) = control::connect(link, served)?;
        channel.inbox.take_port_requests();
        channel.inbox.take_settings_requests();
        let listen = Listen {
            address,
            tls: None,
            reach: Reach::Loopback,
        };
        let server = Server::start(listen, vec![config], Urgency::BelowWorkers);
        let server = server.map_err(|error| {
            format!("{error}; give the switch another p4runtime = \"127.0.0.1:PORT\"")
        })?;
        let address = server.address();
        Ok(ServedSwitch {
            channel,
            controllers: ControllerChannel::new(&Arc::new(server), id),
            name: self.name(&spec.name, address),
            ports,
            address,
            device: id,
        })
    }
}

impl Servers {
    /// Creates the file with the address of a switch. If it cannot, it says so once.
    fn name(&self, name: &str, address: SocketAddr) -> Option<NameFile> {
        match NameFile::create(Path::new(NAMES), name, address) {
            Ok(file) => Some(file),
            Err(why) => {
                if !self.has_warned.swap(true, Relaxed) {
                    out::note(&format!(
                        "warning: `ctl --addr {name}` does not find the switch: {why}; use its address"
                    ));
                }
                None
            }
        }
    }
}

fn given_address(address: &str) -> Result<SocketAddr, String> {
    address
        .parse()
        .map_err(|_| format!("p4runtime = \"{address}\" is no address and port of this machine"))
}

/// Returns the address of a switch for which the topology names none: the port of its place, or
/// any free one if another fabric has that.
fn usual_address(switch: SwitchId) -> SocketAddr {
    let port = FIRST_SERVER.saturating_add(u16::try_from(switch.0).unwrap_or(u16::MAX));
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match TcpListener::bind(usual) {
        Ok(_) => usual,
        Err(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    }
}

/// Returns the ports of a switch with their interfaces.
fn ports(topology: &Topology, switch: SwitchId) -> Result<Vec<PortSpec>, String> {
    let ends = topology.links.iter().flat_map(|link| link.ends);
    let own = ends.filter(|end| end.node == NodeId::Switch(switch));
    let specs = own.map(|end| {
        let PortId(number) = end.port;
        format!("{number}={}", interface(end)).parse()
    });
    let specs: Result<Vec<PortSpec>, port::PortSpecError> = specs.collect();
    specs.map_err(|error| error.to_string())
}

/// A file with the address of a running switch and the process that has it. It is removed when this
/// value is dropped.
pub(super) struct NameFile(PathBuf);

impl NameFile {
    /// Creates the file in a directory. One that a process has left is replaced.
    fn create(directory: &Path, name: &str, address: SocketAddr) -> Result<NameFile, String> {
        let path = directory.join(name);
        let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
        std::fs::create_dir_all(directory).map_err(failed)?;
        if let Some(other) = running(&path) {
            return Err(format!("another fabric has a switch {name} at {other}"));
        }
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let mut file = File::create_new(&path).map_err(failed)?;
        let made = NameFile(path.clone());
        let text = format!("{address} {}\n", std::process::id());
        file.write_all(text.as_bytes()).map_err(failed)?;
        Ok(made)
    }
}

impl Drop for NameFile {
    fn drop(&mut self) {
        // A file that is left names a process that has ended.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the address in a file of a switch, if the process that has the switch runs.
fn running(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let (address, process) = text.trim().split_once(' ')?;
    let process: u32 = process.parse().ok()?;
    let runs = Path::new("/proc").join(process.to_string()).exists();
    runs.then(|| address.to_owned())
}

/// Returns the address of a server: what is given, or that of the running switch with this name.
///
/// # Errors
/// It is a name that no running switch has.
pub(crate) fn find(given: &str) -> Result<String, String> {
    find_in(Path::new(NAMES), given)
}

fn find_in(directory: &Path, given: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if given.is_empty() || !given.chars().all(is_name) {
        return Ok(given.to_owned());
    }
    if let Some(address) = running(&directory.join(given)) {
        return Ok(address);
    }
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter(|entry| running(&entry.path()).is_some());
    let mut names: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let there_are = match &names[..] {
        [] => "no fabric runs (`polyplane fabric up`)".to_owned(),
        names => format!("there are {}", names.join(", ")),
    };
    Err(format!(
        "`{given}` is no address, HOST:PORT, and no switch of a running fabric: {there_are}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_the_first_running_process_that_takes_it() {
        let directory =
            std::env::temp_dir().join(format!("polyplane-names-{}", std::process::id()));
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let s1 = NameFile::create(&directory, "s1", address(1)).unwrap();
        let taken = NameFile::create(&directory, "s1", address(2))
            .err()
            .unwrap();
        assert_eq!(taken, "another fabric has a switch s1 at 127.0.0.1:1");
        // No process has the highest number.
        let left = format!("127.0.0.1:3 {}\n", u32::MAX);
        std::fs::write(directory.join("s2"), left).unwrap();
        let why = find_in(&directory, "s2").unwrap_err();
        assert!(
            why.ends_with("no switch of a running fabric: there are s1"),
            "{why}"
        );
        let s2 = NameFile::create(&directory, "s2", address(4)).unwrap();
        for (given, found) in [
            ("s1", "127.0.0.1:1"),
            ("s2", "127.0.0.1:4"),
            ("host:5", "host:5"),
        ] {
            assert_eq!(find_in(&directory, given).as_deref(), Ok(found));
        }
        drop((s1, s2));
        let why = find_in(&directory, "s1").unwrap_err();
        assert!(why.contains(": no fabric runs"), "{why}");
        std::fs::remove_dir(directory).unwrap();
    }
}
