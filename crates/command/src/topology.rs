//! Topologies of files, and their simulation with progress on the terminal.

use std::path::Path;
use std::time::{Duration, Instant};

use fabric::{Progress, Simulation, Topology};
use nanopu::Image;
use packet::Nanos;
use port::Signal;
use support::amount;
use terminal::live::{LiveLine, bar};

use crate::args::{self, read_text};
use crate::mininet;

/// Width of the progress bar in characters.
const BAR: usize = 30;

/// Parses a share: above 0, at most 1.
///
/// # Errors
/// The text is no such number.
pub fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    match share > 0.0 && share <= 1.0 {
        true => Ok(share),
        false => Err("it is not above 0 and at most 1".to_owned()),
    }
}

/// Bytes of an image file, at most.
const MAX_IMAGE_BYTES: u64 = 256 << 20;

/// Reads the program of a nanoPU with a memory of a number of bytes.
///
/// # Errors
/// The file cannot be read, or is no image.
pub fn read_image(path: &Path, memory_bytes: usize) -> Result<Image, String> {
    let file = args::read(path, MAX_IMAGE_BYTES)?;
    let image = Image::parse(&file, memory_bytes);
    image.map_err(|error| format!("{}: {error}", path.display()))
}

/// Loads the programs of the nanoPUs of a topology that have none yet.
///
/// # Errors
/// As for [`read_image`], or a nanoPU has no image.
pub fn load_images(topology: &mut Topology) -> Result<(), String> {
    topology.load_images(&mut |path, memory_bytes| read_image(path, memory_bytes))
}

/// Reads a topology: a file in TOML, or one of the P4 tutorials or of p4-utils in JSON.
///
/// # Errors
/// The file cannot be read, or is no topology.
pub fn read(path: &Path) -> Result<Topology, String> {
    read_with_program(path, None)
}

/// Reads a topology, with a program for switches without one of their own, if it is in JSON.
///
/// # Errors
/// As for [`read`], and if the topology is in TOML and a program is given.
pub fn read_with_program(path: &Path, program: Option<&Path>) -> Result<Topology, String> {
    let file = path.display().to_string();
    let text = read_text(path, fabric::topology::MAX_FILE_BYTES)?;
    if mininet::is_json(&text) {
        let imported = mininet::import(path, &text, program)?;
        return imported.topology(&file);
    }
    if program.is_some() {
        return Err(format!(
            "{file} names the program of each switch itself; leave --program away"
        ));
    }
    let directory = path.parent().unwrap_or(Path::new(""));
    Topology::read(&file, &text, directory).map_err(|error| error.to_string())
}

/// Runs a simulation to its end and shows its progress. `take_signal` returns a stop signal, if one
/// has arrived. Returns the signal that stopped the simulation, if any, and the wall-clock time.
///
/// # Errors
/// Packets loop for ever.
pub fn run_simulation(
    simulation: &mut Simulation,
    end: Nanos,
    take_signal: &dyn Fn() -> Option<Signal>,
) -> Result<(Option<Signal>, Duration), String> {
    let start = Instant::now();
    let mut line = LiveLine::new();
    let mut signal = None;
    let ran = simulation.run(end, &mut |simulation| {
        if line.is_due() {
            line.show(&progress_line(&simulation.progress()));
        }
        signal = take_signal();
        signal.is_none()
    });
    line.clear();
    ran.map_err(|error| error.to_string())?;
    Ok((signal, start.elapsed()))
}

fn progress_line(progress: &Progress) -> String {
    let bar = bar(progress.received, progress.bytes, BAR);
    let time = amount::time(progress.now.into());
    let bytes = amount::bytes(progress.received);
    format!("{bar} {bytes} in {time} of simulated time")
}
