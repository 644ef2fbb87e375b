//! A simulated disk: it forgets what was not synced when the power is cut, tears the last write, and fills.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use store::Medium;
use store::{Builder, Database, DatabaseError, StorageBackend};

/// Bytes that are written or not as one.
const SECTOR: usize = 512;

/// Bytes that room is given by.
const PAGE: u64 = 4096;

#[derive(Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

#[derive(Debug, Default)]
struct State {
    /// What a power cut leaves for certain.
    synced: Vec<u8>,
    /// What is read.
    now: Vec<u8>,
    unsynced: Vec<Change>,
    /// Changes and syncs that are made yet before the power goes; without it, it stays.
    left: Option<u32>,
    /// Pages that there are, if they are limited.
    room: Option<usize>,
    used: BTreeSet<u64>,
}

/// A file on such a disk.
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
    /// Whether the power is still there for one more change.
    fn spend(&mut self) -> io::Result<()> {
        match &mut self.left {
            None => Ok(()),
            Some(0) => Err(io::Error::other("the power is off")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    fn change(&mut self, change: Change) -> io::Result<()> {
        self.spend()?;
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
    /// An empty file that a device's state can be in.
    pub(crate) fn new() -> SimulatedDisk {
        let disk = SimulatedDisk::default();
        let database = Builder::new().create_with_backend(disk.clone());
        store::prepare(&database.expect("an empty file is fine")).expect("there is room");
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no other thread panics")
    }

    /// The power goes after so many more changes.
    pub(crate) fn cut_after(&self, changes: u32) {
        self.state().left = Some(changes);
    }

    /// No more pages than those that are used, and so many.
    pub(crate) fn fill(&self, pages: usize) {
        let mut state = self.state();
        state.room = Some(state.used.len() + pages);
    }

    /// There is room again.
    pub(crate) fn make_room(&self) {
        self.state().room = None;
    }

    /// The file as the power cut leaves it: of what was not synced, any part, the last one torn. `draw` gives numbers below its argument.
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

    /// A file with these bytes.
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
        state.spend()?;
        let changes = std::mem::take(&mut state.unsynced);
        for change in &changes {
            apply(&mut state.synced, change, usize::MAX);
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

    fn name(&self) -> String {
        "the simulated disk".to_owned()
    }
}
