//! The loop of a POF switch: frames between its ports, messages of its controllers.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exec::Engine;
use offload_runtime::{OffloadHandle, OffloadSetup};
use packet::{Batch, Nanos, PortId};
use pof::wire::{Port as PortDescription, PortStats};
use pof::{ControlledSwitch, Fault, Forwarder, ForwarderOptions};
use port::{Poller, Port};

use crate::PofError;
use crate::address::ControllerAddress;
use crate::dialing::{Dialer, Hangup};
use crate::flow_offload::FlowOffload;
use crate::forwarding_port::{ForwardingPort, PortNews};
use crate::listening::Listen;
use crate::mailbox::Mailbox;
use crate::report::{PofReport, PortReport, TableReport};
use crate::sessions::Sessions;
use crate::stored_state::{Keeper, StoredState};
use crate::tls::TlsOptions;

/// Maximum time of the loop between two looks at links, time-outs and controllers.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// Time between two such looks under load.
const LOOK_EVERY: Nanos = Nanos::from_millis(10);

/// Time after which the messages of controllers wait for frames. A message under way is not
/// interrupted.
const CONTROL_TURN: Duration = Duration::from_millis(2);

/// Treatment of packets while no controller is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fail {
    /// They are forwarded by the entries; those that no entry matches are lost.
    #[default]
    Secure,
    /// Each is sent to all ports but its own. Entries do not count.
    Standalone,
}

/// A port, with its description for controllers.
pub type DescribedPort = (PortDescription, Box<dyn Port>);

/// Options of a switch.
pub struct SwitchOptions {
    /// The engine that runs the entries.
    pub engine: Arc<dyn Engine>,
    /// Limits of the tables, and treatment of packets without entry.
    pub forwarder: ForwarderOptions,
    /// The switch's number for controllers.
    pub device: u32,
    /// Treatment of packets without controllers.
    pub fail: Fail,
    /// Offload of flows, if any.
    pub offload: Option<OffloadSetup>,
}

/// End of the loop.
pub struct Stop<'s> {
    /// Returns true when the switch must stop.
    pub is_over: &'s dyn Fn() -> bool,
    /// Descriptor that becomes readable when `is_over` may have become true.
    pub fd: Option<BorrowedFd<'s>>,
}

/// A POF switch on ports.
pub struct PofSwitch {
    switch: ControlledSwitch,
    /// In the order of their numbers.
    ports: Vec<ForwardingPort>,
    batch: Batch,
    sessions: Sessions,
    mailbox: Arc<Mailbox>,
    hangup: Arc<Hangup>,
    keeper: Option<Keeper>,
    offload: Option<FlowOffload>,
    fail: Fail,
    flooded: u64,
    start: Instant,
    poller: Poller,
}

impl PofSwitch {
    /// Creates a switch on ports, described for controllers, with the objects of its stored state,
    /// if any.
    ///
    /// # Errors
    /// The engine, the ports or the stored objects are refused.
    pub fn new(
        options: SwitchOptions,
        ports: Vec<DescribedPort>,
        stored: Option<StoredState>,
    ) -> Result<PofSwitch, PofError> {
        let forwarder = Forwarder::new(options.engine, options.forwarder);
        let mut forwarder = forwarder.map_err(PofError::Load)?;
        let keeper = stored.map(|stored| stored.restore(&mut forwarder));
        let keeper = keeper.transpose()?;
        let (descriptions, ports): (Vec<_>, Vec<_>) = ports.into_iter().unzip();
        let numbers: Vec<u16> = descriptions.iter().map(|port| port.id).collect();
        let switch = ControlledSwitch::new(forwarder, options.device, descriptions);
        let mut switch = switch.map_err(PofError::Ports)?;
        let start = Instant::now();
        let offload = options.offload.map(|setup| {
            let clock = move || Nanos::from(start.elapsed());
            FlowOffload::start(setup, &mut switch, clock)
        });
        let ports = numbers.into_iter().zip(ports);
        let ports = ports.map(|(id, port)| ForwardingPort::new(id, port));
        let mut ports: Vec<ForwardingPort> = ports.collect();
        ports.sort_by_key(ForwardingPort::id);
        Ok(PofSwitch {
            switch,
            ports,
            batch: Batch::with_capacity(Batch::DEFAULT),
            sessions: Sessions::new(),
            mailbox: Arc::new(Mailbox::new().map_err(PofError::system("make a descriptor"))?),
            hangup: Arc::default(),
            keeper,
            offload: offload.transpose()?,
            fail: options.fail,
            flooded: 0,
            start,
            poller: Poller::new(),
        })
    }

    /// Dials a controller from now on.
    ///
    /// # Errors
    /// The TLS settings are wrong, or no thread can be started.
    pub fn dial(&self, address: &ControllerAddress, tls: &TlsOptions) -> Result<(), PofError> {
        let tls = match address.is_tls {
            true => Some(tls.dialer(&address.host)?),
            false => None,
        };
        let dialer = Dialer {
            address: address.clone(),
            tls,
            mailbox: Arc::clone(&self.mailbox),
            hangup: Arc::clone(&self.hangup),
        };
        dialer.start()
    }

    /// Takes connections of controllers from now on.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn listen(&self, listen: Listen) -> Result<(), PofError> {
        listen.start(Arc::clone(&self.mailbox))
    }

    /// Forwards frames and handles messages until `stop`. `notice` gets lines for the user, `tick`
    /// is called now and then.
    ///
    /// # Errors
    /// The process cannot wait for its ports.
    pub fn run(
        &mut self,
        stop: &Stop<'_>,
        notice: &mut dyn FnMut(&str),
        tick: &mut dyn FnMut(&mut PofSwitch),
    ) -> Result<(), PofError> {
        let mut next_look = Nanos::ZERO;
        while !(stop.is_over)() {
            let now = Nanos::from(self.start.elapsed());
            let received = self.forward(now, notice);
            if received > 0 {
                // Messages do not delay the frames.
                self.transmit(now);
            }
            // Counts that wait go to their entries before messages may delete these.
            let has_counts = self.offload(now);
            let has_worked = self.control(now, notice);
            // Answers to messages that wait come first.
            self.report_removed(now);
            if now >= next_look {
                next_look = now + LOOK_EVERY;
                self.look(now, notice);
                tick(self);
            }
            self.transmit(now);
            self.answer(notice);
            if received == 0 && !has_worked && !has_counts {
                self.sleep(stop)?;
            }
        }
        self.end(notice);
        Ok(())
    }

    /// Receives frames of each port once and forwards them. Returns their number.
    fn forward(&mut self, now: Nanos, notice: &mut dyn FnMut(&str)) -> usize {
        let mut received = 0;
        let is_flooding = self.fail == Fail::Standalone && !self.sessions.has_controller();
        for place in 0..self.ports.len() {
            self.batch.clear();
            let port = &mut self.ports[place];
            if let Some(news) = port.receive(&mut self.batch, now) {
                self.take_news(place, news, notice);
            }
            received += self.batch.len();
            let id = self.ports[place].id();
            if !self.switch.receives(id) {
                self.ports[place].refused += self.batch.len() as u64;
                continue;
            }
            match is_flooding {
                true => self.flood(id),
                false => self.take(id, now),
            }
        }
        if received > 0 {
            self.switch.forwarder.device().step(now);
        }
        received
    }

    /// Gives the frames of the batch to the NIC, and to the device those that it does not take.
    fn take(&mut self, id: u16, now: Nanos) {
        let PofSwitch {
            switch,
            ports,
            batch,
            offload,
            ..
        } = self;
        let ingress = PortId(id.into());
        let mut burst = offload.as_mut().map(|offload| offload.front.begin(now));
        for frame in batch.frames() {
            let bytes = frame.bytes();
            let is_taken = burst.as_mut().is_some_and(|burst| {
                burst.takes(ingress, bytes, |port, bytes| send(ports, port.0, bytes))
            });
            if !is_taken {
                // A port gives no frame that is longer than the device takes.
                let _ = switch.forwarder.device().receive(ingress, bytes);
            }
        }
    }

    /// Gives changes to the offload, and its counts to the device. Returns true if more wait.
    fn offload(&mut self, now: Nanos) -> bool {
        let offload = self.offload.as_mut();
        offload.is_some_and(|offload| offload.turn(&mut self.switch, now))
    }

    /// Reports removed entries to the controllers that have all their counts now.
    fn report_removed(&mut self, now: Nanos) {
        let offload = self.offload.as_mut();
        for event in offload.map(FlowOffload::take_events).unwrap_or_default() {
            self.sessions.notify(&event, &self.switch, now);
        }
    }

    /// Sends the frames of the batch to all ports but their own.
    fn flood(&mut self, id: u16) {
        let PofSwitch { ports, batch, .. } = self;
        self.flooded += batch.len() as u64;
        for port in ports.iter_mut().filter(|port| port.id() != id) {
            let frames = batch.frames().iter();
            frames.for_each(|frame| port.send(frame.bytes()));
        }
    }

    /// Handles the messages of controllers for a while. Returns true if there were any.
    fn control(&mut self, now: Nanos, notice: &mut dyn FnMut(&str)) -> bool {
        let lines = self
            .sessions
            .take_news(&self.mailbox, &mut self.switch, now);
        lines.iter().for_each(|line| notice(line));
        let begin = Instant::now();
        let is_over = || begin.elapsed() >= CONTROL_TURN;
        let (has_worked, lines) = self.sessions.handle(&mut self.switch, now, is_over);
        lines.iter().for_each(|line| notice(line));
        if has_worked {
            // Packets of a PACKET_OUT.
            self.switch.forwarder.device().step(now);
            // A PORT_MOD may have changed it.
            for port in &mut self.ports {
                port.is_sending = self.switch.sends(port.id());
            }
        }
        has_worked
    }

    /// Sends the packets that the device has made and those that are flooded, and reports events
    /// to the controllers.
    fn transmit(&mut self, now: Nanos) {
        let PofSwitch {
            switch,
            ports,
            sessions,
            offload,
            ..
        } = self;
        let mut events = switch.drain(|id, bytes| send(ports, id.into(), bytes));
        ports.iter_mut().for_each(ForwardingPort::flush);
        if let Some(offload) = offload {
            events.retain(|event| !offload.holds(event, switch, now));
        }
        for event in &events {
            sessions.notify(event, switch, now);
        }
    }

    /// Stores changes, and sends answers and reports.
    fn answer(&mut self, notice: &mut dyn FnMut(&str)) {
        let PofSwitch {
            switch,
            sessions,
            keeper,
            mailbox,
            ..
        } = self;
        let (mut appended, mut stored) = (0, 0);
        if let Some(keeper) = keeper {
            if let Some(line) = keeper.keep(&mut switch.forwarder, mailbox) {
                notice(&line);
            }
            (appended, stored) = (keeper.appended(), keeper.stored());
        } else {
            switch.forwarder.take_changed();
        }
        let lines = sessions.send(switch, appended, stored);
        lines.iter().for_each(|line| notice(line));
    }

    /// Looks at links, time-outs, and silent controllers.
    fn look(&mut self, now: Nanos, notice: &mut dyn FnMut(&str)) {
        if let Some(offload) = &mut self.offload {
            // Samples leave also while no frames come.
            offload.front.begin(now);
        }
        for place in 0..self.ports.len() {
            for news in self.ports[place].look(now) {
                self.take_news(place, news, notice);
            }
        }
        let counts = self.ports.iter_mut().map(|port| {
            let id = port.id();
            let stats = port.port().stats();
            PortStats {
                port: id.into(),
                received_packets: stats.rx_frames,
                sent_packets: stats.tx_frames,
                received_bytes: stats.rx_bytes,
                sent_bytes: stats.tx_bytes,
            }
        });
        self.switch.set_port_counts(counts.collect());
        self.switch.forwarder.device().step(now);
        self.switch.forwarder.expire();
        let lines = self.sessions.watch(&mut self.switch, now);
        lines.iter().for_each(|line| notice(line));
    }

    fn take_news(&mut self, place: usize, news: PortNews, notice: &mut dyn FnMut(&str)) {
        match news {
            PortNews::Notice(line) => notice(&line),
            PortNews::Link(is_up) => {
                let id = self.ports[place].id();
                if let Some(offload) = &mut self.offload {
                    // A PORT_MOD may forbid to send.
                    offload.set_port(id, is_up && self.switch.sends(id));
                }
                if let Err(error) = self.switch.set_link(id, is_up) {
                    notice(&format!("port {id}: its groups keep their ports: {error}"));
                }
            }
        }
    }

    fn sleep(&mut self, stop: &Stop<'_>) -> Result<(), PofError> {
        let wakeup = self.mailbox.wakeup().before_sleep();
        let stored = self.keeper.as_ref().map_or(0, Keeper::stored);
        let has_work = !self.mailbox.is_empty() || self.sessions.has_work(stored);
        let timeout = if has_work { Duration::ZERO } else { MAX_SLEEP };
        let fds = self.ports.iter().filter_map(ForwardingPort::poll_fd);
        let fds = fds.chain(stop.fd).chain([wakeup]);
        let waited = self.poller.wait(fds, timeout);
        self.mailbox.wakeup().after_sleep();
        waited
            .map(drop)
            .map_err(PofError::system("wait for the ports"))
    }

    fn end(&mut self, notice: &mut dyn FnMut(&str)) {
        if let Some(offload) = &mut self.offload {
            offload.finish(&mut self.switch);
            self.report_removed(Nanos::from(self.start.elapsed()));
            self.answer(notice);
        }
        self.hangup.end();
        self.sessions.close(&mut self.switch);
        self.ports.iter_mut().for_each(ForwardingPort::flush);
    }

    /// Returns a handle to ask for reports of the offload, if there is one.
    pub fn offload_handle(&self) -> Option<OffloadHandle> {
        self.offload.as_ref().map(FlowOffload::handle)
    }

    /// Returns the counts and states of the switch.
    pub fn report(&mut self) -> PofReport {
        let ports = self.ports.iter_mut().map(|port| {
            let (id, up, refused) = (port.id(), port.is_up(), port.refused);
            let name = port.port().name().to_owned();
            let stats = port.port().stats();
            PortReport {
                port: id,
                name,
                up,
                received: stats.rx_frames,
                received_bytes: stats.rx_bytes,
                sent: stats.tx_frames,
                sent_bytes: stats.tx_bytes,
                receive_dropped: stats.rx_dropped.total(),
                send_dropped: stats.tx_dropped.total(),
                refused,
            }
        });
        let ports = ports.collect();
        let forwarder = &self.switch.forwarder;
        let tables = forwarder.tables().tables().map(|(number, table)| {
            let (hits, misses) = forwarder.hits(number);
            TableReport {
                table: number.0,
                name: table.name.to_string(),
                entries: table.len() as u64,
                size: table.size,
                hits,
                misses,
            }
        });
        let tables: Vec<TableReport> = tables.collect();
        let (packet_ins_dropped, reports_dropped) = self.sessions.dropped();
        PofReport {
            seconds: self.start.elapsed().as_secs_f64(),
            ports,
            controllers: self.sessions.reports(&self.switch),
            entries: tables.iter().map(|table| table.entries).sum(),
            tables,
            programs: forwarder.programs(),
            connections: self.sessions.connections,
            packet_ins_without_controller: self.sessions.without_controller,
            packet_ins_dropped,
            reports_dropped,
            flooded: self.flooded,
            offloaded: self.offload.as_ref().map(|offload| offload.front.taken()),
            faults: Fault::ALL.map(|fault| forwarder.faults(fault)),
            state_failures: self.keeper.as_ref().map_or(0, Keeper::failures),
        }
    }
}

/// Puts a frame into the queue of a port. One for no port is lost, as in the software.
fn send(ports: &mut [ForwardingPort], port: u32, bytes: &[u8]) {
    let place = u16::try_from(port).ok();
    let place = place.and_then(|id| ports.binary_search_by_key(&id, ForwardingPort::id).ok());
    if let Some(place) = place {
        ports[place].send(bytes);
    }
}
