//! Ports of programs.

use packet::PortId;

pub(crate) use command::configure::{device_config, load, load_text};

/// Checks that programs of this architecture can distinguish the port from others.
///
/// # Errors
/// A line with the valid port numbers.
pub(crate) fn check_port(program: &ir::Program, port: PortId) -> Result<(), String> {
    // v1model's port numbers have 9 bits, of which all ones is the drop port. PSA reserves the
    // numbers from its recirculation port on.
    let (arch, last) = match program.arch {
        ir::Arch::V1model => ("v1model", 510),
        ir::Arch::Psa => ("PSA", 0xffff_fff9),
        ir::Arch::Pna | ir::Arch::Ebpf | ir::Arch::Ubpf | ir::Arch::Xdp | ir::Arch::Own => {
            return Ok(());
        }
    };
    if port.0 <= last {
        return Ok(());
    }
    Err(format!(
        "port {port} cannot be: the ports of a program for {arch} are 0 to {last}"
    ))
}
