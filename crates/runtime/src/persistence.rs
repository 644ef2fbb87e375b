//! Stored state of a switch: the program and the state of its devices in a directory, restored at
//! the next start.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use exec::Engine;
use ir::Program;
use store::{Directory, KeptState};
use support::amount;
use switch::{
    Change, Device, DeviceConfig, Improved, KeptCells, MayLose, MigrationMode, Storage,
    StorageError,
};

use crate::RuntimeError;

/// Stored state of a device.
pub struct StoredDevice {
    kept: KeptState,
    /// The program that the state belongs to, if any.
    program: Option<Arc<Program>>,
    place: String,
    cells: KeptCells,
}

/// Open directory with the state of all devices of a switch.
pub struct StateDirectory {
    directory: Directory,
    place: String,
    cells: KeptCells,
}

impl StateDirectory {
    /// Opens a directory, which is created if it does not exist. `cells` are those that are stored
    /// beside the configuration.
    ///
    /// # Errors
    /// Another switch uses the directory, or it cannot be read.
    pub fn open(path: &Path, cells: KeptCells) -> Result<StateDirectory, RuntimeError> {
        Ok(StateDirectory {
            directory: Directory::open(path).map_err(RuntimeError::State)?,
            place: path.display().to_string(),
            cells,
        })
    }

    /// Returns the state of a device.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn device(&self, id: u64) -> Result<StoredDevice, RuntimeError> {
        let found = self.directory.device(id).and_then(|kept| {
            let program = kept.program()?;
            Ok((kept, program))
        });
        let (kept, program) = found.map_err(RuntimeError::State)?;
        Ok(StoredDevice {
            kept,
            program,
            place: self.place.clone(),
            cells: self.cells,
        })
    }
}

impl StoredDevice {
    /// Returns the stored program, if any.
    pub fn program(&self) -> Option<&Arc<Program>> {
        self.program.as_ref()
    }

    /// Creates a device from the stored state. `note` gets a line about it. A program must be
    /// stored.
    ///
    /// # Errors
    /// The engine does not support the program any more, or the state is damaged.
    fn go_on(
        &self,
        program: &Arc<Program>,
        engine: &dyn Engine,
        config: &DeviceConfig,
        note: &mut dyn FnMut(&str),
    ) -> Result<Device, RuntimeError> {
        let place = &self.place;
        let made = Device::new(Arc::clone(program), engine, config);
        let mut device = made.map_err(|error| RuntimeError::StoredProgram {
            place: place.clone(),
            error,
        })?;
        self.kept
            .restore(&mut device)
            .map_err(RuntimeError::State)?;
        if !config.host_ports.is_empty() {
            // The command line has priority over the stored state.
            let change = Change::SetHostPorts(config.host_ports.clone());
            device.apply(change).map_err(RuntimeError::Control)?;
        }
        let entries = entries_of(&device);
        note(&format!(
            "goes on with the state in {place}: {}",
            amount::count(entries, "table entry")
        ));
        Ok(device)
    }

    /// Creates a device with the stored program and state, and keeps storing it. `note` gets a
    /// line about it.
    ///
    /// # Errors
    /// The engine does not support the stored program any more, or the state is damaged or cannot
    /// be stored.
    pub fn start(
        mut self,
        engine: &dyn Engine,
        config: &DeviceConfig,
        note: &mut dyn FnMut(&str),
    ) -> Result<Device, RuntimeError> {
        let program = self.program.take();
        let program = program.ok_or_else(|| RuntimeError::NoStoredProgram {
            place: self.place.clone(),
        })?;
        let mut device = self.go_on(&program, engine, config, note)?;
        self.keep(&mut device, true)?;
        Ok(device)
    }

    /// Creates a device that runs this program, with the stored state of the program `before`,
    /// and keeps storing it. `note` gets lines about it.
    ///
    /// # Errors
    /// The engine does not support the stored program any more, or the state is damaged or cannot
    /// be stored.
    pub fn run(
        self,
        before: &Arc<Program>,
        program: Program,
        engine: &dyn Engine,
        config: &DeviceConfig,
        note: &mut dyn FnMut(&str),
    ) -> Result<Device, RuntimeError> {
        let (mut device, is_same) = self.resume(before, program, engine, config, note)?;
        self.keep(&mut device, is_same)?;
        Ok(device)
    }

    /// Creates a device as [`StoredDevice::run`] does, without storing it from now on. Also returns
    /// true if the stored state is that of the device.
    ///
    /// # Errors
    /// The engine does not support the stored program any more, or the state is damaged.
    pub fn resume(
        &self,
        before: &Arc<Program>,
        program: Program,
        engine: &dyn Engine,
        config: &DeviceConfig,
        note: &mut dyn FnMut(&str),
    ) -> Result<(Device, bool), RuntimeError> {
        let mut device = self.go_on(before, engine, config, note)?;
        let is_same = before.to_string() == program.to_string();
        if !is_same {
            let new = Device::new(Arc::new(program), engine, config);
            carry_over(&mut device, new.map_err(RuntimeError::Load)?, note)?;
        }
        Ok((device, is_same))
    }

    /// Returns the storage for the device's state from now on, and the cells to store.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn into_storage(self) -> Result<(Box<dyn Storage>, KeptCells), RuntimeError> {
        let keeper = self.kept.keep().map_err(RuntimeError::State)?;
        Ok((Box::new(keeper), self.cells))
    }

    /// Stores all changes of the device from now on. Also stores its present state, unless
    /// `is_kept` is true. The state is durable when this returns.
    ///
    /// # Errors
    /// The state cannot be stored.
    pub fn keep(self, device: &mut Device, is_kept: bool) -> Result<(), RuntimeError> {
        while device.improve(Duration::MAX) != Improved::NoMore {}
        let (storage, cells) = self.into_storage()?;
        device.keep_in(storage, cells, is_kept);
        commit(device)
    }
}

/// Stores the pending changes and waits until they are durable.
pub(crate) fn commit(device: &mut Device) -> Result<(), RuntimeError> {
    committed(&begin_commit(device))
}

/// Begins to store the pending changes. The result is for [`committed`].
pub(crate) fn begin_commit(device: &mut Device) -> Receiver<Result<(), StorageError>> {
    let (tell, told) = channel();
    device.commit(Box::new(move |kept| {
        // The receiver may have gone.
        let _ = tell.send(kept);
    }));
    told
}

/// Waits until changes are durable.
pub(crate) fn committed(told: &Receiver<Result<(), StorageError>>) -> Result<(), RuntimeError> {
    let kept = told.recv().map_err(|_| RuntimeError::StorageEnded)?;
    kept.map_err(RuntimeError::Storage)
}

/// Migrates the state of the running program to another one, as far as it fits. `note` gets a
/// line about it.
fn carry_over(
    device: &mut Device,
    new: Device,
    note: &mut dyn FnMut(&str),
) -> Result<(), RuntimeError> {
    let adopted = device.adopt(new, MigrationMode::State(MayLose::Anything));
    let migration = adopted.map_err(RuntimeError::Adopt)?;
    p4rt::forget_config(device);
    let lost: Vec<String> = migration.losses().map(ToString::to_string).collect();
    note(&match lost.is_empty() {
        true => "that was another program's; all of it is carried over".to_owned(),
        false => format!(
            "that was another program's; it is carried over but for {}",
            lost.join(", ")
        ),
    });
    Ok(())
}

fn entries_of(device: &Device) -> u64 {
    let tables = device.configuration().tables.iter();
    tables.map(|(_, table)| table.len() as u64).sum()
}
