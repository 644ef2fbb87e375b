//! `cargo xtask browser`: the page of `polyplane studio` in Chromium, and its built files compared
//! with a fresh build of its sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, cargo};

/// Names of Chromium.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folder of the pictures and of the files that the page saves [default: target/browser].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Compare the built files only.
    #[arg(long)]
    build_only: bool,
}

pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let sources = root.join("studio/web");
    let out = options.out.clone();
    let out = out.unwrap_or_else(|| crate::target().join("browser"));
    let fresh = crate::target().join("browser-build");
    in_folder(&sources, "npm", &["ci", "--no-audit", "--no-fund"])
        .map_err(|error| format!("{error}; the page needs Node 20 or newer with npm"))?;
    let fresh_text = fresh.display().to_string();
    in_folder(&sources, "npx", &["tsc", "--noEmit"])?;
    in_folder(
        &sources,
        "npx",
        &[
            "vite",
            "build",
            "--logLevel",
            "warn",
            "--outDir",
            &fresh_text,
        ],
    )?;
    compare(&fresh, &root.join("crates/studio/assets"))?;
    if options.build_only {
        return Ok(());
    }
    let Some(browser) = BROWSERS.iter().find_map(|name| in_path(name)) else {
        return Err("there is no Chromium: apt-get install chromium".to_owned());
    };
    // With the features of the tests, so that nothing is built twice.
    cargo(&[
        "test",
        "--workspace",
        "--quiet",
        "--no-run",
        "--test",
        "command_line",
    ])?;
    let polyplane = crate::target().join("debug/polyplane");
    let words = [
        "tests/browser.mjs".to_owned(),
        polyplane.display().to_string(),
        browser.display().to_string(),
        out.display().to_string(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    in_folder(&sources, "node", &words)
}

/// Compares the files of two folders.
fn compare(fresh: &Path, committed: &Path) -> Outcome {
    let (fresh_files, files) = (files(fresh)?, files(committed)?);
    let name = |file: &Path| file.file_name().map(|name| name.to_owned());
    let is_equal = fresh_files.len() == files.len()
        && fresh_files.iter().zip(&files).all(|(new, old)| {
            let contents = (std::fs::read(new).ok(), std::fs::read(old).ok());
            name(new) == name(old) && contents.0.is_some() && contents.0 == contents.1
        });
    match is_equal {
        true => Ok(()),
        false => Err(format!(
            "{} is not what studio/web builds: run `npm run build` there and commit the files",
            committed.display()
        )),
    }
}

/// Returns the files of a folder, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder);
    let entries = entries.map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

/// Runs a program in a folder, with its output on the terminal.
fn in_folder(folder: &Path, program: &str, words: &[&str]) -> Outcome {
    let status = Command::new(program)
        .args(words)
        .current_dir(folder)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} {}: {status}", words.join(" "))),
        Err(error) => Err(format!("cannot start {program}: {error}")),
    }
}

/// Returns the path of a program of `PATH`.
fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.into_iter().find(|file| file.is_file())
}
