//! State directory: used by one process at a time, with one file for each device.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use consensus::{Capacity, Saved};
use redb::{Builder, Database, DatabaseError};

use switch::StorageError;

use crate::disk::{
    CACHE_BYTES as USUAL_CACHE_BYTES, KeptState, Medium, OpenError, prepare, told as storage_error,
};
use crate::host::HostFiles;
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

/// File of a switch that hosts virtual data planes.
const HOST_FILE: &str = "host.redb";

/// Prefix of the files of virtual data planes; a number follows.
const VPDP_FILES: &str = "vpdp-";

/// Maximum size of the page cache of a vPDP's file. A switch may host thousands.
const VPDP_CACHE_BYTES: usize = 4 << 20;

/// Prefix of the files of devices; the device id follows.
const DEVICE_FILES: &str = "device-";

/// Remedy of a directory of another kind of switch.
const ANOTHER_DIRECTORY: &str = "give another directory";

/// Time in which the lock of a process that was killed is released, and the time between two tries.
const RELEASED_WITHIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Maximum length of a valid `lock` file in bytes: a process id.
const MAX_LOCK: u64 = 32;

/// Returns an error of an operation on a directory.
fn told(path: &Path, what: &str, error: &std::io::Error) -> OpenError {
    OpenError(format!("{}: {what}: {error}", path.display()))
}

/// Locks the file `lock` of a directory, if it is that of a switch.
fn take(path: &Path, lock: &mut File) -> Result<(), OpenError> {
    let until = Instant::now() + RELEASED_WITHIN;
    let mut taken = lock.try_lock();
    // The kernel releases the lock of a process that was killed only once its threads have ended.
    while let Err(TryLockError::WouldBlock) = &taken
        && Instant::now() < until
    {
        std::thread::sleep(LOOK_AGAIN);
        taken = lock.try_lock();
    }
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
    /// The device's file is damaged, has another version, or cannot be read. The directory is that
    /// of a switch that hosts virtual data planes.
    pub fn device(&self, id: u64) -> Result<KeptState, OpenError> {
        self.check_of_devices()?;
        self.file(&format!("{DEVICE_FILES}{id}.redb"))
    }

    /// Returns true if a switch that hosts virtual data planes has state here.
    pub fn has_host(&self) -> bool {
        self.path.join(HOST_FILE).exists()
    }

    /// Checks that the directory is not one of a switch that hosts virtual data planes.
    fn check_of_devices(&self) -> Result<(), OpenError> {
        match self.has_host() {
            false => Ok(()),
            true => Err(OpenError(format!(
                "{} has the state of a switch that hosts virtual data planes (polyplane host); {ANOTHER_DIRECTORY}",
                self.path.display()
            ))),
        }
    }

    /// Checks that the directory is empty, or one of a switch that hosts virtual data planes.
    ///
    /// # Errors
    /// Another kind of switch has state here, or the file of the host is missing.
    pub fn check_of_host(&self) -> Result<(), OpenError> {
        let place = self.path.display();
        let is_there = |name: &str| self.path.join(name).exists();
        let other = match (
            self.devices()?.first(),
            is_there(POF_FILE),
            is_there(RAFT_FILE),
        ) {
            (Some(_), ..) => "a switch that hosts no virtual data planes (polyplane serve or run)",
            (_, true, _) => "a POF switch (polyplane pof)",
            (_, _, true) => "a member of a replicated store (polyplane reflex)",
            _ if self.has_host() || self.vpdps()?.is_empty() => return Ok(()),
            _ => {
                return Err(OpenError(format!(
                    "{place} has files of virtual data planes, and {HOST_FILE} is missing; put a \
                     copy in its place, or {ANOTHER_DIRECTORY}"
                )));
            }
        };
        Err(OpenError(format!(
            "{place} has the state of {other}; {ANOTHER_DIRECTORY}"
        )))
    }

    /// Returns the state of the POF switch. It is empty if there is none yet.
    ///
    /// # Errors
    /// As [`Directory::device`].
    pub fn pof(&self) -> Result<KeptState, OpenError> {
        self.check_of_devices()?;
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
        self.check_of_devices()?;
        let medium = Box::new(self.medium(RAFT_FILE));
        medium.create().map_err(|error| OpenError(error.message))?;
        RaftLog::open(medium, owner, capacity)
    }

    fn file(&self, name: &str) -> Result<KeptState, OpenError> {
        KeptState::open(Box::new(self.medium(name)))
    }

    fn medium(&self, name: &str) -> InFile {
        InFile {
            path: self.path.join(name),
            cache_bytes: None,
            _lock: self.lock.clone(),
        }
    }

    /// Returns the numbers of the devices that have state.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn devices(&self) -> Result<Vec<u64>, OpenError> {
        self.numbers(DEVICE_FILES)
    }

    /// Returns the numbers in the names of the files with this prefix.
    fn numbers(&self, prefix: &str) -> Result<Vec<u64>, OpenError> {
        let told = |e| {
            OpenError(format!(
                "{}: cannot read the directory: {e}",
                self.path.display()
            ))
        };
        let mut numbers = Vec::new();
        for file in std::fs::read_dir(&self.path).map_err(told)? {
            let name = file.map_err(told)?.file_name();
            let name = name.to_string_lossy();
            let number = name.strip_prefix(prefix);
            let number = number.and_then(|name| name.strip_suffix(".redb"));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

impl HostFiles for Directory {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn host(&self) -> Box<dyn Medium> {
        Box::new(self.medium(HOST_FILE))
    }

    fn vpdp(&self, file: u64) -> Box<dyn Medium> {
        Box::new(InFile {
            cache_bytes: Some(VPDP_CACHE_BYTES),
            ..self.medium(&format!("{VPDP_FILES}{file}.redb"))
        })
    }

    fn vpdps(&self) -> Result<Vec<u64>, OpenError> {
        self.numbers(VPDP_FILES)
    }

    fn remove_vpdp(&self, file: u64) -> Result<(), OpenError> {
        let path = self.path.join(format!("{VPDP_FILES}{file}.redb"));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(told(&path, "cannot remove the file", &error))
            }
            _ => Ok(()),
        }
    }
}

/// File in a directory.
#[derive(Debug)]
struct InFile {
    path: PathBuf,
    /// Maximum size of the page cache, if it is not the usual one.
    cache_bytes: Option<usize>,
    _lock: Option<Arc<File>>,
}

impl Medium for InFile {
    fn open(&self, builder: &Builder) -> Result<Database, DatabaseError> {
        builder.open(&self.path)
    }

    /// Creates the file atomically: it is complete before it gets its name.
    fn create(&self) -> Result<(), StorageError> {
        let path = &self.path;
        if path.exists() {
            return Ok(());
        }
        let told = |error: redb::Error| storage_error(&self.name(), error, ANOTHER_DIRECTORY);
        let io = |error: std::io::Error| told(redb::Error::Io(error));
        let fresh = path.with_extension("new");
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        let database = Database::create(&fresh).map_err(|error| told(error.into()))?;
        prepare(&database)?;
        drop(database);
        std::fs::rename(&fresh, path).map_err(io)?;
        let directory = path.parent().unwrap_or(Path::new("."));
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(io)
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn cache_bytes(&self) -> usize {
        self.cache_bytes.unwrap_or(USUAL_CACHE_BYTES)
    }
}
