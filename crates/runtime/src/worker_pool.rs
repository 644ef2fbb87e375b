//! Worker pool of a switch: its worker threads and the ports that are distributed among them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use packet::{Nanos, PortId};
use port::{LinkState, OpenedPort, PortStats};
use support::wakeup::WakeupFd;
use switch::Ledger;

use crate::RuntimeError;
use crate::observation::PacketObservers;
use crate::packet_processor::ThreadProcessor;
use crate::port_commands::{PortCommand, PortCommands};
use crate::report::{PortReport, WorkerReport};
use crate::worker_thread::{
    Common, EventSender, Parts, SharedStats, WorkerConfig, WorkerEvent, WorkerThread,
};

/// Time that a switch waits for a port when all ports are gone.
const GRACE: Nanos = Nanos::from_millis(3000);

/// Stack size of a worker. Programs use little of it.
const STACK_BYTES: usize = 4 << 20;

/// Worker threads, with the control loop's side of their shared state.
pub struct WorkerPool<C> {
    stations: Vec<WorkerThread<C>>,
    boards: Vec<Arc<SharedStats>>,
    commands: Vec<Arc<PortCommands>>,
    names: Vec<(PortId, String)>,
    /// Number of ports so far, which chooses the owner of the next one.
    dealt: usize,
    /// Counts of removed ports that no worker has.
    late: Vec<((PortId, String), PortStats)>,
    common: Arc<Common>,
    told: Receiver<WorkerEvent>,
    events: EventSender,
    /// Time since which no port is usable.
    alone_since: Option<Nanos>,
}

impl<C: ThreadProcessor> WorkerPool<C> {
    /// Creates one worker per port share and distributes the ports among them. `carriers` creates
    /// a packet processor for each worker; its arguments are the number of workers and the event
    /// sender.
    ///
    /// # Errors
    /// The operating system provides no descriptors.
    pub fn new(
        ports: Vec<OpenedPort>,
        habits: WorkerConfig,
        carriers: impl FnOnce(usize, &EventSender) -> Vec<C>,
    ) -> Result<WorkerPool<C>, RuntimeError> {
        let workers = ports.first().map_or(1, |port| port.shares.len());
        let first = |port: &OpenedPort| port.shares.first().map(|share| share.id());
        let drivers = ports
            .iter()
            .filter_map(|port| Some((first(port)?, port.how.clone())));
        let drivers = drivers.collect();
        let shares = deal(ports, workers);
        let names = shares.first().into_iter().flatten();
        let names: Vec<_> = names
            .map(|(port, _)| (port.id(), port.name().to_owned()))
            .collect();
        let no_descriptor = RuntimeError::system("make a descriptor to wait for");
        let bell = || WakeupFd::new().map_err(&no_descriptor);
        let common = Arc::new(Common {
            start: Instant::now(),
            is_over: AtomicBool::new(false),
            told_kinds: Mutex::default(),
            drivers: Mutex::new(drivers),
            alive: AtomicUsize::new(names.len() * workers),
            office: bell()?,
            observers: Arc::new(PacketObservers::at(&names)),
            drop_sites: Arc::default(),
        });
        let (tell, told) = channel();
        let events = EventSender {
            events: tell.clone(),
            common: Arc::clone(&common),
        };
        let carriers = carriers(workers, &events).into_iter().zip(shares);
        let stations = carriers.enumerate().map(|(number, (carrier, shares))| {
            Ok(WorkerThread::new(Parts {
                number,
                carrier,
                shares,
                bell: Arc::new(bell()?),
                habits: habits.clone(),
                common: Arc::clone(&common),
                tell: tell.clone(),
            }))
        });
        let mut stations: Vec<WorkerThread<C>> = stations.collect::<Result<_, RuntimeError>>()?;
        stations.iter_mut().for_each(WorkerThread::finish);
        Ok(WorkerPool {
            boards: stations.iter().map(|s| Arc::clone(s.board())).collect(),
            commands: stations.iter().map(|s| Arc::clone(s.commands())).collect(),
            stations,
            dealt: names.len(),
            late: Vec::new(),
            names,
            common,
            told,
            events,
            alone_since: None,
        })
    }

    /// Takes the workers out, to be run. May be called once.
    pub fn take_threads(&mut self) -> WorkerThreads<C> {
        WorkerThreads {
            stations: std::mem::take(&mut self.stations),
            common: Arc::clone(&self.common),
        }
    }

    /// Returns the state shared by the workers and the control loop.
    pub(crate) fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// Returns the wake-up descriptor of the first worker. Must be called before
    /// [`WorkerPool::take_threads`].
    pub(crate) fn first_bell(&self) -> Option<Arc<WakeupFd>> {
        self.stations.first().map(|s| Arc::clone(s.bell()))
    }

    /// Returns the time since the start of the pool, which is the clock of its devices.
    pub fn now(&self) -> Nanos {
        self.common.now()
    }

    /// Returns the clock of [`WorkerPool::now`].
    pub fn clock(&self) -> impl Fn() -> Nanos + Send + 'static {
        let common = Arc::clone(&self.common);
        move || common.now()
    }

    /// Returns the observers of the workers' packets.
    pub fn observers(&self) -> &Arc<PacketObservers> {
        &self.common.observers
    }

    /// Returns the sender of the workers' events.
    pub(crate) fn events(&self) -> &EventSender {
        &self.events
    }

    /// Returns the next event of a worker.
    pub fn next_event(&self) -> Option<WorkerEvent> {
        self.told.try_recv().ok()
    }

    /// Returns the statistics that the workers publish.
    pub(crate) fn boards(&self) -> &[Arc<SharedStats>] {
        &self.boards
    }

    /// Returns the frame counts of the workers.
    pub(crate) fn worker_reports(&self) -> Vec<WorkerReport> {
        let boards = self.boards.iter().enumerate();
        let report = |(number, board): (usize, &Arc<SharedStats>)| {
            let figures = board.read();
            let sum = figures.all_stats();
            WorkerReport {
                received: sum.rx_frames,
                sent: sum.tx_frames,
                ..WorkerReport::new(number, &figures, &Ledger::default())
            }
        };
        boards.map(report).collect()
    }

    /// Returns true if no port has been usable for the grace period. Until then, a removed port
    /// may be created again.
    pub(crate) fn has_no_port_left(&mut self) -> bool {
        if self.common.alive.load(Ordering::Acquire) > 0 {
            self.alone_since = None;
            return false;
        }
        let now = self.common.now();
        now.since(*self.alone_since.get_or_insert(now)) >= GRACE
    }

    /// Returns the descriptor on which the control loop sleeps: events wake it.
    pub fn wakeup(&self) -> &WakeupFd {
        &self.common.office
    }

    /// Returns the ports with their names.
    pub fn ports(&self) -> &[(PortId, String)] {
        &self.names
    }

    /// Returns the counts of each of [`WorkerPool::ports`], and true if its link is up, as the
    /// workers have published them.
    pub fn port_stats(&self) -> Vec<(PortStats, bool)> {
        let mut sums: BTreeMap<PortId, (PortStats, bool)> = BTreeMap::new();
        for (number, board) in self.boards.iter().enumerate() {
            for share in &board.read().ports {
                let (sum, is_up) = sums.entry(share.port).or_default();
                sum.add(&share.stats);
                // All shares know the link state; the first one reports it.
                *is_up |= number == 0 && share.link == LinkState::Up;
            }
        }
        let removed = self.removed_stats();
        let stats = |port: &(PortId, String)| {
            let (mut sum, is_up) = sums.get(&port.0).copied().unwrap_or_default();
            if let Some(before) = removed.get(port) {
                sum.add(before);
            }
            (sum, is_up)
        };
        self.names.iter().map(stats).collect()
    }

    /// Returns the counts of ports that were removed, by number and interface.
    fn removed_stats(&self) -> BTreeMap<(PortId, String), PortStats> {
        let mut sums: BTreeMap<_, PortStats> = BTreeMap::new();
        let mut add = |(port, stats): &((PortId, String), PortStats)| {
            sums.entry(port.clone()).or_default().add(stats);
        };
        for board in &self.boards {
            board.read().removed.iter().for_each(&mut add);
        }
        self.late.iter().for_each(add);
        sums
    }

    /// Returns the frame counts of the ports: of those that the switch has, and then of those that
    /// were removed, which have no link state.
    pub fn port_reports(&self) -> Vec<PortReport> {
        let ports = self.names.iter().zip(self.port_stats());
        let report = |((id, name), (stats, up)): (&(PortId, String), (PortStats, bool))| {
            PortReport::new(id.0, name, &stats, Some(up))
        };
        let mut reports: Vec<PortReport> = ports.map(report).collect();
        let removed = self.removed_stats();
        let gone = removed
            .iter()
            .filter(|(port, _)| !self.names.contains(port));
        reports.extend(gone.map(|((id, name), stats)| PortReport::new(id.0, name, stats, None)));
        reports
    }

    /// Returns the link states of a port's shares. A worker that has not published the share yet
    /// has none.
    pub(crate) fn links(&self, port: PortId) -> Vec<Option<LinkState>> {
        let link = |board: &Arc<SharedStats>| {
            let figures = board.read();
            let share = figures.ports.iter().find(|share| share.port == port);
            share.map(|share| share.link)
        };
        self.boards.iter().map(link).collect()
    }

    /// Adds a port with a share for each worker, while they run.
    pub(crate) fn attach(&mut self, port: OpenedPort) {
        let workers = self.commands.len();
        let Some(first) = port.shares.first() else {
            return;
        };
        self.observers().ports().add(first.id(), first.name());
        self.names.push((first.id(), first.name().to_owned()));
        self.common.drivers().insert(first.id(), port.how.clone());
        for (share, part) in port.shares.into_iter().enumerate() {
            let worker = owner_of_share(self.dealt, share, workers);
            self.commands[worker].give(PortCommand::Attach(part, share == 0));
        }
        self.dealt += 1;
    }

    /// Removes a port while the workers run. Its shares come back by the receiver, one for each
    /// worker.
    pub(crate) fn detach(&mut self, port: PortId) -> Receiver<Box<dyn port::Port>> {
        let (removed, shares) = channel();
        for commands in &self.commands {
            commands.give(PortCommand::Detach(port, removed.clone()));
        }
        self.names.retain(|(id, _)| *id != port);
        self.observers().ports().remove(port);
        self.common.drivers().remove(&port);
        shares
    }

    /// Closes the shares of a port, so that they are opened again. The receiver has an answer of
    /// each worker: false if the port cannot be reopened.
    pub(crate) fn reopen(&self, port: PortId) -> Receiver<bool> {
        let (closed, answers) = channel();
        for commands in &self.commands {
            commands.give(PortCommand::Reopen(port, closed.clone()));
        }
        answers
    }

    /// Returns the drivers of the ports.
    pub(crate) fn drivers(&self) -> MutexGuard<'_, BTreeMap<PortId, String>> {
        self.common.drivers()
    }

    /// Adds counts of a removed port that its workers do not have.
    pub(crate) fn add_late(&mut self, port: (PortId, String), stats: PortStats) {
        match self.late.iter_mut().find(|(known, _)| *known == port) {
            Some((_, before)) => before.add(&stats),
            None => self.late.push((port, stats)),
        }
    }

    /// Returns the number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.commands.len()
    }
}

/// Workers that run on threads.
pub struct WorkerThreads<C> {
    stations: Vec<WorkerThread<C>>,
    common: Arc<Common>,
}

impl<C: ThreadProcessor> WorkerThreads<C> {
    /// Runs the workers while `office`, the control loop, runs on this thread. The argument of
    /// `office` returns true if a worker has ended.
    ///
    /// # Errors
    /// The operating system provides no threads, or the threads cannot wait for their ports. Also
    /// the errors of `office`.
    pub fn run<T, E: From<RuntimeError>>(
        mut self,
        office: impl FnOnce(&dyn Fn() -> bool) -> Result<T, E>,
    ) -> Result<T, E> {
        let bells: Vec<Arc<WakeupFd>> =
            self.stations.iter().map(|s| Arc::clone(s.bell())).collect();
        let ended = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut started = Ok(());
            for (number, station) in self.stations.iter_mut().enumerate() {
                let builder = std::thread::Builder::new();
                let builder = builder
                    .name(format!("worker {number}"))
                    .stack_size(STACK_BYTES);
                match builder.spawn_scoped(scope, || station.run()) {
                    Ok(thread) => threads.push(thread),
                    Err(e) => started = Err(RuntimeError::system("start a thread")(e)),
                }
            }
            let has_ended = || threads.iter().any(|thread| thread.is_finished());
            let ended = started.map_err(E::from).and_then(|()| office(&has_ended));
            self.common.is_over.store(true, Ordering::Release);
            bells.iter().for_each(|bell| bell.wake());
            let mut worked = Ok(());
            for thread in threads {
                match thread.join() {
                    Ok(done) => worked = worked.and(done),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            worked.map_err(E::from).and(ended)
        });
        self.stations.iter_mut().for_each(WorkerThread::finish);
        ended
    }
}

/// Distributes the shares of the ports among the workers, so that each worker owns some ports.
/// The owner's share reports events of the port.
fn deal(ports: Vec<OpenedPort>, workers: usize) -> Vec<Vec<(Box<dyn port::Port>, bool)>> {
    let mut dealt: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
    for (number, port) in ports.into_iter().enumerate() {
        for (share, part) in port.shares.into_iter().enumerate() {
            dealt[owner_of_share(number, share, workers)].push((part, share == 0));
        }
    }
    dealt
}

/// Returns the worker of a share of the port with this place among all ports.
fn owner_of_share(place: usize, share: usize, workers: usize) -> usize {
    (place + share) % workers
}
