//! The ports of a switch at its start: opened, or waiting for their interfaces.

use clap::ValueEnum;
use port::{LinkState, OpenedPort, PortError, PortSpec, PortTarget};

use crate::args::Io;
use crate::kernel_part::KernelPart;
use crate::out;

/// Treatment of ports that have no interface when the switch starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MissingPorts {
    /// Such a port waits for its interface, and others forward meanwhile. If no port has one, and
    /// no controller can come, the switch does not start.
    #[default]
    Wait,
    /// The switch does not start.
    Fail,
}

/// The way in which the ports of a switch are opened.
pub(crate) struct PortOpening<'k> {
    pub(crate) io: Io,
    pub(crate) missing: MissingPorts,
    pub(crate) workers: usize,
    /// True if the switch is of no use without any port.
    pub(crate) needs_one: bool,
    /// The part of the device in the kernel, which is put before interfaces.
    pub(crate) kernel: Option<&'k KernelPart>,
}

/// Opens all ports of a switch, each with a share for each worker.
///
/// # Errors
/// A port cannot be opened, or has no interface and may not wait for it. The message names it.
pub(crate) fn open_all(
    specs: &[PortSpec],
    opening: &PortOpening<'_>,
) -> Result<Vec<OpenedPort>, String> {
    let PortOpening { io, workers, .. } = *opening;
    let opened = specs.iter().map(|spec| {
        let kernel = opening.kernel;
        if let Some(opened) = kernel.and_then(|kernel| kernel.open(spec, workers)) {
            return opened;
        }
        match opening.missing {
            MissingPorts::Fail => open(spec, io, workers),
            MissingPorts::Wait => {
                let opened = port::open_awaited(spec, io.into(), workers);
                opened.map_err(|error| named(spec, &error))
            }
        }
    });
    let opened: Vec<OpenedPort> = opened.collect::<Result<_, String>>()?;
    if opening.needs_one
        && opened.iter().all(waits)
        && let Some(missing) = specs.first().and_then(missing)
    {
        return Err(missing);
    }
    Ok(opened)
}

/// Opens a port, with a share for each worker.
///
/// # Errors
/// The port cannot be opened. The message names it.
pub(crate) fn open(spec: &PortSpec, io: Io, workers: usize) -> Result<OpenedPort, String> {
    let opened = port::open_kept(spec, io.into(), workers);
    opened.map_err(|error| named(spec, &error))
}

fn named(spec: &PortSpec, error: &PortError) -> String {
    format!("port {}: {error}", spec.id)
}

/// Returns true if a port waits for its interface.
fn waits(opened: &OpenedPort) -> bool {
    let first = opened.shares.first();
    first.is_some_and(|port| port.link() == LinkState::Gone)
}

/// Prints the packet I/O method of each port.
pub(crate) fn tell_ports(which: &str, opened: &[OpenedPort]) {
    // A port that waits is reported by its worker.
    for OpenedPort { shares, how } in opened.iter().filter(|port| !waits(port)) {
        if let Some(port) = shares.first() {
            let (id, name) = (port.id(), port.name());
            out::note(&format!("{which}port {id}: {name} by {how}"));
        }
    }
}

/// Warns of ports of which the interface does not exist now.
pub(crate) fn warn_of_missing(specs: &[PortSpec]) {
    for missing in specs.iter().filter_map(missing) {
        out::note(&format!("warning: {missing}"));
    }
}

/// Returns the error of a port of which the interface does not exist now. Without a list of
/// interfaces there is nothing to compare with.
fn missing(spec: &PortSpec) -> Option<String> {
    let PortTarget::Interface(name) = &spec.target else {
        return None;
    };
    let found = port::interfaces().ok()?.into_iter();
    let existing: Vec<String> = found.map(|interface| interface.name).collect();
    if existing.contains(name) {
        return None;
    }
    let name = name.clone();
    Some(named(spec, &PortError::NoSuchInterface { name, existing }))
}
