//! The process of a host: mappers and reducers with a UDP socket and a clock.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use aggregate::{Input, MapFunction, Mapper, Message, PORTS, Reducer, Role, Shape};
use packet::Nanos;
use port::{Poller, bind_datagrams};
use support::wakeup::WakeupFd;

use crate::engine::{EngineNumber, Engines, PartLimits, PartStore, stored};
use crate::inbox::Inbox;
use crate::order::{
    AgentOrder, AgentReport, AttemptId, BeginOrder, EngineRequest, Hello, MapOrder, MapSource,
    PeerKind, ReduceOrder, ResultTo, lines_of,
};
use crate::stream::{Address, Listener, Stream, write_line};
use crate::vector_lines::{VectorDigest, len_of, parts_of};

/// Datagrams that are received, or sent, before the others have their turn.
const BATCH: usize = 64;

/// Longest datagram.
const MAX_DATAGRAM: usize = 1 << 16;

/// Bytes of a frame before a datagram: Ethernet, IPv4 and UDP.
const FRAME_HEADERS: u64 = 42;

/// Interval at which both sides of a connection say that they are there.
pub(crate) const ALIVE: Duration = Duration::from_secs(1);

/// Time without a line after which the other side counts as gone.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// Shortest sleep until a time-out.
const SHORTEST: Duration = Duration::from_micros(50);

/// Longest wait for a master, and interval at which old parts are dropped meanwhile.
const LOOK: Duration = Duration::from_secs(10);

/// Makes the input of a mapper from a file. Returns an error message on failure.
pub type MapPart = dyn Fn(&MapFunction, &Path, Shape) -> Result<Input, String> + Send + Sync;

/// End of the work for a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// The connection has ended, for this reason.
    Gone(String),
    /// The process is to stop.
    Stopped,
}

/// A mapper or a reducer that has begun.
struct Member {
    role: Role<SocketAddrV4>,
    at: AttemptId,
    /// The engine with the vectors of a mapper, or the one that gets the result of a reducer.
    engine: Option<EngineNumber>,
    begun: Instant,
    /// True for the reducer of a group: a complete result is not its end.
    goes_on: bool,
    has_ended: bool,
    /// True if the master knows that a reducer wants a load.
    wants_load: bool,
    /// Bytes of the frames with messages for it.
    bytes: u64,
}

impl Member {
    /// Returns its own time.
    fn now(&self) -> Nanos {
        Nanos::from(self.begun.elapsed())
    }
}

/// A mapper or a reducer that waits for its begin.
enum Prepared {
    /// A thread makes the mapper of this flow.
    Making(AttemptId, u16),
    Mapper(MapOrder, Box<Mapper>),
    Reducer(ReduceOrder),
}

impl Prepared {
    /// Returns the attempt and the mapper's flow.
    fn id(&self) -> (AttemptId, Option<u16>) {
        match self {
            Prepared::Making(at, flow) => (*at, Some(*flow)),
            Prepared::Mapper(order, _) => (AttemptId::of(&order.flows), Some(order.flow)),
            Prepared::Reducer(order) => (AttemptId::of(&order.flows), None),
        }
    }
}

/// A mapper that a thread has made, or the reason for which there is none.
struct Mapped {
    /// The connection of its order.
    connection: u64,
    order: MapOrder,
    mapper: Result<Box<Mapper>, String>,
}

/// A datagram that the kernel has not taken yet.
struct Waiting {
    to: SocketAddrV4,
    bytes: Vec<u8>,
}

/// The agent of a host.
pub struct Agent {
    address: Ipv4Addr,
    socket: UdpSocket,
    map: Arc<MapPart>,
    mapped: Receiver<Mapped>,
    sender: Sender<Mapped>,
    wakeup: Arc<WakeupFd>,
    engines: Engines,
    /// Number of the connection to a master.
    connection: u64,
    prepared: Vec<Prepared>,
    members: Vec<Member>,
    /// The member that sends next: they take turns.
    turn: usize,
    waiting: Option<Waiting>,
    buffer: Vec<u8>,
}

/// Returns the end of messages at an address.
fn endpoint(address: Ipv4Addr) -> SocketAddrV4 {
    SocketAddrV4::new(address, *PORTS.start())
}

impl Agent {
    /// Opens the socket of an agent. `map` runs map functions, in threads; `limits` are those of
    /// the parts that engines store.
    ///
    /// # Errors
    /// The address is not the machine's, or the port is taken.
    pub fn new(address: Ipv4Addr, map: Arc<MapPart>, limits: PartLimits) -> Result<Agent, String> {
        let own = endpoint(address);
        let socket = bind_datagrams(own).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("{own}: an agent has this address already; end it first")
            }
            io::ErrorKind::AddrNotAvailable => {
                format!("{own}: no interface of this host has the address; `ip address` lists them")
            }
            _ => format!("{own}: {error}"),
        })?;
        let wakeup = WakeupFd::armed().map_err(|error| format!("no wake-up: {error}"))?;
        let wakeup = Arc::new(wakeup);
        let (sender, mapped) = mpsc::channel();
        Ok(Agent {
            address,
            socket,
            map,
            mapped,
            sender,
            engines: Engines::new(address, limits, Arc::clone(&wakeup)),
            wakeup,
            connection: 0,
            prepared: Vec::new(),
            members: Vec::new(),
            turn: 0,
            waiting: None,
            buffer: vec![0; MAX_DATAGRAM],
        })
    }

    /// Opens a Unix socket for engines.
    ///
    /// # Errors
    /// It is no Unix socket, or another process listens there.
    pub fn open_engines(&mut self, address: &Address) -> Result<(), String> {
        self.engines.open(address)
    }

    /// Waits for the connection of a master. `None`: `stop` is readable, or the master has gone
    /// again. Engines that need a master are refused meanwhile.
    ///
    /// # Errors
    /// The operating system refuses to wait.
    pub fn accept(
        &mut self,
        listener: &Listener,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Option<Stream>, String> {
        let mut poller = Poller::new();
        loop {
            self.wakeup.rearm();
            self.engines.refuse();
            self.engines.drop_old_parts();
            let stop = stop.unwrap_or(listener.as_fd());
            let fds = [listener.as_fd(), stop, self.wakeup.fd()];
            let waited = poller.wait(fds, LOOK);
            waited.map_err(|error| format!("cannot wait for a master: {error}"))?;
            if poller.is_ready(0) {
                return Ok(listener.accept().ok());
            }
            if poller.is_ready(1) {
                return Ok(None);
            }
        }
    }

    /// Carries out the orders of a master until the connection ends or `stop` is readable. Then
    /// all mappers and reducers are forgotten. Other connections of the listener are refused.
    ///
    /// # Errors
    /// The operating system refuses to wait for or to receive datagrams.
    pub fn serve(
        &mut self,
        stream: &mut Stream,
        listener: Option<&Listener>,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Served, String> {
        self.connection += 1;
        let served = self.serve_until_end(stream, listener, stop);
        self.prepared.clear();
        self.members.clear();
        self.waiting = None;
        stream.shut_down();
        self.engines.end_all(&match &served {
            Ok(()) => "the agent is stopped".to_owned(),
            Err(End::Gone(why)) => format!("the master has gone: {why}"),
            Err(End::Failed(why)) => why.clone(),
        });
        match served {
            Ok(()) => Ok(Served::Stopped),
            Err(End::Gone(why)) => Ok(Served::Gone(why)),
            Err(End::Failed(why)) => Err(why),
        }
    }

    fn serve_until_end(
        &mut self,
        stream: &mut Stream,
        listener: Option<&Listener>,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<(), End> {
        let gone = |error: io::Error| End::Gone(error.to_string());
        stream.set_timeouts(Some(SILENCE)).map_err(gone)?;
        let hello = Hello {
            address: Some(self.address),
            ..Hello::own(PeerKind::Agent)
        };
        write_line(stream, &hello).map_err(gone)?;
        let mut inbox = Inbox::default();
        let mut poller = Poller::new();
        let mut is_known = false;
        let (mut heard, mut told) = (Instant::now(), Instant::now());
        while !inbox.is_closed() {
            let has_more = self.receive()?;
            for report in self.drive().into_iter().chain(self.ends()) {
                write_line(stream, &report).map_err(gone)?;
            }
            let has_more = has_more | self.send();
            if told.elapsed() >= ALIVE {
                told = Instant::now();
                self.engines.drop_old_parts();
                write_line(stream, &AgentReport::Alive).map_err(gone)?;
            }
            if heard.elapsed() > SILENCE {
                return Err(End::Gone(format!(
                    "it said nothing for {} s",
                    SILENCE.as_secs()
                )));
            }
            let timeout = match has_more {
                true => Duration::ZERO,
                false => self.timeout().min(ALIVE.saturating_sub(told.elapsed())),
            };
            let fds = [
                self.socket.as_fd(),
                stream.as_fd(),
                self.wakeup.fd(),
                stop.unwrap_or(stream.as_fd()),
                listener.map_or(stream.as_fd(), AsFd::as_fd),
            ];
            let full = self.waiting.as_ref().map(|_| self.socket.as_fd());
            let waited = poller.wait_with_room(fds, full, timeout);
            waited.map_err(|error| End::Failed(format!("cannot wait for datagrams: {error}")))?;
            if stop.is_some() && poller.is_ready(3) {
                return Ok(());
            }
            if let Some(listener) = listener.filter(|_| poller.is_ready(4)) {
                self.refuse(listener);
            }
            if poller.is_ready(2) {
                self.wakeup.rearm();
                let reports = self.take_mapped().into_iter();
                for report in reports.chain(self.engines.take_events()) {
                    write_line(stream, &report).map_err(gone)?;
                }
            }
            if !poller.is_ready(1) {
                continue;
            }
            inbox.read(stream).map_err(gone)?;
            heard = Instant::now();
            while let Some(line) = inbox.next() {
                if !is_known {
                    let hello: Result<Hello, _> = serde_json::from_slice(&line);
                    let hello = hello.map_err(|_| End::Gone("it is no master".to_owned()))?;
                    hello.check(PeerKind::Master).map_err(End::Gone)?;
                    is_known = true;
                    continue;
                }
                let order = serde_json::from_slice(&line);
                let order =
                    order.map_err(|error| End::Gone(format!("a line is no order: {error}")))?;
                if let Some(report) = self.obey(order) {
                    write_line(stream, &report).map_err(gone)?;
                }
            }
        }
        Err(End::Gone("it has ended the connection".to_owned()))
    }

    /// Reports to another master that there is one.
    fn refuse(&self, listener: &Listener) {
        let refusal = "it has a master already; end that one, or give this master another agent";
        let hello = Hello {
            address: Some(self.address),
            refusal: Some(refusal.to_owned()),
            ..Hello::own(PeerKind::Agent)
        };
        // It may have gone again.
        if let Ok(mut stream) = listener.accept() {
            let _ = stream.set_timeouts(Some(ALIVE));
            let _ = write_line(&mut stream, &hello);
        }
    }

    /// Carries out an order.
    fn obey(&mut self, order: AgentOrder) -> Option<AgentReport> {
        match order {
            AgentOrder::Alive => {}
            AgentOrder::Map(order) => return self.prepare_mapper(order),
            AgentOrder::Reduce(order) => {
                let at = AttemptId::of(&order.flows);
                self.prepared.push(Prepared::Reducer(order));
                return Some(AgentReport::Ready { at, flow: None });
            }
            AgentOrder::Begin(begin) => self.begin(begin),
            AgentOrder::Restart { at, number } => {
                self.with_reducer(at, |reducer, now| reducer.restart(number, now));
            }
            AgentOrder::Replace { at, flow, number } => {
                self.with_reducer(at, |reducer, now| reducer.replace_mapper(flow, number, now));
            }
            AgentOrder::Drop { at } => {
                self.prepared.retain(|prepared| prepared.id().0 != at);
                self.members.retain(|member| member.at != at);
                self.turn = 0;
            }
            AgentOrder::Engine { engine, order } => self.engines.obey(engine, order),
        }
        None
    }

    /// Starts to make a mapper in a thread, since its part may be long.
    fn prepare_mapper(&mut self, order: MapOrder) -> Option<AgentReport> {
        let (at, number) = (AttemptId::of(&order.flows), order.flow);
        let flow = Some(number);
        let (map, sender) = (Arc::clone(&self.map), self.sender.clone());
        let store = self.engines.store();
        let (wakeup, connection) = (Arc::clone(&self.wakeup), self.connection);
        let thread = thread::Builder::new().name("map".to_owned());
        let started = thread.spawn(move || {
            let mapper = mapper(&order, &*map, &store).map(Box::new);
            // The agent may have ended.
            let _ = sender.send(Mapped {
                connection,
                order,
                mapper,
            });
            wakeup.wake();
        });
        match started {
            Ok(_) => {
                self.prepared.push(Prepared::Making(at, number));
                None
            }
            Err(error) => {
                let error = format!("cannot start a thread: {error}");
                Some(AgentReport::Refused { at, flow, error })
            }
        }
    }

    /// Takes the mappers that threads have made.
    fn take_mapped(&mut self) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        while let Ok(mapped) = self.mapped.try_recv() {
            if mapped.connection != self.connection {
                continue;
            }
            let at = AttemptId::of(&mapped.order.flows);
            let flow = Some(mapped.order.flow);
            let mut prepared = self.prepared.iter();
            let place =
                prepared.position(|it| matches!(it, Prepared::Making(..)) && it.id() == (at, flow));
            let Some(place) = place else {
                // The attempt was dropped meanwhile.
                continue;
            };
            self.prepared.swap_remove(place);
            match mapped.mapper {
                Ok(mapper) => {
                    self.prepared.push(Prepared::Mapper(mapped.order, mapper));
                    reports.push(AgentReport::Ready { at, flow });
                }
                Err(error) => reports.push(AgentReport::Refused { at, flow, error }),
            }
        }
        reports
    }

    /// Begins with what is prepared.
    fn begin(&mut self, begin: BeginOrder) {
        let BeginOrder { at, flow, number } = begin;
        let mut prepared = self.prepared.iter();
        let index =
            prepared.position(|it| !matches!(it, Prepared::Making(..)) && it.id() == (at, flow));
        let Some(index) = index else {
            return;
        };
        let (role, engine, goes_on) = match self.prepared.swap_remove(index) {
            Prepared::Making(..) => return,
            Prepared::Mapper(order, mapper) => {
                let role = Role::Mapper {
                    mapper: Box::new(mapper.replacing_since(number)),
                    job: at.job,
                    flow: order.flow,
                    reducer: endpoint(order.reducer),
                };
                match order.source {
                    MapSource::Engine { engine } => (role, Some(engine), false),
                    MapSource::Part { .. } | MapSource::Stored { .. } => (role, None, false),
                }
            }
            Prepared::Reducer(order) => {
                let role = Role::Reducer {
                    reducer: Box::new(Reducer::new(order.config(), number)),
                    job: at.job,
                    flows: order.addresses.iter().copied().map(endpoint).collect(),
                };
                match order.result {
                    ResultTo::Master => (role, None, false),
                    ResultTo::Engine { engine } => (role, Some(engine), false),
                    ResultTo::Ranks => (role, None, true),
                }
            }
        };
        self.members.push(Member {
            role,
            at,
            engine,
            begun: Instant::now(),
            goes_on,
            has_ended: false,
            wants_load: false,
            bytes: 0,
        });
    }

    /// Calls a function with the reducer of an attempt, if it has begun, and its time.
    fn with_reducer(&mut self, at: AttemptId, act: impl FnOnce(&mut Reducer, Nanos)) {
        for member in &mut self.members {
            let now = member.now();
            if let Role::Reducer { reducer, .. } = &mut member.role
                && member.at == at
            {
                act(reducer, now);
                return;
            }
        }
    }

    /// Receives a batch. Returns true if there may be more.
    fn receive(&mut self) -> Result<bool, End> {
        for _ in 0..BATCH {
            let len = match self.socket.recv_from(&mut self.buffer) {
                Ok((len, _)) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Reports of routers and hosts about earlier datagrams, which were lost.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => {
                    return Err(End::Failed(format!("cannot receive datagrams: {error}")));
                }
            };
            let Some(message) = Message::read(&self.buffer[..len]) else {
                continue;
            };
            for member in &mut self.members {
                let now = member.now();
                if member.role.receive(&message, now) {
                    member.bytes += len as u64 + FRAME_HEADERS;
                }
            }
        }
        Ok(true)
    }

    /// Sends a batch. Returns true if there may be more.
    fn send(&mut self) -> bool {
        for _ in 0..BATCH {
            let Some(next) = self.waiting.take().or_else(|| self.next()) else {
                return false;
            };
            match self.socket.send_to(&next.bytes, next.to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.waiting = Some(next);
                    return false;
                }
                // Other errors are losses: the member repeats, and names who does not answer.
                Ok(_) | Err(_) => {}
            }
        }
        true
    }

    /// Returns the next message of a member, each in its turn.
    fn next(&mut self) -> Option<Waiting> {
        let len = self.members.len();
        for offset in 0..len {
            let index = (self.turn + offset) % len;
            let member = &mut self.members[index];
            let now = member.now();
            if let Some((to, message)) = member.role.poll(now) {
                self.turn = (index + 1) % len;
                let bytes = message.write();
                return Some(Waiting { to, bytes });
            }
        }
        None
    }

    /// Moves the vectors of engines on, and asks for loads.
    fn drive(&mut self) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        for member in &mut self.members {
            let now = member.now();
            match (&mut member.role, member.engine) {
                (Role::Mapper { mapper, .. }, Some(engine)) => {
                    reports.extend(self.engines.drive(engine, mapper, now));
                }
                (Role::Reducer { reducer, .. }, _) => {
                    let wants = reducer.wants_load();
                    let is_known = std::mem::replace(&mut member.wants_load, wants);
                    if wants && !is_known {
                        reports.push(AgentReport::LoadWanted { at: member.at });
                    }
                }
                (Role::Mapper { .. }, None) => {}
            }
        }
        reports
    }

    /// Returns the reports of members that have ended. A mapper of an engine ends with its group.
    fn ends(&mut self) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        for member in self.members.iter_mut().filter(|member| !member.has_ended) {
            let received = match &mut member.role {
                Role::Mapper { mapper, .. } if member.engine.is_none() => mapper.take_result(),
                _ => None,
            };
            match &member.role {
                Role::Mapper { mapper, flow, .. }
                    if mapper.is_complete() && member.engine.is_none() =>
                {
                    reports.push(AgentReport::Mapped {
                        at: member.at,
                        flow: *flow,
                        counts: mapper.counts(),
                        received: received.as_ref().map(VectorDigest::of),
                    });
                }
                Role::Reducer { reducer, .. }
                    if reducer.is_complete() && !member.goes_on || reducer.failure().is_some() =>
                {
                    report_reducer(reducer, member, &mut self.engines, &mut reports);
                }
                _ => continue,
            }
            member.has_ended = true;
        }
        reports
    }

    /// Returns the time until a member has something to do, at most [`ALIVE`].
    fn timeout(&self) -> Duration {
        if self.waiting.is_some() {
            // What is due is sent after the datagram that waits.
            return ALIVE;
        }
        let times = self.members.iter().filter_map(|member| {
            let next = member.role.next_time()?;
            Some(next.since(member.now()))
        });
        let next = times.min().map(|time| Duration::from_nanos(time.0));
        next.map_or(ALIVE, |time| time.clamp(SHORTEST, ALIVE))
    }
}

/// Reason for the end of the work for a master.
enum End {
    /// The master.
    Gone(String),
    /// The agent itself.
    Failed(String),
}

/// Makes a mapper with its input.
fn mapper(order: &MapOrder, map: &MapPart, store: &PartStore) -> Result<Mapper, String> {
    let input = match &order.source {
        MapSource::Part { function, path } => map(function, path, order.flows.shape),
        MapSource::Stored { names } => stored(store, names, order.flows.shape.operator),
        MapSource::Engine { .. } => return Ok(Mapper::of_group(order.flows, order.flow)),
    };
    let mapper = Mapper::new(order.flows, order.flow, input?);
    mapper.map_err(|error| error.to_string())
}

/// Reports the end of a reduction, with the result if it is complete. That of an engine is kept
/// for it.
fn report_reducer(
    reducer: &Reducer,
    member: &Member,
    engines: &mut Engines,
    reports: &mut Vec<AgentReport>,
) {
    let at = member.at;
    let mut keys = 0;
    if reducer.is_complete() {
        let (result, vector) = (reducer.result(), reducer.vector());
        keys = result.len() as u64 + vector.as_ref().map_or(0, len_of);
        if let Some(engine) = member.engine {
            if let Err(why) = engines.keep_result(engine, (result, member.bytes)) {
                let request = EngineRequest::Failed { why };
                reports.push(AgentReport::Engine { engine, request });
                return;
            }
        } else {
            reports.extend(lines_of(&result).map(|pairs| AgentReport::Pairs { at, pairs }));
            let parts = vector.iter().flat_map(parts_of);
            reports.extend(parts.map(|values| AgentReport::Vector { at, values }));
        }
    }
    let ended = reducer.completed_at().unwrap_or(member.now());
    reports.push(AgentReport::Reduced {
        at,
        failure: reducer.failure(),
        keys,
        counts: reducer.counts(),
        nanoseconds: ended.0,
        bytes: member.bytes,
    });
}
