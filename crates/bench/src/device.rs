//! A device as one side of a comparison. Loads workloads to devices and forwards frames by them.

use std::sync::Arc;

use exec::{Engine, ExternState};
use ir::Program;
use packet::{Frame, Nanos, PortId};
use switch::{Action, Change, Device, DeviceConfig, Replica, TableEntry, Worker};

use crate::Workload;
use crate::forward::{Forward, Reading, SentFrames};
use crate::names::last_name;
use crate::setup::{Item, SetupError};

/// A device as a side of a comparison.
pub struct OnDevice(pub Device);

impl OnDevice {
    /// Creates a device with the workload's program and entries on this engine.
    ///
    /// # Errors
    /// The engine does not support the program, or the program is not the workload's.
    pub fn load(
        program: &Arc<Program>,
        engine: &dyn Engine,
        workload: &dyn Workload,
    ) -> Result<Self, SetupError> {
        let config = DeviceConfig::default();
        let mut device = Device::new(Arc::clone(program), engine, &config)
            .map_err(|error| SetupError::Entry(error.to_string()))?;
        workload.setup(program, &mut |item| {
            let applied = device.apply(change(item));
            applied.map_err(|error| SetupError::Entry(error.to_string()))?;
            Ok(())
        })?;
        Ok(Self(device))
    }

    /// Adds an item to the device.
    ///
    /// # Errors
    /// It does not fit.
    pub fn add(&mut self, item: Item) -> Result<(), SetupError> {
        let applied = self.0.apply(change(item));
        applied.map_err(|error| SetupError::Entry(error.to_string()))?;
        Ok(())
    }
}

/// A worker of a device as a side of a comparison. The counters are read from the device.
pub struct OnWorker(pub Worker);

impl Forward for OnWorker {
    fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut SentFrames) {
        self.0
            .forward(frames, now, |port, frame, _| out.take(port, frame));
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}

pub(crate) fn change(item: Item) -> Change {
    match item {
        Item::Multicast(group, ports) => {
            let replica = |port| Replica {
                port: PortId(port),
                instance: 0,
            };
            Change::SetMulticast(group, ports.into_iter().map(replica).collect())
        }
        Item::Entry {
            table,
            keys,
            priority,
            call,
        } => Change::Insert(
            table,
            TableEntry {
                keys,
                priority,
                action: Action::Call(call),
                idle_timeout: None,
                meter: None,
                counter: None,
            },
        ),
    }
}

impl Forward for OnDevice {
    fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut SentFrames) {
        self.0
            .forward(frames, now, |port, frame, _| out.take(port, frame));
    }

    fn readings(&self) -> Vec<Reading> {
        let (configuration, program) = (self.0.configuration(), self.0.program());
        let arrays = configuration.cells.iter().filter_map(|(id, cells)| {
            let ExternState::Counter(counters) = cells else {
                return None;
            };
            Some(Reading {
                name: last_name(&program.externs[id].name).to_string(),
                cells: counters.iter().collect(),
            })
        });
        let direct = configuration.tables.iter().filter_map(|(id, table)| {
            let counter = program.tables[id].direct_counter?;
            let read = |entry| table.counter(entry).unwrap_or_default();
            let entries = table.iter().map(|entry| read(Some(entry.id)));
            Some(Reading {
                name: last_name(&program.externs[counter].name).to_string(),
                cells: entries.chain([read(None)]).collect(),
            })
        });
        arrays.chain(direct).collect()
    }
}
