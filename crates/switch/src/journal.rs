//! The log's way out of a device: what changes, in the order of changes, goes to a [`Storage`], batch by batch. The device never waits for it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use packet::Nanos;

use crate::control::Record;
use crate::device::Device;
use crate::object::{self, Changed, Object, Place};

/// How long the device waits before it tries again to keep what nobody waits for.
const RETRY_AFTER: Nanos = Nanos::from_millis(1000);

/// Why something could not be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageError {
    /// Whether there was no room.
    pub is_full: bool,
    /// What is wrong, where, and what to do.
    pub message: String,
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StorageError {}

/// Told whether a batch is kept: it is behind the last one that was kept then, and nothing takes it away, not even a power cut.
pub type Done = Box<dyn FnOnce(Result<(), StorageError>) + Send>;

/// Changes that are kept together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Whether these objects are all that there is: what was kept before goes.
    pub is_whole: bool,
    /// Whether the device knows that a batch was not kept, and has gone back to what was.
    pub goes_on: bool,
    /// What is at places now; nothing for what has gone. In the order of places.
    pub objects: Vec<(Place, Option<Object>)>,
}

/// Keeps a device's state.
pub trait Storage: Send {
    /// Takes a batch; never waits. Batches are kept in the order in which they come. After one that is not kept, all are refused until one goes on.
    fn append(&mut self, batch: Batch, done: Done);
}

/// What is kept of cells that packets write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptCells {
    /// Counters, direct ones among them.
    pub counters: bool,
    /// Registers.
    pub registers: bool,
    /// How often; what a controller writes is kept at once.
    pub every: Nanos,
}

/// What became of batches, told from the storage's side.
#[derive(Default)]
struct Fate {
    /// Batches that are under way.
    under_way: usize,
    /// Whether one of them is of what nobody waits for.
    own_under_way: bool,
    failure: Option<Failure>,
}

/// What was not kept.
#[derive(Debug)]
struct Failure {
    error: StorageError,
    places: Vec<Place>,
    is_whole: bool,
    /// Whether somebody was told so, who takes his changes back.
    is_to_be_undone: bool,
}

/// The device's end.
pub(crate) struct Journal {
    storage: Box<dyn Storage>,
    cells: KeptCells,
    changed: BTreeSet<Place>,
    is_whole: bool,
    /// Within a batch of the control plane, of which nothing is to be kept alone.
    is_held: bool,
    next_cells: Nanos,
    retry_at: Nanos,
    fate: Arc<Mutex<Fate>>,
}

fn lock(fate: &Mutex<Fate>) -> MutexGuard<'_, Fate> {
    fate.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journal {
    /// Notes what a record has changed.
    fn note(&mut self, device: &Device, record: &Record) {
        let places = match object::changed(device, record) {
            Changed::Everything => return self.is_whole = true,
            Changed::Places(places) => places,
        };
        let cells = self.cells;
        self.changed
            .extend(places.into_iter().filter(|place| match place {
                Place::Counters(..) | Place::DirectCounter(..) => cells.counters,
                Place::Registers(..) => cells.registers,
                _ => true,
            }));
    }

    /// What is to be kept now.
    fn gather(&mut self, device: &Device) -> Batch {
        let mut places = std::mem::take(&mut self.changed);
        let is_whole = std::mem::take(&mut self.is_whole);
        if is_whole {
            places = object::all_places(device);
            places.extend(self.cell_places(device));
        }
        let cleared = places.iter().filter_map(|place| match place {
            Place::Entries(table) => Some(*table),
            _ => None,
        });
        let left: Vec<Place> = cleared
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

    fn cell_places(&self, device: &Device) -> Vec<Place> {
        let mut places = Vec::new();
        if self.cells.counters {
            places.extend(object::counters_of(device));
        }
        if self.cells.registers {
            places.extend(object::registers_of(device));
        }
        places
    }

    /// Whether a batch can go now; a failure that is over is taken up. Otherwise why not.
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
        let places: Vec<Place> = batch
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
    /// Keeps the device's state in a storage from now on; all that there is now too, unless the storage `has_it`.
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

    /// Whether what changes is kept.
    pub fn is_kept(&self) -> bool {
        self.journal.is_some()
    }

    /// A batch begins: what changes from now on is kept together, when it is committed.
    pub fn hold(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.is_held = true;
        }
    }

    /// Ends a batch, and has kept what was changed; `done` is told when it is. If it is not, the device refuses to keep more until the one who was told so
    /// has taken back what he had done since, and says so ([`Device::is_undone`]).
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

    /// What was not kept has been taken back.
    pub fn is_undone(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.is_held = false;
            journal.retry_at = self.core.now + RETRY_AFTER;
            if let Some(failure) = &mut lock(&journal.fate).failure {
                failure.is_to_be_undone = false;
            }
        }
    }

    /// Has all cells that are kept by choice kept with the next batch.
    pub fn keep_cells(&mut self) {
        if let Some(mut journal) = self.journal.take() {
            let places = journal.cell_places(self);
            journal.changed.extend(places);
            self.journal = Some(journal);
        }
    }

    /// Notes a record for the storage.
    pub(crate) fn journalise(&mut self, record: &Record) {
        if let Some(mut journal) = self.journal.take() {
            journal.note(self, record);
            self.journal = Some(journal);
        }
    }

    /// Has kept what packets and time have changed, one batch after the other; nobody waits for it.
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
