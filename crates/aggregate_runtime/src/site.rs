//! The master at work: its connections to agents, switches and clients.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use aggregate::{Job, ReductionRequest};
use fabric::Topology;
use fabric::topology::{HostId, SwitchId};
use packet::Nanos;

use crate::agent::ALIVE;
use crate::agent_link::{greet, next_line};
use crate::inbox::Inbox;
use crate::master::{Action, Master, VpdpChoice};
use crate::order::{AgentOrder, AgentReport, PeerKind};
use crate::request::{Answer, Request, end_lines};
use crate::stream::{Stream, write_line};
use crate::switch_link::SwitchTask;

/// Number of a client's connection.
pub type ClientNumber = u64;

/// Event of a master.
#[derive(Debug)]
pub enum Event {
    /// An agent takes orders by this connection.
    AgentConnected(HostId, Stream),
    /// An agent takes no orders, for this reason.
    AgentLost(HostId, String),
    /// A report of an agent.
    Report(HostId, AgentReport),
    /// A switch can be loaded.
    SwitchConnected(SwitchId),
    /// A switch cannot be loaded, for this reason.
    SwitchLost(SwitchId, String),
    /// A switch has the load with this number, or why not.
    SwitchLoaded(SwitchId, u32, Result<(), String>),
    /// A switch does not take a reduction of the load with this number, for this reason.
    ReductionRefused(SwitchId, (u32, u16), String),
    /// The virtual data plane of a reduction in a switch has its update, or why not.
    VpdpUpdated((SwitchId, u16), Result<(), String>),
    /// A client asks by this connection.
    ClientConnected(ClientNumber, Stream),
    /// A request of a client.
    Asked(ClientNumber, Request),
    /// A client has gone.
    ClientGone(ClientNumber),
}

/// A job that a site may run.
pub struct Admission {
    /// The job.
    pub job: Job,
    /// Its reductions.
    pub requests: Vec<ReductionRequest>,
}

/// Reads a job file over a topology. Returns an error message on failure.
pub type ReadJob<'a> = dyn Fn(&str, &Path, &Topology) -> Result<Admission, String> + 'a;

/// Gives switches tasks. `None`: an event will have the result.
pub type ChangeSwitch<'a> = dyn FnMut(SwitchId, SwitchTask) -> Option<Result<(), String>> + 'a;

struct Client {
    stream: Stream,
    /// The job that it has submitted and waits for.
    job: Option<u32>,
    /// The job that it has cancelled and waits for.
    cancels: Option<u32>,
}

/// A master with its connections.
pub struct Site<'a> {
    /// The master.
    pub master: Master,
    events: Receiver<Event>,
    sender: Sender<Event>,
    agents: BTreeMap<HostId, Stream>,
    clients: BTreeMap<ClientNumber, Client>,
    change: Box<ChangeSwitch<'a>>,
    read_job: Box<ReadJob<'a>>,
    began: Instant,
    told: Instant,
    ended: Vec<u32>,
    notices: Vec<String>,
    /// The last notice on each agent or switch, by name.
    last: BTreeMap<String, String>,
}

impl<'a> Site<'a> {
    /// Creates the site of a master.
    pub fn new(
        master: Master,
        change: Box<ChangeSwitch<'a>>,
        read_job: Box<ReadJob<'a>>,
    ) -> Site<'a> {
        let (sender, events) = mpsc::channel();
        Site {
            master,
            events,
            sender,
            agents: BTreeMap::new(),
            clients: BTreeMap::new(),
            change,
            read_job,
            began: Instant::now(),
            told: Instant::now(),
            ended: Vec::new(),
            notices: Vec::new(),
            last: BTreeMap::new(),
        }
    }

    /// Returns where connections send their events.
    pub fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }

    /// Returns true if the agents of all these hosts are connected.
    pub fn has_agents(&self, mut hosts: impl Iterator<Item = HostId>) -> bool {
        hosts.all(|host| self.agents.contains_key(&host))
    }

    /// Takes the numbers of the jobs that have ended.
    pub fn take_ended(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.ended)
    }

    /// Takes what an operator may want to read.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Ends the connections to agents. Their threads end then, if they are to stop.
    pub fn end_connections(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            if let Event::AgentConnected(host, stream) = event {
                self.agents.insert(host, stream);
            }
        }
        self.agents.values().for_each(Stream::shut_down);
    }

    fn now(&self) -> Nanos {
        Nanos::from(self.began.elapsed())
    }

    /// Waits for an event, at most for this time, and does what follows.
    pub fn turn(&mut self, timeout: Duration) {
        match self.events.recv_timeout(timeout) {
            Ok(event) => self.take(event),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        while let Ok(event) = self.events.try_recv() {
            self.take(event);
        }
        while let Some(action) = self.master.poll(self.now()) {
            self.act(action);
        }
        if self.told.elapsed() >= ALIVE {
            self.told = Instant::now();
            let hosts: Vec<HostId> = self.agents.keys().copied().collect();
            for host in hosts {
                self.order(host, &AgentOrder::Alive);
            }
            let waiting: Vec<ClientNumber> = self.clients.keys().copied().collect();
            for client in waiting {
                self.tell(client, &Answer::Alive);
            }
        }
    }

    fn take(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::AgentConnected(host, stream) => {
                let name = self.master.topology().hosts[host.0].name.clone();
                self.note(format!("agent of {name}"), "is there");
                self.agents.insert(host, stream);
                self.master.agent_connected(host);
            }
            Event::AgentLost(host, why) => {
                let name = self.master.topology().hosts[host.0].name.clone();
                self.note(format!("agent of {name}"), &format!("is not there: {why}"));
                self.agents.remove(&host);
                self.master
                    .agent_lost(host, format!("its agent is not there: {why}"), now);
            }
            Event::Report(host, report) => self.master.report(host, report, now),
            Event::SwitchConnected(switch) => {
                let name = self.master.topology().switches[switch.0].name.clone();
                self.note(format!("switch {name}"), "is there");
                self.master.switch_connected(switch);
            }
            Event::SwitchLost(switch, why) => {
                let name = self.master.topology().switches[switch.0].name.clone();
                self.note(format!("switch {name}"), &format!("is not there: {why}"));
                self.master.switch_lost(switch, why, now);
            }
            Event::SwitchLoaded(switch, number, loaded) => {
                if let Err(error) = &loaded {
                    let name = self.master.topology().switches[switch.0].name.clone();
                    self.notices.push(format!("switch {name}: {error}"));
                }
                self.master.switch_loaded(switch, number, loaded);
            }
            Event::ReductionRefused(switch, load, why) => {
                let name = &self.master.topology().switches[switch.0].name;
                self.notices.push(format!("switch {name}: {why}"));
                self.master.reduction_refused(switch, load, &why);
            }
            Event::VpdpUpdated(at, result) => self.master.vpdp_updated(at, result),
            Event::ClientConnected(client, stream) => {
                let client_state = Client {
                    stream,
                    job: None,
                    cancels: None,
                };
                self.clients.insert(client, client_state);
            }
            Event::Asked(client, request) => self.answer(client, request),
            Event::ClientGone(client) => {
                let gone = self.clients.remove(&client);
                if let Some(job) = gone.and_then(|client| client.job) {
                    // It may have ended at this moment.
                    let _ = self.master.cancel(job);
                    self.notices
                        .push(format!("job {job} is cancelled: its client has gone"));
                }
            }
        }
    }

    /// Notes a state of an agent or a switch, if it is another one than before.
    fn note(&mut self, who: String, state: &str) {
        let before = self.last.insert(who.clone(), state.to_owned());
        if before.as_deref() != Some(state) {
            self.notices.push(format!("{who} {state}"));
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Order(host, order) => self.order(host, &order),
            Action::Load(switch, load) => {
                let number = load.number;
                if let Some(loaded) = (self.change)(switch, SwitchTask::Load(load)) {
                    self.take(Event::SwitchLoaded(switch, number, loaded));
                }
            }
            Action::Update(switch, update) => {
                let at = (switch, update.reduction);
                if let Some(updated) = (self.change)(switch, SwitchTask::Update(update)) {
                    self.take(Event::VpdpUpdated(at, updated));
                }
            }
            Action::Updated(client, result) => {
                let answer = match result {
                    Ok(planes) => Answer::Updated { planes },
                    Err(error) => Answer::Refused { error },
                };
                self.tell(client, &answer);
            }
            Action::Ended(job) => {
                self.ended.push(job);
                self.tell_end(job);
            }
        }
    }

    /// Writes an order. A connection that takes none is ended, and its reader reports that.
    fn order(&mut self, host: HostId, order: &AgentOrder) {
        if let Some(stream) = self.agents.get_mut(&host)
            && write_line(stream, order).is_err()
        {
            stream.shut_down();
        }
    }

    fn answer(&mut self, client: ClientNumber, request: Request) {
        let answer = match self.carry_out(client, request) {
            Ok(Some(answer)) => answer,
            Ok(None) => return,
            Err(error) => Answer::Refused { error },
        };
        self.tell(client, &answer);
    }

    fn carry_out(
        &mut self,
        client: ClientNumber,
        request: Request,
    ) -> Result<Option<Answer>, String> {
        match request {
            Request::Jobs => {
                let jobs = self.master.jobs();
                Ok(Some(Answer::Jobs { jobs }))
            }
            Request::Show { number } => {
                let jobs = vec![self.master.job(number)?];
                Ok(Some(Answer::Jobs { jobs }))
            }
            Request::Cancel { number } => {
                self.master.cancel(number)?;
                self.notices.push(format!("job {number} is cancelled"));
                if let Some(client) = self.clients.get_mut(&client) {
                    client.cancels = Some(number);
                }
                Ok(None)
            }
            Request::Update {
                number,
                switch,
                reduction,
                change,
            } => {
                let choice = VpdpChoice { switch, reduction };
                self.master.update(client, (number, &choice), &change)?;
                Ok(None)
            }
            Request::Program {
                number,
                switch,
                reduction,
            } => {
                let choice = VpdpChoice { switch, reduction };
                let text = self.master.program(number, &choice)?;
                Ok(Some(Answer::Program { text }))
            }
            Request::Submit {
                name,
                text,
                directory,
                is_direct,
            } => {
                let number = self.submit(&name, &text, directory, is_direct)?;
                self.notices.push(format!("job {number} is {name}"));
                if let Some(client) = self.clients.get_mut(&client) {
                    client.job = Some(number);
                }
                Ok(Some(Answer::Admitted { number }))
            }
        }
    }

    fn submit(
        &mut self,
        name: &str,
        text: &str,
        directory: PathBuf,
        is_direct: bool,
    ) -> Result<u32, String> {
        let admission = (self.read_job)(text, &directory, self.master.topology());
        let Admission { job, mut requests } = admission?;
        if is_direct {
            requests.iter_mut().for_each(|request| request.tiers = 0);
        }
        self.master.submit(name, (&job, directory), &requests)
    }

    /// Reports the end of a job to clients.
    fn tell_end(&mut self, number: u32) {
        let Ok(job) = self.master.job(number) else {
            return;
        };
        let state = job.state.clone();
        let failures = job.reductions.iter().filter_map(|it| it.failure.clone());
        let why = failures.map(|why| format!(": {why}")).collect::<String>();
        self.notices.push(format!("job {number} is {state}{why}"));
        let waits = |client: &Client| client.job == Some(number) || client.cancels == Some(number);
        let waiting = self.clients.iter().filter(|(_, client)| waits(client));
        let waiting: Vec<ClientNumber> = waiting.map(|(number, _)| *number).collect();
        if waiting.is_empty() {
            return;
        }
        let outcomes = self.master.take_outcomes(number);
        let lines = end_lines(job, &outcomes);
        for client in waiting {
            if let Some(client) = self.clients.get_mut(&client) {
                client.job = None;
                client.cancels = None;
            }
            lines.iter().for_each(|line| self.tell(client, line));
        }
    }

    /// Writes an answer. A connection that takes none is ended, and its reader reports that.
    fn tell(&mut self, client: ClientNumber, answer: &Answer) {
        if let Some(client) = self.clients.get_mut(&client)
            && write_line(&mut client.stream, answer).is_err()
        {
            client.stream.shut_down();
        }
    }
}

/// Reads the requests of a client to the end of its connection.
pub fn read_requests(mut stream: Stream, client: ClientNumber, events: &Sender<Event>) {
    let mut inbox = Inbox::default();
    let own = stream.try_clone();
    let greeted = greet(&mut stream, &mut inbox, PeerKind::Master, PeerKind::Client);
    let (Ok(_), Ok(own)) = (greeted, own) else {
        return;
    };
    // Clients are silent while their jobs run.
    if stream.set_timeouts(None).is_err() {
        return;
    }
    let mut event = Event::ClientConnected(client, own);
    loop {
        if events.send(event).is_err() {
            return;
        }
        let line = next_line(&mut stream, &mut inbox);
        let line = line.ok().flatten();
        match line.and_then(|line| serde_json::from_slice(&line).ok()) {
            Some(request) => event = Event::Asked(client, request),
            None => break,
        }
    }
    stream.shut_down();
    // Fails if the master has ended.
    let _ = events.send(Event::ClientGone(client));
}
