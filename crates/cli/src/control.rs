//! P4Runtime for a running switch: the compiler for its server, the CPU port, and the options.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use clap::Args;
use ir::{Arch, Program};
use p4rt::{
    CpuNumbers, CpuPort, Figures, Inbox, Loader, Notes, Server, ServerConfig, TenancyError,
};
use packet::{Batch, Frame, Nanos, PortId};
use port::{LinkState, OpenedPort, Port, PortError, PortSpec, PortStats, TxDrop, TxOutcome};
use switch::{Device, DeviceConfig, LoadError};
use tenancy::{BoundedCompiler, Compilations};

use crate::bounds;
use crate::engine::Choice;

/// PSA's CPU port, `PSA_PORT_CPU`.
const PSA_CPU: u32 = 0xffff_fffd;

/// Default CPU port of other architectures: the largest port number of v1model.
pub(crate) const DEFAULT_CPU: u32 = 510;

/// Option for the CPU port.
#[derive(Args, Clone, Copy)]
pub(crate) struct Cpu {
    /// The port for packets to and from controllers; if none is given, 4294967293 for PSA
    /// programs and 510 for all others.
    #[arg(long, value_name = "NUMBER")]
    cpu_port: Option<u32>,
}

/// Served state of a device.
#[derive(Clone, Copy)]
pub(crate) struct Served<'d> {
    /// Its program. `None` if controllers must set one first.
    pub(crate) program: Option<&'d Arc<Program>>,
    /// Architecture of the program that the command line names, if any. It fixes the CPU port,
    /// even if the program changes later.
    pub(crate) named: Option<Arch>,
    /// Metadata that the device keeps for the server.
    pub(crate) notes: &'d Notes,
}

/// The switch's ends of the connection between a device and its server.
pub(crate) struct ChannelEnd {
    pub(crate) inbox: Inbox,
    pub(crate) port: OpenedPort,
}

/// Compiler and engine with the settings of the command line.
pub(crate) struct Compiler {
    pub(crate) choice: Choice,
    pub(crate) config: DeviceConfig,
    /// Ports that can be traced.
    pub(crate) ports: BTreeSet<PortId>,
    /// Bounds on its compilations.
    pub(crate) bounds: BoundedCompiler,
}

impl Loader for Compiler {
    fn admit(&self, bytes: usize) -> Result<Arc<dyn p4rt::ProgramPermit>, TenancyError> {
        bounds::admit(&self.bounds, bytes)
    }

    fn compile(&self, text: &str) -> Result<Program, String> {
        Ok(driver::compile_text("p4_device_config.p4", text)?)
    }

    fn ports(&self) -> Option<BTreeSet<PortId>> {
        Some(self.ports.clone())
    }

    fn device(&self, program: Arc<Program>) -> Result<Device, LoadError> {
        Device::new(program, self.choice.engine().as_ref(), &self.config)
    }
}

impl Cpu {
    /// Returns the numbers of the CPU port: that of the option, else that of the program's
    /// architecture. If controllers may set any program, PSA programs use PSA's number and all
    /// others use the default.
    fn numbers(self, named: Option<Arch>) -> CpuNumbers {
        match (self.cpu_port, named) {
            (Some(port), _) => PortId(port).into(),
            (None, Some(Arch::Psa)) => PortId(PSA_CPU).into(),
            (None, _) => CpuNumbers {
                psa: PortId(PSA_CPU),
                usual: PortId(DEFAULT_CPU),
            },
        }
    }

    /// Connects a device with a server.
    ///
    /// # Errors
    /// The CPU port is one of the switch's other ports.
    pub(crate) fn connect(
        self,
        (id, second_id): (u64, Option<u64>),
        served: Served<'_>,
        ports: &[PortSpec],
        workers: usize,
        (choice, compilations): (Choice, &Compilations),
        config: DeviceConfig,
    ) -> Result<(ServerConfig, ChannelEnd), String> {
        let numbers = self.numbers(served.named);
        let own = [numbers.usual, numbers.psa];
        if let Some(taken) = ports.iter().find(|spec| own.contains(&spec.id)) {
            return Err(format!(
                "port {} is the one for controllers; give that another number with --cpu-port",
                taken.id
            ));
        }
        let made = p4rt::channel(numbers);
        let (inbox, cpu, remote) =
            made.map_err(|e| format!("cannot make a channel for P4Runtime: {e}"))?;
        let setup = ServerConfig {
            id,
            second_id,
            remote,
            loader: Arc::new(Compiler {
                choice,
                config,
                ports: ports.iter().map(|spec| spec.id).chain(own).collect(),
                bounds: BoundedCompiler::new(bounds::OF_CONTROLLERS, compilations),
            }),
            program: served.program.cloned(),
            ports: ports
                .iter()
                .map(|spec| (spec.id, spec.name().to_owned()))
                .collect(),
            notes: served.notes.clone(),
            allowed: Vec::new(),
        };
        let port = Box::new(ControllerPort::new(cpu));
        let port = OpenedPort::new(port, "P4Runtime", workers).map_err(|e| e.to_string())?;
        Ok((setup, ChannelEnd { inbox, port }))
    }
}

/// Handle to the server for one of its devices.
#[derive(Clone)]
pub(crate) struct ControllerChannel {
    server: Arc<Server>,
    device: u64,
}

impl ControllerChannel {
    pub(crate) fn new(server: &Arc<Server>, device: u64) -> ControllerChannel {
        let server = Arc::clone(server);
        ControllerChannel { server, device }
    }

    /// Reports to the server that a port went down or came up.
    pub(crate) fn port_changed(&self, port: PortId, is_up: bool) {
        self.server.port_changed(self.device, port, is_up);
    }

    /// Returns the server's counters for the device.
    pub(crate) fn figures(&self) -> Figures {
        self.server.figures(self.device).unwrap_or_default()
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
