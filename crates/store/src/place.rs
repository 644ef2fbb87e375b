//! State directory: used by one process at a time, with one file for each device.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use consensus::{Capacity, Saved};
use redb::{Builder, Database, DatabaseError};

use crate::disk::{KeptState, Medium, OpenError, prepare};
use crate::raft_log::{LogOwner, RaftLog};

/// State directory. No other process can use it while this value, or a device's state opened from
/// it, exists.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    /// `None` if it is opened for reading only and was never used by a switch.
    lock: Option<Arc<File>>,
}

/// File of a POF switch.
const POF_FILE: &str = "pof.redb";

/// File of a node of a replicated log.
const RAFT_FILE: &str = "raft.redb";

/// Maximum length of a valid `lock` file in bytes: a process id.
const MAX_LOCK: u64 = 32;

/// Returns an error of an operation on a directory.
fn told(path: &Path, what: &str, error: &std::io::Error) -> OpenError {
    OpenError(format!("{}: {what}: {error}", path.display()))
}

/// Locks the file `lock` of a directory, if it is that of a switch.
fn take(path: &Path, lock: &mut File) -> Result<(), OpenError> {
    let taken = lock.try_lock();
    if let Err(TryLockError::Error(error)) = &taken {
        return Err(told(path, "cannot lock the file `lock`", error));
    }
    let mut owner = Vec::new();
    let read = lock.take(MAX_LOCK + 1).read_to_end(&mut owner);
    read.map_err(|error| told(path, "cannot read the file `lock`", &error))?;
    let owner = String::from_utf8_lossy(&owner);
    let owner = owner.trim();
    // The file is empty if a switch was killed before it wrote its process id.
    if !owner.is_empty() && owner.parse::<u32>().is_err() {
        return Err(OpenError(format!(
            "{}: the file `lock` is not that of a switch, which has a process's number; give another directory",
            path.display()
        )));
    }
    if taken.is_ok() {
        return Ok(());
    }
    let owner = match owner {
        "" => String::new(),
        owner => format!(" (process {owner})"),
    };
    Err(OpenError(format!(
        "{} is in use by another switch{owner}; stop that one, or give another directory",
        path.display()
    )))
}

impl Directory {
    /// Opens a directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// Another process uses it, it has a file `lock` of another kind, or it cannot be accessed.
    pub fn open(path: &Path) -> Result<Directory, OpenError> {
        let made = std::fs::create_dir_all(path);
        made.map_err(|error| told(path, "cannot make the directory", &error))?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let lock = options.open(path.join("lock"));
        let mut lock = lock.map_err(|error| told(path, "cannot open the file `lock`", &error))?;
        take(path, &mut lock)?;
        let written = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| write!(lock, "{}", std::process::id()));
        written.map_err(|error| told(path, "cannot write the file `lock`", &error))?;
        Ok(Directory {
            path: path.to_owned(),
            lock: Some(Arc::new(lock)),
        })
    }

    /// Opens a directory for reading. It is locked as by [`Directory::open`] if a switch ever used
    /// it. No file is created or written.
    ///
    /// # Errors
    /// As [`Directory::open`].
    pub fn look(path: &Path) -> Result<Directory, OpenError> {
        let lock = match File::open(path.join("lock")) {
            Ok(mut lock) => {
                take(path, &mut lock)?;
                Some(Arc::new(lock))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(told(path, "cannot open the file `lock`", &error)),
        };
        Ok(Directory {
            path: path.to_owned(),
            lock,
        })
    }

    /// Returns the state of the device with this number. It is empty if there is none yet.
    ///
    /// # Errors
    /// The device's file is damaged, has another version, or cannot be read.
    pub fn device(&self, id: u64) -> Result<KeptState, OpenError> {
        self.file(&format!("device-{id}.redb"))
    }

    /// Returns the state of the POF switch. It is empty if there is none yet.
    ///
    /// # Errors
    /// As [`Directory::device`].
    pub fn pof(&self) -> Result<KeptState, OpenError> {
        self.file(POF_FILE)
    }

    /// Returns true if a POF switch has state here.
    pub fn has_pof(&self) -> bool {
        self.path.join(POF_FILE).exists()
    }

    /// Returns the log of a node, and what it keeps; `None` if the node was never started.
    ///
    /// # Errors
    /// As [`RaftLog::open`].
    pub fn raft_log(
        &self,
        owner: LogOwner,
        capacity: Capacity,
    ) -> Result<(RaftLog, Option<Saved>), OpenError> {
        RaftLog::open(Box::new(self.medium(RAFT_FILE)?), owner, capacity)
    }

    fn file(&self, name: &str) -> Result<KeptState, OpenError> {
        KeptState::open(Box::new(self.medium(name)?))
    }

    /// Returns a file, and creates it if there is none.
    fn medium(&self, name: &str) -> Result<InFile, OpenError> {
        let path = self.path.join(name);
        if !path.exists() {
            self.make(&path)?;
        }
        Ok(InFile {
            path,
            _lock: self.lock.clone(),
        })
    }

    /// Creates a file atomically: it is complete before it gets its name.
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

    /// Returns the numbers of the devices that have state.
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

/// File in a directory.
#[derive(Debug)]
struct InFile {
    path: PathBuf,
    _lock: Option<Arc<File>>,
}

impl Medium for InFile {
    fn open(&self, builder: &Builder) -> Result<Database, DatabaseError> {
        builder.open(&self.path)
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}
