//! An attempt of a job: agents get their orders, and their reports become outcomes.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use aggregate::{MapperCounts, Pair, ReducerCounts, ReductionError};
use packet::Nanos;

use crate::order::{AgentOrder, AgentReport, MapOrder, ReduceOrder, from_text};

/// Interval at which a stop is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Time that mappers get to report after their reducer has the result.
const LAST_REPORTS: Duration = Duration::from_secs(2);

/// Time without a report after which a reducer counts as failed.
const PATIENCE: Duration = Duration::from_secs(15);

/// Index of an agent of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentIndex(usize);

/// A mapper of a reduction.
pub struct MapperTask {
    /// Its name.
    pub name: String,
    /// The agent of its host.
    pub agent: AgentIndex,
    /// The order.
    pub order: MapOrder,
}

/// A reduction of an attempt.
pub struct ReductionTask {
    /// Its name.
    pub name: String,
    /// The agent of the reducer's host.
    pub agent: AgentIndex,
    /// The order to it.
    pub order: ReduceOrder,
    /// The mappers, by flow.
    pub mappers: Vec<MapperTask>,
    /// Names of the switches, which have the next flows.
    pub switches: Vec<String>,
}

/// Outcome of a reduction between real hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealOutcome {
    /// The reduced pairs, sorted by key.
    pub result: Vec<Pair>,
    /// The failure, if it failed.
    pub failure: Option<String>,
    /// True if the result is complete.
    pub is_complete: bool,
    /// Counters of the reducer.
    pub reducer: ReducerCounts,
    /// Counters of the mappers that have reported their end.
    pub mappers: Vec<MapperCounts>,
    /// Time from the begin to the end.
    pub took: Nanos,
}

/// Error of an attempt that has not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptError {
    /// A mapper or a reducer cannot be prepared.
    Refused {
        /// The mapper or reducer, with its host.
        who: String,
        /// The error.
        error: String,
    },
    /// It was stopped.
    Stopped,
}

impl fmt::Display for AttemptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttemptError::Refused { who, error } => write!(f, "{who}: {error}"),
            AttemptError::Stopped => f.write_str("the attempt was stopped"),
        }
    }
}

impl std::error::Error for AttemptError {}

/// The connection to an agent.
struct Link {
    host: String,
    orders: Box<dyn Write>,
}

/// Arrival from an agent: a report, or the reason for which there are no more.
type Arrival = (AgentIndex, Result<AgentReport, String>);

/// An attempt of a job.
pub struct Attempt {
    agents: Vec<Link>,
    arrivals: Receiver<Arrival>,
    sender: Sender<Arrival>,
    tasks: Vec<ReductionTask>,
    outcomes: Vec<RealOutcome>,
    /// For each reduction, the mappers that have reported their end.
    mapped: Vec<Vec<bool>>,
    /// For each reduction, the time of the last report of its reducer.
    heard: Vec<Instant>,
    patience: Duration,
}

impl Default for Attempt {
    fn default() -> Attempt {
        let (sender, arrivals) = mpsc::channel();
        Attempt {
            agents: Vec::new(),
            arrivals,
            sender,
            tasks: Vec::new(),
            outcomes: Vec::new(),
            mapped: Vec::new(),
            heard: Vec::new(),
            patience: PATIENCE,
        }
    }
}

impl Attempt {
    /// Adds the agent of a host, with the streams to and from it. A thread reads its reports.
    ///
    /// # Errors
    /// There are too many threads.
    pub fn add_agent(
        &mut self,
        host: &str,
        orders: impl Write + 'static,
        reports: impl Read + Send + 'static,
    ) -> Result<AgentIndex, String> {
        let index = AgentIndex(self.agents.len());
        let sender = self.sender.clone();
        let thread = thread::Builder::new().name(format!("reports {host}"));
        let thread = thread.spawn(move || read_reports(index, reports, &sender));
        thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        self.agents.push(Link {
            host: host.to_owned(),
            orders: Box::new(orders),
        });
        Ok(index)
    }

    /// Adds a reduction. Its agents have been added.
    pub fn add_reduction(&mut self, task: ReductionTask) {
        let mappers = task.mappers.len();
        self.outcomes.push(RealOutcome {
            mappers: vec![MapperCounts::default(); mappers],
            ..RealOutcome::default()
        });
        self.mapped.push(vec![false; mappers]);
        self.tasks.push(task);
    }

    /// Prepares all mappers and reducers, begins, and returns the outcomes when all reductions
    /// have ended, or the time is over, or `is_stopped` returns true.
    ///
    /// # Errors
    /// A mapper or a reducer cannot be prepared, or the attempt was stopped before it began.
    pub fn run(
        mut self,
        limit: Duration,
        is_stopped: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<RealOutcome>, AttemptError> {
        self.prepare(is_stopped)?;
        // Reducers first: they answer the questions of mappers.
        let reducers = self.tasks.iter().map(|task| task.agent);
        let mappers = self.tasks.iter().flat_map(|task| &task.mappers);
        let order: Vec<AgentIndex> = reducers.chain(mappers.map(|mapper| mapper.agent)).collect();
        for agent in order {
            self.order(agent, &AgentOrder::Begin)?;
        }
        let start = Instant::now();
        self.heard = vec![start; self.tasks.len()];
        let mut are_reduced_at = None;
        while start.elapsed() < limit && !is_stopped() {
            let are_reduced = self
                .outcomes
                .iter()
                .all(|outcome| outcome.is_complete || outcome.failure.is_some());
            if are_reduced {
                let at = *are_reduced_at.get_or_insert(Instant::now());
                if self.are_mapped() || at.elapsed() > LAST_REPORTS {
                    break;
                }
            }
            self.wait();
            self.notice_silence();
        }
        Ok(self.outcomes)
    }

    /// Gives the orders to prepare, and waits until all are carried out.
    fn prepare(&mut self, is_stopped: &mut dyn FnMut() -> bool) -> Result<(), AttemptError> {
        let mut orders = Vec::new();
        for task in &self.tasks {
            orders.push((task.agent, AgentOrder::Reduce(task.order.clone())));
            let mappers = task.mappers.iter();
            orders.extend(
                mappers.map(|mapper| (mapper.agent, AgentOrder::Map(mapper.order.clone()))),
            );
        }
        let mut missing = orders.len();
        for (agent, order) in orders {
            self.order(agent, &order)?;
        }
        while missing > 0 {
            if is_stopped() {
                return Err(AttemptError::Stopped);
            }
            match self.arrivals.recv_timeout(LOOK) {
                Ok((_, Ok(AgentReport::Ready { .. }))) => missing -= 1,
                Ok((_, Ok(AgentReport::Refused { job, flow, error }))) => {
                    let who = self.who(job, flow);
                    return Err(AttemptError::Refused { who, error });
                }
                Ok((agent, Err(error))) => return Err(self.refused(agent, error)),
                Ok((_, Ok(_))) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Writes an order. An agent that has ended is noticed by the end of its reports.
    fn order(&mut self, agent: AgentIndex, order: &AgentOrder) -> Result<(), AttemptError> {
        // A path may have bytes that are no text.
        let line = serde_json::to_string(order);
        let line = line.map_err(|error| self.refused(agent, error.to_string()))?;
        let orders = &mut self.agents[agent.0].orders;
        let _ = writeln!(orders, "{line}").and_then(|()| orders.flush());
        Ok(())
    }

    /// Returns the error of an agent before the attempt begins.
    fn refused(&self, agent: AgentIndex, error: String) -> AttemptError {
        let mut roles = (0..self.tasks.len()).filter_map(|it| self.role_of(it, agent));
        let who = roles.next().unwrap_or_default();
        AttemptError::Refused { who, error }
    }

    fn are_mapped(&self) -> bool {
        let mut reductions = self.outcomes.iter().zip(&self.mapped);
        reductions.all(|(outcome, mapped)| !outcome.is_complete || mapped.iter().all(|is| *is))
    }

    /// Waits for a report, and notes it.
    fn wait(&mut self) {
        match self.arrivals.recv_timeout(LOOK) {
            Ok((_, Ok(report))) => self.note(report),
            Ok((agent, Err(error))) => self.note_end(agent, &error),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    /// Returns the index of a reduction.
    fn index_of(&self, job: u16) -> Option<usize> {
        let mut tasks = self.tasks.iter();
        tasks.position(|task| task.order.flows.job == job)
    }

    fn note(&mut self, report: AgentReport) {
        match report {
            AgentReport::Working { job } => {
                if let Some(index) = self.index_of(job) {
                    self.heard[index] = Instant::now();
                }
            }
            AgentReport::Pairs { job, pairs } => {
                if let Some(index) = self.index_of(job) {
                    self.heard[index] = Instant::now();
                    let pairs = pairs.iter().filter_map(from_text);
                    self.outcomes[index].result.extend(pairs);
                }
            }
            AgentReport::Reduced {
                job,
                failure,
                keys,
                counts,
                nanoseconds,
            } => {
                if let Some(index) = self.index_of(job) {
                    let failure = failure.map(|failure| self.explain(index, failure));
                    let outcome = &mut self.outcomes[index];
                    let arrived = outcome.result.len() as u64;
                    let is_partial = failure.is_none() && arrived != keys;
                    let lost = is_partial.then(|| {
                        format!("{arrived} of the {keys} keys of the result were reported")
                    });
                    outcome.failure = outcome.failure.take().or(failure).or(lost);
                    outcome.is_complete = outcome.failure.is_none();
                    outcome.reducer = counts;
                    outcome.took = Nanos(nanoseconds);
                }
            }
            AgentReport::Mapped { job, flow, counts } => {
                if let Some(index) = self.index_of(job)
                    && let Some(is_mapped) = self.mapped[index].get_mut(usize::from(flow))
                {
                    *is_mapped = true;
                    self.outcomes[index].mappers[usize::from(flow)] = counts;
                }
            }
            AgentReport::Ready { .. } | AgentReport::Refused { .. } => {}
        }
    }

    /// Fails the reductions with a silent reducer.
    fn notice_silence(&mut self) {
        for index in 0..self.tasks.len() {
            let outcome = &self.outcomes[index];
            let is_open = !outcome.is_complete && outcome.failure.is_none();
            if is_open && self.heard[index].elapsed() > self.patience {
                let who = self.who(self.tasks[index].order.flows.job, None);
                self.outcomes[index].failure = Some(format!("{who} does not answer"));
            }
        }
    }

    /// Fails the reductions that need an agent that has ended.
    fn note_end(&mut self, agent: AgentIndex, error: &str) {
        for index in 0..self.tasks.len() {
            let outcome = &self.outcomes[index];
            let is_open = !outcome.is_complete && outcome.failure.is_none();
            if is_open && let Some(who) = self.role_of(index, agent) {
                self.outcomes[index].failure = Some(format!("{who}: {error}"));
            }
        }
    }

    /// Returns the name of the reducer, or of a mapper, that an agent runs for a reduction.
    fn role_of(&self, index: usize, agent: AgentIndex) -> Option<String> {
        let task = &self.tasks[index];
        let job = task.order.flows.job;
        if task.agent == agent {
            return Some(self.who(job, None));
        }
        let mapper = task.mappers.iter().find(|mapper| mapper.agent == agent)?;
        Some(self.who(job, Some(mapper.order.flow)))
    }

    /// Returns the name of a mapper or reducer, with its host.
    fn who(&self, job: u16, flow: Option<u16>) -> String {
        let Some(index) = self.index_of(job) else {
            return format!("job {job}");
        };
        let task = &self.tasks[index];
        let host = |AgentIndex(agent): AgentIndex| &self.agents[agent].host;
        match flow {
            None => format!("reducer {} on {}", task.name, host(task.agent)),
            Some(flow) => match task.mappers.get(usize::from(flow)) {
                Some(mapper) => format!("mapper {} on {}", mapper.name, host(mapper.agent)),
                None => {
                    let switch = usize::from(flow) - task.mappers.len();
                    let name = task.switches.get(switch);
                    name.map_or(format!("flow {flow}"), |name| format!("switch {name}"))
                }
            },
        }
    }

    /// Returns a failure with names in place of numbers.
    fn explain(&self, index: usize, failure: ReductionError) -> String {
        match failure {
            ReductionError::MapperSilent { flow } | ReductionError::SwitchSilent { flow } => {
                let job = self.tasks[index].order.flows.job;
                format!("{} does not answer", self.who(job, Some(flow)))
            }
            other => other.to_string(),
        }
    }
}

/// Reads the reports of an agent to their end.
fn read_reports(agent: AgentIndex, reports: impl Read, sender: &Sender<Arrival>) {
    let mut why = "its agent has ended".to_owned();
    for line in BufReader::new(reports).lines() {
        let report = line.map_err(|error| error.to_string()).and_then(|line| {
            serde_json::from_str(&line).map_err(|_| format!("a line is no report: {line}"))
        });
        match report {
            Ok(report) => {
                if sender.send((agent, Ok(report))).is_err() {
                    return;
                }
            }
            Err(error) => {
                why = error;
                break;
            }
        }
    }
    // Fails if the attempt is over.
    let _ = sender.send((agent, Err(why)));
}

#[cfg(test)]
mod tests;
