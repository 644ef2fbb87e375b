//! Worker thread: its share of each port, and the loop that forwards frames between ports.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use exec::DropReason;
use packet::{Batch, Frame, Nanos, PortId};
use port::{Cores, LinkState, Poller, Port, PortError, PortStats, Reason, RxDrop};
use support::wakeup::WakeupFd;

use crate::RuntimeError;
use crate::observation::{
    DropSites, PacketObservers, ReceivedObservers, SentObservers, Unrendered,
};
use crate::packet_processor::ThreadProcessor;
use crate::port_commands::{PortCommand, PortCommands};
use crate::trace_filter::TracedPacket;

/// Maximum sleep of a worker, and so the maximum time between two checks of the links.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// Interval of link checks and published statistics under load.
const LOOK_EVERY: Nanos = Nanos::from_millis(5);

/// Time that a link must be down before it is reported. An interface that is being removed first
/// goes down, and is only reported as gone.
const SETTLE: Nanos = Nanos::from_millis(150);

/// Number of frames that a port gives in one turn. A round has room for at least one turn.
const TURN: usize = Batch::DEFAULT;

/// Event that a worker reports to the control loop.
pub enum WorkerEvent {
    /// A line about a port.
    Notice(String),
    /// A port went down or came up.
    Link(PortId, bool),
    /// A traced packet.
    Traced(Box<TracedPacket>),
    /// A traced packet for an observer.
    Observed(Box<Unrendered>),
}

/// Sender of events to the control loop, for packet processors.
#[derive(Clone)]
pub struct EventSender {
    pub(crate) events: Sender<WorkerEvent>,
    pub(crate) common: Arc<Common>,
}

impl EventSender {
    /// Sends an event, and wakes the control loop.
    pub fn send(&self, event: WorkerEvent) {
        // The control loop receives as long as workers run.
        let _ = self.events.send(event);
        self.common.office.wake();
    }
}

/// State shared by the workers and the control loop.
pub(crate) struct Common {
    /// Start of the device's clock.
    pub(crate) start: Instant,
    /// True if workers must end.
    pub(crate) is_over: AtomicBool,
    /// Kinds of frames that ports cannot forward, as far as they were reported.
    pub(crate) told_kinds: Mutex<Vec<(PortId, RxDrop)>>,
    /// Drivers of the ports, for reports.
    pub(crate) drivers: Mutex<BTreeMap<PortId, String>>,
    /// Number of port shares that may still work.
    pub(crate) alive: AtomicUsize,
    /// Wake-up descriptor of the control loop.
    pub(crate) office: WakeupFd,
    /// Observers of packets.
    pub(crate) observers: Arc<PacketObservers>,
    /// Places of drops in the program.
    pub(crate) drop_sites: Arc<DropSites>,
}

impl Common {
    /// Locks the drivers of the ports. Workers do so when a port comes back only.
    pub(crate) fn drivers(&self) -> MutexGuard<'_, BTreeMap<PortId, String>> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since the start, which is the device's clock.
    pub(crate) fn now(&self) -> Nanos {
        Nanos::from(self.start.elapsed())
    }
}

/// Statistics of a worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// The core that it is pinned to, if any.
    pub(crate) core: Option<usize>,
    /// Its port shares.
    pub(crate) ports: Vec<ShareFigures>,
    /// Counters of shares that were removed, by port and interface.
    pub(crate) removed: Vec<((PortId, String), PortStats)>,
    /// Number of rounds with frames.
    pub(crate) bursts: u64,
    /// Number of sleeps.
    pub(crate) sleeps: u64,
    /// Total duration of the rounds with frames.
    pub(crate) busy: Nanos,
}

/// Statistics of a port share.
#[derive(Clone, Debug)]
pub(crate) struct ShareFigures {
    pub(crate) port: PortId,
    pub(crate) stats: PortStats,
    pub(crate) link: LinkState,
}

impl Figures {
    /// Returns the counters of all shares.
    pub(crate) fn all_stats(&self) -> PortStats {
        let shares = self.ports.iter().map(|share| &share.stats);
        let removed = self.removed.iter().map(|(_, stats)| stats);
        let mut sum = PortStats::default();
        shares.chain(removed).for_each(|stats| sum.add(stats));
        sum
    }

    /// Keeps the counters of a share that is removed.
    fn keep(&mut self, port: (PortId, String), stats: &PortStats) {
        match self.removed.iter_mut().find(|(known, _)| *known == port) {
            Some((_, before)) => before.add(stats),
            None => self.removed.push((port, *stats)),
        }
    }
}

/// Published statistics of a worker.
#[derive(Default)]
pub(crate) struct SharedStats(Mutex<Figures>);

impl SharedStats {
    /// Returns the statistics published last.
    pub(crate) fn read(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Configuration of the workers of a device.
#[derive(Clone, Debug, Default)]
pub struct WorkerConfig {
    /// CPU affinity by worker. Workers without one are placed by the system.
    pub cores: Vec<Cores>,
    /// Time that a worker keeps polling before it sleeps.
    pub spin: Duration,
}

/// A worker thread.
pub(crate) struct WorkerThread<C> {
    number: usize,
    carrier: C,
    observers: ReceivedObservers,
    ports: Ports,
    batch: Batch,
    poller: Poller,
    bell: Arc<WakeupFd>,
    commands: Arc<PortCommands>,
    board: Arc<SharedStats>,
    figures: Figures,
    habits: WorkerConfig,
    common: Arc<Common>,
    tell: Sender<WorkerEvent>,
}

/// Parts of a worker thread.
pub(crate) struct Parts<C> {
    pub(crate) number: usize,
    pub(crate) carrier: C,
    /// The worker's share of each port. The flag is true for the share that reports the port's
    /// events.
    pub(crate) shares: Vec<(Box<dyn Port>, bool)>,
    pub(crate) bell: Arc<WakeupFd>,
    pub(crate) habits: WorkerConfig,
    pub(crate) common: Arc<Common>,
    pub(crate) tell: Sender<WorkerEvent>,
}

impl<C: ThreadProcessor> WorkerThread<C> {
    pub(crate) fn new(parts: Parts<C>) -> WorkerThread<C> {
        let shares = parts.shares.into_iter();
        let attached: Vec<Attached> = shares
            .map(|(port, tells)| Attached::new(port, tells))
            .collect();
        let ring = Arc::clone(&parts.bell);
        parts.carrier.wake_by(move || ring.wake());
        let control = &parts.common.observers;
        WorkerThread {
            number: parts.number,
            observers: ReceivedObservers::new(parts.number, control, &parts.common.drop_sites),
            batch: Batch::with_capacity(parts.carrier.round()),
            carrier: parts.carrier,
            ports: Ports::new(attached, SentObservers::new(control)),
            poller: Poller::new(),
            commands: Arc::new(PortCommands::new(&parts.bell)),
            bell: parts.bell,
            board: Arc::default(),
            figures: Figures::default(),
            habits: parts.habits,
            common: parts.common,
            tell: parts.tell,
        }
    }

    /// Returns the worker's published statistics.
    pub(crate) fn board(&self) -> &Arc<SharedStats> {
        &self.board
    }

    /// Returns the worker's wake-up descriptor.
    pub(crate) fn bell(&self) -> &Arc<WakeupFd> {
        &self.bell
    }

    /// Returns the queue of commands about its port shares.
    pub(crate) fn commands(&self) -> &Arc<PortCommands> {
        &self.commands
    }

    /// Forwards frames on the calling thread until [`Common::is_over`].
    ///
    /// # Errors
    /// The thread cannot wait for its ports.
    pub(crate) fn run(&mut self) -> Result<(), RuntimeError> {
        if let Some(cores) = self.habits.cores.get(self.number)
            && cores.keep_to().is_ok()
        {
            self.figures.core = cores.only();
        }
        let mut next_look = Nanos::ZERO;
        let mut awake_until = Nanos::ZERO;
        let mut busy_since = None;
        while !self.common.is_over.load(Ordering::Acquire) {
            let now = self.common.now();
            // The clock is read once per round, so the duration of a round is known in the next
            // one.
            if let Some(since) = busy_since.take() {
                self.figures.busy += now.since(since);
            }
            if self.commands.has_any() {
                self.obey(now);
            }
            let received = self.carry(now);
            if now >= next_look {
                next_look = now + LOOK_EVERY;
                self.look(now);
            }
            if received > 0 {
                self.figures.bursts += 1;
                busy_since = Some(now);
                awake_until = now + Nanos::from(self.habits.spin);
            } else if now >= awake_until {
                self.look(now);
                self.sleep(now)?;
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// Carries out the commands of the control loop.
    fn obey(&mut self, now: Nanos) {
        while let Some(command) = self.commands.take() {
            match command {
                PortCommand::Attach(port, tells) => {
                    self.common.alive.fetch_add(1, Ordering::AcqRel);
                    self.ports.attach(Attached::new(port, tells));
                    self.post();
                }
                PortCommand::Detach(port, removed) => {
                    if let Some(share) = self.detach(port) {
                        // The control loop receives as long as workers run.
                        let _ = removed.send(share);
                    }
                    self.common.office.wake();
                }
                PortCommand::Reopen(port, closed) => {
                    let is_closed = self.reopen(port, now);
                    // The control loop receives as long as workers run.
                    let _ = closed.send(is_closed);
                    self.common.office.wake();
                }
            }
        }
    }

    /// Removes the share of a port, and keeps its counters.
    fn detach(&mut self, port: PortId) -> Option<Box<dyn Port>> {
        let mut attached = self.ports.detach(port)?;
        attached.flush(&mut self.ports.observers);
        if !attached.is_gone() {
            self.common.alive.fetch_sub(1, Ordering::AcqRel);
        }
        let name = attached.port.name().to_owned();
        let stats = attached.port.stats();
        self.figures.keep((port, name), &stats);
        self.post();
        Some(attached.port)
    }

    /// Closes the share of a port, so that it is opened again. Returns false if it cannot be.
    fn reopen(&mut self, port: PortId, now: Nanos) -> bool {
        let mut shares = self.ports.attached.iter_mut();
        let Some(attached) = shares.find(|one| one.port.id() == port) else {
            return false;
        };
        attached.flush(&mut self.ports.observers);
        if !attached.port.close(now) {
            return false;
        }
        if !attached.is_gone() {
            self.common.alive.fetch_sub(1, Ordering::AcqRel);
        }
        attached.trouble = Some(Trouble::Gone);
        if attached.tells {
            // The control loop receives as long as workers run.
            let _ = self.tell.send(WorkerEvent::Link(port, false));
        }
        self.post();
        true
    }

    /// Sends the frames that other workers have put into this worker's port shares, and publishes
    /// the last statistics. Must be called while no worker runs.
    pub(crate) fn finish(&mut self) {
        for attached in &mut self.ports.attached {
            attached.port.finish();
        }
        self.post();
    }

    /// Processes one round: receives frames from the ports, runs the program and sends the
    /// results. A round has a maximum size, but every port has at least one turn. Returns the
    /// number of frames.
    ///
    /// Ports give in turns until the round is full or no port has more. So an overloaded port
    /// takes only the space that the other ports leave.
    fn carry(&mut self, now: Nanos) -> usize {
        let mut received = 0;
        self.ports.observers.update();
        self.expect_all();
        self.carrier.receives();
        while received == 0 && self.ports.may_have_more() {
            for place in 0..self.ports.attached.len() {
                self.receive(place, now);
                if self.batch.room() < TURN {
                    received += self.forward(now);
                    self.carrier.receives();
                }
            }
        }
        self.carrier.arrive(&mut self.batch, now);
        if self.batch.room() == 0 {
            self.carrier.falls_behind();
        }
        if received == 0 || !self.batch.is_empty() {
            // Frames in queues leave at their time, also without received frames.
            received += self.forward(now);
        }
        let Ports {
            attached,
            observers,
            ..
        } = &mut self.ports;
        attached.iter_mut().for_each(|port| port.flush(observers));
        received
    }

    /// Starts a round: every port that still works may have frames.
    fn expect_all(&mut self) {
        for attached in &mut self.ports.attached {
            attached.may_have_more = !attached.is_gone();
            attached.allowance = self.carrier.allow(attached.port.id());
        }
    }

    /// Gives a port its turn, if it may have frames.
    fn receive(&mut self, place: usize, now: Nanos) {
        let attached = &mut self.ports.attached[place];
        if !attached.may_have_more {
            return;
        }
        let turn = TURN.min(attached.allowance);
        if turn == 0 {
            attached.may_have_more = false;
            return;
        }
        let came = self
            .batch
            .with_room(turn, |batch| attached.port.rx(batch, now));
        let is_full = came.as_ref().is_ok_and(|came| *came == turn);
        if is_full && (self.carrier.fills_up(attached.port.id()) || turn == TURN) {
            self.carrier.falls_behind();
        }
        attached.may_have_more = came.as_ref().is_ok_and(|came| *came == TURN);
        attached.allowance -= came.as_ref().map_or(0, |came| *came);
        let Err(error) = came else {
            return;
        };
        if attached.tells {
            // The control loop receives as long as workers run.
            let _ = self.tell.send(WorkerEvent::Link(attached.port.id(), false));
        }
        if let Some(line) = attached.notice_error(&error, now) {
            self.notify(line);
        }
        if self.ports.attached[place].is_gone() {
            self.common.alive.fetch_sub(1, Ordering::AcqRel);
            self.common.office.wake();
        }
    }

    /// Processes the batch and empties it. Returns the number of its frames.
    fn forward(&mut self, now: Nanos) -> usize {
        let WorkerThread {
            carrier,
            observers,
            ports,
            batch,
            ..
        } = self;
        let stranded = Cell::new(0);
        let sent = |port: PortId, frame: &mut Frame, _: Nanos| match ports.place(port) {
            Some(place) => ports.attached[place].send(frame, &mut ports.observers),
            None => stranded.set(stranded.get() + 1),
        };
        match observers.update() {
            false => {
                observers.forward_sampled(carrier, batch.frames_mut(), now, &stranded, sent);
            }
            true => {
                observers.forward(carrier, batch.frames_mut(), now, &stranded, sent);
            }
        }
        for _ in 0..stranded.get() {
            carrier.count_drop(DropReason::NoSuchPort);
        }
        let frames = batch.len();
        batch.clear();
        frames
    }

    /// Checks the links and publishes the statistics.
    fn look(&mut self, now: Nanos) {
        self.observers.look(&self.carrier, now);
        for place in 0..self.ports.attached.len() {
            self.look_for_gone(place, now);
            let was_down = self.ports.attached[place].trouble.is_some();
            let line = self.ports.attached[place].notice_link(now);
            let attached = &self.ports.attached[place];
            if was_down && attached.trouble.is_none() && attached.tells {
                // The control loop receives as long as workers run.
                let _ = self.tell.send(WorkerEvent::Link(attached.port.id(), true));
            }
            if let Some(line) = line {
                self.notify(line);
            }
        }
        self.post();
        for place in 0..self.ports.attached.len() {
            let told = &self.common.told_kinds;
            let stats = &self.figures.ports[place].stats;
            if let Some(line) = self.ports.attached[place].notice_kind(stats, told) {
                self.notify(line);
            }
        }
    }

    /// Takes a port back if its interface was removed and created again.
    fn look_for_gone(&mut self, place: usize, now: Nanos) {
        let attached = &mut self.ports.attached[place];
        if !attached.is_gone() {
            return;
        }
        let Some(how) = attached.port.comes_back(now) else {
            return;
        };
        attached.trouble = None;
        self.common.alive.fetch_add(1, Ordering::AcqRel);
        let attached = &self.ports.attached[place];
        if !attached.tells {
            return;
        }
        let (id, name) = (attached.port.id(), attached.port.name());
        let line = format!("port {id}: {name} is back, by {how}");
        self.common.drivers().insert(id, how);
        // If the link is not up yet, the port reports an error at the next receive.
        if attached.port.link() == LinkState::Up {
            // The control loop receives as long as workers run.
            let _ = self.tell.send(WorkerEvent::Link(id, true));
        }
        self.notify(line);
    }

    fn notify(&self, line: String) {
        // The control loop receives as long as workers run.
        let _ = self.tell.send(WorkerEvent::Notice(line));
        self.common.office.wake();
    }

    fn post(&mut self) {
        let attached = self.ports.attached.iter_mut();
        let shares = attached.map(|attached| ShareFigures {
            port: attached.port.id(),
            stats: attached.port.stats(),
            link: attached.port.link(),
        });
        self.figures.ports.clear();
        self.figures.ports.extend(shares);
        self.board.read().clone_from(&self.figures);
    }

    /// Waits for a frame, another worker, the control loop or a timer.
    fn sleep(&mut self, now: Nanos) -> Result<(), RuntimeError> {
        let bell = self.bell.before_sleep();
        let until_timer = self.carrier.next_time();
        let until_timer = until_timer.map(|at| Duration::from(at.since(now)));
        let timeout = until_timer.map_or(MAX_SLEEP, |span| span.min(MAX_SLEEP));
        // A stop or a command before `before_sleep` did not ring.
        if self.common.is_over.load(Ordering::Acquire) || self.commands.has_any() {
            return Ok(());
        }
        let alive = self.ports.attached.iter().filter(|a| !a.is_gone());
        let fds = alive.filter_map(|attached| attached.port.poll_fd());
        let fds = fds.chain(self.carrier.wake_fds());
        let waited = self.poller.wait(fds.chain([bell]), timeout);
        self.bell.after_sleep();
        self.figures.sleeps += 1;
        waited
            .map(drop)
            .map_err(RuntimeError::system("wait for the ports"))
    }
}

/// A worker's port shares, by port number.
struct Ports {
    attached: Vec<Attached>,
    /// Port numbers, ascending, with indices into `attached`.
    places: Vec<(PortId, usize)>,
    observers: SentObservers,
}

impl Ports {
    fn new(attached: Vec<Attached>, observers: SentObservers) -> Ports {
        let mut ports = Ports {
            attached,
            places: Vec::new(),
            observers,
        };
        ports.number();
        ports
    }

    /// Makes the list of port numbers.
    fn number(&mut self) {
        let Ports {
            attached, places, ..
        } = self;
        places.clear();
        let numbers = attached.iter().map(|attached| attached.port.id());
        places.extend(numbers.zip(0..));
        for (attached, place) in attached.iter().zip(0..) {
            let second = attached.port.second_id();
            let second = second.filter(|id| places.iter().all(|(taken, _)| taken != id));
            places.extend(second.map(|id| (id, place)));
        }
        places.sort_unstable();
    }

    fn attach(&mut self, attached: Attached) {
        self.attached.push(attached);
        self.number();
    }

    /// Removes the share of a port.
    fn detach(&mut self, port: PortId) -> Option<Attached> {
        let is_it = |attached: &Attached| attached.port.id() == port;
        let place = self.attached.iter().position(is_it)?;
        let attached = self.attached.remove(place);
        self.number();
        Some(attached)
    }

    fn may_have_more(&self) -> bool {
        self.attached.iter().any(|attached| attached.may_have_more)
    }

    #[inline]
    fn place(&self, port: PortId) -> Option<usize> {
        let found = self
            .places
            .binary_search_by_key(&port, |(number, _)| *number);
        found.ok().map(|at| self.places[at].1)
    }
}

/// A port share with its send queue.
struct Attached {
    port: Box<dyn Port>,
    /// True if this share reports the port's events.
    tells: bool,
    outgoing: Batch,
    /// True if more frames may wait in this round: the last turn, if any, was full.
    may_have_more: bool,
    /// Number of frames that it may still give in this round.
    allowance: usize,
    /// Reason why the port does not forward frames, if so.
    trouble: Option<Trouble>,
    /// Kinds of frames that cannot be forwarded and that this share has noticed.
    told_drops: Vec<RxDrop>,
}

/// Drop reasons for kinds of received frames that a port cannot forward, with the remedy.
const KINDS: [(RxDrop, &str); 2] = [
    (
        RxDrop::ChecksumUnfinished,
        "its senders leave checksums to the interface in frames in which it cannot complete them; switch that off at the sender (ethtool -K INTERFACE tx off)",
    ),
    (
        RxDrop::Unsegmentable,
        "its senders merge segments in frames in which it cannot take them apart; switch that off at the sender (ethtool -K INTERFACE tso off gso off)",
    ),
];

/// Reason why a port does not forward frames.
enum Trouble {
    /// Its link is down. The line is for the user, and is shown after the link has been down for
    /// [`SETTLE`].
    Down {
        line: String,
        since: Nanos,
        is_told: bool,
    },
    /// Its interface was removed. The port recovers when it reports that the interface is back.
    Gone,
}

impl Attached {
    fn new(port: Box<dyn Port>, tells: bool) -> Attached {
        Attached {
            port,
            tells,
            outgoing: Batch::with_capacity(Batch::DEFAULT),
            may_have_more: false,
            allowance: 0,
            trouble: None,
            told_drops: Vec::new(),
        }
    }

    /// Returns a line for the user about a kind of frame that the port cannot forward. `Some`
    /// only for the first such frame at any share of the port.
    fn notice_kind(
        &mut self,
        stats: &PortStats,
        told: &Mutex<Vec<(PortId, RxDrop)>>,
    ) -> Option<String> {
        let is_new = |(reason, _): &&(RxDrop, &str)| {
            stats.rx_dropped.get(*reason) > 0 && !self.told_drops.contains(reason)
        };
        let (reason, advice) = KINDS.iter().find(is_new)?;
        self.told_drops.push(*reason);
        let (id, name) = (self.port.id(), self.port.name());
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.contains(&(id, *reason)) {
            return None;
        }
        told.push((id, *reason));
        Some(format!(
            "port {id}: {name} drops frames as {}: {advice}; docs/reference/ports.md has the kinds",
            reason.name()
        ))
    }

    /// Appends a frame to the send queue. The caller gets a free frame in exchange.
    #[inline]
    fn send(&mut self, frame: &mut Frame, observers: &mut SentObservers) {
        if self.outgoing.room() == 0 {
            self.flush(observers);
        }
        if let Some(place) = self.outgoing.push() {
            std::mem::swap(place, frame);
        }
    }

    /// Sends the queued frames. Their results are in the port's statistics.
    fn flush(&mut self, observers: &mut SentObservers) {
        if !self.outgoing.is_empty() {
            observers.send(&mut *self.port, self.outgoing.frames());
            self.outgoing.clear();
        }
    }

    fn is_gone(&self) -> bool {
        matches!(self.trouble, Some(Trouble::Gone))
    }

    /// Handles an error of the port. Returns a line for the user if the error is not recoverable.
    fn notice_error(&mut self, error: &PortError, now: Nanos) -> Option<String> {
        let line = format!("port {}: {error}", self.port.id());
        if error.is_recoverable() {
            self.trouble = Some(Trouble::Down {
                line,
                since: now,
                is_told: false,
            });
            return None;
        }
        self.trouble = Some(Trouble::Gone);
        self.tells.then(|| format!("warning: {line}"))
    }

    /// Returns a line for the user about a link that stays down, or that is up again.
    fn notice_link(&mut self, now: Nanos) -> Option<String> {
        let Some(Trouble::Down {
            line,
            since,
            is_told,
        }) = &mut self.trouble
        else {
            return None;
        };
        let is_up = self.port.link() == LinkState::Up;
        let line = if is_up {
            let up = format!("port {}: {} is up again", self.port.id(), self.port.name());
            let told = *is_told;
            let down = std::mem::take(line);
            self.trouble = None;
            if told { up } else { format!("{down}\n{up}") }
        } else if !*is_told && now.since(*since) >= SETTLE {
            *is_told = true;
            line.clone()
        } else {
            return None;
        };
        self.tells.then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use port::MemoryPort;
    use switch::PacketProcessor;

    use super::*;
    use crate::tenancy_host::ROUND;

    /// Records the frames of each round by port, and whether a port may have had more. Each port
    /// may give `allowance` frames per round.
    struct Rounds {
        allowance: usize,
        rounds: Vec<BTreeMap<PortId, usize>>,
        is_behind: bool,
    }

    impl PacketProcessor for Rounds {
        fn forward(
            &mut self,
            frames: &mut [Frame],
            _now: Nanos,
            _sent: impl FnMut(PortId, &mut Frame, Nanos),
        ) {
            let mut round = BTreeMap::new();
            for frame in frames {
                *round.entry(frame.ingress).or_default() += 1;
            }
            self.rounds.push(round);
        }

        fn next_time(&self) -> Option<Nanos> {
            None
        }
    }

    impl ThreadProcessor for Rounds {
        fn round(&self) -> usize {
            ROUND
        }

        fn allow(&mut self, _port: PortId) -> usize {
            self.allowance
        }

        fn falls_behind(&mut self) {
            self.is_behind = true;
        }

        fn wake_by(&self, _wake: impl Fn() + Send + Sync + 'static) {}

        fn count_drop(&mut self, _reason: DropReason) {}
    }

    #[test]
    fn a_kind_of_frame_that_cannot_be_carried_is_told_once_a_port() {
        let share = || {
            let (port, _) = MemoryPort::pair(PortId(3), PortId(0), 1);
            Attached::new(Box::new(port), false)
        };
        let (mut first, mut second) = (share(), share());
        let told = Mutex::default();
        let mut stats = PortStats::default();
        stats.rx_dropped.add(RxDrop::QueueFull, 9);
        assert_eq!(first.notice_kind(&stats, &told), None);
        stats.rx_dropped.add(RxDrop::ChecksumUnfinished, 2);
        let line = first.notice_kind(&stats, &told).unwrap();
        assert!(line.starts_with("port 3: "), "{line}");
        for part in ["rx_checksum_unfinished", "ethtool -K INTERFACE tx off"] {
            assert!(line.contains(part), "{line}");
        }
        for share in [&mut first, &mut second] {
            assert_eq!(share.notice_kind(&stats, &told), None);
        }
        stats.rx_dropped.add(RxDrop::Unsegmentable, 1);
        let line = second.notice_kind(&stats, &told).unwrap();
        assert!(line.contains("gso off"), "{line}");
        assert_eq!(first.notice_kind(&stats, &told), None);
    }

    /// Returns the frames of each port in the rounds of one call, with this number of frames
    /// waiting at each port.
    fn rounds(waiting: &[usize]) -> Vec<Vec<usize>> {
        rounds_of(usize::MAX, waiting).0
    }

    /// The same with a limit per port and round. Also returns true if a port may have more
    /// frames.
    fn rounds_of(allowance: usize, waiting: &[usize]) -> (Vec<Vec<usize>>, bool) {
        let attach = |(number, waiting): (u32, &usize)| {
            let (near, mut far) = MemoryPort::pair(PortId(number), PortId(0), *waiting);
            for _ in 0..*waiting {
                far.tx(&[Frame::new()]);
            }
            (Box::new(near) as Box<dyn Port>, false)
        };
        let mut station = WorkerThread::new(Parts {
            number: 0,
            carrier: Rounds {
                allowance,
                rounds: Vec::new(),
                is_behind: false,
            },
            shares: (0..).zip(waiting).map(attach).collect(),
            bell: Arc::new(WakeupFd::new().unwrap()),
            habits: WorkerConfig::default(),
            common: Arc::new(Common {
                start: Instant::now(),
                is_over: AtomicBool::new(false),
                told_kinds: Mutex::default(),
                drivers: Mutex::default(),
                alive: AtomicUsize::new(waiting.len()),
                office: WakeupFd::new().unwrap(),
                observers: Arc::default(),
                drop_sites: Arc::default(),
            }),
            tell: channel().0,
        });
        station.carry(Nanos::ZERO);
        let of_ports = |round: &BTreeMap<PortId, usize>| {
            let ports = (0..waiting.len() as u32).map(PortId);
            ports
                .map(|port| round.get(&port).copied().unwrap_or(0))
                .collect()
        };
        let Rounds {
            rounds, is_behind, ..
        } = &station.carrier;
        (rounds.iter().map(of_ports).collect(), *is_behind)
    }

    #[test]
    fn a_port_gives_no_more_in_a_round_than_it_may() {
        assert_eq!(rounds_of(10, &[5000, 3]), (vec![vec![10, 3]], true));
        assert_eq!(rounds_of(100, &[5000, 3]), (vec![vec![100, 3]], true));
        assert_eq!(rounds_of(100, &[50, 3]), (vec![vec![50, 3]], false));
    }

    #[test]
    fn a_port_that_is_full_does_not_take_the_round_from_others() {
        // The rest of the round is shorter than a turn.
        assert_eq!(rounds(&[5000, 10]), [[ROUND - TURN, 10]]);
        assert_eq!(rounds(&[5000, 5000]), [[ROUND / 2, ROUND / 2]]);
        assert_eq!(rounds(&[0, 5000]), [[0, ROUND]]);
        assert_eq!(rounds(&[7, 64, 3]), [[7, 64, 3]]);
        assert_eq!(rounds(&[0, 0]), [[0, 0]]);
    }

    #[test]
    fn every_port_has_a_turn_though_the_round_is_full_before() {
        const PORTS: usize = ROUND / TURN * 3 / 2;
        let rounds = rounds(&[2 * TURN; PORTS]);
        assert_eq!(rounds.len(), 2);
        let all = rounds.iter().flatten().sum::<usize>();
        assert_eq!(all, PORTS * TURN);
        let of_port = |port: usize| rounds.iter().map(|round| round[port]).sum::<usize>();
        assert!((0..PORTS).all(|port| of_port(port) == TURN));
    }
}
