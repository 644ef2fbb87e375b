//! `polyplane compile`: the two files that a P4Runtime controller sends.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use p4info::P4Info;
use serde_json::json;

use crate::args::{Source, limits, read};
use crate::{Ended, compile, out};

#[derive(Args)]
#[command(
    after_help = "Writes NAME.p4info.txt and NAME.device into the current directory, or into -o DIR; or just the files that --p4info and --device-config name. \
                  The same program gives the same files, byte for byte.\n\nExamples:\n  polyplane compile my.p4 -o build/\n  polyplane compile my.p4 --p4info \
                  my.p4info.bin --p4info-format binary\n  polyplane ctl load build/my.device --p4info build/my.p4info.txt"
)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// Write both files into this directory, which is created if it does not exist.
    #[arg(short = 'o', value_name = "DIR", conflicts_with_all = ["p4info", "device_config"])]
    dir: Option<PathBuf>,
    /// Write the P4Info into this file.
    #[arg(long, value_name = "FILE")]
    p4info: Option<PathBuf>,
    /// Write the device config into this file.
    #[arg(long, value_name = "FILE")]
    device_config: Option<PathBuf>,
    /// Format of the P4Info.
    #[arg(long, value_enum, default_value_t)]
    p4info_format: P4infoFormat,
    /// Report the written files as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum P4infoFormat {
    /// As protobuf text.
    #[default]
    Text,
    /// As protobuf bytes.
    Binary,
}

impl Options {
    /// Returns the paths of the P4Info and the device config.
    fn files(&self) -> (Option<PathBuf>, Option<PathBuf>) {
        if self.p4info.is_some() || self.device_config.is_some() {
            return (self.p4info.clone(), self.device_config.clone());
        }
        let dir = self.dir.clone().unwrap_or_default();
        let name = self.source.name();
        let ending = match self.p4info_format {
            P4infoFormat::Text => "p4info.txt",
            P4infoFormat::Binary => "p4info.bin",
        };
        let file = |ending: &str| Some(dir.join(format!("{name}.{ending}")));
        (file(ending), file("device"))
    }
}

/// Builds the P4Info of a program.
///
/// # Errors
/// Everything in the program that P4Info cannot express, one line each.
pub(crate) fn p4info(program: &ir::Program) -> Result<P4Info, String> {
    p4info::p4info(program).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        errors.join("\n")
    })
}

/// Reads a P4Info from a file, as protobuf text or bytes.
///
/// # Errors
/// The file cannot be read, or is not a P4Info.
pub(crate) fn read_p4info(path: &Path) -> Result<P4Info, String> {
    let bytes = read(path, limits::CONFIG)?;
    let text = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| p4info::from_text(text).ok());
    let info = text.map_or_else(|| p4info::from_bytes(&bytes), Ok);
    info.map_err(|error| {
        format!(
            "{} is no P4Info, neither text nor binary: {error}",
            path.display()
        )
    })
}

pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    let Some(program) = compile::compile(&options.source) else {
        return Ok(Ended::WithErrors);
    };
    let info = p4info(&program)?;
    if let Some(dir) = &options.dir {
        let made = std::fs::create_dir_all(dir);
        made.map_err(|error| format!("cannot make the directory {}: {error}", dir.display()))?;
    }
    let (info_file, config_file) = options.files();
    if let Some(path) = &info_file {
        write(
            path,
            &match options.p4info_format {
                P4infoFormat::Text => p4info::to_text(&info).into_bytes(),
                P4infoFormat::Binary => p4info::to_bytes(&info),
            },
        )?;
    }
    if let Some(path) = &config_file {
        write(path, &p4rt::device_config(&program))?;
    }
    let told = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    if options.json {
        out::json(&json!({
            "program": program.name,
            "p4info": told(&info_file),
            "device_config": told(&config_file),
        }));
    } else {
        let files = [told(&info_file), told(&config_file)];
        files
            .into_iter()
            .flatten()
            .for_each(|file| out::line(&format!("wrote {file}")));
    }
    Ok(Ended::Well)
}

/// Writes files into a directory, which is made if it does not exist, and prints their paths.
pub(crate) fn write_all<N: AsRef<Path>>(
    directory: &Path,
    files: impl IntoIterator<Item = (N, String)>,
) -> Result<(), String> {
    std::fs::create_dir_all(directory).map_err(|error| {
        let directory = directory.display();
        format!("cannot make the directory {directory}: {error}")
    })?;
    for (file, text) in files {
        let path = directory.join(file);
        write(&path, text.as_bytes())?;
        out::line(&path.display().to_string());
    }
    Ok(())
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
