//! Options of the CPU port, by which P4Runtime controllers exchange packets with a switch.

use clap::Args;
use ir::Arch;
use p4rt::{CpuNumbers, ServerConfig};
use packet::PortId;
use runtime::{ChannelEnd, ControllerLink, RuntimeError, Served, cpu_numbers};

/// Option for the CPU port.
#[derive(Args, Clone, Copy)]
pub(crate) struct Cpu {
    /// The port for packets to and from controllers; if none is given, 4294967293 for PSA
    /// programs and 510 for all others.
    #[arg(long, value_name = "NUMBER")]
    cpu_port: Option<u32>,
}

impl Cpu {
    /// Returns the numbers of the CPU port: that of the option, else those of the architecture of
    /// the program that the command line names, if any.
    pub(crate) fn numbers(self, named: Option<Arch>) -> CpuNumbers {
        match self.cpu_port {
            Some(port) => PortId(port).into(),
            None => cpu_numbers(named),
        }
    }
}

/// Connects a device with a server.
///
/// # Errors
/// The CPU port is one of the switch's other ports.
pub(crate) fn connect(
    link: ControllerLink<'_>,
    served: Served<'_>,
) -> Result<(ServerConfig, ChannelEnd), String> {
    link.connect(served).map_err(|error| match error {
        RuntimeError::CpuPortTaken(_) => {
            format!("{error}; give that another number with --cpu-port")
        }
        error => error.to_string(),
    })
}
