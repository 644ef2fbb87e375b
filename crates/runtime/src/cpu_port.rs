//! P4Runtime for a running switch: the compiler for its server, and the CPU port.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};

use exec::Engine;
use ir::{Arch, Program};
use p4rt::{
    CpuNumbers, CpuPort, Figures, Inbox, KnownPorts, Loader, Notes, PacketObservation, Server,
    ServerConfig, TenancyError,
};
use packet::{Batch, Frame, Nanos, PortId};
use port::{LinkState, OpenedPort, Port, PortError, PortSpec, PortStats, TxDrop, TxOutcome};
use switch::{Device, DeviceConfig, LoadError};
use tenancy::{BoundedCompiler, Compilations};

use crate::{RuntimeError, compile_bounds};

/// PSA's CPU port, `PSA_PORT_CPU`.
const PSA_CPU: u32 = 0xffff_fffd;

/// Default CPU port of other architectures: the largest port number of v1model.
pub(crate) const DEFAULT_CPU: u32 = 510;

/// Returns the default numbers of the CPU port. `named` is the architecture of the program that the
/// device has from the start, if it does not come from a controller: it fixes the CPU port, even if
/// the program changes later. If controllers may set any program, PSA programs use PSA's number and
/// all others use the default.
pub fn cpu_numbers(named: Option<Arch>) -> CpuNumbers {
    match named {
        Some(Arch::Psa) => PortId(PSA_CPU).into(),
        _ => CpuNumbers {
            psa: PortId(PSA_CPU),
            usual: PortId(DEFAULT_CPU),
        },
    }
}

/// Served state of a device.
#[derive(Clone, Copy)]
pub struct Served<'d> {
    /// Its program. `None` if controllers must set one first.
    pub program: Option<&'d Arc<Program>>,
    /// Metadata that the device keeps for the server.
    pub notes: &'d Notes,
}

/// The switch's ends of the connection between a device and its server.
pub struct ChannelEnd {
    /// Queue of the controllers' requests.
    pub inbox: Inbox,
    /// The CPU port.
    pub port: OpenedPort,
    /// The ports that groups may watch.
    pub known: KnownPorts,
}

/// Compiler and engine of the programs that controllers set.
struct Compiler {
    engine: Arc<dyn Engine>,
    config: DeviceConfig,
    /// Ports that groups may watch.
    ports: KnownPorts,
    /// Bounds on its compilations.
    bounds: BoundedCompiler,
}

impl Loader for Compiler {
    fn admit(&self, bytes: usize) -> Result<Arc<dyn p4rt::ProgramPermit>, TenancyError> {
        compile_bounds::admit(&self.bounds, bytes)
    }

    fn compile(&self, text: &str) -> Result<Program, String> {
        // Neither P4 text nor IR begins so.
        if text.trim_start().starts_with('{') {
            return Err(
                "the device config is JSON, as p4c makes it for BMv2; send what \
                        `polyplane compile --device-config FILE` writes, or P4 text"
                    .to_owned(),
            );
        }
        Ok(driver::compile_text("p4_device_config.p4", text)?)
    }

    fn ports(&self) -> Option<KnownPorts> {
        Some(self.ports.clone())
    }

    fn device(&self, program: Arc<Program>) -> Result<Device, LoadError> {
        Device::new(program, self.engine.as_ref(), &self.config)
    }
}

/// Connection of a device with a server, as it is set up.
pub struct ControllerLink<'l> {
    /// Device id.
    pub id: u64,
    /// Another id that names the same device, if any.
    pub second_id: Option<u64>,
    /// Numbers of the CPU port.
    pub cpu: CpuNumbers,
    /// The other ports of the switch.
    pub ports: &'l [PortSpec],
    /// Number of the switch's workers.
    pub workers: usize,
    /// Engine of the programs that controllers set.
    pub engine: Arc<dyn Engine>,
    /// Configuration of devices with these programs.
    pub config: DeviceConfig,
    /// Compilations of all devices of the process.
    pub compilations: &'l Compilations,
    /// Types of the extension messages that the device's loop takes.
    pub extensions: &'static [&'static str],
}

impl ControllerLink<'_> {
    /// Connects a device with a server.
    ///
    /// # Errors
    /// The CPU port is one of the switch's other ports, or the operating system provides no socket
    /// pair.
    pub fn connect(self, served: Served<'_>) -> Result<(ServerConfig, ChannelEnd), RuntimeError> {
        let own = [self.cpu.usual, self.cpu.psa];
        if let Some(taken) = self.ports.iter().find(|spec| own.contains(&spec.id)) {
            return Err(RuntimeError::CpuPortTaken(taken.id));
        }
        let ports = self.ports.iter().map(|spec| spec.id);
        let known: KnownPorts = ports.chain(own).collect();
        let made = p4rt::channel(self.cpu);
        let (inbox, cpu, remote) =
            made.map_err(RuntimeError::system("make a channel for P4Runtime"))?;
        let setup = ServerConfig {
            id: self.id,
            second_id: self.second_id,
            remote,
            loader: Arc::new(Compiler {
                engine: self.engine,
                config: self.config,
                ports: known.clone(),
                bounds: BoundedCompiler::new(compile_bounds::OF_CONTROLLERS, self.compilations),
            }),
            program: served.program.cloned(),
            ports: self
                .ports
                .iter()
                .map(|spec| (spec.id, spec.name().to_owned()))
                .collect(),
            notes: served.notes.clone(),
            extensions: self.extensions,
            allowed: Vec::new(),
        };
        let port = Box::new(ControllerPort::new(cpu));
        let port = OpenedPort::new(port, "P4Runtime", self.workers).map_err(RuntimeError::Port)?;
        Ok((setup, ChannelEnd { inbox, port, known }))
    }
}

/// Handle to the server for one of its devices.
#[derive(Clone)]
pub struct ControllerChannel {
    server: Arc<Server>,
    device: u64,
}

impl ControllerChannel {
    /// Returns the handle for a device of the server.
    pub fn new(server: &Arc<Server>, device: u64) -> ControllerChannel {
        let server = Arc::clone(server);
        ControllerChannel { server, device }
    }

    /// Returns a handle that does not keep the server running.
    pub(crate) fn downgrade(&self) -> WeakChannel {
        WeakChannel {
            server: Arc::downgrade(&self.server),
            device: self.device,
        }
    }

    /// Reports to the server that the device has one more port.
    pub fn port_added(&self, port: PortId, name: &str, is_up: bool) {
        self.server
            .port_added(self.device, port, name.to_owned(), is_up);
    }

    /// Reports to the server that the device has a port no more.
    pub fn port_removed(&self, port: PortId) {
        self.server.port_removed(self.device, port);
    }

    /// Reports to the server that a port went down or came up.
    pub fn port_changed(&self, port: PortId, is_up: bool) {
        self.server.port_changed(self.device, port, is_up);
    }

    /// Lets clients observe the packets of the device.
    pub fn observe_by(&self, observation: Arc<dyn PacketObservation>) {
        self.server.observe_by(self.device, observation);
    }

    /// Runs work that changes the device apart from its controllers, as
    /// [`Server::change_apart`] does.
    pub(crate) fn change_apart<T>(
        &self,
        program: Option<&Arc<Program>>,
        work: impl FnOnce() -> Result<T, RuntimeError>,
    ) -> Result<T, RuntimeError> {
        let worked = self.server.change_apart(self.device, program, work);
        worked.map_err(RuntimeError::Server)?
    }

    /// Returns the server's counters for the device.
    pub(crate) fn figures(&self) -> Figures {
        self.server.figures(self.device).unwrap_or_default()
    }
}

/// Handle to the server for one of its devices, which does not keep the server running.
pub(crate) struct WeakChannel {
    server: Weak<Server>,
    device: u64,
}

impl WeakChannel {
    /// Returns the handle, or `None` if the server has ended.
    pub(crate) fn upgrade(&self) -> Option<ControllerChannel> {
        let server = self.server.upgrade()?;
        let device = self.device;
        Some(ControllerChannel { server, device })
    }
}

/// The CPU port as a port of a worker.
struct ControllerPort {
    cpu: CpuPort,
    stats: PortStats,
}

impl ControllerPort {
    fn new(cpu: CpuPort) -> ControllerPort {
        ControllerPort {
            cpu,
            stats: PortStats::default(),
        }
    }
}

impl Port for ControllerPort {
    fn id(&self) -> PortId {
        self.cpu.id()
    }

    fn second_id(&self) -> Option<PortId> {
        self.cpu.second_id()
    }

    fn name(&self) -> &str {
        "controllers"
    }

    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError> {
        let before = batch.len();
        while batch.room() > 0 {
            let Some((port, bytes)) = self.cpu.take() else {
                break;
            };
            let Some(frame) = batch.push() else { break };
            // The server checks lengths, so `assign` does not fail.
            if frame.assign(&bytes).is_err() {
                batch.pop();
                continue;
            }
            frame.ingress = port;
            frame.arrival = now;
            self.stats.count_rx(bytes.len());
        }
        Ok(batch.len() - before)
    }

    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        let mut outcome = TxOutcome::default();
        for frame in frames {
            match self.cpu.give(frame.bytes()) {
                true => self.stats.count_tx(frame.len(), &mut outcome),
                false => self.stats.count_tx_drop(TxDrop::QueueFull, 1, &mut outcome),
            }
        }
        outcome
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn link(&self) -> LinkState {
        LinkState::Up
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.cpu.wake_fd())
    }
}
