//! `--state`: stores a switch's program and state in a directory, and restores them at the next
//! start. `polyplane state` shows the content of the directory.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use packet::Nanos;
use runtime::tenancy_host::StoredHost;
use runtime::{EMPTY_PROGRAM, StateDirectory};
use serde::Serialize;
use store::{Directory, HostFiles, HostObject, KeptState, OpenError, StoredVpdp, Summary};
use switch::KeptCells;

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

impl Keeping {
    /// Opens the directory, if state is stored.
    ///
    /// # Errors
    /// Another switch uses the directory, or it cannot be read.
    pub(crate) fn open(&self) -> Result<Option<StateDirectory>, String> {
        let Some(path) = &self.state else {
            return Ok(None);
        };
        Ok(Some(StateDirectory::open(path, self.cells())?))
    }

    /// Opens the directory of a switch that hosts virtual data planes, if state is stored.
    ///
    /// # Errors
    /// Another switch uses the directory, it is damaged, or of another kind of switch.
    pub(crate) fn open_host(&self) -> Result<Option<StoredHost>, String> {
        let Some(path) = &self.state else {
            return Ok(None);
        };
        Ok(Some(StoredHost::open(path, self.cells())?))
    }

    fn cells(&self) -> KeptCells {
        KeptCells {
            counters: self.state_keep.contains(&Cells::Counters),
            registers: self.state_keep.contains(&Cells::Registers),
            every: Nanos::from_millis(self.state_every * 1000),
        }
    }
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

/// Stored state of a virtual data plane.
#[derive(Serialize)]
struct VpdpState {
    vpdp: u32,
    name: String,
    owner: String,
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
    let path = &options.directory;
    if !path.is_dir() {
        return Err(format!("there is no directory {}", path.display()));
    }
    let directory = Directory::look(path).map_err(|error| error.to_string())?;
    if directory.has_host() {
        return show_host(&directory, options.json).map_err(|error| error.to_string());
    }
    let states = read(&directory).map_err(|error| error.to_string())?;
    if options.json {
        out::json(&states);
        return Ok(Ended::Well);
    }
    let mut text = String::new();
    for state in &states {
        let program = state.program.as_deref().unwrap_or("no program");
        text.push_str(&format!("device {}: {program}\n", state.device_id));
        text.push_str(&lines(&state.objects));
    }
    let has_pof = directory.has_pof();
    if has_pof {
        let notes = directory.pof().and_then(|kept| kept.notes());
        let notes = notes.map_err(|error| error.to_string())?;
        let count = amount::count(notes.len() as u64, "object");
        text.push_str(&format!("POF switch: {count}\n"));
    }
    if states.is_empty() && !has_pof {
        text.push_str("no device has state here\n");
    }
    out::text(&text);
    Ok(Ended::Well)
}

/// Shows the state of a switch that hosts virtual data planes.
fn show_host(directory: &Directory, is_json: bool) -> Result<Ended, OpenError> {
    let notes = KeptState::open_existing(directory.host())?.notes()?;
    let (mut vpdps, mut shares, mut rules) = (Vec::new(), 0, 0);
    for object in notes.iter().filter_map(HostObject::read) {
        match object {
            HostObject::Vpdp(vpdp) => vpdps.push(vpdp_state(directory, vpdp)?),
            HostObject::Share(..) => shares += 1,
            HostObject::Rule(..) => rules += 1,
        }
    }
    if is_json {
        out::json(&vpdps);
        return Ok(Ended::Well);
    }
    let mut text = format!(
        "host: {}, {}, {}\n",
        amount::count(vpdps.len() as u64, "virtual data plane"),
        amount::count(shares, "shared port"),
        amount::count(rules, "rule"),
    );
    for state in &vpdps {
        let program = state.program.as_deref().unwrap_or("no program");
        text.push_str(&format!("vPDP {} {}: {program}\n", state.vpdp, state.name));
        text.push_str(&lines(&state.objects));
    }
    out::text(&text);
    Ok(Ended::Well)
}

fn vpdp_state(directory: &Directory, vpdp: StoredVpdp) -> Result<VpdpState, OpenError> {
    let kept = KeptState::open_existing(directory.vpdp(vpdp.file))?;
    let summary = kept.summary()?;
    // A vPDP without a program runs a built-in one that drops everything.
    let empty = driver::compile_text("empty.p4", EMPTY_PROGRAM).ok();
    let is_empty = |program: &ir::Program| {
        let empty = empty.as_ref().map(ToString::to_string);
        empty == Some(program.to_string())
    };
    let program = kept.program()?.filter(|program| !is_empty(program));
    let program = program.map(|program| program.name.clone());
    Ok(VpdpState {
        vpdp: vpdp.id,
        name: vpdp.name,
        owner: vpdp.owner,
        program,
        bytes: summary.bytes,
        objects: objects(summary),
    })
}

fn objects(summary: Summary) -> Vec<Objects> {
    let objects = summary.counts.into_iter();
    objects
        .map(|(kind, count)| Objects {
            kind: kind.several,
            count,
            name: kind.of(count),
        })
        .collect()
}

fn lines(objects: &[Objects]) -> String {
    let lines = objects.iter();
    lines
        .map(|objects| format!("  {:>9} {}\n", objects.count, objects.name))
        .collect()
}

fn read(directory: &Directory) -> Result<Vec<DeviceState>, OpenError> {
    let devices = directory.devices()?;
    let states = devices.into_iter().map(|device_id| {
        let kept = directory.device(device_id)?;
        let summary = kept.summary()?;
        Ok(DeviceState {
            device_id,
            program: kept.program()?.map(|program| program.name.clone()),
            bytes: summary.bytes,
            objects: objects(summary),
        })
    });
    states.collect()
}
