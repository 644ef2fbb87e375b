//! P4Runtime of the switches of a real fabric, and the names by which `polyplane ctl` finds them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fabric::Topology;
use fabric::topology::{NodeId, SwitchId};
use p4rt::{CpuNumbers, Listen, Reach, Server, Urgency};
use packet::PortId;
use port::PortSpec;
use runtime::{ChannelEnd, ControllerChannel, ControllerLink, Served, compile_pool, cpu_numbers};
use switch::{Device, DeviceConfig};
use tenancy::Compilations;

use super::namespaces::interface;
use crate::control;
use crate::engine::Choice;

/// Directory in which running switches have a file with their address.
const NAMES: &str = "/run/polyplane/switches";

/// First port of the servers of switches for which the topology names none.
const FIRST_SERVER: u16 = 50_051;

/// State that all servers of a fabric share.
pub(super) struct Servers {
    choice: Choice,
    seed: u64,
    compilations: Compilations,
}

/// A switch with its server.
pub(super) struct ServedSwitch {
    pub(super) channel: ChannelEnd,
    pub(super) controllers: ControllerChannel,
    /// The file with its address, as long as it runs.
    pub(super) name: NameFile,
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
            name: NameFile::create(&spec.name, address)?,
            address,
            device: id,
        })
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

/// A file with the address of a running switch. It is removed when this value is dropped.
pub(super) struct NameFile(PathBuf);

impl NameFile {
    fn create(name: &str, address: SocketAddr) -> Result<NameFile, String> {
        let path = Path::new(NAMES).join(name);
        let made = std::fs::create_dir_all(NAMES)
            .and_then(|()| std::fs::write(&path, address.to_string()));
        made.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(NameFile(path))
    }
}

impl Drop for NameFile {
    fn drop(&mut self) {
        // A file that is left names an address at which nothing listens.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the address of a running switch with this name.
pub(crate) fn find(name: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let text = std::fs::read_to_string(Path::new(NAMES).join(name)).ok()?;
    Some(text.trim().to_owned())
}
