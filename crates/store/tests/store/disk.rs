//! Simulated disk: it loses unsynced writes in a power failure, tears the last write, and can be
//! full.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use store::Medium;
use store::{Builder, Database, DatabaseError, StorageBackend};
use switch::StorageError;

/// Number of bytes that are written atomically.
const SECTOR: usize = 512;

/// Allocation unit in bytes.
const PAGE: u64 = 4096;

/// Power of one or more disks: the number of changes and syncs before it fails; `None` means never.
#[derive(Clone, Debug, Default)]
pub(crate) struct Power(Arc<Mutex<Option<u32>>>);

impl Power {
    /// Lets the power fail after this number of changes.
    pub(crate) fn cut_after(&self, changes: u32) {
        *self.left() = Some(changes);
    }

    /// Fails if the power is off, else counts one more change.
    pub(crate) fn spend(&self) -> io::Result<()> {
        match &mut *self.left() {
            None => Ok(()),
            Some(0) => Err(io::Error::other("the power is off")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    fn left(&self) -> MutexGuard<'_, Option<u32>> {
        self.0.lock().expect("no other thread panics")
    }
}

#[derive(Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

#[derive(Debug, Default)]
struct State {
    /// Contents that survive a power failure.
    synced: Vec<u8>,
    /// Contents that are read.
    now: Vec<u8>,
    unsynced: Vec<Change>,
    power: Power,
    /// Maximum number of pages, if limited.
    room: Option<usize>,
    used: BTreeSet<u64>,
    /// Number of next syncs that fail although everything is synced.
    late_errors: u32,
}

/// File on a simulated disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>);

fn apply(image: &mut Vec<u8>, change: &Change, bytes: usize) {
    match change {
        Change::Length(length) => image.resize(*length as usize, 0),
        Change::Write(offset, written) => {
            let (offset, bytes) = (*offset as usize, bytes.min(written.len()));
            if image.len() < offset + bytes {
                image.resize(offset + bytes, 0);
            }
            image[offset..offset + bytes].copy_from_slice(&written[..bytes]);
        }
    }
}

impl State {
    fn change(&mut self, change: Change) -> io::Result<()> {
        self.power.spend()?;
        if let Change::Write(offset, bytes) = &change {
            let pages = offset / PAGE..=(offset + bytes.len() as u64 - 1) / PAGE;
            let more = pages
                .clone()
                .filter(|page| !self.used.contains(page))
                .count();
            if self.room.is_some_and(|room| self.used.len() + more > room) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.used.extend(pages);
        }
        apply(&mut self.now, &change, usize::MAX);
        self.unsynced.push(change);
        Ok(())
    }
}

impl SimulatedDisk {
    /// Creates an empty file for a device's state.
    pub(crate) fn new() -> SimulatedDisk {
        let disk = SimulatedDisk::default();
        let database = Builder::new().create_with_backend(disk.clone());
        store::prepare(&database.expect("an empty file is fine")).expect("there is room");
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no other thread panics")
    }

    /// Lets the power fail after this number of changes.
    pub(crate) fn cut_after(&self, changes: u32) {
        self.state().power.cut_after(changes);
    }

    /// Returns a disk on which all that was written survives a power failure.
    pub(crate) fn synced(&self) -> SimulatedDisk {
        let image = self.state().now.clone();
        SimulatedDisk::with(image)
    }

    /// Gives the disk the power of other ones.
    pub(crate) fn powered_by(self, power: &Power) -> SimulatedDisk {
        self.state().power = power.clone();
        self
    }

    /// Limits the disk to its used pages and this number of further ones.
    pub(crate) fn fill(&self, pages: usize) {
        let mut state = self.state();
        state.room = Some(state.used.len() + pages);
    }

    /// Lets this number of next syncs fail after they have synced everything.
    pub(crate) fn fail_after_syncs(&self, count: u32) {
        self.state().late_errors = count;
    }

    /// Removes the limit.
    pub(crate) fn make_room(&self) {
        self.state().room = None;
    }

    /// Returns the file after a power failure: any part of the unsynced changes is kept, and the
    /// last one is torn. `draw` returns numbers below its argument.
    pub(crate) fn after_cut(&self, mut draw: impl FnMut(usize) -> usize) -> SimulatedDisk {
        let state = self.state();
        let mut image = state.synced.clone();
        let last = state.unsynced.len().saturating_sub(1);
        for (at, change) in state.unsynced.iter().enumerate() {
            let sectors = match change {
                Change::Write(_, bytes) => bytes.len().div_ceil(SECTOR),
                Change::Length(_) => 1,
            };
            if at == last {
                apply(
                    &mut image,
                    change,
                    draw(sectors + 1) * SECTOR + draw(SECTOR),
                );
            } else if draw(2) == 0 {
                apply(&mut image, change, usize::MAX);
            }
        }
        SimulatedDisk::with(image)
    }

    /// Creates a file with these bytes.
    pub(crate) fn with(image: Vec<u8>) -> SimulatedDisk {
        let state = State {
            now: image.clone(),
            synced: image,
            ..State::default()
        };
        SimulatedDisk(Arc::new(Mutex::new(state)))
    }
}

impl StorageBackend for SimulatedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let from = state.now.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.state().change(Change::Length(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state();
        state.power.spend()?;
        let changes = std::mem::take(&mut state.unsynced);
        for change in &changes {
            apply(&mut state.synced, change, usize::MAX);
        }
        if state.late_errors > 0 {
            state.late_errors -= 1;
            return Err(io::Error::other("the disk answers too late"));
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.state().change(Change::Write(offset, bytes.to_vec()))
    }
}

impl Medium for SimulatedDisk {
    fn open(&self, builder: &Builder) -> Result<Database, DatabaseError> {
        builder.create_with_backend(self.clone())
    }

    fn create(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn name(&self) -> String {
        "the simulated disk".to_owned()
    }
}
