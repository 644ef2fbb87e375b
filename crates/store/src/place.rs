//! The directory: one process has it at a time, one file is one device's.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Builder, Database, DatabaseError};

use crate::disk::{Kept, Medium, OpenError, prepare};

/// A directory of state, which no other process has as long as this one or a device's state of it is held.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    lock: Arc<File>,
}

impl Directory {
    /// Opens a directory, and makes it if it is not there.
    ///
    /// # Errors
    /// Another process has it, or it cannot be used.
    pub fn open(path: &Path) -> Result<Directory, OpenError> {
        let told = |what: &str, error: std::io::Error| {
            OpenError(format!("{}: {what}: {error}", path.display()))
        };
        std::fs::create_dir_all(path).map_err(|e| told("cannot make the directory", e))?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let lock = options.open(path.join("lock"));
        let mut lock = lock.map_err(|e| told("cannot open the file `lock`", e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = lock.read_to_string(&mut owner);
                let owner = match owner.trim() {
                    "" => String::new(),
                    owner => format!(" (process {owner})"),
                };
                return Err(OpenError(format!(
                    "{} is in use by another switch{owner}; stop that one, or give another directory",
                    path.display()
                )));
            }
            Err(TryLockError::Error(e)) => return Err(told("cannot lock the file `lock`", e)),
        }
        let written = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| write!(lock, "{}", std::process::id()));
        written.map_err(|e| told("cannot write the file `lock`", e))?;
        Ok(Directory {
            path: path.to_owned(),
            lock: Arc::new(lock),
        })
    }

    /// The state of the device with this number; empty if there is none yet.
    ///
    /// # Errors
    /// Its file is damaged, of another version, or cannot be read.
    pub fn device(&self, id: u64) -> Result<Kept, OpenError> {
        let path = self.path.join(format!("device-{id}.redb"));
        if !path.exists() {
            self.make(&path)?;
        }
        let medium = InFile {
            path,
            _lock: Arc::clone(&self.lock),
        };
        Kept::open(Box::new(medium))
    }

    /// Makes a file that is whole from its first moment under its name.
    fn make(&self, path: &Path) -> Result<(), OpenError> {
        let told = |error: &dyn std::fmt::Display| {
            OpenError(format!("{}: cannot make the file: {error}", path.display()))
        };
        let fresh = path.with_extension("new");
        match std::fs::remove_file(&fresh) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(told(&e)),
            _ => {}
        }
        let database = Database::create(&fresh).map_err(|e| told(&e))?;
        prepare(&database).map_err(|e| told(&e.message))?;
        drop(database);
        std::fs::rename(&fresh, path).map_err(|e| told(&e))?;
        let synced = File::open(&self.path).and_then(|directory| directory.sync_all());
        synced.map_err(|e| told(&e))
    }

    /// The devices of which there is state.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn devices(&self) -> Result<Vec<u64>, OpenError> {
        let told = |e| {
            OpenError(format!(
                "{}: cannot read the directory: {e}",
                self.path.display()
            ))
        };
        let mut devices = Vec::new();
        for file in std::fs::read_dir(&self.path).map_err(told)? {
            let name = file.map_err(told)?.file_name();
            let name = name.to_string_lossy();
            let number = name.strip_prefix("device-");
            let number = number.and_then(|name| name.strip_suffix(".redb"));
            devices.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        devices.sort_unstable();
        Ok(devices)
    }
}

/// A file of a directory.
#[derive(Debug)]
struct InFile {
    path: PathBuf,
    _lock: Arc<File>,
}

impl Medium for InFile {
    fn open(&self, builder: &Builder) -> Result<Database, DatabaseError> {
        builder.open(&self.path)
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}
