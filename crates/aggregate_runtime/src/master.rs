//! The master of a site: it admits jobs, numbers attempts and loads, and answers failures.
//!
//! No I/O and no clock: reports and times go in, [`Action`]s come out. docs/internals/aggregate.md
//! has the order of its steps.

mod admission;
mod engines;
mod reduction;
mod report;
mod update;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use aggregate::{Job, Plan, PlanError, ReductionError, ReductionRequest, RunOptions};
use fabric::Topology;
use fabric::topology::{HostId, PlaneSpec, SwitchId};
use packet::Nanos;

pub use report::{JobReport, RealOutcome, ReductionReport};
pub use update::{UpdateNumber, VpdpChoice};

use engines::{EngineId, Origin};
use reduction::{LastReports, Part, Phase, Reduction, Source, map_order, reduce_order};
use update::Update;

use crate::order::{AgentOrder, AgentReport, BeginOrder, EngineOrder, MapSource, from_text};
use crate::switch_load::{LoadedPlanes, ProgramText, SwitchLoad, VpdpLoad, VpdpUpdate};
use crate::vector_lines::add_part;

/// Time that an agent or a switch gets to come back.
const RETURN: Nanos = Nanos::from_secs(15);

/// Time that a load of a switch gets.
const LOAD: Nanos = Nanos::from_secs(20);

/// Time in which others join a load, from the last collection that was admitted. The tasks of a
/// stage collect at about the same time.
const GATHER: Nanos = Nanos::from_millis(100);

/// Time that a load waits for others at most.
const MAX_GATHER: Nanos = Nanos::from_millis(500);

/// Time that an end waits for a load at most, while others are at work: each load makes them
/// replay.
const MAX_UNCLEAN: Nanos = Nanos::from_secs(1);

/// Failures of a reducer that no lost switch explains, after which a reduction fails.
const MAX_FAILURES: u32 = 2;

/// Action that the master requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send an order to the agent of a host.
    Order(HostId, AgentOrder),
    /// Give a switch its program and entries.
    Load(SwitchId, SwitchLoad),
    /// Change the virtual data plane of a running reduction in a switch.
    Update(SwitchId, VpdpUpdate),
    /// Report the end of an update: the number of virtual data planes that have it, or why not.
    Updated(UpdateNumber, Result<usize, String>),
    /// Report the end of a job to those who wait for it.
    Ended(u32),
}

/// An agent, as the master knows it.
#[derive(Clone, Debug)]
struct AgentState {
    is_connected: bool,
    /// Time and reason of the end of the last connection.
    lost: (Nanos, String),
}

/// A switch, as the master knows it.
#[derive(Clone, Debug)]
struct SwitchState {
    is_connected: bool,
    lost: (Nanos, String),
    /// Number of the load that it has.
    loaded: Option<u32>,
    /// True if it may have reductions, or a program of another controller.
    is_dirty: bool,
}

/// A load that is under way.
#[derive(Clone, Debug)]
struct Load {
    number: u32,
    began: Nanos,
    waiting: BTreeSet<SwitchId>,
    /// Switches that have reductions with it, also if these end before it is there.
    dirty: BTreeSet<SwitchId>,
    /// The attempt of each reduction in the entries.
    attempts: BTreeMap<u16, u16>,
}

/// A wish for a load.
#[derive(Clone, Copy, Debug, Default)]
struct LoadWish {
    is_open: bool,
    /// Time at which it was seen.
    since: Option<Nanos>,
}

impl LoadWish {
    fn open(&mut self) {
        self.is_open = true;
    }

    /// Returns how long it has been open.
    fn waits(&mut self, now: Nanos) -> Option<Nanos> {
        let is_open = self.is_open;
        is_open.then(|| now.since(*self.since.get_or_insert(now)))
    }
}

/// A job.
#[derive(Debug)]
struct JobState {
    name: String,
    origin: Origin,
    /// The failure of a group that has not begun.
    failure: Option<String>,
    reductions: Vec<Reduction>,
    is_cancelled: bool,
    /// The load after which the switches have nothing of it, if all of its reductions have ended.
    cleaned_by: Option<u32>,
    has_ended: bool,
}

/// The master of a site.
#[derive(Debug)]
pub struct Master {
    topology: Topology,
    /// Routes, and the reductions that have not ended.
    plan: Plan,
    options: RunOptions,
    /// Number of the last load.
    number: u32,
    last_attempt: u16,
    last_reduction: u16,
    last_job: u32,
    agents: Vec<AgentState>,
    switches: Vec<SwitchState>,
    load: Option<Load>,
    /// For those who wait for it.
    load_wish: LoadWish,
    /// For what has ended.
    cleaning_wish: LoadWish,
    /// Time of the last collection that was admitted.
    last_collection: Option<Nanos>,
    jobs: BTreeMap<u32, JobState>,
    /// Programs of running reductions that are not those of the plan.
    updated: BTreeMap<(SwitchId, u16), String>,
    updates: Vec<Update>,
    actions: VecDeque<Action>,
}

impl Master {
    /// Creates the master of a topology. Numbers of loads and attempts are greater than `number`;
    /// a master that is started again gets a greater one.
    ///
    /// # Errors
    /// The topology has no routes.
    pub fn new(topology: Topology, number: u32) -> Result<Master, PlanError> {
        let plan = Plan::new(&topology, &[])?;
        let agent = AgentState {
            is_connected: false,
            lost: (Nanos::ZERO, "it is not there".to_owned()),
        };
        let switch = SwitchState {
            is_connected: false,
            lost: (Nanos::ZERO, "it is not there".to_owned()),
            loaded: None,
            is_dirty: true,
        };
        Ok(Master {
            agents: vec![agent; topology.hosts.len()],
            switches: vec![switch; topology.switches.len()],
            plan,
            options: RunOptions::default(),
            number,
            last_attempt: number as u16,
            last_reduction: 0,
            last_job: 0,
            load: None,
            load_wish: LoadWish::default(),
            cleaning_wish: LoadWish::default(),
            last_collection: None,
            jobs: BTreeMap::new(),
            updated: BTreeMap::new(),
            updates: Vec::new(),
            actions: VecDeque::new(),
            topology,
        })
    }

    /// Returns the topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Admits a job, and returns its number. `requests` are its reductions; paths of parts are
    /// relative to `directory` of each host.
    ///
    /// # Errors
    /// An agent or a switch is not there, or there is no path or no room. Nothing is changed.
    pub fn submit(
        &mut self,
        name: &str,
        (job, directory): (&Job, PathBuf),
        requests: &[ReductionRequest],
    ) -> Result<u32, String> {
        let sources = job.reducers.iter().map(|line| {
            let sources = line.mappers.iter().map(|mapper| {
                let mapper = &job.mappers[*mapper];
                Source {
                    who: format!("mapper {}", mapper.name),
                    from: MapSource::Part {
                        function: mapper.function.clone(),
                        path: directory.join(&job.parts[mapper.part].path),
                    },
                }
            });
            sources.collect()
        });
        self.admit(name.to_owned(), requests, sources.collect(), Origin::Client)
    }

    /// Admits a job with these mappers, and returns its number.
    ///
    /// # Errors
    /// As for [`Master::submit`].
    fn admit(
        &mut self,
        name: String,
        requests: &[ReductionRequest],
        sources: Vec<Vec<Source>>,
        origin: Origin,
    ) -> Result<u32, String> {
        let reductions = self.plan(requests, sources)?;
        let number = self.new_job(name, origin);
        self.begin_reductions(number, reductions);
        Ok(number)
    }

    /// Adds a job without reductions, and returns its number.
    fn new_job(&mut self, name: String, origin: Origin) -> u32 {
        self.last_job += 1;
        let state = JobState {
            name,
            origin,
            failure: None,
            reductions: Vec::new(),
            is_cancelled: false,
            cleaned_by: None,
            has_ended: false,
        };
        self.jobs.insert(self.last_job, state);
        self.last_job
    }

    /// Gives a job its reductions.
    fn begin_reductions(&mut self, number: u32, mut reductions: Vec<Reduction>) {
        for reduction in &mut reductions {
            reduction.at.attempt = next_attempt(&mut self.last_attempt);
            self.plan.reductions.push(reduction.planned.clone());
        }
        if let Some(job) = self.jobs.get_mut(&number) {
            job.reductions = reductions;
        }
    }

    /// Ends a job without a result.
    ///
    /// # Errors
    /// There is no such job, or it has ended.
    pub fn cancel(&mut self, number: u32) -> Result<(), String> {
        let job = self.jobs.get_mut(&number);
        let job = job.ok_or_else(|| unknown(number))?;
        if job.cleaned_by.is_some() {
            return Err(format!("job {number} has ended already"));
        }
        job.is_cancelled = true;
        self.end_all(number);
        Ok(())
    }

    /// Notes that an agent takes orders.
    pub fn agent_connected(&mut self, host: HostId) {
        self.agents[host.0].is_connected = true;
    }

    /// Notes that an agent takes no orders, for this reason. Its mappers and reducers are gone.
    pub fn agent_lost(&mut self, host: HostId, why: String, now: Nanos) {
        let agent = &mut self.agents[host.0];
        if agent.is_connected {
            agent.lost.0 = now;
        }
        agent.is_connected = false;
        agent.lost.1 = why.clone();
        self.engines_lost(host, &why);
        let mut again = Vec::new();
        for (number, index, reduction) in all(&mut self.jobs) {
            let request = &reduction.planned.request;
            if request.reducer == host && reduction.reducer != Part::Absent {
                reduction.reducer = Part::Absent;
                if reduction.is_open() {
                    again.push((number, index));
                    continue;
                }
            }
            for (part, (at, _)) in reduction.parts.iter_mut().zip(&request.mappers) {
                if *at == host {
                    *part = Part::Absent;
                }
            }
            if reduction.phase == Phase::Ready {
                reduction.phase = Phase::Preparing;
            }
        }
        for (number, index) in again {
            self.begin_attempt(number, index);
        }
    }

    /// Notes that a switch can be loaded. It may have any program.
    pub fn switch_connected(&mut self, switch: SwitchId) {
        let state = &mut self.switches[switch.0];
        state.is_connected = true;
        state.loaded = None;
        state.is_dirty = true;
        self.load_wish.open();
        self.end_updates(switch, "it was connected again");
    }

    /// Notes that a switch cannot be loaded, for this reason. It may have lost its registers, or
    /// may come back with old ones, so nothing that it sends from here on counts.
    pub fn switch_lost(&mut self, switch: SwitchId, why: String, now: Nanos) {
        let state = &mut self.switches[switch.0];
        if state.is_connected {
            state.lost.0 = now;
        }
        state.lost.1.clone_from(&why);
        state.loaded = None;
        self.end_updates(switch, &why);
        let state = &mut self.switches[switch.0];
        if !std::mem::replace(&mut state.is_connected, false) {
            return;
        }
        if let Some(load) = &mut self.load {
            load.waiting.remove(&switch);
        }
        self.number += 1;
        for (_, _, reduction) in open(&mut self.jobs) {
            if reduction.uses(switch) {
                reduction.has_lost_switch = true;
                if reduction.phase == Phase::Running {
                    let (at, number) = (reduction.at, self.number);
                    let restart = AgentOrder::Restart { at, number };
                    let reducer = reduction.planned.request.reducer;
                    self.actions.push_back(Action::Order(reducer, restart));
                }
            }
        }
    }

    /// Notes that a switch has a load, or why it has not.
    pub fn switch_loaded(&mut self, switch: SwitchId, number: u32, loaded: Result<(), String>) {
        let Some(load) = self.load.as_mut().filter(|load| load.number == number) else {
            return;
        };
        if !load.waiting.remove(&switch) {
            return;
        }
        match loaded {
            Ok(()) => {
                let is_dirty = load.dirty.contains(&switch);
                let state = &mut self.switches[switch.0];
                state.loaded = Some(number);
                state.is_dirty = is_dirty;
            }
            Err(error) => self.fail_users(switch, &error),
        }
    }

    /// Notes that a switch does not take one reduction of a load, and why. It goes on with others.
    pub fn reduction_refused(
        &mut self,
        switch: SwitchId,
        (number, reduction): (u32, u16),
        why: &str,
    ) {
        if self.load.as_ref().is_none_or(|load| load.number != number) {
            return;
        }
        let name = &self.topology.switches[switch.0].name;
        let failure = format!("switch {name}: {why}");
        let found = open(&mut self.jobs).find(|(_, _, it)| it.at.job == reduction);
        let found = found.map(|(number, index, _)| (number, index));
        if let Some((number, index)) = found {
            self.fail(number, index, failure);
        }
    }

    /// Fails the reductions of a switch.
    fn fail_users(&mut self, switch: SwitchId, why: &str) {
        let name = &self.topology.switches[switch.0].name;
        let failure = format!("switch {name}: {why}");
        let needs = |reduction: &Reduction| reduction.planned.passed().any(|it| it == switch);
        let users = open(&mut self.jobs).filter(|(_, _, reduction)| needs(reduction));
        let users: Vec<_> = users.map(|(number, index, _)| (number, index)).collect();
        for (number, index) in users {
            self.fail(number, index, failure.clone());
        }
    }

    /// Takes a report of the agent of a host.
    pub fn report(&mut self, host: HostId, report: AgentReport, now: Nanos) {
        let at = match &report {
            AgentReport::Alive => return,
            AgentReport::Engine { engine, request } => {
                let number = *engine;
                self.engine_asks(EngineId { host, number }, request.clone(), now);
                return;
            }
            AgentReport::Ready { at, .. }
            | AgentReport::Refused { at, .. }
            | AgentReport::Pairs { at, .. }
            | AgentReport::Vector { at, .. }
            | AgentReport::Reduced { at, .. }
            | AgentReport::Mapped { at, .. }
            | AgentReport::LoadWanted { at } => *at,
        };
        let found = all(&mut self.jobs).find(|(_, _, it)| it.at == at && it.phase != Phase::Ended);
        let Some((number, index, _)) = found else {
            return;
        };
        let Some(job) = self.jobs.get_mut(&number) else {
            return;
        };
        let (is_of_engine, is_group) = (job.origin.is_of_engine(), job.origin.is_group());
        let Some(reduction) = job.reductions.get_mut(index) else {
            return;
        };
        match report {
            AgentReport::Alive | AgentReport::Engine { .. } => {}
            AgentReport::LoadWanted { .. } => self.load_wish.open(),
            AgentReport::Ready { flow, .. } => {
                let part = match flow {
                    None => Some(&mut reduction.reducer),
                    Some(flow) => reduction.parts.get_mut(usize::from(flow)),
                };
                if let Some(part) = part.filter(|part| **part == Part::Preparing) {
                    *part = Part::Ready;
                }
            }
            AgentReport::Refused { flow, error, .. } => {
                let who = reduction.who(&self.topology, flow);
                self.fail(number, index, format!("{who}: {error}"));
            }
            AgentReport::Pairs { pairs, .. } => {
                let pairs = pairs.iter().filter_map(from_text);
                reduction.outcome.result.extend(pairs);
            }
            AgentReport::Vector { values, .. } => add_part(&mut reduction.outcome.vector, &values),
            AgentReport::Reduced {
                failure: Some(failure),
                ..
            } => self.answer_failure(number, index, failure),
            AgentReport::Reduced {
                failure: None,
                keys,
                counts,
                nanoseconds,
                bytes,
                ..
            } => {
                let outcome = &mut reduction.outcome;
                let arrived = outcome.arrived();
                outcome.reducer = counts;
                outcome.took = Nanos(nanoseconds);
                outcome.bytes = bytes;
                outcome.keys = keys;
                if is_group {
                    // It goes on until its ranks leave.
                } else if is_of_engine || arrived == keys {
                    outcome.is_complete = true;
                    reduction.phase = Phase::Complete(now);
                    self.report_collected(number);
                } else {
                    let lost = format!("{arrived} of the {keys} keys of the result were reported");
                    self.fail(number, index, lost);
                }
            }
            AgentReport::Mapped {
                flow,
                counts,
                received,
                ..
            } => {
                let flow = usize::from(flow);
                if let Some(is_mapped) = reduction.mapped.get_mut(flow) {
                    *is_mapped = true;
                    reduction.outcome.mappers[flow] = counts;
                    reduction.outcome.received.extend(received);
                }
            }
        }
    }

    /// Begins another attempt after a failure that may be past, else fails.
    fn answer_failure(&mut self, number: u32, index: usize, failure: ReductionError) {
        let is_group = self
            .jobs
            .get(&number)
            .is_some_and(|job| job.origin.is_group());
        let Some(reduction) = reduction_of(&mut self.jobs, number, index) else {
            return;
        };
        // Ranks have results of this attempt, so a group has no other one.
        if is_group || !reduction.has_lost_switch {
            reduction.failures += 1;
            let is_silence = !matches!(failure, ReductionError::Unbalanced { .. });
            if is_group || !is_silence || reduction.failures >= MAX_FAILURES {
                let failure = reduction.explain(&self.topology, failure);
                self.fail(number, index, failure);
                return;
            }
        }
        self.begin_attempt(number, index);
    }

    /// Begins another attempt of a reduction.
    fn begin_attempt(&mut self, number: u32, index: usize) {
        let attempt = next_attempt(&mut self.last_attempt);
        self.drop_attempt(number, index);
        let Some(reduction) = reduction_of(&mut self.jobs, number, index) else {
            return;
        };
        reduction.at.attempt = attempt;
        reduction.phase = Phase::Preparing;
        reduction.reducer = Part::Absent;
        reduction.parts.fill(Part::Absent);
        reduction.mapped.fill(false);
        reduction.has_lost_switch = false;
        reduction.outcome.forget_result();
    }

    /// Has agents forget the attempt of a reduction.
    fn drop_attempt(&mut self, number: u32, index: usize) {
        if let Some(reduction) = reduction_of(&mut self.jobs, number, index) {
            let at = reduction.at;
            let hosts = reduction.hosts().into_iter();
            let hosts = hosts.filter(|host| self.agents[host.0].is_connected);
            self.actions
                .extend(hosts.map(|host| Action::Order(host, AgentOrder::Drop { at })));
        }
    }

    fn fail(&mut self, number: u32, index: usize, failure: String) {
        if let Some(reduction) = reduction_of(&mut self.jobs, number, index) {
            reduction.outcome.failure = Some(failure);
            reduction.outcome.is_complete = false;
            reduction.outcome.forget_result();
        }
        self.end(number, index);
    }

    /// Fails a job with all of its reductions.
    fn fail_job(&mut self, number: u32, failure: String) {
        let Some(job) = self.jobs.get_mut(&number) else {
            return;
        };
        job.failure = Some(failure.clone());
        for reduction in job
            .reductions
            .iter_mut()
            .filter(|it| it.phase != Phase::Ended)
        {
            reduction.outcome.failure = Some(failure.clone());
            reduction.outcome.is_complete = false;
        }
        self.end_all(number);
    }

    /// Ends all reductions of a job.
    fn end_all(&mut self, number: u32) {
        let count = self.jobs.get(&number).map_or(0, |job| job.reductions.len());
        for index in 0..count {
            self.end(number, index);
        }
        if count == 0 {
            self.note_end(number);
        }
    }

    /// Notes that all reductions of a job have ended. Engines that wait for it get an error.
    fn note_end(&mut self, number: u32) {
        let cleaned_by = self.number + 1;
        self.cleaning_wish.open();
        let Some(job) = self.jobs.get_mut(&number) else {
            return;
        };
        job.cleaned_by = Some(cleaned_by);
        let of_reductions = job.reductions.iter();
        let of_reduction = of_reductions
            .filter_map(|it| it.outcome.failure.clone())
            .next();
        let error = match (&job.failure, of_reduction) {
            _ if job.is_cancelled => format!("{}: job {number} was cancelled", job.name),
            (Some(failure), _) => failure.clone(),
            (None, Some(failure)) => format!("{}: {failure}", job.name),
            (None, None) => format!("{}: it has ended", job.name),
        };
        for engine in job.origin.take_engines() {
            let error = error.clone();
            self.answer(engine, EngineOrder::Failed { error });
        }
    }

    /// Ends a reduction.
    fn end(&mut self, number: u32, index: usize) {
        let Some(reduction) = reduction_of(&mut self.jobs, number, index) else {
            return;
        };
        if reduction.phase == Phase::Ended {
            return;
        }
        reduction.phase = Phase::Ended;
        let own = reduction.planned.job;
        self.drop_attempt(number, index);
        self.plan.reductions.retain(|planned| planned.job != own);
        self.updated.retain(|(_, reduction), _| *reduction != own);
        self.cleaning_wish.open();
        let job = self.jobs.get(&number);
        if job.is_some_and(|job| job.reductions.iter().all(|it| it.phase == Phase::Ended)) {
            self.note_end(number);
        }
    }

    /// Returns the next action, if there is one at this time.
    pub fn poll(&mut self, now: Nanos) -> Option<Action> {
        if self.actions.is_empty() {
            self.notice_absence(now);
            self.end_late_groups(now);
            self.prepare();
            self.end_complete(now);
            self.follow_load(now);
        }
        self.actions.pop_front()
    }

    /// Fails the reductions of agents and switches that do not come back.
    fn notice_absence(&mut self, now: Nanos) {
        let mut failed = Vec::new();
        for (number, index, reduction) in open(&mut self.jobs) {
            let is_over = |lost: Nanos| now.since(lost) > RETURN;
            let hosts = reduction.hosts();
            let mut hosts = hosts.iter().map(|host| (*host, &self.agents[host.0]));
            let host = hosts.find(|(_, it)| !it.is_connected && is_over(it.lost.0));
            let passed = reduction.planned.passed();
            let mut switches = passed.map(|it| (it, &self.switches[it.0]));
            let switch = switches.find(|(_, it)| !it.is_connected && is_over(it.lost.0));
            let failure = match (host, switch) {
                (Some((host, agent)), _) => {
                    let who = reduction.role_on(&self.topology, host);
                    format!("{who}: {}", agent.lost.1)
                }
                (None, Some((switch, state))) => {
                    let name = &self.topology.switches[switch.0].name;
                    format!("switch {name}: {}", state.lost.1)
                }
                (None, None) => continue,
            };
            failed.push((number, index, failure));
        }
        for (number, index, failure) in failed {
            self.fail(number, index, failure);
        }
    }

    /// Gives orders to prepare what is absent, and notes who is ready.
    fn prepare(&mut self) {
        let jobs = self.jobs.values_mut();
        let reductions = jobs.flat_map(|job| {
            let JobState {
                reductions, origin, ..
            } = job;
            let origin = &*origin;
            reductions
                .iter_mut()
                .map(move |reduction| (reduction, origin))
        });
        for (reduction, origin) in reductions.filter(|(reduction, _)| reduction.is_open()) {
            let request = &reduction.planned.request;
            if reduction.reducer == Part::Absent && self.agents[request.reducer.0].is_connected {
                let order = reduce_order((reduction, origin), &self.topology, &self.options);
                let order = AgentOrder::Reduce(order);
                self.actions
                    .push_back(Action::Order(request.reducer, order));
                reduction.reducer = Part::Preparing;
            }
            for flow in 0..reduction.parts.len() {
                let (host, _) = reduction.planned.request.mappers[flow];
                if reduction.parts[flow] == Part::Absent && self.agents[host.0].is_connected {
                    let order = AgentOrder::Map(map_order(reduction, flow));
                    self.actions.push_back(Action::Order(host, order));
                    reduction.parts[flow] = Part::Preparing;
                }
            }
            let is_ready = |part: &Part| *part == Part::Ready;
            match reduction.phase {
                Phase::Preparing
                    if is_ready(&reduction.reducer) && reduction.parts.iter().all(is_ready) =>
                {
                    reduction.phase = Phase::Ready;
                    // A load that is under way and has its attempt begins it.
                    let at = reduction.at;
                    let mut load = self.load.iter();
                    if !load.any(|load| load.attempts.get(&at.job) == Some(&at.attempt)) {
                        self.load_wish.open();
                    }
                }
                // A load that is under way begins one of them.
                Phase::Running if self.load.is_none() && reduction.parts.iter().any(is_ready) => {
                    self.load_wish.open();
                }
                _ => {}
            }
        }
    }

    /// Ends reductions that are complete.
    fn end_complete(&mut self, now: Nanos) {
        let mut done = Vec::new();
        for (number, job) in &self.jobs {
            for (index, reduction) in job.reductions.iter().enumerate() {
                match reduction.last_reports(now) {
                    LastReports::Missing => {}
                    LastReports::Here => done.push((*number, index, None)),
                    LastReports::Lost(flow) => {
                        let who = reduction.who(&self.topology, flow);
                        let what = match flow {
                            Some(_) => "get the result",
                            None => "give all mappers the result",
                        };
                        let why = format!("{who} is not there to {what}");
                        done.push((*number, index, Some(why)));
                    }
                }
            }
        }
        for (number, index, failure) in done {
            match failure {
                None => self.end(number, index),
                Some(failure) => self.fail(number, index, failure),
            }
        }
    }

    /// Begins a load if one is wanted, and ends the one that all switches have.
    fn follow_load(&mut self, now: Nanos) {
        let can_begin = self.load.is_none() && self.updates.is_empty();
        if can_begin && self.is_load_due(now) {
            self.load_wish = LoadWish::default();
            self.cleaning_wish = LoadWish::default();
            self.begin_load(now);
        }
        let Some(load) = &self.load else {
            return;
        };
        if load.waiting.is_empty() {
            self.finish_load();
        } else if now.since(load.began) > LOAD {
            let silent = load.waiting.clone();
            for switch in silent {
                let why = format!("it takes no program within {} s", LOAD.as_secs());
                let number = self.load.as_ref().map_or(0, |load| load.number);
                self.switch_loaded(switch, number, Err(why));
            }
        }
    }

    /// Returns true if a load is wanted, and has waited for those that are to come with it.
    fn is_load_due(&mut self, now: Nanos) -> bool {
        let is_new = |at: Nanos| now.since(at) < GATHER;
        let is_gathering = self.last_collection.is_some_and(is_new) || self.is_collecting();
        if let Some(waited) = self.load_wish.waits(now) {
            return waited >= MAX_GATHER || !is_gathering;
        }
        let waited = self.cleaning_wish.waits(now);
        waited.is_some_and(|waited| {
            // One that is complete ends soon, so they share a load; the next stage's has it, too.
            let is_at_work = |phase| matches!(phase, Phase::Running | Phase::Complete(_));
            let mut others = all(&mut self.jobs);
            waited >= MAX_UNCLEAN || !is_gathering && !others.any(|(_, _, it)| is_at_work(it.phase))
        })
    }

    /// Returns true if a collection is being prepared.
    fn is_collecting(&self) -> bool {
        let collections = self.jobs.values().filter(|job| job.origin.is_collection());
        let mut reductions = collections.flat_map(|job| &job.reductions);
        reductions.any(|reduction| reduction.phase == Phase::Preparing)
    }

    /// Gives all switches with reductions the next number of a load, and takes from others what
    /// they have.
    fn begin_load(&mut self, now: Nanos) {
        self.number += 1;
        let open = open(&mut self.jobs);
        let attempts: BTreeMap<u16, u16> =
            open.map(|(_, _, it)| (it.at.job, it.at.attempt)).collect();
        // A reduction that is complete is still in the plan.
        let attempt_of = |job: u16| attempts.get(&job).copied().unwrap_or(0);
        let (mut waiting, mut dirty) = (BTreeSet::new(), BTreeSet::new());
        for (index, state) in self.switches.iter().enumerate() {
            let switch = SwitchId(index);
            let plane = &self.topology.switches[index].plane;
            let mut reductions = self.plan.reductions.iter();
            let is_used = reductions.any(|it| it.passed().any(|passed| passed == switch));
            let is_ours = matches!(plane, PlaneSpec::Aggregate { .. });
            if !is_ours || !state.is_connected || !(is_used || state.is_dirty) {
                continue;
            }
            waiting.insert(switch);
            if is_used {
                dirty.insert(switch);
            }
            let load = SwitchLoad {
                number: self.number,
                planes: self.planes(switch, &attempt_of),
            };
            self.actions.push_back(Action::Load(switch, load));
        }
        for switch in &waiting {
            // Also if it reports a failure, and has taken a part.
            self.switches[switch.0].is_dirty = true;
        }
        self.load = Some(Load {
            number: self.number,
            began: now,
            waiting,
            dirty,
            attempts,
        });
    }

    /// Returns what a switch gets in the present load.
    fn planes(&self, switch: SwitchId, attempt_of: &dyn Fn(u16) -> u16) -> LoadedPlanes {
        if !self.topology.switches[switch.0].hosts_tenants {
            return LoadedPlanes::Whole(ProgramText {
                program: self.plan.program(switch),
                entries: self.plan.entries_with(switch, attempt_of, self.number),
            });
        }
        let own = self.plan.reductions.iter();
        let own = own.filter(|it| it.switches.iter().any(|planned| planned.switch == switch));
        let vpdps = own.map(|planned| {
            let reduction = planned.job;
            let at = (attempt_of(reduction), self.number);
            let mut vpdp = VpdpLoad::new((&self.plan, &self.topology), (switch, reduction), at);
            if let Some(program) = self.updated.get(&(switch, reduction)) {
                vpdp.text.program.clone_from(program);
            }
            vpdp
        });
        LoadedPlanes::Vpdps(vpdps.collect())
    }

    /// Begins what has waited for a load, and has others replay. Switches come first: what a
    /// reducer of the new number gets has been reduced under that number, or not at all.
    fn finish_load(&mut self) {
        let Some(load) = self.load.take() else {
            return;
        };
        let number = load.number;
        let mut begun = Vec::new();
        for (job, _, reduction) in open(&mut self.jobs) {
            let at = reduction.at;
            let is_in_load = load.attempts.get(&at.job) == Some(&at.attempt);
            let mut switches = reduction.planned.passed();
            let is_loaded = switches.all(|it| self.switches[it.0].loaded == Some(number));
            if !is_in_load || !is_loaded {
                continue;
            }
            let request = &reduction.planned.request;
            let begin = |flow, number| AgentOrder::Begin(BeginOrder { at, flow, number });
            match reduction.phase {
                Phase::Ready => {
                    // The reducer first: it answers the questions of mappers.
                    let reducer = Action::Order(request.reducer, begin(None, number));
                    self.actions.push_back(reducer);
                    for (flow, (host, _)) in (0..).zip(&request.mappers) {
                        let mapper = Action::Order(*host, begin(Some(flow), 0));
                        self.actions.push_back(mapper);
                    }
                    reduction.reducer = Part::Begun;
                    reduction.parts.fill(Part::Begun);
                    reduction.phase = Phase::Running;
                    reduction.outcome.attempts += 1;
                    begun.push(job);
                }
                Phase::Running => {
                    // One mapper a load: a reducer takes each number once. Others want a load.
                    let mut parts = reduction.parts.iter();
                    let Some(flow) = parts.position(|part| *part == Part::Ready) else {
                        let restart = AgentOrder::Restart { at, number };
                        self.actions
                            .push_back(Action::Order(request.reducer, restart));
                        continue;
                    };
                    let (host, _) = request.mappers[flow];
                    reduction.parts[flow] = Part::Begun;
                    let flow = flow as u16;
                    let replace = AgentOrder::Replace { at, flow, number };
                    self.actions
                        .push_back(Action::Order(request.reducer, replace));
                    self.actions
                        .push_back(Action::Order(host, begin(Some(flow), number)));
                    reduction.outcome.retried += 1;
                }
                Phase::Preparing | Phase::Complete(_) | Phase::Ended => {}
            }
        }
        for job in begun {
            self.report_joined(job);
        }
        for (job_number, job) in &mut self.jobs {
            if !job.has_ended && job.cleaned_by.is_some_and(|by| by <= number) {
                job.has_ended = true;
                self.actions.push_back(Action::Ended(*job_number));
            }
        }
        self.forget_old_jobs();
    }
}

fn unknown(number: u32) -> String {
    format!("there is no job {number}; `polyplane aggregate jobs` lists them")
}

/// Iterates over all reductions, with the number of their job and their index.
fn all(jobs: &mut BTreeMap<u32, JobState>) -> impl Iterator<Item = (u32, usize, &mut Reduction)> {
    jobs.iter_mut().flat_map(|(number, job)| {
        let reductions = job.reductions.iter_mut().enumerate();
        reductions.map(|(index, reduction)| (*number, index, reduction))
    })
}

/// Iterates over the reductions that have not ended.
fn open(jobs: &mut BTreeMap<u32, JobState>) -> impl Iterator<Item = (u32, usize, &mut Reduction)> {
    all(jobs).filter(|(_, _, reduction)| reduction.is_open())
}

fn reduction_of(
    jobs: &mut BTreeMap<u32, JobState>,
    number: u32,
    index: usize,
) -> Option<&mut Reduction> {
    jobs.get_mut(&number)?.reductions.get_mut(index)
}

/// Returns the next number of an attempt. 0 is none.
fn next_attempt(last: &mut u16) -> u16 {
    *last = last.wrapping_add(1).max(1);
    *last
}

#[cfg(test)]
mod tests;
