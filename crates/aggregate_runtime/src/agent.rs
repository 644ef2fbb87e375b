//! The process of a host: mappers and reducers with a UDP socket and a clock.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use aggregate::{Mapper, Message, PORTS, Pair, Reducer, Role};
use packet::Nanos;
use port::{Poller, bind_datagrams};

use crate::inbox::Inbox;
use crate::order::{AgentOrder, AgentReport, MapOrder, ReduceOrder, to_text};

/// Datagrams that are received, or sent, before the others have their turn.
const BATCH: usize = 64;

/// Longest datagram.
const MAX_DATAGRAM: usize = 1 << 16;

/// Pairs of a line of a result.
const PAIRS_PER_LINE: usize = 1000;

/// Longest sleep.
const SLEEP: Duration = Duration::from_secs(60);

/// Interval at which reducers report that they are at work.
const AT_WORK: Duration = Duration::from_millis(500);

/// Shortest sleep until a time-out.
const SHORTEST: Duration = Duration::from_micros(50);

/// Makes the pairs of a mapper. Returns an error message on failure.
pub type MapPart<'a> = dyn FnMut(&MapOrder) -> Result<Vec<Pair>, String> + 'a;

/// A mapper or a reducer.
struct Member {
    role: Role<SocketAddrV4>,
    /// The time at which it began. `None`: it waits.
    begun: Option<Instant>,
    has_ended: bool,
}

impl Member {
    /// Returns its own time, if it has begun.
    fn now(&self) -> Option<Nanos> {
        self.begun.map(|begun| Nanos::from(begun.elapsed()))
    }
}

/// A datagram that the kernel has not taken yet.
struct Waiting {
    to: SocketAddrV4,
    bytes: Vec<u8>,
}

/// The agent of a host.
pub struct Agent {
    socket: UdpSocket,
    members: Vec<Member>,
    /// The member that sends next: they take turns.
    turn: usize,
    waiting: Option<Waiting>,
    /// The time at which reducers have reported that they are at work.
    reported: Instant,
    buffer: Vec<u8>,
}

/// Returns the end of messages at an address.
fn endpoint(address: Ipv4Addr) -> SocketAddrV4 {
    SocketAddrV4::new(address, *PORTS.start())
}

impl Agent {
    /// Opens the socket of an agent.
    ///
    /// # Errors
    /// The address is not the machine's, or the port is taken.
    pub fn new(address: Ipv4Addr) -> Result<Agent, String> {
        let own = endpoint(address);
        let socket = bind_datagrams(own).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => format!("{own}: an agent has this address already"),
            _ => format!("{own}: {error}"),
        })?;
        Ok(Agent {
            socket,
            members: Vec::new(),
            turn: 0,
            waiting: None,
            reported: Instant::now(),
            buffer: vec![0; MAX_DATAGRAM],
        })
    }

    /// Carries out orders until there are no more.
    ///
    /// # Errors
    /// The orders cannot be read, the reports cannot be written, or a line is no order.
    pub fn run(
        &mut self,
        orders: &mut (impl Read + AsFd),
        reports: &mut impl Write,
        map: &mut MapPart<'_>,
    ) -> Result<(), String> {
        let mut inbox = Inbox::default();
        let mut poller = Poller::new();
        while !inbox.is_closed() {
            let has_more = self.receive()? | self.send();
            for report in self.working().into_iter().chain(self.ends()) {
                write(reports, &report)?;
            }
            let timeout = match has_more {
                true => Duration::ZERO,
                false => self.timeout(),
            };
            let fds = [self.socket.as_fd(), orders.as_fd()];
            let full = self.waiting.as_ref().map(|_| self.socket.as_fd());
            let waited = poller.wait_with_room(fds, full, timeout);
            waited.map_err(|error| format!("cannot wait for datagrams: {error}"))?;
            if !poller.is_ready(1) {
                continue;
            }
            let read = inbox.read(orders);
            read.map_err(|error| format!("cannot read orders: {error}"))?;
            while let Some(line) = inbox.next() {
                let order = serde_json::from_slice(&line);
                let order = order.map_err(|error| format!("a line is no order: {error}"))?;
                if let Some(report) = self.obey(order, map) {
                    write(reports, &report)?;
                }
            }
        }
        Ok(())
    }

    /// Carries out an order.
    fn obey(&mut self, order: AgentOrder, map: &mut MapPart<'_>) -> Option<AgentReport> {
        match order {
            AgentOrder::Map(order) => Some(self.prepare_mapper(&order, map)),
            AgentOrder::Reduce(order) => Some(self.prepare_reducer(&order)),
            AgentOrder::Begin => {
                let now = Instant::now();
                for member in &mut self.members {
                    member.begun.get_or_insert(now);
                }
                None
            }
        }
    }

    fn prepare_mapper(&mut self, order: &MapOrder, map: &mut MapPart<'_>) -> AgentReport {
        let (job, flow) = (order.flows.job, order.flow);
        let mapper = map(order).and_then(|pairs| {
            let mapper = Mapper::new(order.flows, flow, pairs);
            mapper.map_err(|error| error.to_string())
        });
        match mapper {
            Ok(mapper) => {
                self.add(Role::Mapper {
                    mapper: Box::new(mapper),
                    job,
                    flow,
                    reducer: endpoint(order.reducer),
                });
                let flow = Some(flow);
                AgentReport::Ready { job, flow }
            }
            Err(error) => AgentReport::Refused {
                job,
                flow: Some(flow),
                error,
            },
        }
    }

    fn prepare_reducer(&mut self, order: &ReduceOrder) -> AgentReport {
        let job = order.flows.job;
        self.add(Role::Reducer {
            reducer: Box::new(Reducer::new(order.config(), order.incarnation)),
            job,
            flows: order.addresses.iter().copied().map(endpoint).collect(),
        });
        AgentReport::Ready { job, flow: None }
    }

    fn add(&mut self, role: Role<SocketAddrV4>) {
        self.members.push(Member {
            role,
            begun: None,
            has_ended: false,
        });
    }

    /// Receives a batch. Returns true if there may be more.
    fn receive(&mut self) -> Result<bool, String> {
        for _ in 0..BATCH {
            let len = match self.socket.recv_from(&mut self.buffer) {
                Ok((len, _)) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(format!("cannot receive datagrams: {error}")),
            };
            let Some(message) = Message::read(&self.buffer[..len]) else {
                continue;
            };
            for member in &mut self.members {
                if let Some(now) = member.now() {
                    member.role.receive(&message, now);
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
            let polled = member.now().and_then(|now| member.role.poll(now));
            if let Some((to, message)) = polled {
                self.turn = (index + 1) % len;
                let bytes = message.write();
                return Some(Waiting { to, bytes });
            }
        }
        None
    }

    /// Returns the numbers of the reducers that are at work.
    fn reducers(&self) -> impl Iterator<Item = u16> {
        let members = self.members.iter();
        let at_work = members.filter(|member| member.begun.is_some() && !member.has_ended);
        at_work.filter_map(|member| match &member.role {
            Role::Reducer { job, .. } => Some(*job),
            Role::Mapper { .. } => None,
        })
    }

    /// Returns the reports of reducers that are at work, if they are due.
    fn working(&mut self) -> Vec<AgentReport> {
        if self.reported.elapsed() < AT_WORK {
            return Vec::new();
        }
        self.reported = Instant::now();
        self.reducers()
            .map(|job| AgentReport::Working { job })
            .collect()
    }

    /// Returns the reports of members that have ended.
    fn ends(&mut self) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        for member in self.members.iter_mut().filter(|member| !member.has_ended) {
            match &member.role {
                Role::Mapper {
                    mapper, job, flow, ..
                } if mapper.is_complete() => reports.push(AgentReport::Mapped {
                    job: *job,
                    flow: *flow,
                    counts: mapper.counts(),
                }),
                Role::Reducer { reducer, job, .. }
                    if reducer.is_complete() || reducer.failure().is_some() =>
                {
                    report_reducer(reducer, *job, member.now(), &mut reports);
                }
                _ => continue,
            }
            member.has_ended = true;
        }
        reports
    }

    /// Returns the time until a member has something to do.
    fn timeout(&self) -> Duration {
        let longest = match self.reducers().next() {
            Some(_) => AT_WORK,
            None => SLEEP,
        };
        if self.waiting.is_some() {
            // What is due is sent after the datagram that waits.
            return longest;
        }
        let times = self.members.iter().filter_map(|member| {
            let now = member.now()?;
            member.role.next_time().map(|at| at.since(now))
        });
        let next = times.min().map(|time| Duration::from_nanos(time.0));
        next.map_or(longest, |time| time.clamp(SHORTEST, longest))
    }
}

/// Reports the end of a reduction, with the result if it is complete.
fn report_reducer(reducer: &Reducer, job: u16, now: Option<Nanos>, reports: &mut Vec<AgentReport>) {
    let mut keys = 0;
    if reducer.is_complete() {
        let result: Vec<(String, i128)> = reducer.result().iter().map(to_text).collect();
        keys = result.len() as u64;
        let lines = result.chunks(PAIRS_PER_LINE);
        reports.extend(lines.map(|pairs| AgentReport::Pairs {
            job,
            pairs: pairs.to_vec(),
        }));
    }
    let ended = reducer.completed_at().or(now).unwrap_or_default();
    reports.push(AgentReport::Reduced {
        job,
        failure: reducer.failure(),
        keys,
        counts: reducer.counts(),
        nanoseconds: ended.0,
    });
}

fn write(reports: &mut impl Write, report: &AgentReport) -> Result<(), String> {
    let line = serde_json::to_string(report).map_err(|error| error.to_string())?;
    writeln!(reports, "{line}")
        .and_then(|()| reports.flush())
        .map_err(|error| format!("cannot write reports: {error}"))
}
