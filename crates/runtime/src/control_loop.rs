//! A device with its worker threads between ports, and their control loop.
//!
//! Packets are processed by the workers, each on its thread. The control loop runs on the caller's
//! thread. It does the work that concerns the whole device: time,
//! notifications, signals, reports.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use offload_runtime::{Offload, OffloadSetup};
use p4rt::{Any, Inbox, PacketObservation};
use packet::{Nanos, PortId};
use port::{OpenedPort, Poller, Signal};
use switch::{Device, FrameFilter};
use tokio::sync::oneshot;

use crate::RuntimeError;
use crate::background_indexing::BackgroundIndexing;
use crate::cpu_port::ControllerChannel;
use crate::metrics::{MetricsSource, Source};
use crate::notifications::{NotificationLevel, Notifications};
use crate::observation::{DeviceObservation, PacketObservers, Summaries};
use crate::packet_processor::{FrontOfWorker, Single};
use crate::persistence;
use crate::port_changes::{PortChanges, PortControl, PortEvent};
use crate::process_setup::{LoopTurns, ProcessSetup};
use crate::report::{DeviceReport, PortReport, WorkerReport};
use crate::settings;
use crate::specialiser::Specialiser;
use crate::trace_filter::{
    PacketFilter, PacketTracer, SamplingRate, TraceControl, TraceCounts, TracedPacket,
};
use crate::worker_pool::WorkerPool;
use crate::worker_thread::{EventSender, WorkerConfig, WorkerEvent};

/// Maximum sleep of the control loop, and so the maximum delay of the program's messages.
const MAX_SLEEP: Duration = Duration::from_millis(10);

/// Maximum sleep of a control loop with an extension.
const MAX_SLEEP_EXTENDED: Duration = Duration::from_millis(1);

/// Extension of a device's control loop: a protocol in the extension messages of P4Runtime.
pub trait ControlExtension: Send {
    /// Processes a message of the primary controller.
    ///
    /// # Errors
    /// The cause, for a notice. Nothing is changed.
    fn receive(&mut self, device: &mut Device, message: &Any) -> Result<(), String>;

    /// Does the work that is due after a step of the device. `send` sends a message to the primary
    /// controllers, and returns false if the queue of events is full.
    fn turn(&mut self, device: &mut Device, send: &mut dyn FnMut(Any) -> bool);

    /// Takes a line for the log, also of a device without controllers.
    fn take_notice(&mut self, _device: &Device) -> Option<String> {
        None
    }

    /// Returns the longest time between two turns.
    fn longest_sleep(&self) -> Duration {
        MAX_SLEEP_EXTENDED
    }

    /// Does the last work, after all workers have ended.
    fn finish(&mut self, _device: &mut Device) {}
}

/// Reason why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A signal requested a stop.
    Stopped(Signal),
    /// The descriptor [`StopSources::done`] became readable.
    Done,
    /// The last port has gone.
    NoPortLeft,
}

/// ForwarderEvent that the observer handles at once.
pub enum ForwarderEvent<'a> {
    /// A line about a port, or a line that the program wrote.
    Notice(String),
    /// A port went down or came up.
    Link(PortId, bool),
    /// A port was added, with this interface. The flag is true if its link is up.
    PortAdded(PortId, &'a str, bool),
    /// A port was removed.
    PortRemoved(PortId),
    /// A packet was traced.
    Traced(&'a Device, TracedPacket),
    /// The interval has passed.
    Tick(&'a Forwarder),
}

/// Sources of a stop request.
pub struct StopSources<'a> {
    /// StopSources signals of the process.
    pub process: &'a ProcessSetup,
    /// Descriptor that becomes readable when there is no more work.
    pub done: Option<BorrowedFd<'a>>,
}

/// Selection of the packets to trace.
pub struct TraceSelection {
    /// Filter for the packets.
    pub filter: PacketFilter,
    /// Share of the matching packets that is traced.
    pub sample: SamplingRate,
    /// Maximum number of traced packets.
    pub count: Option<u64>,
}

/// Forwarding options.
#[derive(Default)]
pub struct ForwarderOptions {
    /// Configuration of the workers.
    pub workers: WorkerConfig,
    /// Notifications that become [`ForwarderEvent::Notice`]s.
    pub notifications: NotificationLevel,
    /// Packets to trace, if any.
    pub tracing: Option<TraceSelection>,
    /// Choice of the packets to trace while the switch runs, if `tracing` chooses none.
    pub trace_control: Option<Arc<TraceControl>>,
    /// Queue of the controllers' requests.
    pub inbox: Option<Inbox>,
    /// Makes the filter of a worker's frames, if frames are filtered.
    pub filter: Option<MakeFilter>,
    /// Extension of the control loop.
    pub extension: Option<Box<dyn ControlExtension>>,
    /// Offload of flows, if any.
    pub offload: Option<OffloadSetup>,
    /// Bounds on changes of the ports by operators. Without them the ports are fixed.
    pub ports: Option<PortControl>,
    /// True if a background thread makes code for what the tables hold.
    pub specialise: bool,
}

/// Makes a filter of frames for one worker.
pub type MakeFilter = Box<dyn Fn() -> Box<dyn FrameFilter>>;

/// Request for a sample, with its reply channel.
pub(crate) type SampleRequest = oneshot::Sender<DeviceSample>;

/// A function that the control loop applies to its device.
type DeviceJob = Box<dyn FnOnce(&mut Device) + Send>;

/// Handle by which other threads change a device, between the steps of its control loop.
#[derive(Clone)]
pub struct DeviceHandle(Sender<DeviceJob>);

impl DeviceHandle {
    /// Runs a job on the device, and returns its result. Returns `None` if the control loop has
    /// ended. Must not be called by the thread of the control loop.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Device) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = channel();
        let job: DeviceJob = Box::new(move |device| {
            // The caller waits for it.
            let _ = answer.send(job(device));
        });
        self.0.send(job).ok()?;
        answered.recv().ok()
    }
}

/// Metrics of one moment.
#[derive(Debug)]
pub(crate) struct DeviceSample {
    /// Counters of the ports.
    pub(crate) ports: Vec<PortReport>,
    /// Counters of the workers.
    pub(crate) workers: Vec<WorkerReport>,
    /// Counters of the device.
    pub(crate) device: DeviceReport,
    /// Number of events (packets, digests, notifications) that wait for the server, and of those
    /// lost because the server was too slow.
    pub(crate) events: (usize, u64),
}

/// A device with its ports and worker threads.
pub struct Forwarder {
    device: Device,
    crew: WorkerPool<Single>,
    heard: Notifications,
    inbox: Option<Inbox>,
    extension: Option<Box<dyn ControlExtension>>,
    offload: Option<Offload>,
    changes: Option<PortChanges>,
    spare: BackgroundIndexing,
    specialiser: Specialiser,
    ask: Sender<SampleRequest>,
    /// Queue of requests for a metrics sample.
    asked: Receiver<SampleRequest>,
    jobs_in: Sender<DeviceJob>,
    jobs: Receiver<DeviceJob>,
    tally: Option<Arc<TraceCounts>>,
    summaries: Summaries,
    turns: LoopTurns,
}

impl Forwarder {
    /// Connects the ports, each with a different number, to the device. The number of workers is
    /// the number of shares of each port.
    ///
    /// # Errors
    /// The operating system provides no descriptors, or the program cannot be offloaded.
    pub fn new(
        mut device: Device,
        ports: Vec<OpenedPort>,
        options: ForwarderOptions,
    ) -> Result<Forwarder, RuntimeError> {
        if let Some(inbox) = &options.inbox {
            inbox.take_settings_requests();
        }
        let mut tally = None;
        let mut readers = Vec::new();
        let (ask, asked) = channel();
        let (jobs_in, jobs) = channel();
        let crew = WorkerPool::new(ports, options.workers, |workers, events| {
            let control = options.trace_control.as_ref();
            let (counts, watches) = watches(options.tracing, control, workers, events);
            tally = counts;
            let mut fronts = Vec::new();
            if let Some(setup) = &options.offload {
                (fronts, readers) = setup.fronts(workers);
            }
            let mut fronts = fronts.into_iter();
            let made = device.workers(workers).into_iter().zip(watches);
            made.map(|(worker, watch)| Single {
                before: Vec::new(),
                worker,
                watch,
                front: fronts.next().map(FrontOfWorker::new),
                filter: options.filter.as_ref().map(|make| make()),
            })
            .collect()
        })?;
        let is_offloaded = options.offload.is_some();
        let changes = options.ports;
        let changes = changes.map(|control| PortChanges::new(control, is_offloaded));
        let offload = options
            .offload
            .map(|setup| Offload::start(setup, readers, &mut device, crew.clock()));
        Ok(Forwarder {
            offload: offload.transpose().map_err(RuntimeError::Offload)?,
            device,
            crew,
            heard: Notifications::new(options.notifications),
            inbox: options.inbox,
            extension: options.extension,
            changes,
            spare: BackgroundIndexing::default(),
            specialiser: Specialiser::new(options.specialise),
            ask,
            asked,
            jobs_in,
            jobs,
            tally,
            summaries: Summaries::default(),
            turns: LoopTurns::default(),
        })
    }

    /// Forwards frames until an event ends it. `observe` receives the events, and a tick every
    /// `interval`.
    ///
    /// # Errors
    /// The operating system provides no threads, or the process cannot wait for its ports.
    pub fn run(
        &mut self,
        stop: &StopSources<'_>,
        interval: Duration,
        observe: &mut dyn FnMut(ForwarderEvent<'_>),
    ) -> Result<Ending, RuntimeError> {
        let threads = self.crew.take_threads();
        let ended = threads.run(|has_ended| {
            let ended = self.look_after(stop, interval, has_ended, observe);
            self.turns.end();
            ended
        });
        if let Some(offload) = &mut self.offload {
            offload.finish(&mut self.device);
        }
        if let Some(extension) = &mut self.extension {
            extension.finish(&mut self.device);
            while let Some(line) = extension.take_notice(&self.device) {
                observe(ForwarderEvent::Notice(line));
            }
        }
        self.hear(observe);
        let is_served = self.inbox.is_some();
        self.heard.finish(&mut self.device, is_served, &mut |line| {
            observe(ForwarderEvent::Notice(line));
        });
        ended
    }

    /// Runs the control loop until an event ends it.
    fn look_after(
        &mut self,
        stop: &StopSources<'_>,
        interval: Duration,
        has_ended: &dyn Fn() -> bool,
        observe: &mut dyn FnMut(ForwarderEvent<'_>),
    ) -> Result<Ending, RuntimeError> {
        let mut poller = Poller::new();
        let mut next_tick = self.crew.now() + Nanos::from(interval);
        loop {
            self.turns.count();
            let now = self.crew.now();
            let has_more = self.serve();
            while let Ok(job) = self.jobs.try_recv() {
                job(&mut self.device);
            }
            // Forwards no packet here. It expires entries and collects the notifications of the
            // workers' packets.
            self.device.step(now);
            let offload = self.offload.as_mut();
            let has_counts = offload.is_some_and(|offload| offload.turn(&mut self.device, now));
            self.extend(observe);
            self.hear(observe);
            self.summaries.turn(&self.device);
            if let Some(line) = self.specialiser.turn(&mut self.device, now) {
                observe(ForwarderEvent::Notice(line));
            }
            self.change_ports(observe);
            self.answer();
            if let Some(ending) = self.ending(stop, &mut poller) {
                return Ok(ending);
            }
            if has_ended() {
                // Joining the threads gives the reason.
                return Ok(Ending::Done);
            }
            if now >= next_tick {
                next_tick = now + Nanos::from(interval);
                observe(ForwarderEvent::Tick(self));
            }
            let has_more = has_more || has_counts;
            let has_work = !has_more && self.spare.turn(&mut self.device, now);
            if !has_more && !has_work {
                self.sleep(now.max(self.crew.now()), next_tick, stop, &mut poller)?;
            }
        }
    }

    /// Executes the controllers' requests. Returns true if there are more.
    fn serve(&mut self) -> bool {
        let Some(inbox) = &mut self.inbox else {
            return false;
        };
        while let Some(request) = inbox.take_settings_request() {
            let answer = settings::serve(&mut self.device, &request.action);
            request.answer(answer);
        }
        inbox.look_for_idle(&self.device);
        inbox.serve(&mut self.device, false)
    }

    /// Gives the extension its messages and its turn, and takes its lines for the log.
    fn extend(&mut self, observe: &mut dyn FnMut(ForwarderEvent<'_>)) {
        let Forwarder {
            device,
            inbox,
            extension,
            ..
        } = self;
        let Some(extension) = extension else {
            return;
        };
        while let Some(line) = extension.take_notice(device) {
            observe(ForwarderEvent::Notice(line));
        }
        let Some(inbox) = inbox else {
            return extension.turn(device, &mut |_| false);
        };
        while let Some(message) = inbox.take_other() {
            if let Err(error) = extension.receive(device, &message) {
                observe(ForwarderEvent::Notice(error));
            }
        }
        extension.turn(device, &mut |message| inbox.send_other(message));
    }

    /// Takes the requests about ports, and goes on with the change that is being made.
    fn change_ports(&mut self, observe: &mut dyn FnMut(ForwarderEvent<'_>)) {
        let Forwarder {
            device,
            crew,
            inbox,
            changes,
            ..
        } = self;
        let (Some(inbox), Some(changes)) = (inbox, changes) else {
            return;
        };
        while let Some(request) = inbox.take_port_request() {
            changes.request(request);
        }
        changes.turn(crew, device);
        let Some(made) = changes.take_made() else {
            return;
        };
        // What the workers said of a removed port comes before its removal.
        self.hear(observe);
        match &made.event {
            PortEvent::Added(port, name, is_up) => {
                observe(ForwarderEvent::PortAdded(*port, name, *is_up));
            }
            PortEvent::Removed(port) => observe(ForwarderEvent::PortRemoved(*port)),
        }
        made.answer();
    }

    /// Answers the requests for samples.
    fn answer(&self) {
        while let Ok(ask) = self.asked.try_recv() {
            // The requester may have gone.
            let _ = ask.send(self.sample());
        }
    }

    fn sample(&self) -> DeviceSample {
        let inbox = self.inbox.as_ref();
        DeviceSample {
            ports: self.port_reports(),
            workers: self.worker_reports(),
            device: self.device_report(),
            events: inbox.map_or((0, 0), |inbox| {
                (inbox.waiting_events(), inbox.lost_events())
            }),
        }
    }

    /// Takes the messages of the program and of the workers out of their queues.
    fn hear(&mut self, observe: &mut dyn FnMut(ForwarderEvent<'_>)) {
        while let Some(told) = self.crew.next_event() {
            match told {
                WorkerEvent::Notice(line) => observe(ForwarderEvent::Notice(line)),
                WorkerEvent::Link(port, is_up) => {
                    if let Some(offload) = &mut self.offload {
                        offload.set_port(port, is_up);
                    }
                    observe(ForwarderEvent::Link(port, is_up));
                }
                WorkerEvent::Observed(observed) => observed.send(&self.device),
                WorkerEvent::Traced(traced) => {
                    observe(ForwarderEvent::Traced(&self.device, *traced));
                    if let Some(tally) = &self.tally {
                        tally.shown();
                    }
                }
            }
        }
        let inbox = self.inbox.as_ref();
        self.heard.hear(&mut self.device, inbox, &mut |line| {
            observe(ForwarderEvent::Notice(line))
        });
    }

    /// Waits for a worker, a stop request, or the device's next timer.
    fn sleep(
        &self,
        now: Nanos,
        next_tick: Nanos,
        stop: &StopSources<'_>,
        poller: &mut Poller,
    ) -> Result<(), RuntimeError> {
        let next = self
            .device
            .next_time()
            .map_or(next_tick, |at| at.min(next_tick));
        let max_sleep = match &self.extension {
            Some(extension) => extension.longest_sleep().min(MAX_SLEEP),
            None => MAX_SLEEP,
        };
        let timeout = Duration::from(next.since(now)).min(max_sleep);
        let inbox = self.inbox.as_ref().map(Inbox::wake_fd);
        let fds = stop
            .process
            .signal_fd()
            .into_iter()
            .chain(stop.done)
            .chain(inbox);
        let waited = poller.wait(
            fds.chain([self.crew.common().office.before_sleep()]),
            timeout,
        );
        self.crew.common().office.after_sleep();
        waited
            .map(drop)
            .map_err(RuntimeError::system("wait for signals"))
    }

    fn ending(&mut self, stop: &StopSources<'_>, poller: &mut Poller) -> Option<Ending> {
        if let Some(signal) = stop.process.take_signal() {
            return Some(Ending::Stopped(signal));
        }
        if self.crew.has_no_port_left() {
            return Some(Ending::NoPortLeft);
        }
        let done = stop
            .done
            .is_some_and(|fd| poller.wait([fd], Duration::ZERO).is_ok_and(|n| n > 0));
        done.then_some(Ending::Done)
    }

    /// Stores all state that survives the switch, and waits until it is durable. Must be called
    /// after all workers have ended.
    ///
    /// # Errors
    /// The state cannot be stored.
    pub fn keep_state(&mut self) -> Result<(), RuntimeError> {
        self.device.step(self.crew.now());
        self.device.keep_cells();
        persistence::commit(&mut self.device)
    }

    /// Returns the source of the device's metrics. `id` is the device id in their labels, and
    /// `server` the handle to the P4Runtime server, if controllers are served.
    pub fn metrics(&self, id: u64, server: Option<ControllerChannel>) -> MetricsSource {
        let source = Source::Device {
            id,
            ask: self.ask.clone(),
            server,
        };
        let offload = self.offload.as_ref().map(Offload::handle);
        MetricsSource::new(source, offload.map(|offload| (id, offload)))
    }

    /// Returns the observers of the packets.
    pub fn observers(&self) -> &Arc<PacketObservers> {
        self.crew.observers()
    }

    /// Returns the observation of the packets for clients of the server.
    pub fn observation(&self) -> Arc<dyn PacketObservation> {
        Arc::new(DeviceObservation {
            observers: Arc::clone(self.crew.observers()),
            events: self.crew.events().clone(),
            summaries: self.summaries.clone(),
            ports: Arc::clone(self.crew.observers().ports()),
            vpdp: None,
        })
    }

    /// Returns the handle by which other threads change the device.
    pub fn device_handle(&self) -> DeviceHandle {
        DeviceHandle(self.jobs_in.clone())
    }

    /// Returns the counter of the turns of the control loop, for a watchdog.
    pub fn turns(&self) -> LoopTurns {
        self.turns.clone()
    }

    /// Returns the counters of the ports.
    pub fn port_reports(&self) -> Vec<PortReport> {
        self.crew.port_reports()
    }

    /// Returns the counters of the workers.
    pub fn worker_reports(&self) -> Vec<WorkerReport> {
        let ledgers = self.device.worker_ledgers();
        let both = self.crew.boards().iter().zip(&ledgers).enumerate();
        both.map(|(number, (board, ledger))| WorkerReport::new(number, &board.read(), ledger))
            .collect()
    }

    /// Returns the counters of the device.
    pub fn device_report(&self) -> DeviceReport {
        let (traced, untraced) = self.tally.as_ref().map_or((0, 0), |tally| tally.counts());
        DeviceReport {
            traced,
            untraced,
            sampled_drops: self.crew.common().drop_sites.read(),
            specialisation: Some(self.specialiser.status(&self.device)),
            ..self.heard.report(&self.device)
        }
    }

    /// Checks packet conservation: every received packet was sent, was dropped with a reason, or
    /// is still inside. Valid only while no worker runs.
    ///
    /// # Errors
    /// The counts do not add up, which is a defect of the device.
    pub fn check_conservation(&self) -> Result<(), RuntimeError> {
        let checked = self.device.check_conservation();
        checked.map_err(RuntimeError::Conservation)
    }
}

/// Returns a tracer for each worker if tracing is enabled, and their common counters.
fn watches(
    tracing: Option<TraceSelection>,
    control: Option<&Arc<TraceControl>>,
    workers: usize,
    events: &EventSender,
) -> (Option<Arc<TraceCounts>>, Vec<Option<PacketTracer>>) {
    let deliver = || {
        let events = events.clone();
        move |traced| events.send(WorkerEvent::Traced(Box::new(traced)))
    };
    let Some(tracing) = tracing else {
        let Some(control) = control else {
            return (None, (0..workers).map(|_| None).collect());
        };
        let tally = Arc::new(TraceCounts::new(None));
        let watch = |number| Some(PacketTracer::controlled(number, control, &tally, deliver()));
        let watches = (0..workers).map(watch).collect();
        return (Some(tally), watches);
    };
    let tally = Arc::new(TraceCounts::new(tracing.count));
    let filter = Arc::new(tracing.filter);
    let watch = |number| {
        let deliver = deliver();
        Some(PacketTracer::new(
            number,
            &filter,
            tracing.sample,
            &tally,
            deliver,
        ))
    };
    let watches = (0..workers).map(watch).collect();
    (Some(tally), watches)
}
