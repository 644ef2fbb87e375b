//! Snapshots of what decides where a request goes: the group of servers, and the requests that the
//! switch holds. The control thread exchanges them, and a worker uses one for a whole burst.
//!
//! A worker has a slot with the version that it uses, or 0 between bursts. [`Versions::publish`]
//! returns after all slots have the new version or 0. No later packet is handled by an older one.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use placement::{Group, ServerId};

use crate::flights::Flights;
use crate::gate::Gate;
use crate::owners::CutOwners;
use crate::requests::ServerPort;

/// Locks a mutex. A thread that panicked with the lock left a value that is still right.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Snapshot for the workers of a switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    version: u64,
    /// The group; `None` without a server.
    pub(crate) group: Option<Group>,
    /// All servers that requests may go to.
    pub(crate) servers: Vec<ServerPort>,
    /// Servers that failed.
    pub(crate) down: Vec<ServerId>,
    /// Servers that left the group and have no flows any more. They may still answer requests.
    pub(crate) gone: Vec<ServerId>,
    /// Owners of leased values, by cut.
    pub(crate) owners: CutOwners,
    /// Entries that are being installed.
    pub(crate) gates: Vec<Arc<Gate>>,
    /// Counts of requests for the placement of entries, if a policy needs them.
    pub(crate) flights: Option<Arc<Flights>>,
}

impl View {
    /// Returns true if packets with a value that the server has leased may go to it.
    pub(crate) fn is_reachable(&self, server: ServerId) -> bool {
        !self.down.contains(&server)
            && !self.gone.contains(&server)
            && self.servers.iter().any(|known| known.server == server)
    }
}

/// Versions of the view, and the workers that use them.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    view: Mutex<Arc<View>>,
    version: AtomicU64,
    slots: Mutex<Vec<Arc<AtomicU64>>>,
}

impl Versions {
    /// Gives workers a new view. Returns when no worker uses an older one. Only one thread calls
    /// this at a time.
    pub(crate) fn publish(&self, mut view: View) {
        let version = self.version.load(SeqCst) + 1;
        view.version = version;
        *lock(&self.view) = Arc::new(view);
        self.version.store(version, SeqCst);
        let slots = lock(&self.slots).clone();
        for slot in slots {
            while !(slot.load(SeqCst) == 0 || slot.load(SeqCst) > version) {
                std::thread::yield_now();
            }
        }
    }

    /// Returns the current view.
    pub(crate) fn current(&self) -> Arc<View> {
        Arc::clone(&lock(&self.view))
    }

    /// Adds a worker.
    pub(crate) fn reader(&self) -> ViewReader {
        let slot: Arc<AtomicU64> = Arc::default();
        let mut slots = lock(&self.slots);
        slots.retain(|slot| Arc::strong_count(slot) > 1);
        slots.push(Arc::clone(&slot));
        ViewReader {
            slot,
            view: self.current(),
        }
    }
}

/// View of one worker.
#[derive(Debug)]
pub(crate) struct ViewReader {
    /// Version in use plus 1, or 0.
    slot: Arc<AtomicU64>,
    pub(crate) view: Arc<View>,
}

impl ViewReader {
    /// Begins a burst with the newest view.
    #[inline]
    pub(crate) fn begin(&mut self, versions: &Versions) {
        loop {
            let version = versions.version.load(SeqCst);
            self.slot.store(version + 1, SeqCst);
            if versions.version.load(SeqCst) == version {
                if self.view.version != version {
                    self.view = versions.current();
                }
                return;
            }
        }
    }

    /// Ends a burst.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.slot.store(0, SeqCst);
    }
}

impl Drop for ViewReader {
    fn drop(&mut self) {
        self.end();
    }
}
