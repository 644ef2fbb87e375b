//! The loop of a POF switch beside its workers: messages of controllers, time-outs, programs.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exec::{DropReason, Engine};
use offload_runtime::{OffloadHandle, OffloadSetup};
use packet::{Batch, Nanos, PortId};
use pof::wire::{Port as PortDescription, PortStats};
use pof::{ControlledSwitch, Fault, Forwarder, ForwarderOptions};
use port::{MemoryPort, OpenedPort, Poller, Port};
use runtime::{WorkerConfig, WorkerEvent, WorkerPool};

use crate::PofError;
use crate::address::ControllerAddress;
use crate::dialing::{Dialer, Hangup};
use crate::flow_offload::FlowOffload;
use crate::forwarding::{PofWorker, Shared};
use crate::listening::Listen;
use crate::mailbox::Mailbox;
use crate::program_maker::ProgramMaker;
use crate::report::{PofReport, PortReport, TableReport};
use crate::sessions::Sessions;
use crate::stored_state::{Keeper, StoredState};
use crate::tls::TlsOptions;

/// Maximum time of the loop between two looks at links, time-outs and controllers.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// Time between two such looks under load. Workers publish the state of their ports more often.
const LOOK_EVERY: Nanos = Nanos::from_millis(10);

/// Time after which the messages of controllers wait for other work of the loop. A message under
/// way is not interrupted.
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
pub type DescribedPort = (PortDescription, OpenedPort);

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
    /// Configuration of the workers.
    pub workers: WorkerConfig,
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
    pool: WorkerPool<PofWorker>,
    shared: Arc<Shared>,
    /// Packets of each worker for the controllers.
    reported: Vec<MemoryPort>,
    batch: Batch,
    sessions: Sessions,
    mailbox: Arc<Mailbox>,
    programs: ProgramMaker,
    hangup: Arc<Hangup>,
    keeper: Option<Keeper>,
    offload: Option<FlowOffload>,
    fail: Fail,
    /// Time at which a worker has reported a link.
    link_at: Nanos,
    poller: Poller,
}

impl PofSwitch {
    /// Creates a switch on ports, described for controllers, with the objects of its stored state,
    /// if any. The number of workers is the number of shares of each port.
    ///
    /// # Errors
    /// The engine, the ports or the stored objects are refused.
    pub fn new(
        options: SwitchOptions,
        ports: Vec<DescribedPort>,
        stored: Option<StoredState>,
    ) -> Result<PofSwitch, PofError> {
        let forwarder = Forwarder::new(options.engine, options.forwarder);
        let forwarder = forwarder.map_err(PofError::Load)?;
        let (descriptions, ports): (Vec<_>, Vec<_>) = ports.into_iter().unzip();
        let switch = ControlledSwitch::new(forwarder, options.device, descriptions);
        let mut switch = switch.map_err(PofError::Ports)?;
        let keeper = stored.map(|stored| stored.restore(&mut switch));
        let keeper = keeper.transpose()?;
        switch.forwarder.defer_programs();
        let mailbox = Mailbox::new().map_err(PofError::system("make a descriptor"))?;
        let mailbox = Arc::new(mailbox);
        let workers = ports.first().map_or(1, |port| port.shares.len());
        let shared = Arc::new(Shared::new(&switch, workers));
        let mut reported = Vec::new();
        let mut readers = Vec::new();
        let pool = WorkerPool::new(ports, options.workers, |workers, _| {
            let mut fronts = Vec::new();
            if let Some(setup) = &options.offload {
                (fronts, readers) = setup.fronts(workers);
            }
            let mut fronts = fronts.into_iter();
            let made = switch.forwarder.device().workers(workers).into_iter();
            made.enumerate()
                .map(|worker| {
                    let front = fronts.next();
                    let (worker, of_loop) = PofWorker::new(worker, front, &shared, &mailbox);
                    reported.push(of_loop);
                    worker
                })
                .collect()
        });
        let pool = pool.map_err(PofError::Workers)?;
        let offload = options
            .offload
            .map(|setup| FlowOffload::start(setup, readers, &mut switch, pool.clock()));
        Ok(PofSwitch {
            switch,
            pool,
            shared,
            reported,
            batch: Batch::with_capacity(Batch::DEFAULT),
            sessions: Sessions::new(),
            programs: ProgramMaker::start(&mailbox)?,
            mailbox,
            hangup: Arc::default(),
            keeper,
            offload: offload.transpose()?,
            fail: options.fail,
            link_at: Nanos::ZERO,
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

    /// Forwards frames by workers and handles messages until `stop`. May be called once. `notice`
    /// gets lines for the user, `tick` is called now and then. A `notice` that waits delays
    /// messages, and no frames.
    ///
    /// # Errors
    /// There are no threads, or they cannot wait for their ports.
    pub fn run(
        &mut self,
        stop: &Stop<'_>,
        notice: &mut dyn FnMut(&str),
        tick: &mut dyn FnMut(&mut PofSwitch),
    ) -> Result<(), PofError> {
        let threads = self.pool.take_threads();
        let ran = threads.run(|has_ended| self.control_loop(stop, has_ended, notice, tick));
        self.end(notice);
        ran
    }

    fn control_loop(
        &mut self,
        stop: &Stop<'_>,
        has_ended: &dyn Fn() -> bool,
        notice: &mut dyn FnMut(&str),
        tick: &mut dyn FnMut(&mut PofSwitch),
    ) -> Result<(), PofError> {
        let mut next_look = Nanos::ZERO;
        // Joining the threads gives the reason why one has ended.
        while !(stop.is_over)() && !has_ended() {
            let now = self.pool.now();
            if self.hear(notice) {
                self.link_at = now;
            }
            let has_reports = self.take_reported(now);
            // Collects what the workers' packets have made.
            self.switch.forwarder.device().step(now);
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
            // Before the answers, so that a frame after an answer follows the change.
            self.switch.forwarder.device().publish();
            self.answer(notice);
            if !has_reports && !has_worked && !has_counts {
                self.sleep(stop)?;
            }
        }
        Ok(())
    }

    /// Takes the news of the workers. Returns true if a link has changed.
    fn hear(&mut self, notice: &mut dyn FnMut(&str)) -> bool {
        let mut has_link = false;
        while let Some(event) = self.pool.next_event() {
            match event {
                WorkerEvent::Notice(line) => notice(&line),
                WorkerEvent::Link(port, is_up) => {
                    has_link = true;
                    self.set_link(port, is_up, notice);
                }
                WorkerEvent::Traced(_) | WorkerEvent::Observed(_) => {}
            }
        }
        has_link
    }

    fn set_link(&mut self, port: PortId, is_up: bool, notice: &mut dyn FnMut(&str)) {
        let Ok(id) = u16::try_from(port.0) else {
            return;
        };
        if let Some(offload) = &mut self.offload {
            // A PORT_MOD may forbid to send.
            offload.set_port(id, is_up && self.switch.sends(id));
        }
        if let Err(error) = self.switch.set_link(id, is_up) {
            notice(&format!(
                "port {port}: its groups keep their ports: {error}"
            ));
        }
    }

    /// Gives a burst of each worker's packets to the controllers. Returns true if there were any.
    fn take_reported(&mut self, now: Nanos) -> bool {
        let mut has_any = false;
        for port in &mut self.reported {
            self.batch.clear();
            // A port in memory has no errors.
            let _ = port.rx(&mut self.batch, now);
            for frame in self.batch.frames() {
                has_any = true;
                if let Some(event) = self.switch.packet_in(frame.bytes()) {
                    self.sessions.notify(&event, &self.switch, now);
                }
            }
        }
        has_any
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

    /// Handles the messages of controllers for a while. Returns true if there were any.
    fn control(&mut self, now: Nanos, notice: &mut dyn FnMut(&str)) -> bool {
        let PofSwitch {
            switch,
            sessions,
            mailbox,
            programs,
            ..
        } = self;
        let lines = sessions.take_news(mailbox, programs, switch, now);
        lines.iter().for_each(|line| notice(line));
        self.take_counts();
        let begin = Instant::now();
        let is_over = || begin.elapsed() >= CONTROL_TURN;
        let (has_worked, lines) = self.sessions.handle(&mut self.switch, now, is_over);
        lines.iter().for_each(|line| notice(line));
        if let Some(job) = self.switch.forwarder.take_job() {
            self.programs.make(job);
        }
        if has_worked {
            // Packets of a PACKET_OUT.
            self.switch.forwarder.device().step(now);
            // A PORT_MOD may have changed them.
            self.shared.take_ports(&self.switch);
        }
        let is_flooding = self.fail == Fail::Standalone && !self.sessions.has_controller();
        self.shared.set_flooding(is_flooding);
        has_worked
    }

    /// Takes what the ports have counted, for statistics.
    fn take_counts(&mut self) {
        let ports = self.pool.ports().iter().zip(self.pool.port_stats());
        let counts = ports.map(|((id, _), (stats, _))| PortStats {
            port: id.0,
            received_packets: stats.rx_frames,
            sent_packets: stats.tx_frames,
            received_bytes: stats.rx_bytes,
            sent_bytes: stats.tx_bytes,
        });
        self.switch.set_port_counts(counts.collect());
    }

    /// Lets the workers send the packets that the device has made, and reports events to the
    /// controllers.
    fn transmit(&mut self, now: Nanos) {
        let PofSwitch {
            switch,
            sessions,
            offload,
            shared,
            ..
        } = self;
        let mut lost = 0;
        let mut events = switch.drain(|id, bytes| lost += u64::from(!shared.send(id, bytes)));
        for _ in 0..lost {
            switch.forwarder.device().count_drop(DropReason::TailDrop);
        }
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
            if let Some(line) = keeper.keep(switch, mailbox) {
                notice(&line);
            }
            (appended, stored) = (keeper.appended(), keeper.stored());
        } else {
            switch.forwarder.take_changed();
            switch.take_changed_ports();
        }
        let lines = sessions.send(switch, appended, stored);
        lines.iter().for_each(|line| notice(line));
    }

    /// Looks at links, time-outs, and silent controllers.
    fn look(&mut self, now: Nanos, notice: &mut dyn FnMut(&str)) {
        let ports = self.pool.ports().iter().zip(self.pool.port_stats());
        // The workers publish a change of a link a little after they report it.
        let is_settled = now >= self.link_at + LOOK_EVERY;
        let links = ports.filter(|_| is_settled);
        let links: Vec<_> = links.map(|((id, _), (_, is_up))| (*id, is_up)).collect();
        for (id, is_up) in links {
            self.set_link(id, is_up, notice);
        }
        self.switch.forwarder.expire();
        let lines = self.sessions.watch(&mut self.switch, now);
        lines.iter().for_each(|line| notice(line));
    }

    fn sleep(&mut self, stop: &Stop<'_>) -> Result<(), PofError> {
        let wakeup = self.mailbox.wakeup().before_sleep();
        let of_workers = self.pool.wakeup().before_sleep();
        let stored = self.keeper.as_ref().map_or(0, Keeper::stored);
        let has_work = !self.mailbox.is_empty()
            || self.sessions.has_work(&self.switch, stored)
            || self.reported.iter().any(|port| port.waiting() > 0);
        let timeout = if has_work { Duration::ZERO } else { MAX_SLEEP };
        let fds = stop.fd.into_iter().chain([wakeup, of_workers]);
        let waited = self.poller.wait(fds, timeout);
        self.mailbox.wakeup().after_sleep();
        self.pool.wakeup().after_sleep();
        waited
            .map(drop)
            .map_err(PofError::system("wait for messages"))
    }

    /// Ends the connections. No worker runs any more.
    fn end(&mut self, notice: &mut dyn FnMut(&str)) {
        if let Some(offload) = &mut self.offload {
            offload.finish(&mut self.switch);
            self.report_removed(self.pool.now());
            self.answer(notice);
        }
        self.hangup.end();
        self.sessions.close(&mut self.switch);
    }

    /// Returns a handle to ask for reports of the offload, if there is one.
    pub fn offload_handle(&self) -> Option<OffloadHandle> {
        self.offload.as_ref().map(FlowOffload::handle)
    }

    /// Returns the counts and states of the switch.
    pub fn report(&mut self) -> PofReport {
        let ports = self.pool.ports().iter().zip(self.pool.port_stats());
        let ports = ports.map(|((id, name), (stats, up))| PortReport {
            // The ports of a POF switch have 16 bits.
            port: id.0 as u16,
            name: name.clone(),
            up,
            received: stats.rx_frames,
            received_bytes: stats.rx_bytes,
            sent: stats.tx_frames,
            sent_bytes: stats.tx_bytes,
            receive_dropped: stats.rx_dropped.total(),
            send_dropped: stats.tx_dropped.total(),
            refused: self.shared.refused(*id),
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
            seconds: Duration::from(self.pool.now()).as_secs_f64(),
            ports,
            controllers: self.sessions.reports(&self.switch),
            entries: tables.iter().map(|table| table.entries).sum(),
            tables,
            programs: forwarder.programs(),
            connections: self.sessions.connections,
            packet_ins_without_controller: self.sessions.without_controller,
            packet_ins_dropped: packet_ins_dropped + self.shared.reports_lost(),
            reports_dropped,
            flooded: self.shared.flooded(),
            offloaded: self.offload.as_ref().map(|_| self.shared.offloaded()),
            faults: Fault::ALL.map(|fault| forwarder.faults(fault)),
            state_failures: self.keeper.as_ref().map_or(0, Keeper::failures),
        }
    }
}
