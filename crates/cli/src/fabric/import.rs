//! `polyplane fabric import`: a topology of the P4 tutorials or of p4-utils as one in TOML.

use std::path::PathBuf;

use clap::Args;
use command::args::read_text;
use command::mininet;
use fabric::Topology;
use fabric::topology::MAX_FILE_BYTES;

use crate::{Ended, out};

#[derive(Args)]
pub(super) struct Options {
    /// The topology: `topology.json` of the P4 tutorials, or `p4app.json` of p4-utils.
    #[arg(value_name = "TOPOLOGY.json")]
    topology: PathBuf,
    /// The program of switches for which the topology names none.
    #[arg(long, value_name = "FILE.p4")]
    program: Option<PathBuf>,
    /// Write the topology here. [default: standard output]
    #[arg(short, long, value_name = "TOPO.toml")]
    output: Option<PathBuf>,
}

/// Writes the topology.
///
/// # Errors
/// The file is no such topology, or the other one cannot be written.
pub(super) fn run(options: &Options) -> Result<Ended, String> {
    let file = options.topology.display();
    let text = read_text(&options.topology, MAX_FILE_BYTES)?;
    if !mininet::is_json(&text) {
        return Err(format!(
            "{file} is not JSON; a topology in TOML needs no import"
        ));
    }
    let program = options.program.as_deref();
    let imported = mininet::import(&options.topology, &text, program)?;
    // What is written can be run.
    let read = Topology::read(&file.to_string(), &imported.toml, &imported.directory);
    read.map_err(|error| error.to_string())?;
    let head = format!(
        "# Made of {} by `polyplane fabric import`. Files are searched next to this one: keep it in\n# {}.\n",
        options
            .topology
            .file_name()
            .unwrap_or_default()
            .to_string_lossy(),
        match imported.directory.as_os_str().is_empty() {
            true => ".".to_owned(),
            false => imported.directory.display().to_string(),
        }
    );
    let text = head + &imported.toml;
    match &options.output {
        None => out::text(&text),
        Some(path) => std::fs::write(path, text)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?,
    }
    Ok(Ended::Well)
}
