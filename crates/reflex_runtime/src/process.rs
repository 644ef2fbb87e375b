//! The process of a plane: opens all that it needs, and runs it on one thread.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use consensus::{NodeId, RaftRole, Term};
use p4rt::client::{Endpoint, Tls};
use packet::Nanos;
use port::Poller;
use reflex::{
    CommandTarget, Decision, DecisionId, ElementDevice, ElementIndex, LogDiskError, Loops,
    MonitorIndex, Outcome, PlaneDriver, ReflexPlane, ReplicaGroup, SourceIndex, cluster_name,
};
use serde_json::Value;
use store::LogOwner;
use support::rng::mix;
use support::wakeup::WakeupFd;

use crate::control::{ControlHost, ControlSocket};
use crate::error::ProcessError;
use crate::log_thread::LogThread;
use crate::members::MemberLinks;
use crate::output::Outputs;
use crate::p4runtime_element::P4RuntimeElement;
use crate::source::OpenSource;

/// Longest wait without a look at the time.
const MAX_WAIT: Duration = Duration::from_millis(500);
/// Time after the last report in which elements get what is committed.
const LINGER: Duration = Duration::from_secs(2);

/// Settings of a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessOptions {
    /// Folder of the loop file: relative files of it are there.
    pub folder: PathBuf,
    /// Place in the list of the store's node of this process, if the nodes are in several.
    pub node: Option<usize>,
    /// Path of the control socket.
    pub control: Option<PathBuf>,
    /// Keys and certificates for each element with TLS; missing ones have none.
    pub tls: Vec<Option<Tls>>,
    /// File of a capture of each source; missing ones have none.
    pub captures: Vec<Option<PathBuf>>,
    /// Time without work after which the thread sleeps.
    pub spin: Duration,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum PlaneEvent {
    /// A decision was made, and its result is known.
    Decision(Decision),
    /// A node of the store leads, or none does.
    Leader(Option<(usize, Term)>),
    /// An element can be reached or not, with the reason.
    Element(ElementIndex, bool, Option<String>),
    /// A number of entries of an element were removed, since the store does not have them.
    Removed(ElementIndex, u64),
    /// The store cannot keep entries, or can again.
    Disk(Option<LogDiskError>),
}

/// Receiver of what happens.
pub trait PlaneObserver {
    /// Takes an event. Returns it as JSON for clients that watch.
    fn event(&mut self, driver: &PlaneDriver, event: &PlaneEvent) -> Value;

    /// Returns the state of the plane for a client.
    fn state(&mut self, driver: &PlaneDriver, counts: ProcessCounts, now: Nanos) -> Value;

    /// Begins to load the program of a monitor again, from its file, with its state. It does not
    /// wait for the compiler: [`PlaneObserver::reloaded`] has the result.
    ///
    /// # Errors
    /// A program is loaded already, or this plane loads none.
    fn reload(&mut self, plane: &ReflexPlane, monitor: MonitorIndex) -> Result<(), String> {
        let _ = (plane, monitor);
        Err("this plane loads no programs".to_owned())
    }

    /// Lets the plane go on with the program that is loaded again, if it is compiled. Returns the
    /// compiler's warnings, once. An error has what is wrong with the program, or the state that it
    /// would lose: then the one before stays.
    fn reloaded(&mut self, plane: &mut ReflexPlane) -> Option<Result<String, String>> {
        let _ = plane;
        None
    }

    /// Takes the notice that the loop goes round, about ten times a second.
    fn progress(&mut self, driver: &PlaneDriver) {
        let _ = driver;
    }
}

/// Counts of a process beside those of its plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCounts {
    /// Frames that are no datagrams of a source.
    pub others: u64,
    /// Datagrams at the store's socket of addresses that are no member's.
    pub strangers: u64,
    /// Messages of members without the tag of the key.
    pub forged: u64,
    /// Messages to members that were not taken: by the kernel, or by a ring that is full or has no
    /// other end.
    pub unsent: u64,
    /// Datagrams sent to outputs.
    pub output_datagrams: u64,
    /// Datagrams for outputs that were not taken by the kernel, or had no room.
    pub unsent_output_datagrams: u64,
}

/// Clock of the process: nanoseconds since 1970, without steps backwards.
#[derive(Clone, Copy, Debug)]
struct Clock {
    begin: Nanos,
    started: Instant,
}

impl Clock {
    fn new() -> Clock {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Clock {
            begin: Nanos::from(now.unwrap_or_default()),
            started: Instant::now(),
        }
    }

    fn now(&self) -> Nanos {
        self.begin + Nanos::from(self.started.elapsed())
    }
}

/// State that the observer knows.
#[derive(Default)]
struct Observed {
    last: Option<DecisionId>,
    /// Decisions without a known result.
    open: BTreeSet<DecisionId>,
    leader: Option<(usize, Term)>,
    connected: Vec<Option<bool>>,
    /// Entries of each element that were removed.
    removed: Vec<u64>,
    /// A node of this process led.
    led: bool,
    disk: Option<LogDiskError>,
}

/// A plane with its sources, elements and members.
pub struct PlaneProcess {
    driver: PlaneDriver,
    sources: Vec<OpenSource>,
    members: Option<MemberLinks>,
    outputs: Outputs,
    control: Option<ControlSocket>,
    wake: Arc<WakeupFd>,
    spin: Duration,
    clock: Clock,
    observed: Observed,
    warnings: Vec<String>,
}

impl PlaneProcess {
    /// Opens sources, the store, the socket of the member, and the connections of elements.
    ///
    /// # Errors
    /// One of these cannot be used.
    pub fn open(loops: Loops, options: &ProcessOptions) -> Result<PlaneProcess, ProcessError> {
        let wake = WakeupFd::armed();
        let wake = wake.map_err(|error| ProcessError(format!("cannot make a descriptor: {error}")));
        let wake = Arc::new(wake?);
        let clock = Clock::new();
        let node = options.node.map(|at| loops.store.nodes[at].as_str());
        let sources = loops.sources.iter();
        let sources = sources.map(|source| OpenSource::open(source, &options.folder, node));
        let mut sources = sources.collect::<Result<Vec<_>, _>>()?;
        for (at, file) in options.captures.iter().enumerate() {
            if let (Some(file), Some(source)) = (file, sources.get_mut(at)) {
                source.record(file, &loops.sources[at])?;
            }
        }
        let (folder, store) = (&options.folder, &loops.store);
        let members = options.node.map(|at| MemberLinks::open(store, at, folder));
        let members = members.transpose()?;
        let outputs = Outputs::open(&loops)?;
        let store = open_store(&loops, options, clock.now(), &wake)?;
        // Terms of a store in memory begin again at each start: the time makes them greater.
        let base = match loops.store.dir {
            Some(_) => 0,
            None => (clock.begin.0 / 1_000_000_000) << 32,
        };
        let mut warnings = Vec::new();
        let mut elements: Vec<Box<dyn CommandTarget>> = Vec::new();
        for (at, element) in loops.elements.iter().enumerate() {
            let ElementDevice::P4Runtime(device) = &element.device else {
                return Err(ProcessError(format!(
                    "element {} is a switch of a topology, by line {} of the loop file: add --fabric TOPOLOGY, or write device = \"p4runtime:HOST:PORT\"",
                    element.name, element.line
                )));
            };
            let (index, wake) = (ElementIndex(at), Arc::clone(&wake));
            let endpoint = Endpoint {
                address: device.address.clone(),
                tls: options.tls.get(at).cloned().flatten(),
            };
            let server = (endpoint, device);
            let (element, warning) = P4RuntimeElement::start(&loops, index, server, base, wake)?;
            warnings.extend(warning);
            elements.push(Box::new(element));
        }
        let control = options.control.as_deref().map(ControlSocket::open);
        let control = control.transpose()?;
        let observed = Observed {
            connected: vec![None; elements.len()],
            removed: vec![0; elements.len()],
            ..Observed::default()
        };
        let mut plane = ReflexPlane::with_store(loops, store);
        plane.pass_reports();
        Ok(PlaneProcess {
            driver: PlaneDriver::new(plane, elements),
            sources,
            members,
            outputs,
            control,
            wake,
            spin: options.spin,
            clock,
            observed,
            warnings,
        })
    }

    /// Returns what cannot be used yet.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the plane, to be changed before the first report.
    pub fn plane_mut(&mut self) -> &mut ReflexPlane {
        self.driver.plane_mut()
    }

    /// Returns the plane with its elements.
    pub fn driver(&self) -> &PlaneDriver {
        &self.driver
    }

    /// Returns the time at which the process was started.
    pub fn started(&self) -> Nanos {
        self.clock.begin
    }

    /// Returns the time.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Returns the counts beside those of the plane.
    pub fn counts(&self) -> ProcessCounts {
        let members = self.members.as_ref();
        ProcessCounts {
            others: self.sources.iter().map(|source| source.others).sum(),
            strangers: members.map_or(0, |members| members.strangers),
            forged: members.map_or(0, |members| members.forged),
            unsent: members.map_or(0, |members| members.unsent),
            output_datagrams: self.outputs.sent,
            unsent_output_datagrams: self.outputs.unsent + self.driver.plane().unpassed(),
        }
    }

    /// Returns the errors of captures that ended early.
    pub fn source_errors(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().filter_map(OpenSource::error)
    }

    /// Runs until `stop` is readable, `time` is over, or all sources are captures at their end.
    /// Then waits a short time until elements have what is committed.
    ///
    /// # Errors
    /// The operating system refuses to wait.
    pub fn run(
        &mut self,
        stop: Option<BorrowedFd<'_>>,
        time: Option<Duration>,
        observer: &mut dyn PlaneObserver,
    ) -> Result<(), ProcessError> {
        let end = time.map(|time| self.clock.now() + Nanos::from(time));
        let mut poller = Poller::new();
        let mut last_work = self.clock.now();
        let mut last_progress = Nanos::ZERO;
        // The end of a stopped process.
        let mut last_moment: Option<Nanos> = None;
        loop {
            let now = self.clock.now();
            let is_working = self.step(now, last_moment.is_none(), observer);
            if is_working {
                last_work = now;
            }
            if now >= last_progress + Nanos::from_millis(100) {
                last_progress = now;
                observer.progress(&self.driver);
                let is_stopped = stop.is_some_and(|stop| {
                    let ready = poller.wait([stop], Duration::ZERO);
                    ready.is_ok_and(|ready| ready > 0)
                });
                if is_stopped && last_moment.is_none() {
                    last_moment = Some(now + Nanos::from(LINGER));
                }
            }
            let is_over = end.is_some_and(|end| now >= end) || self.captures_are_over();
            if is_over && last_moment.is_none() {
                last_moment = Some(now + Nanos::from(LINGER));
            }
            if let Some(moment) = last_moment {
                // Confirmations of elements, too: what is not confirmed is sent by the next start.
                let store = self.driver.plane().store();
                let leads = store.leading().is_some();
                let is_done = self.driver.is_settled() && !store.has_requests();
                if now >= moment || !leads || is_done {
                    self.observe(observer);
                    return Ok(());
                }
            }
            if now < last_work + Nanos::from(self.spin) {
                continue;
            }
            self.wait(
                now,
                end,
                stop.filter(|_| last_moment.is_none()),
                &mut poller,
            )?;
        }
    }

    /// Gives the managed tables back if all nodes of the store are in this process, and completes
    /// the captures of sources.
    ///
    /// # Errors
    /// The first error of writing one.
    pub fn finish(&mut self) -> Result<(), ProcessError> {
        if self.members.is_none() {
            self.driver.release();
        }
        let finished = self.sources.iter_mut().map(OpenSource::finish);
        finished.collect::<Vec<_>>().into_iter().collect()
    }

    fn captures_are_over(&self) -> bool {
        let is_any = self.sources.iter().any(OpenSource::is_capture);
        is_any && self.sources.iter().all(OpenSource::is_over)
    }

    /// Does all work that waits. Returns false if there was none.
    fn step(&mut self, now: Nanos, listens: bool, observer: &mut dyn PlaneObserver) -> bool {
        let mut count = 0;
        if let Some(members) = &mut self.members {
            // Before the time is taken: a leader that was heard while this process was stopped is
            // no leader that is silent.
            let store = self.driver.plane_mut().store_mut();
            let clock = self.clock;
            count += members.receive(now, |message| {
                // The time after the message came: this thread may have been stopped since `now`.
                // By an earlier time, a leader answers reads when its lease is over, and a follower
                // votes too early. What is no message of the store is counted by the node.
                store.receive_message(clock.now(), message).is_ok()
            });
        } else {
            // Each heartbeat at its own time: when this thread was stopped, so were all nodes.
            self.driver.run_until(now);
        }
        self.driver.step(now);
        if listens {
            for (at, source) in self.sources.iter_mut().enumerate() {
                let driver = &mut self.driver;
                count += source.receive(now, |from, payload| {
                    driver.receive(now, SourceIndex(at), from, payload);
                });
            }
        }
        if let Some(mut control) = self.control.take() {
            let counts = self.counts();
            let mut host = ControlHost {
                observer: &mut *observer,
                counts,
            };
            count += control.serve(now, &mut self.driver, &mut host);
            self.control = Some(control);
        }
        if count > 0 {
            // A lease is looked at by a time after the requests came: this thread may have been
            // stopped since `now`, and another node may lead.
            self.driver.step(self.clock.now());
        }
        if let Some(members) = &mut self.members {
            let store = self.driver.plane_mut().store_mut();
            store.drain_messages(|to, message| {
                count += 1;
                members.send(to, message);
            });
            members.flush();
        }
        let outputs = &mut self.outputs;
        let plane = self.driver.plane_mut();
        plane.drain_passed(|output, datagram| outputs.pass(output, datagram));
        count += self.observe(observer);
        count > 0
    }

    /// Passes what is new to the observer and to clients. Returns the number of events.
    fn observe(&mut self, observer: &mut dyn PlaneObserver) -> usize {
        let mut events = Vec::new();
        let updated = self.driver.plane_mut().take_updated();
        let plane = self.driver.plane();
        let is_known =
            |decision: &&Decision| self.observed.last.is_none_or(|last| last < decision.id);
        // The newest are at the end.
        let mut fresh: Vec<DecisionId> = Vec::new();
        for decision in plane.decisions().rev().take_while(is_known) {
            fresh.push(decision.id);
        }
        self.observed.last = fresh.first().copied().or(self.observed.last);
        self.observed.open.extend(&fresh);
        let leads = plane.store().leading().is_some();
        // Those that the plane dropped.
        if let Some(oldest) = plane.decisions().next() {
            self.observed.open = self.observed.open.split_off(&oldest.id);
        }
        // A leader that goes leaves all of its decisions to the next one.
        let updated = updated.filter(|_| leads == self.observed.led);
        self.observed.led = leads;
        let looked: BTreeSet<DecisionId> = match updated {
            Some(updated) => updated.into_iter().chain(fresh).collect(),
            None => self.observed.open.clone(),
        };
        for id in looked {
            if !self.observed.open.contains(&id) {
                continue;
            }
            let Some(decision) = plane.decision(id) else {
                self.observed.open.remove(&id);
                continue;
            };
            let is_done = match decision.outcome {
                Outcome::Made(change) => {
                    // The leader in another process knows when the element has it.
                    change.answered.is_some() || !leads && change.committed.is_some()
                }
                Outcome::Reported | Outcome::Refused(_) => true,
            };
            if is_done {
                self.observed.open.remove(&id);
                events.push(PlaneEvent::Decision(*decision));
            }
        }
        let leader = leader_of(plane.store());
        if leader != self.observed.leader {
            self.observed.leader = leader;
            events.push(PlaneEvent::Leader(leader));
        }
        for at in 0..self.observed.connected.len() {
            let index = ElementIndex(at);
            let is_connected = self.driver.is_connected(index);
            // Before there is a leader here, no connection is needed.
            let is_news = is_connected || leads;
            if is_news && self.observed.connected[at] != Some(is_connected) {
                let reason = self.driver.last_refusal(index);
                if !is_connected && reason.is_none() {
                    continue;
                }
                self.observed.connected[at] = Some(is_connected);
                events.push(PlaneEvent::Element(index, is_connected, reason));
            }
        }
        for (at, known) in self.observed.removed.iter_mut().enumerate() {
            let removed = self.driver.element_counts(ElementIndex(at)).removed;
            if removed > *known {
                events.push(PlaneEvent::Removed(ElementIndex(at), removed - *known));
                *known = removed;
            }
        }
        let disk = plane.store().disk_error();
        if disk != self.observed.disk {
            self.observed.disk.clone_from(&disk);
            events.push(PlaneEvent::Disk(disk));
        }
        for event in &events {
            let shown = observer.event(&self.driver, event);
            let decision = match event {
                PlaneEvent::Decision(decision) => Some(decision),
                _ => None,
            };
            self.outputs.event(&shown, decision);
            if let Some(control) = &mut self.control {
                control.event(&shown);
            }
        }
        events.len()
    }

    /// Waits for a descriptor, or for the next time at which something is due.
    fn wait(
        &self,
        now: Nanos,
        end: Option<Nanos>,
        stop: Option<BorrowedFd<'_>>,
        poller: &mut Poller,
    ) -> Result<(), ProcessError> {
        let times = self.sources.iter().filter_map(|it| it.next_time(now));
        let control = self.control.as_ref();
        let times = times
            .chain(control.and_then(ControlSocket::next_time))
            .chain(self.members.as_ref().and_then(MemberLinks::next_time))
            .chain(end);
        let next = times.fold(self.driver.next_time(), Nanos::min);
        let left = Duration::from_nanos(next.0.saturating_sub(now.0)).min(MAX_WAIT);
        let wake = self.wake.fd();
        let sources = self.sources.iter().filter_map(OpenSource::fd);
        let members = self.members.iter().flat_map(MemberLinks::fds);
        let control = control.into_iter().flat_map(ControlSocket::fds);
        let fds = sources
            .chain(members)
            .chain(control)
            .chain(stop)
            .chain([wake]);
        let waited = poller.wait(fds, left);
        // What was queued before is seen by the next step.
        self.wake.rearm();
        waited
            .map(|_| ())
            .map_err(|error| ProcessError(format!("cannot wait: {error}")))
    }
}

/// Returns the leader that the nodes of this process follow, and its term.
fn leader_of(store: &ReplicaGroup) -> Option<(usize, Term)> {
    let known = store.states().filter_map(|state| match state.role {
        RaftRole::Leader => Some((state.node, state.term)),
        _ => Some((state.leader?, state.term)),
    });
    known.max_by_key(|(_, term)| *term)
}

/// Refuses a store of which some nodes have directories, and some have none: a node without its
/// votes could vote twice.
fn all_or_none(dir: &Path, nodes: &[String]) -> Result<(), ProcessError> {
    let (there, missing): (Vec<&String>, Vec<&String>) =
        nodes.iter().partition(|node| dir.join(node).exists());
    let (Some(there), Some(missing)) = (there.first(), missing.first()) else {
        return Ok(());
    };
    let dir = dir.display();
    Err(ProcessError(format!(
        "the store has {dir}/{there}, and {dir}/{missing} is missing: a node that lost its votes could vote twice; bring the directory back, or remove {dir} and give the loop file another seed"
    )))
}

/// Opens the nodes of this process.
fn open_store(
    loops: &Loops,
    options: &ProcessOptions,
    now: Nanos,
    wake: &Arc<WakeupFd>,
) -> Result<ReplicaGroup, ProcessError> {
    let (spec, seed) = (&loops.store, loops.seed);
    let too_many = || ProcessError("the store has too many nodes".to_owned());
    let Some(dir) = &spec.dir else {
        return ReplicaGroup::new(spec, seed, now).ok_or_else(too_many);
    };
    let dir: &Path = &options.folder.join(dir);
    let here = match options.node {
        Some(node) => vec![node],
        None => (0..spec.nodes.len()).collect(),
    };
    if options.node.is_none() {
        all_or_none(dir, &spec.nodes)?;
    }
    let nodes = here.into_iter().map(|at| {
        let owner = LogOwner {
            cluster: cluster_name(seed, &spec.nodes),
            node: NodeId(at as u64 + 1),
        };
        let opened = LogThread::open(&dir.join(&spec.nodes[at]), owner, Arc::clone(wake));
        let opened = opened.map_err(|ProcessError(message)| {
            // The name of a cluster is made of both.
            let also = match message.contains("keep the seed of the file") {
                true => " and its list of nodes",
                false => "",
            };
            ProcessError(message + also)
        });
        Ok((at, opened?))
    });
    let nodes = nodes.collect::<Result<Vec<_>, ProcessError>>()?;
    // Differs on each start.
    let start = mix(now.0 ^ u64::from(std::process::id()) << 40);
    ReplicaGroup::on_disk(spec, (seed, start), now, nodes).ok_or_else(too_many)
}
