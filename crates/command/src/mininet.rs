//! Topology files of the P4 tutorials and of p4-utils: the files that they name, and their text as
//! a topology in TOML.

use std::path::{Path, PathBuf};

use mininet_import::{MininetNetwork, p4_name, program_of_runtime};
use terminal::out;

use crate::args::{limits, read_text};

/// A topology in TOML that was made of one in JSON.
pub struct ImportedTopology {
    /// Its text.
    pub toml: String,
    /// Directory in which its file names are searched.
    pub directory: PathBuf,
}

/// Returns true if a topology file is in JSON.
pub fn is_json(text: &str) -> bool {
    text.trim_start_matches('\u{feff}')
        .trim_start()
        .starts_with('{')
}

/// Reads a topology file in JSON, and shows its warnings. `program` is the program of switches for
/// which the topology itself names none.
///
/// # Errors
/// The file is no such topology, or files that it names are not there.
pub fn import(path: &Path, text: &str, program: Option<&Path>) -> Result<ImportedTopology, String> {
    let file = path.display().to_string();
    let read = mininet_import::read(&file, text);
    let mut network = read.map_err(|error| error.to_string())?;
    for warning in &network.warnings {
        let (line, message, mend) = (warning.line, &warning.message, &warning.mend);
        out::note(&format!("{file}:{line}: warning: {message}; {mend}"));
    }
    let directory = directory_of(&network, path)?;
    set_programs(&mut network, &directory, program)?;
    let absolute = std::path::absolute(&directory).unwrap_or_else(|_| directory.clone());
    let name = absolute.file_name().map(|name| name.to_string_lossy());
    Ok(ImportedTopology {
        toml: network.to_toml(&name.unwrap_or_else(|| "fabric".into())),
        directory,
    })
}

/// Returns the advice for a program that is JSON for BMv2, if the file is one.
pub fn advice_on_program(path: &Path) -> Option<String> {
    if path.extension()? != "json" {
        return None;
    }
    let p4 = p4_name(&path.display().to_string());
    Some(format!(
        "{} is a program that p4c compiled for BMv2; Polyplane compiles the P4 text itself: name {p4}",
        path.display()
    ))
}

/// Returns the directory in which all files of a network are: that of the topology, the one above
/// it, or the current one. The tutorials name files from the directory of the exercise, also in
/// `pod-topo/topology.json`.
fn directory_of(network: &MininetNetwork, topology: &Path) -> Result<PathBuf, String> {
    let own = topology.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut places = [own.clone(), own.join(".."), PathBuf::new()];
    if let Some(above) = own.parent() {
        places[1] = above.to_path_buf();
    }
    let named = network.switches.iter().flat_map(|switch| &switch.entries);
    let named: Vec<&String> = named.collect();
    let programs = network.switches.iter().map(|switch| &switch.program);
    let programs = programs.chain([&network.program]).flatten();
    let programs: Vec<String> = programs.map(|program| p4_name(program)).collect();
    let is_there = |place: &PathBuf, name: &str| place.join(name).is_file();
    let has_all = |place: &&PathBuf| {
        named.iter().all(|name| is_there(place, name))
            && programs.iter().all(|name| is_there(place, name))
            && (!named.is_empty() || !programs.is_empty() || only_program(place).is_some())
    };
    if let Some(place) = places.iter().find(has_all) {
        return Ok(place.clone());
    }
    let all = named.into_iter().chain(&programs);
    let missing = all.filter(|name| !places.iter().any(|place| is_there(place, name)));
    let missing: Vec<&str> = missing.map(String::as_str).collect();
    match missing.is_empty() {
        // The program may be given on the command line.
        true => Ok(own),
        false => Err(format!(
            "{}: there is no {}, neither beside the topology, nor in the directory above it, nor \
             in the current one",
            topology.display(),
            missing.join(", ")
        )),
    }
}

/// Gives each switch the P4 text of its program.
fn set_programs(
    network: &mut MininetNetwork,
    directory: &Path,
    given: Option<&Path>,
) -> Result<(), String> {
    let given = match given {
        Some(path) => {
            let absolute = std::path::absolute(path);
            Some(
                absolute
                    .unwrap_or_else(|_| path.to_path_buf())
                    .display()
                    .to_string(),
            )
        }
        None => None,
    };
    let default = network.program.as_deref().map(p4_name);
    for switch in &mut network.switches {
        if let Some(own) = &switch.program {
            switch.program = Some(p4_name(own));
            continue;
        }
        let mut of_entries = switch.entries.iter().filter_map(|file| {
            let text = read_text(&directory.join(file), limits::ENTRIES).ok()?;
            let program = p4_name(&program_of_runtime(&text)?);
            directory.join(&program).is_file().then_some(program)
        });
        let found = given.clone().or_else(|| default.clone());
        let found = found.or_else(|| of_entries.next());
        let found = found.or_else(|| only_program(directory));
        switch.program = Some(found.ok_or_else(|| {
            format!(
                "the topology names no program of {}, and {} has not exactly one P4 file; give \
                 --program FILE.p4",
                switch.name,
                shown(directory)
            )
        })?);
    }
    Ok(())
}

/// Returns the P4 file of a directory, if it has exactly one.
fn only_program(directory: &Path) -> Option<String> {
    let own = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    let files = own.read_dir().ok()?;
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let mut programs = names.filter(|name| name.ends_with(".p4"));
    let first = programs.next()?;
    programs.next().is_none().then_some(first)
}

fn shown(directory: &Path) -> String {
    match directory.as_os_str().is_empty() {
        true => "the current directory".to_owned(),
        false => directory.display().to_string(),
    }
}
