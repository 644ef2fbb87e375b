//! The loop between ports and a device: what `run` and `demo` do all the time.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use exec::DropReason;
use packet::{Batch, Nanos, PortId};
use port::{LinkState, Poller, Port, PortError, Signal};
use switch::Device;

use crate::early::Early;
use crate::heard::Heard;
use crate::report::{DeviceReport, PortReport};

/// The longest that the loop sleeps: links are looked after and observers called this often at least.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// How long a link must have been down before it is said: one that is being removed goes down first, and is told as gone only.
const SETTLE: Nanos = Nanos::from_millis(150);

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A signal asked for it.
    Stopped(Signal),
    /// The descriptor that says so became readable.
    Done,
    /// The last port has gone.
    NoPortLeft,
}

/// Something that the user should hear of at once.
pub(crate) enum Event<'a> {
    /// A line about a port, or one that the program wrote.
    Notice(String),
    /// Time has passed; the ports have carried this.
    Tick(&'a [PortReport]),
}

/// What ends the loop from outside.
pub(crate) struct Stop<'a> {
    /// Signals to the process.
    pub(crate) early: &'a Early,
    /// A descriptor that becomes readable when there is nothing left to do.
    pub(crate) done: Option<BorrowedFd<'a>>,
}

/// Ports joined by a device.
pub(crate) struct Forwarder {
    device: Device,
    ports: Vec<Attached>,
    /// Where in `ports` a port number is.
    places: HashMap<PortId, usize>,
    batch: Batch,
    poller: Poller,
    start: Instant,
    heard: Heard,
}

/// A port and what waits to be sent by it.
struct Attached {
    port: Box<dyn Port>,
    outgoing: Batch,
    /// If it does not carry frames.
    trouble: Option<Trouble>,
}

/// Why a port does not carry frames.
enum Trouble {
    /// Its link is down; the line is for the user, who is told when it has been down for a while.
    Down {
        line: String,
        since: Nanos,
        is_told: bool,
    },
    /// It never will again.
    Gone,
}

impl Forwarder {
    /// Joins the ports, each with a number of its own, by the device.
    pub(crate) fn new(device: Device, ports: Vec<Box<dyn Port>>) -> Forwarder {
        let places = ports.iter().enumerate().map(|(i, port)| (port.id(), i));
        Forwarder {
            places: places.collect(),
            ports: ports.into_iter().map(Attached::new).collect(),
            device,
            batch: Batch::with_capacity(Batch::USUAL),
            poller: Poller::new(),
            start: Instant::now(),
            heard: Heard::default(),
        }
    }

    /// Carries frames until something ends it. `observe` hears of what happens, and of the time every `interval`.
    ///
    /// # Errors
    /// The operating system does not let the process wait for its ports.
    pub(crate) fn run(
        &mut self,
        stop: &Stop<'_>,
        interval: Duration,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<Ending, String> {
        let mut next_look = Nanos::ZERO;
        let mut next_tick = self.now() + Nanos::from(interval);
        loop {
            let now = self.now();
            let received = self.receive(now, observe);
            self.device.step(now);
            self.transmit();
            self.hear(observe);
            if received == 0 {
                self.sleep(now, stop)?;
            } else if now < next_look {
                continue;
            }
            next_look = now + Nanos::from_millis(5);
            self.notice_links(now, observe);
            if let Some(ending) = self.ending(stop) {
                return Ok(ending);
            }
            if now >= next_tick {
                next_tick = now + Nanos::from(interval);
                observe(Event::Tick(&self.port_reports()));
            }
        }
    }

    /// What the ports have carried.
    pub(crate) fn port_reports(&mut self) -> Vec<PortReport> {
        let report = |attached: &mut Attached| {
            let stats = attached.port.stats();
            PortReport::new(attached.port.id().0, attached.port.name(), &stats)
        };
        self.ports.iter_mut().map(report).collect()
    }

    /// What the device has done.
    pub(crate) fn device_report(&self) -> DeviceReport {
        self.heard.report(&self.device)
    }

    /// Checks that every packet that came in went out, was dropped by name or is still inside.
    ///
    /// # Errors
    /// It is not so: a defect of the device.
    pub(crate) fn check_conservation(&self) -> Result<(), String> {
        let checked = self.device.check_conservation();
        checked.map_err(|unbalanced| unbalanced.to_string())
    }

    /// The time since the start: the device's clock.
    fn now(&self) -> Nanos {
        Nanos::from(self.start.elapsed())
    }

    /// Takes a batch from each port into the device; how many frames there were.
    fn receive(&mut self, now: Nanos, observe: &mut dyn FnMut(Event<'_>)) -> usize {
        let mut received = 0;
        for attached in &mut self.ports {
            if attached.is_gone() {
                continue;
            }
            self.batch.clear();
            if let Err(error) = attached.port.rx(&mut self.batch, now) {
                attached.notice_error(&error, now, observe);
            }
            received += self.batch.len();
            for frame in self.batch.frames() {
                // A port gives no frame that is longer than a frame may be.
                let taken = self.device.receive(frame.ingress, frame.bytes());
                debug_assert!(taken.is_ok());
            }
        }
        received
    }

    /// Sends what the device has put out.
    fn transmit(&mut self) {
        let Forwarder {
            device,
            ports,
            places,
            ..
        } = self;
        let mut stranded = 0;
        device.drain_sent(|port, bytes, _| match places.get(&port) {
            Some(&place) => ports[place].send(bytes),
            None => stranded += 1,
        });
        for _ in 0..stranded {
            device.count_drop(DropReason::NoSuchPort);
        }
        ports.iter_mut().for_each(Attached::flush);
    }

    /// Takes what the program says, so that there is room for more.
    fn hear(&mut self, observe: &mut dyn FnMut(Event<'_>)) {
        self.heard
            .hear(&mut self.device, &mut |line| observe(Event::Notice(line)));
    }

    /// Waits for a frame, a stop or the device's next timer.
    fn sleep(&mut self, now: Nanos, stop: &Stop<'_>) -> Result<(), String> {
        let until_timer = self
            .device
            .next_time()
            .map(|at| Duration::from(at.since(now)));
        let timeout = until_timer.map_or(LONGEST_SLEEP, |span| span.min(LONGEST_SLEEP));
        let alive = self.ports.iter().filter(|attached| !attached.is_gone());
        let fds = alive
            .filter_map(|attached| attached.port.poll_fd())
            .chain(stop.early.signal_fd())
            .chain(stop.done);
        let waited = self.poller.wait(fds, timeout);
        waited
            .map(drop)
            .map_err(|e| format!("cannot wait for the ports: {e}"))
    }

    fn ending(&mut self, stop: &Stop<'_>) -> Option<Ending> {
        if let Some(signal) = stop.early.take_signal() {
            return Some(Ending::Stopped(signal));
        }
        if self.ports.iter().all(|attached| attached.is_gone()) {
            return Some(Ending::NoPortLeft);
        }
        let poller = &mut self.poller;
        let done = stop
            .done
            .is_some_and(|fd| poller.wait([fd], Duration::ZERO).is_ok_and(|n| n > 0));
        done.then_some(Ending::Done)
    }

    /// Tells of links that came up again or went down without an error.
    fn notice_links(&mut self, now: Nanos, observe: &mut dyn FnMut(Event<'_>)) {
        for attached in &mut self.ports {
            attached.notice_link(now, observe);
        }
    }
}

impl Attached {
    fn new(port: Box<dyn Port>) -> Attached {
        Attached {
            port,
            outgoing: Batch::with_capacity(Batch::USUAL),
            trouble: None,
        }
    }

    /// Puts a frame behind those that wait to be sent.
    fn send(&mut self, bytes: &[u8]) {
        if self.outgoing.room() == 0 {
            self.flush();
        }
        if let Some(frame) = self.outgoing.push() {
            // The device has no packet that is longer than a frame may be.
            let assigned = frame.assign(bytes);
            debug_assert!(assigned.is_ok());
        }
    }

    /// Sends what waits. What became of each frame is in the port's statistics.
    fn flush(&mut self) {
        if !self.outgoing.is_empty() {
            self.port.tx(self.outgoing.frames());
            self.outgoing.clear();
        }
    }

    fn is_gone(&self) -> bool {
        matches!(self.trouble, Some(Trouble::Gone))
    }

    /// Takes an error of the port; tells the user at once if the port will not work again.
    fn notice_error(&mut self, error: &PortError, now: Nanos, observe: &mut dyn FnMut(Event<'_>)) {
        let line = format!("port {}: {error}", self.port.id());
        if error.is_recoverable() {
            self.trouble = Some(Trouble::Down {
                line,
                since: now,
                is_told: false,
            });
        } else {
            self.trouble = Some(Trouble::Gone);
            observe(Event::Notice(line));
        }
    }

    /// Tells the user of a link that stays down, and of one that came up again.
    fn notice_link(&mut self, now: Nanos, observe: &mut dyn FnMut(Event<'_>)) {
        let Some(Trouble::Down {
            line,
            since,
            is_told,
        }) = &mut self.trouble
        else {
            return;
        };
        let is_up = self.port.link() == LinkState::Up;
        if !*is_told && (is_up || now.since(*since) >= SETTLE) {
            *is_told = true;
            observe(Event::Notice(line.clone()));
        }
        if is_up {
            self.trouble = None;
            let line = format!("port {}: {} is up again", self.port.id(), self.port.name());
            observe(Event::Notice(line));
        }
    }
}
