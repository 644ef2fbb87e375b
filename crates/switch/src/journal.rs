//! Journal of a device: sends changed objects to a [`Storage`], batch by batch, in the order of the
//! changes. The device never waits for it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use packet::Nanos;

use crate::control::Record;
use crate::device::Device;
use crate::object::{self, Changed, Object, ObjectPlace};

/// Time before the device retries a failed batch of its own changes.
const RETRY_AFTER: Nanos = Nanos::from_millis(1000);

/// Error of storing a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageError {
    /// True if the storage is full.
    pub is_full: bool,
    /// The cause, the place, and the remedy.
    pub message: String,
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StorageError {}

/// Callback with the result of storing a batch. On success the batch follows the last stored one
/// and is durable, even after a power failure.
pub type Done = Box<dyn FnOnce(Result<(), StorageError>) + Send>;

/// Batch of changes that are stored atomically.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// True if the batch holds all objects: everything stored before is removed.
    pub is_whole: bool,
    /// True if the device has handled the failure of an earlier batch by going back to the state
    /// before.
    pub goes_on: bool,
    /// New values of objects, or `None` for deleted ones. In the order of keys.
    pub objects: Vec<(ObjectPlace, Option<Object>)>,
}

/// Persistent storage of a device's state.
pub trait Storage: Send {
    /// Appends a batch without blocking. Batches are stored in the order of the calls. After a
    /// failure all batches are refused until one with `goes_on`.
    fn append(&mut self, batch: Batch, done: Done);
}

/// Options for storing cells that packets write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptCells {
    /// Stores counters, including direct ones.
    pub counters: bool,
    /// Stores registers.
    pub registers: bool,
    /// Interval. Cells that a controller writes are stored at once.
    pub every: Nanos,
}

/// Status of batches, updated by the storage.
#[derive(Default)]
struct Fate {
    /// Number of batches in progress.
    under_way: usize,
    /// True if one of them holds only the device's own changes.
    own_under_way: bool,
    failure: Option<Failure>,
}

/// Failure of one or more batches.
#[derive(Debug)]
struct Failure {
    error: StorageError,
    places: Vec<ObjectPlace>,
    is_whole: bool,
    /// True if a caller of [`Device::commit`] was notified and must undo its changes.
    is_to_be_undone: bool,
}

/// The device's side of the journal.
pub(crate) struct Journal {
    storage: Box<dyn Storage>,
    cells: KeptCells,
    changed: BTreeSet<ObjectPlace>,
    is_whole: bool,
    /// True within a batch of the control plane, which must not be stored in parts.
    is_held: bool,
    next_cells: Nanos,
    retry_at: Nanos,
    fate: Arc<Mutex<Fate>>,
}

fn lock(fate: &Mutex<Fate>) -> MutexGuard<'_, Fate> {
    fate.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journal {
    /// Adds the objects that a record has changed.
    fn note(&mut self, device: &Device, record: &Record) {
        let places = match object::changed(device, record) {
            Changed::Everything => return self.is_whole = true,
            Changed::Places(places) => places,
        };
        let cells = self.cells;
        self.changed
            .extend(places.into_iter().filter(|place| match place {
                ObjectPlace::Counters(..) | ObjectPlace::DirectCounter(..) => cells.counters,
                ObjectPlace::Registers(..) => cells.registers,
                _ => true,
            }));
    }

    /// Creates a batch of all pending changes.
    fn gather(&mut self, device: &Device) -> Batch {
        let mut places = std::mem::take(&mut self.changed);
        let is_whole = std::mem::take(&mut self.is_whole);
        if is_whole {
            places = object::all_places(device);
            places.extend(self.cell_places(device));
        }
        let cleared = places.iter().filter_map(|place| match place {
            ObjectPlace::Entries(table) => Some(*table),
            _ => None,
        });
        let left: Vec<ObjectPlace> = cleared
            .flat_map(|table| object::entries_of(device, table))
            .collect();
        places.extend(left);
        let objects = places.into_iter().map(|place| {
            let object = device.object(&place);
            (place, object)
        });
        Batch {
            is_whole,
            goes_on: false,
            objects: objects.collect(),
        }
    }

    fn cell_places(&self, device: &Device) -> Vec<ObjectPlace> {
        let mut places = Vec::new();
        if self.cells.counters {
            places.extend(object::counters_of(device));
        }
        if self.cells.registers {
            places.extend(object::registers_of(device));
        }
        places
    }

    /// Checks that a batch may be sent. After a failure, adds its objects again and returns true:
    /// the batch must have `goes_on` set. Returns the error if the failure is not yet handled.
    fn make_ready(&mut self) -> Result<bool, StorageError> {
        let mut fate = lock(&self.fate);
        let Some(failure) = &fate.failure else {
            return Ok(false);
        };
        if failure.is_to_be_undone || fate.under_way > 0 {
            return Err(failure.error.clone());
        }
        if let Some(failure) = fate.failure.take() {
            self.is_whole |= failure.is_whole;
            self.changed.extend(failure.places);
        }
        Ok(true)
    }

    fn append(&mut self, device: &Device, goes_on: bool, waiter: Option<Done>) {
        let mut batch = self.gather(device);
        batch.goes_on = goes_on;
        let places: Vec<ObjectPlace> = batch
            .objects
            .iter()
            .map(|(place, _)| place.clone())
            .collect();
        let (is_whole, is_own) = (batch.is_whole, waiter.is_none());
        let fate = Arc::clone(&self.fate);
        {
            let mut fate = lock(&fate);
            fate.under_way += 1;
            fate.own_under_way |= is_own;
        }
        let done = move |kept: Result<(), StorageError>| {
            {
                let mut fate = lock(&fate);
                fate.under_way -= 1;
                fate.own_under_way &= !is_own;
                if let Err(error) = &kept {
                    let failure = fate.failure.get_or_insert_with(|| Failure {
                        error: error.clone(),
                        places: Vec::new(),
                        is_whole: false,
                        is_to_be_undone: false,
                    });
                    failure.places.extend(places);
                    failure.is_whole |= is_whole;
                    failure.is_to_be_undone |= !is_own;
                }
            }
            if let Some(waiter) = waiter {
                waiter(kept);
            }
        };
        self.storage.append(batch, Box::new(done));
    }

    fn is_clean(&self) -> bool {
        self.changed.is_empty() && !self.is_whole
    }
}

impl Device {
    /// Stores the device's state from now on. The current state is stored too, unless the storage
    /// `has_it`.
    pub fn keep_in(&mut self, storage: Box<dyn Storage>, cells: KeptCells, has_it: bool) {
        self.journal = Some(Journal {
            storage,
            cells,
            changed: BTreeSet::new(),
            is_whole: !has_it,
            is_held: false,
            next_cells: self.core.now + cells.every,
            retry_at: Nanos::ZERO,
            fate: Arc::default(),
        });
    }

    /// Stops storing. Returns the storage, which may still have batches to store.
    pub fn stop_keeping(&mut self) -> Option<Box<dyn Storage>> {
        self.journal.take().map(|journal| journal.storage)
    }

    /// Returns true if changes are stored.
    pub fn is_kept(&self) -> bool {
        self.journal.is_some()
    }

    /// Begins a batch: the following changes are stored atomically when it is committed.
    pub fn hold(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.is_held = true;
        }
    }

    /// Ends a batch and stores the changes. `done` gets the result. After a failure the device
    /// refuses further batches, until the notified caller has undone its changes and calls
    /// [`Device::is_undone`].
    pub fn commit(&mut self, done: Done) {
        let Some(mut journal) = self.journal.take() else {
            return done(Ok(()));
        };
        journal.is_held = false;
        match journal.make_ready() {
            Ok(goes_on) => journal.append(self, goes_on, Some(done)),
            Err(error) => {
                if let Some(failure) = &mut lock(&journal.fate).failure {
                    failure.is_to_be_undone = true;
                }
                done(Err(error));
            }
        }
        self.journal = Some(journal);
    }

    /// Confirms that the changes that could not be stored were undone.
    pub fn is_undone(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.is_held = false;
            journal.retry_at = self.core.now + RETRY_AFTER;
            if let Some(failure) = &mut lock(&journal.fate).failure {
                failure.is_to_be_undone = false;
            }
        }
    }

    /// Adds all cells that are stored by option to the next batch.
    pub fn keep_cells(&mut self) {
        if let Some(mut journal) = self.journal.take() {
            let places = journal.cell_places(self);
            journal.changed.extend(places);
            self.journal = Some(journal);
        }
    }

    /// Adds a record to the journal.
    pub(crate) fn journalise(&mut self, record: &Record) {
        if let Some(mut journal) = self.journal.take() {
            journal.note(self, record);
            self.journal = Some(journal);
        }
    }

    /// Stores the changes made by packets and by time, one batch after the other. No caller waits
    /// for the result.
    pub(crate) fn keep_own(&mut self) {
        let now = self.core.now;
        let Some(journal) = &mut self.journal else {
            return;
        };
        let has_cells = journal.cells.counters || journal.cells.registers;
        if has_cells && now >= journal.next_cells {
            journal.next_cells = now + journal.cells.every;
            self.keep_cells();
        }
        let Some(mut journal) = self.journal.take() else {
            return;
        };
        let is_due = {
            let fate = lock(&journal.fate);
            let has_failed = fate.failure.is_some();
            let waits = fate.own_under_way || has_failed && now < journal.retry_at;
            !journal.is_held && !waits && (has_failed || !journal.is_clean())
        };
        if is_due && let Ok(goes_on) = journal.make_ready() {
            if goes_on {
                journal.retry_at = now + RETRY_AFTER;
            }
            journal.append(self, goes_on, None);
        }
        self.journal = Some(journal);
    }
}
