//! `--state`: stores a switch's program and state in a directory, and restores them at the next
//! start. `polyplane state` shows the content of the directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use clap::{Args, ValueEnum};
use exec::Engine;
use ir::Program;
use packet::Nanos;
use serde::Serialize;
use store::{Directory, KeptState};
use switch::{Change, Device, DeviceConfig, Improved, KeptCells, MayLose, MigrationMode};

use crate::{Ended, amount, out};

/// Options of the state directory.
#[derive(Args, Clone)]
pub(crate) struct Keeping {
    /// Keep the program, entries, groups and configuration in this directory, and begin with what
    /// it has (docs/reference/state-directory.md). Without it all is in memory and is lost with the
    /// switch.
    #[arg(long = "state", value_name = "DIR")]
    state: Option<PathBuf>,
    /// Keep these cells as well, which packets write: periodically, and when the switch is
    /// stopped.
    #[arg(
        long = "state-keep",
        value_name = "WHAT",
        value_enum,
        value_delimiter = ',',
        requires = "state"
    )]
    state_keep: Vec<Cells>,
    /// Time between two writes of these cells, in seconds.
    #[arg(long = "state-every", value_name = "SECONDS", default_value_t = 10, requires = "state_keep", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    state_every: u64,
}

/// Cells that packets write.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Cells {
    Counters,
    Registers,
}

/// Stored state of a device.
pub(crate) struct Found {
    kept: KeptState,
    /// The program that the state belongs to, if any.
    pub(crate) program: Option<Arc<Program>>,
    place: String,
    cells: KeptCells,
}

/// Open directory with the state of all devices of a switch.
pub(crate) struct Opened {
    directory: Directory,
    place: String,
    cells: KeptCells,
}

impl Keeping {
    /// Opens the directory, if state is stored.
    ///
    /// # Errors
    /// Another switch uses the directory, or it cannot be read.
    pub(crate) fn open(&self) -> Result<Option<Opened>, String> {
        let Some(path) = &self.state else {
            return Ok(None);
        };
        Ok(Some(Opened {
            directory: Directory::open(path).map_err(|error| error.to_string())?,
            place: path.display().to_string(),
            cells: KeptCells {
                counters: self.state_keep.contains(&Cells::Counters),
                registers: self.state_keep.contains(&Cells::Registers),
                every: Nanos::from_millis(self.state_every * 1000),
            },
        }))
    }
}

impl Opened {
    /// Returns the state of a device.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn device(&self, id: u64) -> Result<Found, String> {
        let found = self.directory.device(id).and_then(|kept| {
            let program = kept.program()?;
            Ok((kept, program))
        });
        let (kept, program) = found.map_err(|error| error.to_string())?;
        Ok(Found {
            kept,
            program,
            place: self.place.clone(),
            cells: self.cells,
        })
    }
}

impl Found {
    /// Creates a device from the stored state, and prints a line about it. A program must be
    /// stored.
    ///
    /// # Errors
    /// The engine does not support the program any more, or the state is damaged.
    pub(crate) fn go_on(
        &self,
        program: &Arc<Program>,
        engine: &dyn Engine,
        config: &DeviceConfig,
    ) -> Result<Device, String> {
        let place = &self.place;
        let made = Device::new(Arc::clone(program), engine, config);
        let mut device = made.map_err(|error| {
            format!("the program whose state is in {place} does not run any more: {error}")
        })?;
        self.kept
            .restore(&mut device)
            .map_err(|error| error.to_string())?;
        if !config.host_ports.is_empty() {
            // The command line has priority over the stored state.
            let change = Change::SetHostPorts(config.host_ports.clone());
            device.apply(change).map_err(|error| error.to_string())?;
        }
        let entries = entries_of(&device);
        out::note(&format!(
            "goes on with the state in {place}: {}",
            amount::count(entries, "table entry")
        ));
        Ok(device)
    }

    /// Creates a device with the stored program and state, and keeps storing it.
    ///
    /// # Errors
    /// As for [`Found::go_on`] and [`Found::keep`].
    pub(crate) fn start(
        mut self,
        engine: &dyn Engine,
        config: &DeviceConfig,
    ) -> Result<Device, String> {
        let program = self.program.take();
        let program = program.ok_or_else(|| format!("no program is kept in {}", self.place))?;
        let mut device = self.go_on(&program, engine, config)?;
        self.keep(&mut device, true)?;
        Ok(device)
    }

    /// Creates a device that runs this program, with the stored state of the program `before`,
    /// and keeps storing it.
    ///
    /// # Errors
    /// As for [`Found::go_on`] and [`Found::keep`].
    pub(crate) fn run(
        self,
        before: &Arc<Program>,
        program: Program,
        engine: &dyn Engine,
        config: &DeviceConfig,
    ) -> Result<Device, String> {
        let mut device = self.go_on(before, engine, config)?;
        let is_same = before.to_string() == program.to_string();
        if !is_same {
            let new = Device::new(Arc::new(program), engine, config);
            carry_over(&mut device, new.map_err(|error| error.to_string())?)?;
        }
        self.keep(&mut device, is_same)?;
        Ok(device)
    }

    /// Stores all changes of the device from now on. Also stores its present state, unless
    /// `is_kept` is true. The state is durable when this returns.
    ///
    /// # Errors
    /// The state cannot be stored.
    pub(crate) fn keep(self, device: &mut Device, is_kept: bool) -> Result<(), String> {
        while device.improve(Duration::MAX) != Improved::NoMore {}
        let keeper = self.kept.keep().map_err(|error| error.to_string())?;
        device.keep_in(Box::new(keeper), self.cells, is_kept);
        commit(device)
    }
}

/// Stores the pending changes and waits until they are durable.
pub(crate) fn commit(device: &mut Device) -> Result<(), String> {
    let (tell, told) = channel();
    device.commit(Box::new(move |kept| {
        // The receiver is still there: this function waits on it.
        let _ = tell.send(kept);
    }));
    let kept = told.recv().map_err(|_| "state is no longer kept")?;
    kept.map_err(|error| format!("cannot keep the state: {error}"))
}

/// Migrates the state of the running program to another one, as far as it fits, and prints a line
/// about it.
fn carry_over(device: &mut Device, new: Device) -> Result<(), String> {
    let adopted = device.adopt(new, MigrationMode::State(MayLose::Anything));
    let migration = adopted.map_err(|error| error.to_string())?;
    p4rt::forget_config(device);
    let lost: Vec<String> = migration.losses().map(ToString::to_string).collect();
    out::note(&match lost.is_empty() {
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

#[derive(Args)]
#[command(
    after_help = "The switch that keeps its state there must not run. docs/reference/state-directory.md describes the files.\n\nExit status: 0 when all could be read, 1 otherwise."
)]
pub(crate) struct Options {
    /// The directory that `--state` was given.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Stored state of a device.
#[derive(Serialize)]
struct DeviceState {
    device_id: u64,
    program: Option<String>,
    objects: Vec<Objects>,
    bytes: u64,
}

#[derive(Serialize)]
struct Objects {
    /// Plural noun.
    kind: &'static str,
    count: u64,
    #[serde(skip)]
    name: &'static str,
}

/// Checks every page, and shows the content.
pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    let states = read(&options.directory).map_err(|error| error.to_string())?;
    if options.json {
        out::json(&states);
        return Ok(Ended::Well);
    }
    let mut text = String::new();
    for state in &states {
        let program = state.program.as_deref().unwrap_or("no program");
        text.push_str(&format!("device {}: {program}\n", state.device_id));
        for objects in &state.objects {
            text.push_str(&format!("  {:>9} {}\n", objects.count, objects.name));
        }
    }
    if states.is_empty() {
        text.push_str("no device has state here\n");
    }
    out::text(&text);
    Ok(Ended::Well)
}

fn read(path: &Path) -> Result<Vec<DeviceState>, String> {
    if !path.is_dir() {
        return Err(format!("there is no directory {}", path.display()));
    }
    let directory = Directory::look(path).map_err(|error| error.to_string())?;
    let devices = directory.devices().map_err(|error| error.to_string())?;
    let states = devices.into_iter().map(|device_id| {
        let kept = directory.device(device_id)?;
        let summary = kept.summary()?;
        let objects = summary.counts.into_iter();
        Ok(DeviceState {
            device_id,
            program: kept.program()?.map(|program| program.name.clone()),
            objects: objects
                .map(|(kind, count)| Objects {
                    kind: kind.several,
                    count,
                    name: kind.of(count),
                })
                .collect(),
            bytes: summary.bytes,
        })
    });
    let states: Result<_, store::OpenError> = states.collect();
    states.map_err(|error| error.to_string())
}
