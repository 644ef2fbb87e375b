//! Topology files of the P4 tutorials and of p4-utils: the files that they name, and their text as
//! a topology in TOML.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use fabric::Topology;
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

impl ImportedTopology {
    /// Reads the topology. `file` is the name of the one in JSON.
    ///
    /// # Errors
    /// Mistakes, with their lines in [`ImportedTopology::toml`].
    pub fn topology(&self, file: &str) -> Result<Topology, String> {
        // The lines are not those of the file itself.
        let name = format!("(TOML of `polyplane fabric import {file}`)");
        Topology::read(&name, &self.toml, &self.directory).map_err(|error| error.to_string())
    }
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
    let imported = ImportedTopology {
        toml: network.to_toml(&name.unwrap_or_else(|| "fabric".into())),
        directory,
    };
    imported.topology(&file)?;
    Ok(imported)
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
    let places = [own.clone(), above(&own), PathBuf::new()];
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
    let mut seen = BTreeSet::new();
    let missing = missing
        .map(String::as_str)
        .filter(|name| seen.insert(*name));
    let missing: Vec<&str> = missing.collect();
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

/// Returns the directory above one, which may end in `.` or `..`.
fn above(directory: &Path) -> PathBuf {
    match directory.components().next_back() {
        Some(Component::Normal(_)) => directory.parent().unwrap_or(directory).to_path_buf(),
        _ => directory.join(".."),
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
        let found = match given.clone().or_else(|| default.clone()) {
            Some(found) => Some(found),
            None => program_of_entries(&switch.entries, directory)?,
        };
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

/// Returns the program that files of entries name.
///
/// # Errors
/// They name one, and it is not there.
fn program_of_entries(entries: &[String], directory: &Path) -> Result<Option<String>, String> {
    for file in entries {
        let text = read_text(&directory.join(file), limits::ENTRIES)?;
        let Some(program) = program_of_runtime(&text).map(|program| p4_name(&program)) else {
            continue;
        };
        return match directory.join(&program).is_file() {
            true => Ok(Some(program)),
            false => Err(format!(
                "{program}, named in {file}, was not found in {}; give --program FILE.p4",
                shown(directory)
            )),
        };
    }
    Ok(None)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_above_is_that_of_the_file_system() {
        for (own, expected) in [
            ("", ".."),
            (".", "./.."),
            ("..", "../.."),
            ("a/..", "a/../.."),
            ("a/b", "a"),
            ("a/.", ""),
            ("./a", "."),
            ("/", "/.."),
        ] {
            assert_eq!(above(Path::new(own)), Path::new(expected), "{own}");
        }
    }

    #[test]
    fn files_are_found_from_each_form_of_a_topologys_path() -> Result<(), String> {
        let root = std::env::temp_dir().join(format!("polyplane-mininet-{}", std::process::id()));
        let failed = |error: std::io::Error| error.to_string();
        std::fs::create_dir_all(root.join("topo/deep")).map_err(failed)?;
        let runtime =
            |program: &str| format!("{{\"target\": \"bmv2\", \"bmv2_json\": \"{program}\"}}");
        std::fs::write(root.join("s1.json"), runtime("build/a.json")).map_err(failed)?;
        std::fs::write(root.join("s2.json"), runtime("build/none.json")).map_err(failed)?;
        for program in ["a.p4", "b.p4"] {
            std::fs::write(root.join(program), "").map_err(failed)?;
        }
        let text = |entries: &str| {
            let switch = format!("{{\"runtime_json\": \"{entries}\"}}");
            format!(
                "{{\"hosts\": {{}}, \"links\": [], \"switches\": {{\"s1\": {switch}, \"s2\": {switch}}}}}"
            )
        };
        let outcomes = [
            "topo/t.json",
            "topo/./t.json",
            "topo/deep/../t.json",
            "./t.json",
        ]
        .map(|path| import(&root.join(path), &text("s1.json"), None));
        let lost = import(&root.join("t.json"), &text("s2.json"), None);
        let given = import(
            &root.join("t.json"),
            &text("s2.json"),
            Some(Path::new("c.p4")),
        );
        let absent = import(&root.join("t.json"), &text("s3.json"), None);
        let host = "\"hosts\": {\"s1\": {\"ip\": \"10.0.0.1/8\", \"mac\": \"02:00:00:00:00:01\"}";
        let twice = text("s1.json").replacen("\"hosts\": {", host, 1);
        let wrong = import(&root.join("t.json"), &twice, None);
        std::fs::remove_dir_all(&root).map_err(failed)?;
        for outcome in outcomes {
            let imported = outcome?;
            assert!(
                imported.toml.contains("program = \"a.p4\""),
                "{}",
                imported.toml
            );
        }
        let lost = lost.err().unwrap_or_default();
        assert!(
            lost.contains("none.p4, named in s2.json, was not found"),
            "{lost}"
        );
        let wrong = wrong.err().unwrap_or_default();
        assert!(
            wrong.contains("(TOML of `polyplane fabric import "),
            "{wrong}"
        );
        assert!(given?.toml.contains("c.p4\""));
        let absent = absent.err().unwrap_or_default();
        assert_eq!(absent.matches("s3.json").count(), 1, "{absent}");
        Ok(())
    }
}
