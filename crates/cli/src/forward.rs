//! Worker threads between ports, and their control loop: the core of `run` and `demo`.
//!
//! Packets are processed by the workers, each on its thread ([`WorkerThread`]). The control loop
//! runs on the caller's thread. It does the work that concerns the whole device: time,
//! notifications, signals, reports.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use p4rt::Inbox;
use packet::{Nanos, PortId};
use port::{OpenedPort, Poller, Signal};
use switch::Device;
use tokio::sync::oneshot;

use crate::background_indexing::BackgroundIndexing;
use crate::notifications::Notifications;
use crate::packet_processor::Single;
use crate::process_setup::ProcessSetup;
use crate::report::{DeviceReport, PortReport, WorkerReport};
use crate::state;
use crate::watch::{self, Filter, Tally, Traced, Watch};
use crate::worker_pool::WorkerPool;
use crate::worker_thread::{Common, WorkerConfig, WorkerEvent};

/// Maximum sleep of the control loop, and so the maximum delay of the program's messages.
const MAX_SLEEP: Duration = Duration::from_millis(10);

/// Reason why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A signal requested a stop.
    Stopped(Signal),
    /// The descriptor [`Stop::done`] became readable.
    Done,
    /// The last port has gone.
    NoPortLeft,
}

/// Event that the observer handles at once.
pub(crate) enum Event<'a> {
    /// A line about a port, or a line that the program wrote.
    Notice(String),
    /// A port went down or came up.
    Link(PortId, bool),
    /// A packet was traced.
    Traced(&'a Device, Traced),
    /// The interval has passed.
    Tick(&'a Forwarder),
}

/// Sources of a stop request.
pub(crate) struct Stop<'a> {
    /// Stop signals of the process.
    pub(crate) early: &'a ProcessSetup,
    /// Descriptor that becomes readable when there is no more work.
    pub(crate) done: Option<BorrowedFd<'a>>,
}

/// Selection of the packets to trace.
pub(crate) struct Tracing {
    pub(crate) filter: Filter,
    pub(crate) sample: watch::Sample,
    /// Maximum number of traced packets.
    pub(crate) count: Option<u64>,
}

/// Forwarding options.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) habits: WorkerConfig,
    pub(crate) tracing: Option<Tracing>,
    /// Queue of the controllers' requests.
    pub(crate) inbox: Option<Inbox>,
    /// Queue of requests for a metrics sample.
    pub(crate) asked: Option<Receiver<Ask>>,
}

/// Request for a sample, with its reply channel.
pub(crate) type Ask = oneshot::Sender<Sample>;

/// Metrics of one moment.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) ports: Vec<PortReport>,
    pub(crate) workers: Vec<WorkerReport>,
    pub(crate) device: DeviceReport,
    /// Number of events (packets, digests, notifications) that wait for the server, and of those
    /// lost because the server was too slow.
    pub(crate) events: (usize, u64),
}

/// A device with its ports and worker threads.
pub(crate) struct Forwarder {
    device: Device,
    crew: WorkerPool<Single>,
    heard: Notifications,
    inbox: Option<Inbox>,
    spare: BackgroundIndexing,
    asked: Option<Receiver<Ask>>,
    tally: Option<Arc<Tally>>,
}

impl Forwarder {
    /// Connects the ports, each with a different number, to the device. The number of workers is
    /// the number of shares of each port.
    ///
    /// # Errors
    /// The operating system provides no descriptors.
    pub(crate) fn new(
        mut device: Device,
        ports: Vec<OpenedPort>,
        plan: Plan,
    ) -> Result<Forwarder, String> {
        let mut tally = None;
        let crew = WorkerPool::new(ports, plan.habits, |workers, tell, common| {
            let (counts, watches) = watches(plan.tracing, workers, tell, common);
            tally = counts;
            let made = device.workers(workers).into_iter().zip(watches);
            made.map(|(worker, watch)| Single { worker, watch })
                .collect()
        })?;
        Ok(Forwarder {
            device,
            crew,
            heard: Notifications::default(),
            inbox: plan.inbox,
            spare: BackgroundIndexing::default(),
            asked: plan.asked,
            tally,
        })
    }

    /// Forwards frames until an event ends it. `observe` receives the events, and a tick every
    /// `interval`.
    ///
    /// # Errors
    /// The operating system provides no threads, or the process cannot wait for its ports.
    pub(crate) fn run(
        &mut self,
        stop: &Stop<'_>,
        interval: Duration,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<Ending, String> {
        let threads = self.crew.take_threads();
        let ended = threads.run(|has_ended| self.look_after(stop, interval, has_ended, observe));
        self.hear(observe);
        let is_served = self.inbox.is_some();
        self.heard.finish(&mut self.device, is_served, &mut |line| {
            observe(Event::Notice(line));
        });
        ended
    }

    /// Runs the control loop until an event ends it.
    fn look_after(
        &mut self,
        stop: &Stop<'_>,
        interval: Duration,
        has_ended: &dyn Fn() -> bool,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<Ending, String> {
        let mut poller = Poller::new();
        let mut next_tick = self.crew.common().now() + Nanos::from(interval);
        loop {
            let now = self.crew.common().now();
            let has_more = self.serve();
            // Forwards no packet here. It expires entries and collects the notifications of the
            // workers' packets.
            self.device.step(now);
            self.hear(observe);
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
                observe(Event::Tick(self));
            }
            let has_work = !has_more && self.spare.turn(&mut self.device, now);
            if !has_more && !has_work {
                self.sleep(
                    now.max(self.crew.common().now()),
                    next_tick,
                    stop,
                    &mut poller,
                )?;
            }
        }
    }

    /// Executes the controllers' requests. Returns true if there are more.
    fn serve(&mut self) -> bool {
        let Some(inbox) = &mut self.inbox else {
            return false;
        };
        inbox.look_for_idle(&self.device);
        inbox.serve(&mut self.device, false)
    }

    /// Answers the requests for samples.
    fn answer(&self) {
        while let Some(Ok(ask)) = self.asked.as_ref().map(Receiver::try_recv) {
            // The requester may have gone.
            let _ = ask.send(self.sample());
        }
    }

    fn sample(&self) -> Sample {
        let inbox = self.inbox.as_ref();
        Sample {
            ports: self.port_reports(),
            workers: self.worker_reports(),
            device: self.device_report(),
            events: inbox.map_or((0, 0), |inbox| {
                (inbox.waiting_events(), inbox.lost_events())
            }),
        }
    }

    /// Takes the messages of the program and of the workers out of their queues.
    fn hear(&mut self, observe: &mut dyn FnMut(Event<'_>)) {
        while let Some(told) = self.crew.hear() {
            match told {
                WorkerEvent::Notice(line) => observe(Event::Notice(line)),
                WorkerEvent::Link(port, is_up) => observe(Event::Link(port, is_up)),
                WorkerEvent::Traced(traced) => {
                    observe(Event::Traced(&self.device, *traced));
                    if let Some(tally) = &self.tally {
                        tally.shown();
                    }
                }
            }
        }
        let inbox = self.inbox.as_ref();
        self.heard.hear(&mut self.device, inbox, &mut |line| {
            observe(Event::Notice(line))
        });
    }

    /// Waits for a worker, a stop request, or the device's next timer.
    fn sleep(
        &self,
        now: Nanos,
        next_tick: Nanos,
        stop: &Stop<'_>,
        poller: &mut Poller,
    ) -> Result<(), String> {
        let next = self
            .device
            .next_time()
            .map_or(next_tick, |at| at.min(next_tick));
        let timeout = Duration::from(next.since(now)).min(MAX_SLEEP);
        let inbox = self.inbox.as_ref().map(Inbox::wake_fd);
        let fds = stop
            .early
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
            .map_err(|e| format!("cannot wait for signals: {e}"))
    }

    fn ending(&mut self, stop: &Stop<'_>, poller: &mut Poller) -> Option<Ending> {
        if let Some(signal) = stop.early.take_signal() {
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
    pub(crate) fn keep_state(&mut self) -> Result<(), String> {
        self.device.step(self.crew.common().now());
        self.device.keep_cells();
        state::commit(&mut self.device)
    }

    /// Returns the counters of the ports.
    pub(crate) fn port_reports(&self) -> Vec<PortReport> {
        self.crew.port_reports()
    }

    /// Returns the counters of the workers.
    pub(crate) fn worker_reports(&self) -> Vec<WorkerReport> {
        let ledgers = self.device.worker_ledgers();
        let both = self.crew.boards().iter().zip(&ledgers).enumerate();
        both.map(|(number, (board, ledger))| WorkerReport::new(number, &board.read(), ledger))
            .collect()
    }

    /// Returns the counters of the device.
    pub(crate) fn device_report(&self) -> DeviceReport {
        let (traced, untraced) = self.tally.as_ref().map_or((0, 0), |tally| tally.counts());
        DeviceReport {
            traced,
            untraced,
            ..self.heard.report(&self.device)
        }
    }

    /// Checks packet conservation: every received packet was sent, was dropped with a reason, or
    /// is still inside. Valid only while no worker runs.
    ///
    /// # Errors
    /// The counts do not add up, which is a defect of the device.
    pub(crate) fn check_conservation(&self) -> Result<(), String> {
        let checked = self.device.check_conservation();
        checked.map_err(|unbalanced| unbalanced.to_string())
    }
}

/// Returns a tracer for each worker if tracing is enabled, and their common counters.
fn watches(
    tracing: Option<Tracing>,
    workers: usize,
    tell: &Sender<WorkerEvent>,
    common: &Arc<Common>,
) -> (Option<Arc<Tally>>, Vec<Option<Watch>>) {
    let Some(tracing) = tracing else {
        return (None, (0..workers).map(|_| None).collect());
    };
    let tally = Arc::new(Tally::new(tracing.count));
    let filter = Arc::new(tracing.filter);
    let watch = |number| {
        let (tell, common) = (tell.clone(), Arc::clone(common));
        let deliver = move |traced| {
            // The control loop receives as long as workers run.
            let _ = tell.send(WorkerEvent::Traced(Box::new(traced)));
            common.office.wake();
        };
        Some(Watch::new(number, &filter, tracing.sample, &tally, deliver))
    };
    let watches = (0..workers).map(watch).collect();
    (Some(tally), watches)
}
