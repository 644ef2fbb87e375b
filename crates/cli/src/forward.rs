//! The loop between ports and a device: what `run` and `demo` do all the time.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use packet::{Batch, Frame, Nanos, PortId};
use port::{LinkState, Poller, Port, Signal, StopSignals};
use switch::Device;

use crate::configure;
use crate::report::{DeviceReport, Drops, PortReport};

/// The longest that the loop sleeps: links are looked after and observers called this often at least.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

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
    /// A line about a port or from the program.
    Notice(String),
    /// Time has passed; the ports have carried this.
    Tick(&'a [PortReport]),
}

/// What ends the loop from outside.
pub(crate) struct Stop<'a> {
    /// Signals to the process.
    pub(crate) signals: &'a StopSignals,
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
    /// Packets for port numbers that have no interface.
    stranded: u64,
}

/// A port and what waits to be sent by it.
struct Attached {
    port: Box<dyn Port>,
    outgoing: Vec<Frame>,
    /// What the user was last told.
    told: LinkState,
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
            stranded: 0,
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
        self.notice_links(observe);
        let mut next_look = Nanos::ZERO;
        let mut next_tick = self.now() + Nanos::from(interval);
        loop {
            let now = self.now();
            let received = self.receive(now, observe);
            self.device.step(now);
            self.transmit();
            if received == 0 {
                self.sleep(now, stop)?;
            } else if now < next_look {
                continue;
            }
            next_look = now + Nanos::from_millis(5);
            self.notice_links(observe);
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
        let mut report = configure::report(&self.device);
        if self.stranded > 0 {
            report.dropped.push(Drops {
                reason: "no_such_port".to_owned(),
                packets: self.stranded,
            });
        }
        report
    }

    /// The time since the start: the device's clock.
    fn now(&self) -> Nanos {
        Nanos::from(self.start.elapsed())
    }

    /// Takes a batch from each port into the device; how many frames there were.
    fn receive(&mut self, now: Nanos, observe: &mut dyn FnMut(Event<'_>)) -> usize {
        let mut received = 0;
        for attached in &mut self.ports {
            if attached.told == LinkState::Gone {
                continue;
            }
            self.batch.clear();
            if let Err(error) = attached.port.rx(&mut self.batch, now) {
                attached.tell(&error, observe);
            }
            received += self.batch.len();
            for frame in self.batch.frames() {
                self.device.inject(frame.ingress, frame.bytes(), now);
            }
        }
        received
    }

    /// Sends what the device has put out.
    fn transmit(&mut self) {
        while let Some((port, frame)) = self.device.take_output() {
            match self.places.get(&port) {
                Some(&place) => self.ports[place].outgoing.push(frame),
                None => self.stranded += 1,
            }
        }
        for attached in &mut self.ports {
            if !attached.outgoing.is_empty() {
                // What became of each frame is in the port's statistics.
                attached.port.tx(&attached.outgoing);
                for frame in attached.outgoing.drain(..) {
                    self.device.recycle(frame);
                }
            }
        }
    }

    /// Waits for a frame, a stop or the device's next timer.
    fn sleep(&mut self, now: Nanos, stop: &Stop<'_>) -> Result<(), String> {
        let until_timer = self
            .device
            .next_timer()
            .map(|at| Duration::from(at.since(now)));
        let timeout = until_timer.map_or(LONGEST_SLEEP, |span| span.min(LONGEST_SLEEP));
        let alive = self
            .ports
            .iter()
            .filter(|attached| attached.told != LinkState::Gone);
        let fds = alive
            .filter_map(|attached| attached.port.poll_fd())
            .chain([stop.signals.poll_fd()])
            .chain(stop.done);
        let waited = self.poller.wait(fds, timeout);
        waited
            .map(drop)
            .map_err(|e| format!("cannot wait for the ports: {e}"))
    }

    fn ending(&mut self, stop: &Stop<'_>) -> Option<Ending> {
        if let Some(signal) = stop.signals.take() {
            return Some(Ending::Stopped(signal));
        }
        if self
            .ports
            .iter()
            .all(|attached| attached.told == LinkState::Gone)
        {
            return Some(Ending::NoPortLeft);
        }
        let poller = &mut self.poller;
        let done = stop
            .done
            .is_some_and(|fd| poller.wait([fd], Duration::ZERO).is_ok_and(|n| n > 0));
        done.then_some(Ending::Done)
    }

    /// Tells of links that came up again or went down without an error.
    fn notice_links(&mut self, observe: &mut dyn FnMut(Event<'_>)) {
        for attached in &mut self.ports {
            attached.notice_link(observe);
        }
    }
}

impl Attached {
    fn new(port: Box<dyn Port>) -> Attached {
        Attached {
            port,
            outgoing: Vec::new(),
            told: LinkState::Up,
        }
    }

    /// Tells the user of an error of the port, and of a port that will not work again only once.
    fn tell(&mut self, error: &port::PortError, observe: &mut dyn FnMut(Event<'_>)) {
        self.told = if error.is_recoverable() {
            LinkState::Down
        } else {
            LinkState::Gone
        };
        observe(Event::Notice(format!("port {}: {error}", self.port.id())));
    }

    fn notice_link(&mut self, observe: &mut dyn FnMut(Event<'_>)) {
        if self.told == LinkState::Down && self.port.link() == LinkState::Up {
            self.told = LinkState::Up;
            let line = format!("port {}: {} is up again", self.port.id(), self.port.name());
            observe(Event::Notice(line));
        }
    }
}
