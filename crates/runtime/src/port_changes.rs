//! Changes of the ports of a running switch: requests of operators, carried out one at a time.
//!
//! Ports are opened and released on threads of their own, because both take milliseconds. Workers
//! add and remove their shares between two rounds.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ir::Program;
use p4info::polyplane::ports::v1 as wire;
use p4rt::{Code, KnownPorts, PortAction, PortAnswer, PortRequest, TenancyError};
use packet::{Nanos, PortId};
use port::{LinkState, OpenedPort, Port, PortDriver, PortSpec, PortStats, PortTarget, open_kept};
use switch::Device;

use crate::packet_processor::ThreadProcessor;
use crate::report::{DeviceReport, Drops, PortReport, Traffic};
use crate::worker_pool::WorkerPool;

/// Time in which a reopened port must have its interface back. Later it comes back by itself.
const REOPEN_WITHIN: Nanos = Nanos::from_millis(2000);

/// Pattern of interfaces that operators may add as ports: the text after `=` of a port, in which a
/// `*` at the end stands for anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfacePattern(String);

/// Error: a text is no pattern of interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfacePatternError(String);

impl fmt::Display for InterfacePatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" names no interfaces: write one as in --port (eth1, tap:t0, ring:r), with `*` \
             only at its end",
            self.0
        )
    }
}

impl std::error::Error for InterfacePatternError {}

impl FromStr for InterfacePattern {
    type Err = InterfacePatternError;

    fn from_str(text: &str) -> Result<InterfacePattern, InterfacePatternError> {
        let stem = text.strip_suffix('*').unwrap_or(text);
        match text.is_empty() || stem.contains(['*', '=', ' ']) {
            true => Err(InterfacePatternError(text.to_owned())),
            false => Ok(InterfacePattern(text.to_owned())),
        }
    }
}

impl InterfacePattern {
    fn matches(&self, target: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(stem) => target.starts_with(stem),
            None => target == self.0,
        }
    }
}

/// The ports of all devices of a process. No interface is a port of two of them.
#[derive(Clone, Debug, Default)]
pub struct TakenInterfaces(Arc<Mutex<Vec<PortSpec>>>);

impl TakenInterfaces {
    fn all(&self) -> MutexGuard<'_, Vec<PortSpec>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the port of a device.
    ///
    /// # Errors
    /// Its interface is the port of a device.
    pub fn take(&self, spec: &PortSpec) -> Result<(), port::PortSpecError> {
        let mut all = self.all();
        all.push(spec.clone());
        let checked = PortSpec::check_interfaces(&all);
        if checked.is_err() {
            all.pop();
        }
        checked
    }

    fn release(&self, spec: &PortSpec) {
        let mut all = self.all();
        if let Some(place) = all.iter().position(|taken| taken == spec) {
            all.remove(place);
        }
    }
}

/// Bounds on changes of a running switch's ports by operators.
pub struct PortControl {
    /// False if the ports are listed only.
    pub may_change: bool,
    /// True if the kernel sends packets between the ports by itself: it would go on to send to a
    /// removed port.
    pub is_in_kernel: bool,
    /// The ports that the switch has from the start. Their interfaces may be added again.
    pub ports: Vec<PortSpec>,
    /// Further interfaces that may be added.
    pub allowed: Vec<InterfacePattern>,
    /// Driver of the interfaces that are added.
    pub io: PortDriver,
    /// The ports of all devices of the process, with these.
    pub taken: TakenInterfaces,
    /// The ports that groups may watch, if there is a server.
    pub known: Option<KnownPorts>,
    /// Numbers of the CPU port, for programs of all architectures.
    pub cpu: Vec<PortId>,
}

/// Checks that a program can have a port of this number.
///
/// # Errors
/// The architecture of the program has no such port.
pub fn check_port(program: &Program, port: PortId) -> Result<(), String> {
    // v1model's port numbers have 9 bits, of which all ones is the drop port. PSA reserves the
    // numbers from its recirculation port on.
    let (arch, last) = match program.arch {
        ir::Arch::V1model => ("v1model", 510),
        ir::Arch::Psa => ("PSA", 0xffff_fff9),
        ir::Arch::Pna | ir::Arch::Ebpf | ir::Arch::Ubpf | ir::Arch::Xdp | ir::Arch::Own => {
            return Ok(());
        }
    };
    if port.0 <= last {
        return Ok(());
    }
    Err(format!(
        "port {port} cannot be: the ports of a program for {arch} are 0 to {last}"
    ))
}

/// A change of the ports that was made.
pub(crate) enum PortEvent {
    /// A port was added. The flag is true if its link is up.
    Added(PortId, String, bool),
    /// A port was removed.
    Removed(PortId),
}

/// A share of a port that a worker has given back.
type Share = Box<dyn Port>;

/// Step of a change.
enum Step {
    /// A thread opens the port.
    Opening(PortSpec, Receiver<Result<OpenedPort, String>>),
    /// The workers give back their shares.
    Detaching(PortSpec, Receiver<Share>, Vec<Share>),
    /// A thread releases the shares, and returns what they have still counted.
    Releasing(PortSpec, Receiver<PortStats>),
    /// The workers close their shares. The number is that of the answers that are missing.
    Closing(PortId, Receiver<bool>, usize),
    /// The port opens its interface.
    Reopening(PortId, Nanos),
}

/// Progress of a step.
enum Progress {
    /// The step goes on.
    Waits(Step),
    /// The request has ended with these ports.
    Ended(Result<Vec<wire::PortDetails>, TenancyError>),
}

/// Requests about the ports of a device, and the change that is being made.
pub(crate) struct PortChanges {
    control: PortControl,
    specs: Vec<PortSpec>,
    /// True if flows are offloaded: the plan of an offload has fixed ports.
    is_offloaded: bool,
    waiting: VecDeque<PortRequest>,
    current: Option<(PortRequest, Step)>,
    /// The change that was made, until its request is answered.
    event: Option<PortEvent>,
    /// A request to answer when the observer has its event.
    made: Option<MadeChange>,
}

/// A change that was made.
pub(crate) struct MadeChange {
    pub(crate) event: PortEvent,
    request: PortRequest,
    answer: PortAnswer,
}

impl MadeChange {
    /// Answers the client.
    pub(crate) fn answer(self) {
        self.request.answer(self.answer);
    }
}

fn refuse<T>(code: Code, message: impl Into<String>) -> Result<T, TenancyError> {
    Err(TenancyError {
        code,
        message: message.into(),
    })
}

impl PortChanges {
    pub(crate) fn new(control: PortControl, is_offloaded: bool) -> PortChanges {
        PortChanges {
            specs: control.ports.clone(),
            control,
            is_offloaded,
            waiting: VecDeque::new(),
            current: None,
            event: None,
            made: None,
        }
    }

    /// Adds a request.
    pub(crate) fn request(&mut self, request: PortRequest) {
        self.waiting.push_back(request);
    }

    /// Takes the change that was made last. The caller answers its client.
    pub(crate) fn take_made(&mut self) -> Option<MadeChange> {
        self.made.take()
    }

    /// Answers requests, and goes on with the change that is being made.
    pub(crate) fn turn<C: ThreadProcessor>(&mut self, pool: &mut WorkerPool<C>, device: &Device) {
        loop {
            let (request, progress) = match self.current.take() {
                Some((request, step)) => (request, self.go_on(step, pool)),
                None => {
                    let Some(request) = self.waiting.pop_front() else {
                        return;
                    };
                    let begun = self.begin(&request.action, pool, device.program());
                    (
                        request,
                        begun.unwrap_or_else(|error| Progress::Ended(Err(error))),
                    )
                }
            };
            match progress {
                Progress::Waits(step) => {
                    self.current = Some((request, step));
                    return;
                }
                Progress::Ended(ended) => {
                    let dropped = match request.action {
                        PortAction::List => drops(&DeviceReport::of(device).dropped),
                        _ => Vec::new(),
                    };
                    let answer = ended.map(|ports| wire::ListResponse { ports, dropped });
                    let Some(event) = self.event.take() else {
                        request.answer(answer);
                        continue;
                    };
                    self.made = Some(MadeChange {
                        event,
                        request,
                        answer,
                    });
                    return;
                }
            }
        }
    }

    fn begin<C: ThreadProcessor>(
        &mut self,
        action: &PortAction,
        pool: &mut WorkerPool<C>,
        program: &Program,
    ) -> Result<Progress, TenancyError> {
        if let PortAction::List = action {
            let details = self.details(pool);
            return Ok(Progress::Ended(Ok(details)));
        }
        if !self.control.may_change {
            let message = "the ports of this switch are fixed: they are those of its topology";
            return refuse(Code::FailedPrecondition, message);
        }
        if self.is_offloaded {
            let message = "the ports of a switch with --offload do not change while it runs";
            return refuse(Code::FailedPrecondition, message);
        }
        if self.control.is_in_kernel {
            let message = "the ports of a switch that runs in the kernel (--engine xdp) do not \
                           change while it runs";
            return refuse(Code::FailedPrecondition, message);
        }
        match action {
            PortAction::List => Ok(Progress::Ended(Ok(Vec::new()))),
            PortAction::Add(text) => {
                let spec = self.accept(text, pool, program)?;
                let (done, opened) = channel();
                let (io, workers) = (self.control.io, pool.workers());
                let (wanted, common) = (spec.clone(), Arc::clone(pool.common()));
                let opening = std::thread::Builder::new().spawn(move || {
                    let opened = open_kept(&wanted, io, workers).map_err(|e| e.to_string());
                    // The control loop may have ended.
                    let _ = done.send(opened);
                    common.office.wake();
                });
                if let Err(error) = opening {
                    self.control.taken.release(&spec);
                    let message = format!("cannot start a thread: {error}");
                    return refuse(Code::ResourceExhausted, message);
                }
                Ok(Progress::Waits(Step::Opening(spec, opened)))
            }
            PortAction::Remove(port) => {
                let place = self.place(*port)?;
                let spec = self.specs.remove(place);
                let shares = pool.detach(*port);
                Ok(Progress::Waits(Step::Detaching(spec, shares, Vec::new())))
            }
            PortAction::Reopen(port) => {
                let spec = &self.specs[self.place(*port)?];
                if let PortTarget::Ring(name) = &spec.target {
                    return refuse(
                        Code::FailedPrecondition,
                        format!("port {port} is the ring {name}, which connects by itself"),
                    );
                }
                let (answers, left) = (pool.reopen(*port), pool.workers());
                Ok(Progress::Waits(Step::Closing(*port, answers, left)))
            }
        }
    }

    /// Returns the place of a port among the ports.
    fn place(&self, port: PortId) -> Result<usize, TenancyError> {
        let place = self.specs.iter().position(|spec| spec.id == port);
        let Some(place) = place else {
            let ports: Vec<String> = self.specs.iter().map(PortSpec::to_string).collect();
            let has = match ports.is_empty() {
                true => "none".to_owned(),
                false => ports.join(", "),
            };
            let message = format!("the switch has no port {port}; it has {has}");
            return refuse(Code::NotFound, message);
        };
        Ok(place)
    }

    /// Checks a port before it is added, and reserves its interface.
    fn accept<C: ThreadProcessor>(
        &self,
        text: &str,
        pool: &WorkerPool<C>,
        program: &Program,
    ) -> Result<PortSpec, TenancyError> {
        let spec: PortSpec = match text.parse::<PortSpec>() {
            Ok(spec) => spec,
            Err(error) => return refuse(Code::InvalidArgument, error.to_string()),
        };
        if let Err(message) = check_port(program, spec.id) {
            return refuse(Code::InvalidArgument, message);
        }
        let mut ports = pool.ports().iter();
        if let Some((_, name)) = ports.find(|(id, _)| *id == spec.id) {
            let message = format!("port {} exists: it is {name}", spec.id);
            return refuse(Code::AlreadyExists, message);
        }
        if self.control.cpu.contains(&spec.id) {
            let message = format!(
                "port {} is the CPU port, of programs for some architectures",
                spec.id
            );
            return refuse(Code::AlreadyExists, message);
        }
        let text = spec.to_string();
        let target = text.split_once('=').map_or("", |(_, target)| target);
        let known = self
            .control
            .ports
            .iter()
            .any(|port| port.target == spec.target);
        if !known && !self.control.allowed.iter().any(|one| one.matches(target)) {
            return refuse(
                Code::PermissionDenied,
                format!(
                    "{target} may not become a port: start the switch with --port-allow '{target}' \
                     to permit it"
                ),
            );
        }
        match self.control.taken.take(&spec) {
            Ok(()) => Ok(spec),
            Err(error) => refuse(Code::AlreadyExists, error.to_string()),
        }
    }

    fn go_on<C: ThreadProcessor>(&mut self, step: Step, pool: &mut WorkerPool<C>) -> Progress {
        match step {
            Step::Opening(spec, opened) => match opened.try_recv() {
                Err(TryRecvError::Empty) => Progress::Waits(Step::Opening(spec, opened)),
                Ok(Ok(port)) => self.add(spec, port, pool),
                Ok(Err(message)) => self.not_opened(&spec, message),
                Err(TryRecvError::Disconnected) => {
                    self.not_opened(&spec, "opening it has failed".to_owned())
                }
            },
            Step::Detaching(spec, given, mut shares) => {
                shares.extend(given.try_iter());
                match shares.len() < pool.workers() {
                    true => Progress::Waits(Step::Detaching(spec, given, shares)),
                    false => Progress::Waits(Step::Releasing(spec, release(shares, pool))),
                }
            }
            Step::Releasing(spec, late) => match late.try_recv() {
                Err(TryRecvError::Empty) => Progress::Waits(Step::Releasing(spec, late)),
                counted => {
                    let port = (spec.id, spec.name().to_owned());
                    pool.add_late(port, counted.unwrap_or_default());
                    self.control.taken.release(&spec);
                    self.event = Some(PortEvent::Removed(spec.id));
                    Progress::Ended(Ok(self.removed(&spec, pool)))
                }
            },
            Step::Closing(port, answers, left) => {
                let mut left = left;
                for is_closed in answers.try_iter() {
                    if !is_closed {
                        let message = format!("port {port} cannot be reopened");
                        return Progress::Ended(refuse(Code::FailedPrecondition, message));
                    }
                    left -= 1;
                }
                match left {
                    0 => Progress::Waits(Step::Reopening(port, pool.now() + REOPEN_WITHIN)),
                    left => Progress::Waits(Step::Closing(port, answers, left)),
                }
            }
            Step::Reopening(port, until) => {
                let links = pool.links(port);
                let is_open = |link: &Option<LinkState>| link.is_some_and(|l| l != LinkState::Gone);
                if links.iter().all(is_open) {
                    return Progress::Ended(Ok(self.details_of(port, pool)));
                }
                if pool.now() < until {
                    return Progress::Waits(Step::Reopening(port, until));
                }
                let message = format!(
                    "port {port} is closed, and its interface cannot be opened now; the port opens \
                     it when that is possible"
                );
                Progress::Ended(refuse(Code::Unavailable, message))
            }
        }
    }

    fn not_opened(&self, spec: &PortSpec, message: String) -> Progress {
        self.control.taken.release(spec);
        Progress::Ended(refuse(
            Code::FailedPrecondition,
            format!("port {}: {message}", spec.id),
        ))
    }

    fn add<C: ThreadProcessor>(
        &mut self,
        spec: PortSpec,
        port: OpenedPort,
        pool: &mut WorkerPool<C>,
    ) -> Progress {
        let link = port.shares.first().map(|share| share.link());
        let is_up = link == Some(LinkState::Up);
        if let Some(known) = &self.control.known {
            known.insert(spec.id);
        }
        pool.attach(port);
        let (id, name) = (spec.id, spec.name().to_owned());
        self.specs.push(spec);
        let mut details = self.details_of(id, pool);
        // The workers have not published it yet.
        let states = details.iter_mut().filter_map(|port| port.state.as_mut());
        states.for_each(|state| state.is_up = is_up);
        self.event = Some(PortEvent::Added(id, name, is_up));
        Progress::Ended(Ok(details))
    }

    fn details<C: ThreadProcessor>(&self, pool: &WorkerPool<C>) -> Vec<wire::PortDetails> {
        let reports = pool.port_reports().into_iter();
        let has = |report: &PortReport| self.specs.iter().any(|spec| spec.id.0 == report.port);
        let reports = reports.filter(|report| report.up.is_some() && has(report));
        let drivers = pool.drivers();
        reports
            .map(|report| details(&report, drivers.get(&PortId(report.port))))
            .collect()
    }

    fn details_of<C: ThreadProcessor>(
        &self,
        port: PortId,
        pool: &WorkerPool<C>,
    ) -> Vec<wire::PortDetails> {
        let is_it = |details: &wire::PortDetails| {
            let state = details.state.as_ref();
            state.is_some_and(|state| state.port == port.0)
        };
        self.details(pool).into_iter().filter(is_it).collect()
    }

    /// Returns a port that was removed, with its last counts.
    fn removed<C: ThreadProcessor>(
        &self,
        spec: &PortSpec,
        pool: &WorkerPool<C>,
    ) -> Vec<wire::PortDetails> {
        let mut reports = pool.port_reports().into_iter();
        let is_it = |report: &PortReport| {
            report.up.is_none() && report.port == spec.id.0 && report.name == spec.name()
        };
        let report = reports.find(is_it);
        report.iter().map(|report| details(report, None)).collect()
    }
}

/// Starts a thread that releases the shares of a port. Returns the receiver of what they have
/// counted meanwhile.
fn release<C: ThreadProcessor>(
    mut shares: Vec<Share>,
    pool: &WorkerPool<C>,
) -> Receiver<PortStats> {
    let (done, late) = channel();
    let common = Arc::clone(pool.common());
    let work = move || {
        let mut sum = PortStats::default();
        for share in &mut shares {
            let before = share.stats();
            share.finish();
            sum.add(&share.stats().since(&before));
        }
        drop(shares);
        // The control loop may have ended.
        let _ = done.send(sum);
        common.office.wake();
    };
    // Without a thread the closure is dropped, and with it the shares and the sender.
    let _ = std::thread::Builder::new().spawn(work);
    late
}

fn details(report: &PortReport, driver: Option<&String>) -> wire::PortDetails {
    let traffic = |traffic: &Traffic| wire::Traffic {
        packets: traffic.packets,
        bytes: traffic.bytes,
    };
    wire::PortDetails {
        state: Some(wire::PortState {
            port: report.port,
            name: report.name.clone(),
            is_up: report.up == Some(true),
        }),
        driver: driver.cloned().unwrap_or_default(),
        received: Some(traffic(&report.received)),
        sent: Some(traffic(&report.sent)),
        dropped: drops(&report.dropped),
    }
}

fn drops(all: &[Drops]) -> Vec<wire::Drops> {
    let one = |drops: &Drops| wire::Drops {
        reason: drops.reason.clone(),
        packets: drops.packets,
    };
    all.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_one_interface_or_all_that_begin_so() {
        let cases = [
            ("eth1", "eth1", true),
            ("eth1", "eth10", false),
            ("eth*", "eth10", true),
            ("eth*", "tap:eth1", false),
            ("tap:*", "tap:t0", true),
            ("*", "ring:r", true),
        ];
        for (pattern, target, expected) in cases {
            let pattern: InterfacePattern = pattern.parse().unwrap();
            assert_eq!(pattern.matches(target), expected, "{pattern:?} {target}");
        }
        for wrong in ["", "e*h", "1=eth0", "a b"] {
            let error = wrong.parse::<InterfacePattern>().unwrap_err();
            assert!(error.to_string().contains("names no interfaces"), "{error}");
        }
    }

    #[test]
    fn an_interface_is_the_port_of_one_device() {
        let taken = TakenInterfaces::default();
        let spec = |text: &str| text.parse::<PortSpec>().unwrap();
        assert_eq!(taken.take(&spec("0=a")), Ok(()));
        assert!(taken.take(&spec("5=a")).is_err());
        taken.release(&spec("0=a"));
        assert_eq!(taken.take(&spec("5=a")), Ok(()));
    }
}
