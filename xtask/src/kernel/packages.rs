//! Debian's packages of a kernel, its headers, QEMU and BusyBox, unpacked in a folder.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Unpacked packages.
pub(crate) struct Packages {
    /// Folder in which they are unpacked.
    pub(crate) root: PathBuf,
    /// Release of the kernel, for example `6.1.0-57-amd64`.
    pub(crate) release: String,
}

/// Folders of libraries inside of the unpacked packages.
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];

impl Packages {
    /// Downloads and unpacks the packages, unless the folder has them. `refresh` asks for newer
    /// ones.
    ///
    /// # Errors
    /// The packages cannot be had here, with the reason.
    pub(crate) fn get(folder: &Path, refresh: bool) -> Result<Packages, String> {
        let root = folder.join("root");
        let list = folder.join("release");
        if let (false, Ok(release)) = (refresh, std::fs::read_to_string(&list)) {
            return Ok(Packages { root, release });
        }
        let kernel = dependency("linux-image-amd64", "linux-image-")?;
        let release = kernel.trim_start_matches("linux-image-").to_owned();
        let headers = format!("linux-headers-{release}");
        let mut names = vec![
            dependency(&headers, "linux-headers-")?,
            dependency(&headers, "linux-kbuild-")?,
            headers,
            kernel,
            "busybox-static".to_owned(),
            "iproute2".to_owned(),
        ];
        if !installed_qemu_runs() {
            names.extend(missing("qemu-system-x86")?);
        }
        let archives = folder.join("debs");
        for folder in [&archives, &root] {
            // Remains of other versions would be unpacked too.
            let _ = std::fs::remove_dir_all(folder);
            let made = std::fs::create_dir_all(folder);
            made.map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        println!("kernel: {} packages are downloaded", names.len());
        output(
            Command::new("apt-get")
                .arg("download")
                .args(&names)
                .current_dir(&archives),
        )?;
        let entries = std::fs::read_dir(&archives).map_err(|e| e.to_string())?;
        for entry in entries.flatten() {
            output(
                Command::new("dpkg-deb")
                    .arg("-x")
                    .arg(entry.path())
                    .arg(&root),
            )?;
        }
        // Written last: its presence says that all is there.
        std::fs::write(&list, &release).map_err(|e| format!("{}: {e}", list.display()))?;
        Ok(Packages { root, release })
    }

    /// Returns a file of the packages.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.root.join(name);
        match path.exists() {
            true => Ok(path),
            false => Err(format!("the packages have no {name}")),
        }
    }

    /// Returns kernel modules and those on which they depend, each after its own dependencies.
    ///
    /// # Errors
    /// A module is missing.
    pub(crate) fn modules(&self, names: &[&str]) -> Result<Vec<(String, PathBuf)>, String> {
        let tree = self
            .root
            .join(format!("lib/modules/{}/kernel", self.release));
        let mut files = Vec::new();
        list(&tree, &mut files);
        let mut found = Vec::new();
        for name in names {
            load(name, &files, &mut found)?;
        }
        Ok(found)
    }

    /// Returns the shared libraries of a program and its loader.
    ///
    /// # Errors
    /// A library is missing.
    pub(crate) fn libraries(&self, program: &Path) -> Result<Vec<PathBuf>, String> {
        let mut command = Command::new("ldd");
        let text = output(
            command
                .arg(program)
                .env("LD_LIBRARY_PATH", self.library_path()),
        )?;
        if let Some(line) = text.lines().find(|line| line.contains("not found")) {
            return Err(format!("{}: {}", program.display(), line.trim()));
        }
        let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
        Ok(paths.map(PathBuf::from).collect())
    }

    /// Returns QEMU: the installed one, else that of the packages with its files.
    pub(crate) fn qemu(&self) -> Result<Command, String> {
        let Ok(program) = self.find("usr/bin/qemu-system-x86_64") else {
            return Ok(Command::new("qemu-system-x86_64"));
        };
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.library_path());
        for folder in ["usr/share/qemu", "usr/share/seabios"] {
            command.arg("-L").arg(self.root.join(folder));
        }
        Ok(command)
    }

    fn library_path(&self) -> String {
        let folders = LIBRARIES.map(|folder| self.root.join(folder).display().to_string());
        folders.join(":")
    }
}

/// Appends the files in a folder and its folders.
fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => list(&path, files),
            path => files.push(path),
        }
    }
}

/// Appends a kernel module after those that it names in its section `.modinfo`.
fn load(name: &str, files: &[PathBuf], found: &mut Vec<(String, PathBuf)>) -> Result<(), String> {
    if found.iter().any(|(there, _)| there == name) {
        return Ok(());
    }
    // Names in files may have a minus sign for the underline.
    let is_it = |path: &&PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        path.extension().is_some_and(|end| end == "ko") && stem.replace('-', "_") == name
    };
    let path = files
        .iter()
        .find(is_it)
        .ok_or_else(|| format!("no kernel module {name}"))?;
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    const WORD: &[u8] = b"\0depends=";
    let at = bytes.windows(WORD.len()).position(|window| window == WORD);
    let text = bytes
        .get(at.map_or(bytes.len(), |at| at + WORD.len())..)
        .unwrap_or_default();
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    for dependency in String::from_utf8_lossy(text)
        .split(',')
        .filter(|name| !name.is_empty())
    {
        load(dependency, files, found)?;
    }
    found.push((name.to_owned(), path.clone()));
    Ok(())
}

fn installed_qemu_runs() -> bool {
    let output = Command::new("qemu-system-x86_64").arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

/// Returns the package that another one depends on and that has a name of this beginning.
fn dependency(package: &str, beginning: &str) -> Result<String, String> {
    let text = output(Command::new("apt-cache").args(["depends", package]))?;
    let names = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "));
    let mut fitting = names.filter(|name| name.starts_with(beginning));
    let found = fitting.next().map(str::to_owned);
    found.ok_or_else(|| format!("the package lists have no {package}; run apt-get update"))
}

/// Returns a package and those that it needs and that are not installed.
fn missing(package: &str) -> Result<Vec<String>, String> {
    let mut command = Command::new("apt-get");
    command.args(["install", "--simulate", "--no-install-recommends", package]);
    let text = output(&mut command)?;
    let lines = text.lines().filter_map(|line| line.strip_prefix("Inst "));
    Ok(lines
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect())
}

/// Runs a command and returns what it prints.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|e| format!("cannot start {name}: {e}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let words = words.lines().last().unwrap_or_default();
        return Err(format!("{name} failed: {words}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
