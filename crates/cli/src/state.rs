//! `--state`: a switch's program and state in a directory, and what becomes of them when it starts again; `polyplane state` tells what is there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use clap::{Args, ValueEnum};
use exec::Engine;
use ir::Program;
use packet::Nanos;
use serde::Serialize;
use store::{Directory, Kept};
use switch::{Carry, Change, Device, DeviceConfig, Improved, KeptCells, MayLose};

use crate::{Ended, amount, out};

/// Where state is kept, and what of it.
#[derive(Args, Clone)]
pub(crate) struct Keeping {
    /// Keep the program, entries, groups and configuration in this directory, and begin with what is there (docs/STATE.md). Without it all is in
    /// memory and goes with the switch.
    #[arg(long = "state", value_name = "DIR")]
    state: Option<PathBuf>,
    /// Keep these cells as well, which packets write: every so often, and when the switch is stopped.
    #[arg(
        long = "state-keep",
        value_name = "WHAT",
        value_enum,
        value_delimiter = ',',
        requires = "state"
    )]
    state_keep: Vec<Cells>,
    /// How often they are kept, in seconds.
    #[arg(long = "state-every", value_name = "SECONDS", default_value_t = 10, requires = "state_keep", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    state_every: u64,
}

/// Cells that packets write.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Cells {
    Counters,
    Registers,
}

/// The state of a device as it was kept.
pub(crate) struct Found {
    kept: Kept,
    /// The program that it is of, if there is any.
    pub(crate) program: Option<Arc<Program>>,
    place: String,
    cells: KeptCells,
}

/// The directory, for all devices of a switch.
pub(crate) struct Opened {
    directory: Directory,
    place: String,
    cells: KeptCells,
}

impl Keeping {
    /// Opens the directory, if state is kept.
    ///
    /// # Errors
    /// Another switch has it, or it cannot be read.
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
    /// The state of a device.
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
    /// A device that goes on with what is there; a line for the user. There must be a program.
    ///
    /// # Errors
    /// The engine does not run the program any more, or the state is damaged.
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
            // What this start says counts.
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

    /// A device that runs the program that is there, with its state, and is kept.
    ///
    /// # Errors
    /// As [`Found::go_on`] and [`Found::keep`].
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

    /// A device that runs this program, with the state that is there of the program `before`; it is kept.
    ///
    /// # Errors
    /// As [`Found::go_on`] and [`Found::keep`].
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

    /// Keeps the device from now on, and all that it has, unless that `is_kept`: it is when this returns.
    ///
    /// # Errors
    /// It cannot be kept.
    pub(crate) fn keep(self, device: &mut Device, is_kept: bool) -> Result<(), String> {
        while device.improve(Duration::MAX) != Improved::NoMore {}
        let keeper = self.kept.keep().map_err(|error| error.to_string())?;
        device.keep_in(Box::new(keeper), self.cells, is_kept);
        commit(device)
    }
}

/// Has kept what was changed, and waits for it.
pub(crate) fn commit(device: &mut Device) -> Result<(), String> {
    let (tell, told) = channel();
    device.commit(Box::new(move |kept| {
        // Who waits is there.
        let _ = tell.send(kept);
    }));
    let kept = told.recv().map_err(|_| "state is no longer kept")?;
    kept.map_err(|error| format!("cannot keep the state: {error}"))
}

/// Gives another program the state of the one that runs, as far as it has places for it; a line for the user.
fn carry_over(device: &mut Device, new: Device) -> Result<(), String> {
    let adopted = device.adopt(new, Carry::State(MayLose::Anything));
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

/// What is kept of a device.
#[derive(Serialize)]
struct DeviceState {
    device_id: u64,
    program: Option<String>,
    objects: Vec<Objects>,
    bytes: u64,
}

#[derive(Serialize)]
struct Objects {
    /// In the plural.
    kind: &'static str,
    count: u64,
    #[serde(skip)]
    name: &'static str,
}

/// Checks every page, and tells what is there.
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
