//! Ports that recover: an interface that was removed and created again with the same name is
//! reopened, in the same network namespace and with the same I/O options.

use super::driver_selection::{OpenedPort, PortDriver, open_interface};
use super::netns::Netns;
use super::ring::RingPort;
use super::tap::TapPort;
use super::{link, sys};
use crate::{LinkState, Port, PortError, PortSpec, PortStats, PortTarget, TxDrop, TxOutcome};
use packet::{Batch, Frame, Nanos, PortId};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time between two checks for a removed interface: initially, and at most. It doubles with each
/// attempt to reopen the interface, so a port works again within a second after its interface can
/// be opened.
const FIRST_PAUSE: Nanos = Nanos::from_millis(50);
const MAX_PAUSE: Nanos = Nanos::from_millis(500);

/// Time between two checks whether a thread still opens the interface.
const OPENING_CHECK: Duration = Duration::from_millis(1);

/// Opens the port of a specification in the calling thread's network namespace, for `workers`
/// workers. The port recovers after its interface was removed, see [`Port::comes_back`].
///
/// # Errors
/// Those of [`open_interface`], [`TapPort::open`] or [`RingPort::open`].
pub fn open_kept(spec: &PortSpec, io: PortDriver, workers: usize) -> Result<OpenedPort, PortError> {
    let opened = open(spec, io, workers)?;
    if let PortTarget::Ring(_) = spec.target {
        // It is no interface, and recovers by itself.
        return Ok(opened);
    }
    let shares = opened.shares.into_iter().map(Some).collect();
    keep((spec, io, workers), shares, opened.how, Vec::new())
}

/// As [`open_kept`], but a port without an interface of its name is open, too: it waits for the
/// interface as for one that comes back, and [`PortError::Awaited`] is its first error.
///
/// # Errors
/// Those of [`open_kept`], without [`PortError::NoSuchInterface`].
pub fn open_awaited(
    spec: &PortSpec,
    io: PortDriver,
    workers: usize,
) -> Result<OpenedPort, PortError> {
    match open_kept(spec, io, workers) {
        Err(PortError::NoSuchInterface { existing, .. }) => {
            let shares = (0..workers.max(1)).map(|_| None).collect();
            keep((spec, io, workers), shares, String::new(), existing)
        }
        opened => opened,
    }
}

/// Returns the port with these shares, which are `None` if there is no interface yet: `existing`
/// are the names of those that there are.
fn keep(
    (spec, io, workers): (&PortSpec, PortDriver, usize),
    shares: Vec<Option<Box<dyn Port>>>,
    how: String,
    existing: Vec<String>,
) -> Result<OpenedPort, PortError> {
    let name = spec.name().to_owned();
    let control = link::control_socket().map_err(|source| PortError::System {
        doing: format!("asking about {name}"),
        source,
    })?;
    let common = Arc::new(Common {
        spec: spec.clone(),
        io,
        workers,
        netns: Netns::current().ok(),
        control,
        held: AtomicUsize::new(shares.iter().flatten().count()),
        is_opening: AtomicBool::new(false),
        fresh: Mutex::default(),
        closed: Mutex::default(),
    });
    let kept = |(place, port): (usize, Option<Box<dyn Port>>)| {
        let kept = KeptPort {
            awaits: port.is_none().then(|| existing.clone()),
            common: Arc::clone(&common),
            place,
            port,
            past: PortStats::default(),
            next_look: Nanos::ZERO,
            pause: FIRST_PAUSE,
        };
        Box::new(kept) as Box<dyn Port>
    };
    Ok(OpenedPort {
        shares: shares.into_iter().enumerate().map(kept).collect(),
        how,
    })
}

fn open(spec: &PortSpec, io: PortDriver, workers: usize) -> Result<OpenedPort, PortError> {
    match &spec.target {
        PortTarget::Interface(name) => open_interface(spec.id, name, io, workers),
        PortTarget::Tap(name) => TapPort::open(spec.id, name)
            .and_then(|port| OpenedPort::new(Box::new(port), "TAP", workers)),
        PortTarget::Ring(name) => RingPort::open(spec.id, name)
            .and_then(|port| OpenedPort::new(Box::new(port), "shared memory", workers)),
    }
}

/// State shared by all shares of a port.
struct Common {
    spec: PortSpec,
    io: PortDriver,
    workers: usize,
    /// Network namespace of the interface. `None` if it cannot be determined.
    netns: Option<Netns>,
    /// A socket in that namespace.
    control: OwnedFd,
    /// Number of shares that have the interface open. It may only be reopened when this is 0.
    held: AtomicUsize,
    /// True while a thread is reopening the interface.
    is_opening: AtomicBool,
    fresh: Mutex<Fresh>,
    closed: Mutex<Closed>,
}

/// Shares that their workers have closed, until a thread releases them: that takes milliseconds,
/// in which frames of other ports would wait. `late` counts what was in the queues between the
/// shares then.
#[derive(Default)]
struct Closed {
    shares: Vec<Box<dyn Port>>,
    late: PortStats,
}

/// Reopened shares, by share index, until each is fetched. `how` describes the driver.
#[derive(Default)]
struct Fresh {
    shares: Vec<Option<Box<dyn Port>>>,
    how: String,
}

impl Common {
    /// Locks the reopened shares. A poisoned lock is ignored: only a failed allocation can panic
    /// while it is held.
    fn fresh(&self) -> MutexGuard<'_, Fresh> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self) -> MutexGuard<'_, Closed> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the closed shares.
    fn release(&self) {
        let mut shares = std::mem::take(&mut self.closed().shares);
        let mut late = PortStats::default();
        for share in &mut shares {
            let before = share.stats();
            // Sends or drops the frames that other shares have queued here.
            share.tx(&[]);
            late.add(&share.stats().since(&before));
        }
        self.closed().late.add(&late);
    }

    /// Releases the closed shares and those that were opened and not fetched. Waits for a thread
    /// that opens the interface now, so that the interface is free afterwards.
    fn finish(&self) {
        while self.is_opening.swap(true, Ordering::AcqRel) {
            std::thread::sleep(OPENING_CHECK);
        }
        self.release();
        drop(std::mem::take(&mut *self.fresh()));
        self.is_opening.store(false, Ordering::Release);
    }

    fn exists(&self) -> bool {
        sys::if_index(self.control.as_fd(), self.spec.name()).is_ok()
    }

    /// Reopens the interface and stores the shares to be fetched.
    fn reopen(&self) {
        let open = || open(&self.spec, self.io, self.workers);
        let opened = match &self.netns {
            // A process without CAP_SYS_ADMIN cannot enter namespaces, not even its own.
            Some(netns) if !netns.is_current() => netns.run(open).ok(),
            _ => Some(open()),
        };
        // Errors are ignored: the next attempt may succeed.
        if let Some(Ok(opened)) = opened {
            *self.fresh() = Fresh {
                shares: opened.shares.into_iter().map(Some).collect(),
                how: opened.how,
            };
        }
    }
}

/// A share of a port that recovers.
struct KeptPort {
    common: Arc<Common>,
    /// Index of the share. Share 0 looks for the interface.
    place: usize,
    /// `None` while the interface is gone.
    port: Option<Box<dyn Port>>,
    /// The interfaces that there were when the port was opened, if its own was not among them and
    /// that was not reported.
    awaits: Option<Vec<String>>,
    /// Counters of earlier incarnations of the interface.
    past: PortStats,
    next_look: Nanos,
    pause: Nanos,
}

impl KeptPort {
    /// Closes the share, and keeps its counters. The interface is looked for from `next_look` on.
    fn let_go(&mut self, next_look: Nanos) {
        if let Some(mut port) = self.port.take() {
            // Makes the port count its unsent frames as dropped.
            port.tx(&[]);
            self.past.add(&port.stats());
            self.common.closed().shares.push(port);
            self.common.held.fetch_sub(1, Ordering::AcqRel);
            self.pause = FIRST_PAUSE;
            self.next_look = next_look;
        }
    }

    fn gone(&self) -> PortError {
        PortError::Gone {
            name: self.name().to_owned(),
        }
    }

    /// Starts a thread that releases the old shares and reopens the interface, if it exists again
    /// and no share has the old one open.
    fn look(&mut self, now: Nanos) {
        let common = &self.common;
        let is_held = common.held.load(Ordering::Acquire) > 0;
        if self.place > 0 || is_held || now < self.next_look {
            return;
        }
        self.next_look = now + self.pause;
        let exists = common.exists();
        let has_closed = !common.closed().shares.is_empty();
        if !(exists || has_closed) || common.is_opening.swap(true, Ordering::AcqRel) {
            return;
        }
        if exists {
            self.pause = Nanos(self.pause.0 * 2).min(MAX_PAUSE);
        }
        // Shares of an incarnation that was removed before all of them were fetched.
        let before = std::mem::take(&mut *common.fresh());
        let common = Arc::clone(common);
        // Opening takes milliseconds. On this thread it would delay the frames of other ports.
        let started = std::thread::Builder::new().spawn(move || {
            drop(before);
            common.release();
            if exists {
                common.reopen();
            }
            common.is_opening.store(false, Ordering::Release);
        });
        if started.is_err() {
            self.common.is_opening.store(false, Ordering::Release);
        }
    }
}

impl Port for KeptPort {
    fn id(&self) -> PortId {
        self.common.spec.id
    }

    fn name(&self) -> &str {
        self.common.spec.name()
    }

    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError> {
        let Some(port) = &mut self.port else {
            let name = self.name().to_owned();
            return Err(match self.awaits.take() {
                Some(existing) => PortError::Awaited { name, existing },
                None => self.gone(),
            });
        };
        let received = port.rx(batch, now);
        if let Err(PortError::Gone { .. }) = received {
            self.let_go(now + FIRST_PAUSE);
        }
        received
    }

    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        if let Some(port) = &mut self.port {
            return port.tx(frames);
        }
        let mut outcome = TxOutcome::default();
        let n = frames.len() as u64;
        self.past.count_tx_drop(TxDrop::LinkDown, n, &mut outcome);
        outcome
    }

    fn stats(&mut self) -> PortStats {
        let mut stats = self.past;
        if let Some(port) = &mut self.port {
            stats.add(&port.stats());
        }
        if self.place == 0 {
            stats.add(&self.common.closed().late);
        }
        stats
    }

    fn link(&self) -> LinkState {
        self.port.as_ref().map_or(LinkState::Gone, |p| p.link())
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.as_ref()?.poll_fd()
    }

    fn close(&mut self, now: Nanos) -> bool {
        self.let_go(now);
        true
    }

    fn finish(&mut self) {
        if let Some(port) = &mut self.port {
            port.finish();
        }
        self.common.finish();
    }

    fn comes_back(&mut self, now: Nanos) -> Option<String> {
        if self.port.is_some() {
            return None;
        }
        let (port, how) = {
            let mut fresh = self.common.fresh();
            let port = fresh.shares.get_mut(self.place).and_then(Option::take);
            (port, fresh.how.clone())
        };
        if port.is_none() {
            self.look(now);
            return None;
        }
        self.common.held.fetch_add(1, Ordering::AcqRel);
        self.port = port;
        Some(how)
    }
}
