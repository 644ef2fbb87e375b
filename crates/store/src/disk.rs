//! File of a device: batches are written, objects are read.

use std::fmt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use ir::Program;
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, Table, TableDefinition,
};
use switch::{Batch, Device, Object, ObjectPlace, StorageError};

use crate::codec;
use crate::storage_writer::StorageWriter;

/// Version of the file format. Only this one is written and read.
const VERSION: u64 = 1;

/// Maximum size of the page cache of a file in bytes.
pub(crate) const CACHE_BYTES: usize = 64 << 20;

/// Metadata of the file.
const ABOUT: TableDefinition<&str, u64> = TableDefinition::new("about");

/// Objects, by their encoded keys.
const STATE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("state");

/// Error of opening a directory or a file: name, cause and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError(pub(crate) String);

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

/// Storage medium of a device's file. Tests use media other than files.
pub trait Medium: Send + Sync + fmt::Debug {
    /// Opens the database.
    ///
    /// # Errors
    /// As the builder.
    fn open(&self, builder: &Builder) -> Result<Database, DatabaseError>;

    /// Creates the file with empty tables, unless it exists.
    ///
    /// # Errors
    /// The file cannot be created. There is none then, or a complete one.
    fn create(&self) -> Result<(), StorageError>;

    /// Returns the name for messages.
    fn name(&self) -> String;

    /// Returns the maximum size of the page cache in bytes.
    fn cache_bytes(&self) -> usize {
        CACHE_BYTES
    }
}

/// Name of a kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindName {
    /// The singular.
    pub one: &'static str,
    /// The plural.
    pub several: &'static str,
}

impl KindName {
    /// Returns the name for this count.
    pub fn of(self, count: u64) -> &'static str {
        match count {
            1 => self.one,
            _ => self.several,
        }
    }
}

/// Number of objects of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Kinds with their counts.
    pub counts: Vec<(KindName, u64)>,
    /// Number of bytes of keys and values.
    pub bytes: u64,
}

/// Remedy of a damaged file of a device.
const BEGIN_ANEW: &str = "put a copy in its place, or move the file away to begin without state";

/// A stored note: its name and its bytes.
pub type Note = (Box<[u8]>, Box<[u8]>);

/// Stored state of a device.
#[derive(Debug)]
pub struct KeptState {
    medium: Box<dyn Medium>,
    database: Database,
}

impl KeptState {
    /// Opens the file, which is created if it does not exist, and checks every page.
    ///
    /// # Errors
    /// The file is damaged, has another version, or cannot be read.
    pub fn open(medium: Box<dyn Medium>) -> Result<KeptState, OpenError> {
        medium.create().map_err(|error| OpenError(error.message))?;
        KeptState::open_existing(medium)
    }

    /// Opens the file as [`KeptState::open`], and creates none.
    ///
    /// # Errors
    /// As [`KeptState::open`], or there is no file.
    pub fn open_existing(medium: Box<dyn Medium>) -> Result<KeptState, OpenError> {
        let name = medium.name();
        let database =
            open_database(&*medium, true, BEGIN_ANEW).map_err(|error| OpenError(error.message))?;
        let version = version(&database).map_err(|error| damaged(&name, &error, BEGIN_ANEW))?;
        match version {
            Some(VERSION) => Ok(KeptState { medium, database }),
            Some(other) if other > VERSION => Err(OpenError(format!(
                "{name} has the format {other} of a newer Polyplane, and this one reads the format {VERSION}; start a newer Polyplane, or move the file away to begin without state"
            ))),
            Some(other) => Err(OpenError(format!(
                "{name} has the format {other}, which this Polyplane no longer reads; start an older one, or move the file away to begin without state"
            ))),
            None => Err(damaged(&name, &"it does not say its version", BEGIN_ANEW)),
        }
    }

    fn damaged(&self, error: &dyn fmt::Display) -> OpenError {
        damaged(&self.medium.name(), error, BEGIN_ANEW)
    }

    /// Returns the program that the device ran, or `None` if nothing was stored yet.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn program(&self) -> Result<Option<Arc<Program>>, OpenError> {
        let mut first = self.objects()?;
        match first.next() {
            None => Ok(None),
            Some(Ok((ObjectPlace::Program, Object::Program(program)))) => Ok(Some(program)),
            Some(Ok(_)) => Err(self.damaged(&"it has state, but no program")),
            Some(Err(error)) => Err(error),
        }
    }

    /// Restores the stored state in a device that runs the same program.
    ///
    /// # Errors
    /// The file is damaged. The device must not be used then.
    pub fn restore(&self, device: &mut Device) -> Result<(), OpenError> {
        let mut failed = None;
        let objects = self.objects()?;
        let read = objects.map_while(|object| object.map_err(|error| failed = Some(error)).ok());
        let restored = device.restore(read);
        match failed {
            Some(error) => Err(error),
            None => restored.map_err(|error| self.damaged(&error)),
        }
    }

    /// Returns the stored notes, by name. A POF switch has its objects as notes.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn notes(&self) -> Result<Vec<Note>, OpenError> {
        let notes = self.objects()?.filter_map(|object| match object {
            Ok((ObjectPlace::Note(name), Object::Note(bytes))) => Some(Ok((name, bytes))),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        });
        notes.collect()
    }

    /// Returns all stored objects, in the order of their keys.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn objects(
        &self,
    ) -> Result<impl Iterator<Item = Result<(ObjectPlace, Object), OpenError>>, OpenError> {
        let all = all(&self.database).map_err(|error| self.damaged(&error))?;
        let read = |one: Result<(Vec<u8>, Vec<u8>), redb::Error>| {
            let (key, bytes) = one.map_err(|error| self.damaged(&error))?;
            let unreadable = || self.damaged(&format!("it cannot be read at the key {key:02x?}"));
            let place = codec::place(&key).ok_or_else(unreadable)?;
            let object = codec::object(&place, &bytes).ok_or_else(unreadable)?;
            Ok((place, object))
        };
        Ok(all.map(read))
    }

    /// Returns the number of stored objects of each kind.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn summary(&self) -> Result<Summary, OpenError> {
        let mut summary = Summary::default();
        for one in all(&self.database).map_err(|error| self.damaged(&error))? {
            let (key, value) = one.map_err(|error| self.damaged(&error))?;
            summary.bytes += (key.len() + value.len()) as u64;
            let Some(kind) = codec::kind_name(&key) else {
                continue;
            };
            match summary.counts.last_mut() {
                Some((last, count)) if *last == kind => *count += 1,
                _ => summary.counts.push((kind, 1)),
            }
        }
        Ok(summary)
    }

    /// Starts to store changes.
    ///
    /// # Errors
    /// The operating system cannot create another thread.
    pub fn keep(self) -> Result<StorageWriter, OpenError> {
        let name = self.medium.name();
        let disk = Disk {
            medium: self.medium,
            database: Some(self.database),
            is_new: false,
        };
        StorageWriter::start(disk)
            .map_err(|e| OpenError(format!("{name}: cannot start a thread: {e}")))
    }
}

type Pair = Result<(Vec<u8>, Vec<u8>), redb::Error>;

fn all(database: &Database) -> Result<impl Iterator<Item = Pair> + use<>, redb::Error> {
    let table = database.begin_read()?.open_table(STATE)?;
    let range = table.range::<&[u8]>(..)?;
    Ok(range.map(|pair| {
        let (key, value) = pair?;
        Ok((key.value().to_vec(), value.value().to_vec()))
    }))
}

pub(crate) fn damaged(name: &str, error: &dyn fmt::Display, remedy: &str) -> OpenError {
    OpenError(format!("{name} is damaged: {error}; {remedy}"))
}

fn version(database: &Database) -> Result<Option<u64>, redb::Error> {
    let about = database.begin_read()?.open_table(ABOUT)?;
    Ok(about.get("version")?.map(|version| version.value()))
}

/// Starts to store changes in a file that is created with the first batch.
///
/// # Errors
/// The operating system cannot create another thread.
pub fn keep_new(medium: Box<dyn Medium>) -> Result<StorageWriter, OpenError> {
    let name = medium.name();
    let disk = Disk {
        medium,
        database: None,
        is_new: true,
    };
    StorageWriter::start(disk).map_err(|e| OpenError(format!("{name}: cannot start a thread: {e}")))
}

/// Creates the tables of a new file.
///
/// # Errors
/// The file cannot be written.
pub fn prepare(database: &Database) -> Result<(), StorageError> {
    let said = || -> Result<(), redb::Error> {
        let change = database.begin_write()?;
        change.open_table(ABOUT)?.insert("version", VERSION)?;
        change.open_table(STATE)?;
        Ok(change.commit()?)
    };
    said().map_err(|error| told("the new file", error, BEGIN_ANEW))
}

/// Opens a file. A panic of the database on a damaged file becomes an error too. `remedy` is that
/// of a damaged file.
pub(crate) fn open_database(
    medium: &dyn Medium,
    is_checked: bool,
    remedy: &str,
) -> Result<Database, StorageError> {
    let mut builder = Builder::new();
    builder
        .set_cache_size(medium.cache_bytes())
        .set_check_integrity_on_open(is_checked);
    let name = medium.name();
    let opened = std::panic::catch_unwind(AssertUnwindSafe(|| medium.open(&builder)));
    match opened {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(error)) => Err(told(&name, error.into(), remedy)),
        Err(_) => Err(StorageError {
            is_full: false,
            message: damaged(&name, &"it is not in order", remedy).0,
        }),
    }
}

/// Converts an error of the database to a message for users.
pub(crate) fn told(name: &str, error: redb::Error, remedy: &str) -> StorageError {
    let is_full = matches!(&error, redb::Error::Io(error) if is_full(error));
    let message = match &error {
        _ if is_full => format!("{name}: no space is left on the disk; make room there"),
        redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            damaged(name, error, remedy).0
        }
        redb::Error::Io(error) => format!("{name}: {error}"),
        redb::Error::DatabaseAlreadyOpen => {
            format!("{name} is in use already; stop what has it, or give another directory")
        }
        other => damaged(name, other, remedy).0,
    };
    StorageError { is_full, message }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// File of a device, open for writing.
pub(crate) struct Disk {
    medium: Box<dyn Medium>,
    /// `None` before the first batch of a new file, and after an error, until the file is opened
    /// again.
    database: Option<Database>,
    /// True if the file may not have been created yet.
    is_new: bool,
}

impl Disk {
    /// Writes batches atomically, with one sync.
    pub(crate) fn keep(&mut self, batches: &[Batch]) -> Result<(), StorageError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => {
                if self.is_new {
                    self.medium.create()?;
                    self.is_new = false;
                }
                open_database(&*self.medium, false, BEGIN_ANEW)?
            }
        };
        match write(&database, batches) {
            Ok(()) => {
                self.database = Some(database);
                Ok(())
            }
            // After an error the state of the file is unknown to the database. It is opened again
            // for the next batch, when there may be space.
            Err(error) => Err(told(&self.medium.name(), error, BEGIN_ANEW)),
        }
    }
}

fn write(database: &Database, batches: &[Batch]) -> Result<(), redb::Error> {
    let change = database.begin_write()?;
    // A batch with all objects replaces everything before it.
    let first = batches.iter().rposition(|batch| batch.is_whole);
    if first.is_some() {
        change.delete_table(STATE)?;
    }
    {
        let mut state = change.open_table(STATE)?;
        for batch in &batches[first.unwrap_or(0)..] {
            for (place, object) in &batch.objects {
                put(&mut state, place, object.as_ref())?;
            }
        }
    }
    Ok(change.commit()?)
}

type State<'t> = Table<'t, &'static [u8], &'static [u8]>;

fn put(
    state: &mut State<'_>,
    place: &ObjectPlace,
    object: Option<&Object>,
) -> Result<(), redb::Error> {
    if let ObjectPlace::Entries(table) = place {
        for keys in codec::table_keys(*table) {
            state.retain_in::<&[u8], _>(&keys.start[..]..&keys.end[..], |_, _| false)?;
        }
        return Ok(());
    }
    let key = codec::key(place);
    let Some(object) = object else {
        state.remove(&key[..])?;
        if let ObjectPlace::Entry(table, id) = place {
            let counter = codec::key(&ObjectPlace::DirectCounter(*table, Some(*id)));
            state.remove(&counter[..])?;
        }
        return Ok(());
    };
    let bytes = codec::bytes(object);
    // Cells are written repeatedly, and most are unchanged.
    let is_cell = matches!(
        place,
        ObjectPlace::Counters(..) | ObjectPlace::DirectCounter(..) | ObjectPlace::Registers(..)
    );
    if is_cell
        && state
            .get(&key[..])?
            .is_some_and(|there| there.value() == bytes)
    {
        return Ok(());
    }
    state.insert(&key[..], &bytes[..])?;
    Ok(())
}
