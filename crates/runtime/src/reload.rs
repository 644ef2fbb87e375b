//! Reload of a running device: its program and its state become those of files, in one publication.

use std::sync::Arc;

use exec::Engine;
use ir::{ExternId, Program};
use switch::{Device, DeviceConfig, MayLose, MigrationMode, StateKind};

use crate::RuntimeError;
use crate::control_loop::DeviceHandle;
use crate::cpu_port::{ControllerChannel, WeakChannel};

/// Program and state that files describe, checked.
pub struct NewDevice {
    /// A device with the program and the state. It gets no packets, so it needs no lookups, and its
    /// engine can be any.
    pub wanted: Device,
    /// The registers that the files write, with their indices. Other registers keep their values.
    pub registers: Vec<(ExternId, Option<u32>)>,
    /// Engine for the program, if the running one is another.
    pub engine: Box<dyn Engine>,
    /// Configuration of the device.
    pub config: DeviceConfig,
    /// True if the code of handlers has changed: the program is loaded again then, even if it is
    /// the same.
    pub has_new_handlers: bool,
}

/// Result of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// True if another program runs now.
    pub is_new_program: bool,
    /// Number of changes of the state, beside the program.
    pub changes: usize,
    /// Counts, registers and learned entries for which the new program has no place.
    pub lost: Vec<String>,
}

/// Handle that reloads a running device.
pub struct DeviceReload {
    device: DeviceHandle,
    /// Does not keep the server running.
    server: Option<WeakChannel>,
}

impl DeviceReload {
    /// Creates the handle of a device, and of the server of its controllers, if there is one.
    pub fn new(device: DeviceHandle, server: Option<ControllerChannel>) -> DeviceReload {
        DeviceReload {
            device,
            server: server.map(|server| server.downgrade()),
        }
    }

    /// Makes the device equal to this one. Packets see its program and its state at once, with the
    /// first packet after the change, and none is lost by the change itself. Controllers' requests
    /// wait meanwhile. Counters, registers and learned entries stay by the rules of
    /// docs/reference/program-change.md. Must not be called by the thread of the control loop.
    ///
    /// # Errors
    /// The program does not run, or a part of the state is refused. The device is as it was.
    pub fn apply(&self, new: NewDevice) -> Result<Reloaded, RuntimeError> {
        let ended = || RuntimeError::DeviceEnded;
        let running = self.device.run(|device| Arc::clone(device.program()));
        let running = running.ok_or_else(ended)?;
        let program = Arc::clone(new.wanted.program());
        let is_new = new.has_new_handlers || running.to_string() != program.to_string();
        let made = is_new.then(|| {
            let program = Arc::clone(&program);
            Device::new(program, new.engine.as_ref(), &new.config)
        });
        let made = made.transpose().map_err(RuntimeError::Load)?;
        let (wanted, registers) = (new.wanted, new.registers);
        let work = || {
            let change =
                move |device: &mut Device| replace(device, &running, made, wanted, &registers);
            self.device.run(change).ok_or_else(ended)?
        };
        let (reloaded, old) = match &self.server {
            None => work()?,
            Some(server) => server
                .upgrade()
                .ok_or_else(ended)?
                .change_apart(is_new.then_some(&program), work)?,
        };
        // Dropping the old device may take long.
        drop(old);
        Ok(reloaded)
    }
}

/// Devices that are not needed any more.
type Old = (Device, Option<Device>);

/// Exchanges the program, if there is another one, and the state. All is done or nothing.
fn replace(
    device: &mut Device,
    running: &Arc<Program>,
    made: Option<Device>,
    wanted: Device,
    registers: &[(ExternId, Option<u32>)],
) -> Result<(Reloaded, Old), RuntimeError> {
    if !Arc::ptr_eq(device.program(), running) {
        return Err(RuntimeError::ProgramChanged);
    }
    let mut exchanged = None;
    let mut lost = Vec::new();
    if let Some(mut other) = made {
        let carry = MigrationMode::State(MayLose::Anything);
        let exchange = device.exchange(&mut other, carry);
        let exchange = exchange.map_err(RuntimeError::Adopt)?;
        let losses = exchange.migration.losses();
        // The files replace all other state.
        let kept = losses.filter(|line| {
            matches!(
                line.kind,
                StateKind::Counters
                    | StateKind::DirectCounters
                    | StateKind::Registers
                    | StateKind::LearnedEntries
            )
        });
        lost = kept.map(ToString::to_string).collect();
        exchanged = Some((other, exchange));
    }
    match (device.synchronise(&wanted, registers), exchanged) {
        (Ok(changes), exchanged) => {
            p4rt::forget_written(device);
            if exchanged.is_some() {
                p4rt::forget_config(device);
            }
            device.stay();
            let reloaded = Reloaded {
                is_new_program: exchanged.is_some(),
                changes,
                lost,
            };
            Ok((reloaded, (wanted, exchanged.map(|(other, _)| other))))
        }
        (Err(error), exchanged) => {
            if let Some((mut other, exchange)) = exchanged {
                device.go_back(&mut other, exchange);
            }
            Err(RuntimeError::Control(error))
        }
    }
}
