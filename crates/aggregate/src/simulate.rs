//! Reductions in a simulated fabric.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use fabric::topology::{HostId, NodeId, SwitchId, Topology};
use fabric::{FabricError, Node, Simulation};
use packet::Nanos;

use crate::datagram::Endpoint;
use crate::host::{HostNode, HostRole, Roles, endpoint};
use crate::mapper::{Mapper, MapperCounts};
use crate::pair::{Operator, Pair};
use crate::plan::{Plan, PlannedReduction, SWITCH_MAC, switch_address};
use crate::reducer::{Reducer, ReducerCounts};
use crate::reduction_error::ReductionError;
use crate::role::Role;
use crate::source::InputError;
use crate::vector::{Input, Vector};

/// Creates a switch with a program and entries. Returns an error message on failure.
pub type MakeSwitch<'a> = dyn FnMut(SwitchId, &str, &str) -> Result<Box<dyn Node>, String> + 'a;

/// Time between two looks at the reductions.
const LOOK: Nanos = Nanos::from_millis(1);

/// Failure of a part of a reduction in a run, or what the master does about it. Reductions and
/// mappers are given by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A switch loses its registers and is loaded again.
    Load(SwitchId),
    /// A mapper stops.
    StopMapper {
        /// The reduction.
        reduction: usize,
        /// The mapper.
        mapper: usize,
    },
    /// A mapper is started again, on this host. The old one is not stopped: it may be slow alone.
    RetryMapper {
        /// The reduction.
        reduction: usize,
        /// The mapper.
        mapper: usize,
        /// The host, which has another mapper or reducer.
        host: HostId,
    },
    /// A reducer and its mappers are started again, on their hosts.
    Retry {
        /// The reduction.
        reduction: usize,
        /// True if the old ones are stopped.
        stops: bool,
    },
}

/// Parameters of a simulated run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOptions {
    /// Number of epochs that mappers may send at once.
    pub open_epochs: u16,
    /// Time without a message after which a mapper or a switch counts as failed.
    pub patience: Nanos,
    /// Maximum simulated time.
    pub end: Nanos,
    /// Failures.
    pub failures: Vec<(Nanos, Failure)>,
    /// Mappers that begin late, by index of the reduction and of the mapper.
    pub late: Vec<(usize, usize, Nanos)>,
    /// For each reduction, the next vectors of its mappers, if these get the result.
    pub next: Vec<Vec<NextInput>>,
}

/// Next vectors of a reduction's mappers.
#[derive(Clone, Debug, PartialEq)]
pub struct NextInput {
    /// The vector of each mapper.
    pub inputs: Vec<Input>,
    /// The operator.
    pub operator: Operator,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            open_epochs: 2,
            patience: Nanos::from_secs(5),
            end: Nanos::from_secs(600),
            failures: Vec::new(),
            late: Vec::new(),
            next: Vec::new(),
        }
    }
}

/// Outcome of a reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The reduced pairs, sorted by key.
    pub result: Vec<Pair>,
    /// The reduced vector, if it is one and complete.
    pub vector: Option<Vector>,
    /// If mappers get the result: the results of each, one for each of its inputs.
    pub received: Vec<Vec<Vector>>,
    /// The failure, if it failed.
    pub failure: Option<ReductionError>,
    /// True if the result is complete.
    pub is_complete: bool,
    /// Counters of the reducer.
    pub reducer: ReducerCounts,
    /// Counters of the mappers.
    pub mappers: Vec<MapperCounts>,
    /// Simulated time at which the reduction ended.
    pub ended_at: Nanos,
}

/// Error of a simulated run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The fabric.
    Fabric(FabricError),
    /// The input of a mapper.
    Input {
        /// The host of the mapper.
        host: String,
        /// The error.
        error: InputError,
    },
    /// A switch cannot be loaded.
    Switch(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Fabric(error) => error.fmt(f),
            RunError::Input { host, error } => write!(f, "mapper on {host}: {error}"),
            RunError::Switch(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}

impl From<FabricError> for RunError {
    fn from(error: FabricError) -> RunError {
        RunError::Fabric(error)
    }
}

/// A simulated fabric with the reductions of a plan.
pub struct Run {
    simulation: Simulation,
    plan: Plan,
    options: RunOptions,
    incarnation: u32,
    hosts: BTreeMap<HostId, Roles>,
    /// Inputs of the mappers, for retries.
    inputs: Vec<Vec<Input>>,
    ends: Vec<Endpoint>,
    /// For each reduction: its attempt.
    attempts: Vec<u16>,
    /// For each reduction and mapper: the load with which it began.
    since: Vec<Vec<u32>>,
    /// For each reduction: time of its end.
    ended: Vec<Option<Nanos>>,
    /// For each reduction and mapper: the results that it has got.
    received: Vec<Vec<Vec<Vector>>>,
}

/// The first number of a load. 0 is none.
const FIRST_INCARNATION: u32 = 1;

/// The first attempt of a reduction.
const ATTEMPT: u16 = 1;

impl Run {
    /// Creates the fabric. `inputs` are those of each reduction and each of its mappers.
    ///
    /// # Errors
    /// A switch cannot be loaded, a key is too long, or an input is not of its reduction's shape.
    pub fn new(
        topology: Topology,
        plan: Plan,
        inputs: Vec<Vec<Input>>,
        options: RunOptions,
        make: &mut MakeSwitch<'_>,
    ) -> Result<Run, RunError> {
        let ends = topology.hosts.iter();
        let ends: Vec<Endpoint> = ends.map(|h| endpoint(h.mac, h.address)).collect();
        let mut hosts: BTreeMap<HostId, Roles> = BTreeMap::new();
        let mut add = |host: HostId, role: HostRole| {
            let roles = hosts.entry(host).or_default();
            roles.borrow_mut().push(role);
        };
        for (number, (planned, inputs)) in plan.reductions.iter().zip(&inputs).enumerate() {
            let request = &planned.request;
            for (index, ((host, _), input)) in request.mappers.iter().zip(inputs).enumerate() {
                let mapper = Mapper::new(planned.flow_config(ATTEMPT), index as u16, input.clone());
                let mapper = mapper.map_err(|error| RunError::Input {
                    host: topology.hosts[host.0].name.clone(),
                    error,
                })?;
                let mut late = options.late.iter();
                let begin = late.find(|(r, m, _)| (*r, *m) == (number, index));
                let mapper = mapper.beginning_at(begin.map_or(Nanos::ZERO, |(.., at)| *at));
                add(*host, mapper_role(planned, &ends, mapper, index as u16));
            }
            let reducer = reducer_role(planned, &ends, &options, ATTEMPT, FIRST_INCARNATION);
            add(request.reducer, reducer);
        }
        let ids: BTreeMap<String, SwitchId> = topology
            .switches
            .iter()
            .enumerate()
            .map(|(n, s)| (s.name.clone(), SwitchId(n)))
            .collect();
        let specs: Vec<_> = topology.hosts.iter().map(|h| (h.mac, h.address)).collect();
        let mut simulation = Simulation::new(topology, &mut |spec| {
            let id = ids[&spec.name];
            make(
                id,
                &plan.program(id),
                &plan.entries(id, ATTEMPT, FIRST_INCARNATION),
            )
        })?;
        for (host, roles) in &hosts {
            let (mac, address) = specs[host.0];
            let node = HostNode::new(mac, address, Rc::clone(roles));
            simulation.replace_host(*host, Box::new(node))?;
        }
        Ok(Run {
            ended: vec![None; plan.reductions.len()],
            received: inputs
                .iter()
                .map(|mappers| vec![Vec::new(); mappers.len()])
                .collect(),
            attempts: vec![ATTEMPT; plan.reductions.len()],
            since: inputs
                .iter()
                .map(|mappers| vec![0; mappers.len()])
                .collect(),
            inputs: match options.failures.is_empty() {
                true => Vec::new(),
                false => inputs,
            },
            ends,
            simulation,
            plan,
            options,
            incarnation: FIRST_INCARNATION,
            hosts,
        })
    }

    /// Runs until all reductions have ended, or until the time is over. `observe` is called
    /// frequently and stops the run by returning false.
    ///
    /// # Errors
    /// As of [`Simulation::run_until`], or a switch cannot be loaded again.
    pub fn run(
        &mut self,
        make: &mut MakeSwitch<'_>,
        observe: &mut dyn FnMut(&Simulation) -> bool,
    ) -> Result<(), RunError> {
        let mut failures = self.options.failures.clone();
        failures.sort_by_key(|(at, _)| *at);
        let mut failures = failures.into_iter().peekable();
        while self.simulation.now() < self.options.end && !self.go_on()? {
            if !observe(&self.simulation) {
                break;
            }
            let mut slice = (self.simulation.now() + LOOK).min(self.options.end);
            let next = failures.peek().filter(|(at, _)| *at <= slice).copied();
            if let Some((at, _)) = next {
                slice = at.max(self.simulation.now());
            }
            self.simulation.run_until(slice)?;
            if let Some((_, failure)) = next {
                failures.next();
                self.fail(failure, make)?;
            }
        }
        Ok(())
    }

    fn fail(&mut self, failure: Failure, make: &mut MakeSwitch<'_>) -> Result<(), RunError> {
        match failure {
            Failure::Load(switch) => self.load(Some(switch), make),
            Failure::StopMapper { reduction, mapper } => {
                let own = (self.plan.reductions[reduction].job, mapper as u16);
                self.stop(|role| match role {
                    Role::Mapper { job, flow, .. } => (*job, *flow) == own,
                    Role::Reducer { .. } => false,
                });
                Ok(())
            }
            Failure::RetryMapper {
                reduction,
                mapper,
                host,
            } => self.retry_mapper(reduction, mapper, host, make),
            Failure::Retry { reduction, stops } => self.retry(reduction, stops, make),
        }
    }

    /// Stops some mappers and reducers.
    fn stop(&self, is_stopped: impl Fn(&HostRole) -> bool) {
        for roles in self.hosts.values() {
            roles.borrow_mut().retain(|role| !is_stopped(role));
        }
    }

    /// Starts a mapper again, with the next number of a load.
    fn retry_mapper(
        &mut self,
        reduction: usize,
        mapper: usize,
        host: HostId,
        make: &mut MakeSwitch<'_>,
    ) -> Result<(), RunError> {
        let planned = &self.plan.reductions[reduction];
        let (own, attempt) = (mapper as u16, self.attempts[reduction]);
        let incarnation = self.incarnation + 1;
        self.since[reduction][mapper] = incarnation;
        // The new mapper gets all results again.
        self.received[reduction][mapper].clear();
        let now = self.simulation.now();
        // The reducer learns of the load and of the mapper at once. Else the old mapper would
        // learn the number of the load from it.
        for roles in self.hosts.values() {
            for role in roles.borrow_mut().iter_mut() {
                if let Role::Reducer {
                    reducer,
                    job,
                    flows,
                } = role
                    && *job == planned.job
                    && reducer.attempt() == attempt
                {
                    flows[mapper] = self.ends[host.0];
                    reducer.replace_mapper(own, incarnation, now);
                }
            }
        }
        self.load(None, make)?;
        let planned = &self.plan.reductions[reduction];
        let input = self.inputs[reduction][mapper].clone();
        let again = Mapper::new(planned.flow_config(attempt), own, input);
        let again = again.expect("the first mapper had this input");
        let again = again.replacing_since(incarnation);
        let role = mapper_role(planned, &self.ends, again.beginning_at(now), own);
        self.begin([(host, role)])
    }

    /// Begins the next attempt of a reduction.
    fn retry(
        &mut self,
        reduction: usize,
        stops: bool,
        make: &mut MakeSwitch<'_>,
    ) -> Result<(), RunError> {
        let own = self.plan.reductions[reduction].job;
        if stops {
            self.stop(|role| match role {
                Role::Mapper { job, .. } | Role::Reducer { job, .. } => *job == own,
            });
        }
        self.attempts[reduction] += 1;
        self.since[reduction].fill(0);
        self.received[reduction].fill(Vec::new());
        self.ended[reduction] = None;
        self.load(None, make)?;
        let planned = &self.plan.reductions[reduction];
        let attempt = self.attempts[reduction];
        let reducer = reducer_role(
            planned,
            &self.ends,
            &self.options,
            attempt,
            self.incarnation,
        );
        let mut begin = vec![(planned.request.reducer, reducer)];
        let mappers = planned.request.mappers.iter().zip(&self.inputs[reduction]);
        for (flow, ((host, _), input)) in (0..).zip(mappers) {
            let mapper = Mapper::new(planned.flow_config(attempt), flow, input.clone());
            let mapper = mapper.expect("the first mapper had this input");
            begin.push((*host, mapper_role(planned, &self.ends, mapper, flow)));
        }
        self.begin(begin)
    }

    /// Adds mappers and reducers to hosts.
    fn begin(
        &mut self,
        roles: impl IntoIterator<Item = (HostId, HostRole)>,
    ) -> Result<(), RunError> {
        for (host, role) in roles {
            if let Some(roles) = self.hosts.get(&host) {
                roles.borrow_mut().push(role);
                self.simulation.wake(NodeId::Host(host))?;
            }
        }
        Ok(())
    }

    /// Gives all switches and reducers the next number of a load. A switch that is `lost` takes no
    /// part in a reduction perhaps, and is loaded too.
    fn load(&mut self, lost: Option<SwitchId>, make: &mut MakeSwitch<'_>) -> Result<(), RunError> {
        self.incarnation += 1;
        let reductions = self.plan.reductions.iter();
        let switches = reductions.flat_map(|r| r.switches.iter().map(|s| s.switch));
        let mut switches: Vec<SwitchId> = switches.chain(lost).collect();
        switches.sort_unstable();
        switches.dedup();
        let attempt_of = |job: u16| self.attempts[usize::from(job) - 1];
        for switch in switches {
            let entries = self
                .plan
                .entries_with(switch, &attempt_of, self.incarnation);
            let node = make(switch, &self.plan.program(switch), &entries);
            let node = node.map_err(RunError::Switch)?;
            self.simulation.replace_switch(switch, node)?;
        }
        let now = self.simulation.now();
        for (host, roles) in &self.hosts {
            for role in roles.borrow_mut().iter_mut() {
                if let Role::Reducer { reducer, job, .. } = role
                    && reducer.attempt() == attempt_of(*job)
                {
                    reducer.restart(self.incarnation, now);
                }
            }
            self.simulation.wake(NodeId::Host(*host))?;
        }
        Ok(())
    }

    /// Returns true if a mapper or reducer is the present one of its reduction.
    fn is_present(&self, role: &HostRole) -> bool {
        match role {
            Role::Mapper {
                mapper, job, flow, ..
            } => {
                let reduction = usize::from(*job) - 1;
                mapper.attempt() == self.attempts[reduction]
                    && mapper.since() == self.since[reduction][usize::from(*flow)]
            }
            Role::Reducer { reducer, job, .. } => {
                reducer.attempt() == self.attempts[usize::from(*job) - 1]
            }
        }
    }

    /// Gives mappers that have the result their next vectors. Returns true if all reductions have
    /// ended.
    fn go_on(&mut self) -> Result<bool, RunError> {
        let now = self.simulation.now();
        let mut woken = Vec::new();
        for (host, roles) in &self.hosts {
            for role in roles.borrow_mut().iter_mut() {
                let Role::Mapper {
                    mapper, job, flow, ..
                } = role
                else {
                    continue;
                };
                let (index, flow) = (usize::from(*job) - 1, usize::from(*flow));
                let is_replaced = mapper.since() != self.since[index][flow];
                if mapper.attempt() != self.attempts[index] || is_replaced {
                    continue;
                }
                let Some(result) = mapper.take_result() else {
                    continue;
                };
                let received = &mut self.received[index][flow];
                let next = self.options.next.get(index);
                let next = next.and_then(|next| next.get(received.len()));
                received.push(result);
                if let Some(NextInput { inputs, operator }) = next {
                    let submitted = mapper.submit(inputs[flow].clone(), *operator, now);
                    submitted.map_err(|error| RunError::Input {
                        host: format!("{host:?}"),
                        error,
                    })?;
                    woken.push(*host);
                }
            }
        }
        for host in woken {
            self.simulation.wake(NodeId::Host(host))?;
        }
        Ok(self.note_ends())
    }

    /// Notes the reductions that have ended. Returns true if all have, and their mappers know.
    fn note_ends(&mut self) -> bool {
        let now = self.simulation.now();
        let mut are_done = true;
        let mut ended = self.ended.clone();
        // A stopped mapper that is to get the result is started again later.
        let mut missing: usize = 0;
        for (number, reduction) in (1..).zip(&self.plan.reductions) {
            if reduction.request.to_all && self.failure(number).is_none() {
                missing += reduction.request.mappers.len();
            }
        }
        for roles in self.hosts.values() {
            for role in roles.borrow().iter().filter(|role| self.is_present(role)) {
                match role {
                    Role::Reducer { reducer, job, .. } => {
                        let has_ended = reducer.is_complete() || reducer.failure().is_some();
                        if has_ended {
                            ended[usize::from(*job) - 1].get_or_insert(now);
                        }
                        are_done &= has_ended;
                    }
                    Role::Mapper { mapper, job, .. } => {
                        let has_failed = self.failure(*job).is_some();
                        are_done &= mapper.is_complete() || has_failed;
                        let reduction = &self.plan.reductions[usize::from(*job) - 1];
                        missing -= usize::from(reduction.request.to_all && !has_failed);
                    }
                }
            }
        }
        self.ended = ended;
        are_done && missing == 0
    }

    /// Returns the failure of a reduction.
    fn failure(&self, job: u16) -> Option<ReductionError> {
        let mut roles = self.hosts.values().map(|roles| roles.borrow());
        roles.find_map(|roles| {
            let mut present = roles.iter().filter(|role| self.is_present(role));
            present.find_map(|role| match role {
                Role::Reducer {
                    reducer, job: own, ..
                } if *own == job => reducer.failure(),
                _ => None,
            })
        })
    }

    /// Returns the outcome of each reduction.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let reductions = self.plan.reductions.iter().zip(&self.ended);
        let reductions = reductions.zip(&self.received);
        let outcome = |((planned, ended), received): (
            (&PlannedReduction, &Option<Nanos>),
            &Vec<Vec<Vector>>,
        )| {
            let mut outcome = Outcome {
                result: Vec::new(),
                vector: None,
                received: received.clone(),
                failure: None,
                is_complete: false,
                reducer: ReducerCounts::default(),
                mappers: vec![MapperCounts::default(); planned.request.mappers.len()],
                ended_at: ended.unwrap_or(self.simulation.now()),
            };
            for roles in self.hosts.values() {
                for role in roles.borrow().iter().filter(|role| self.is_present(role)) {
                    match role {
                        Role::Reducer { reducer, job, .. } if *job == planned.job => {
                            outcome.result = reducer.result();
                            outcome.vector = reducer.vector();
                            outcome.failure = reducer.failure();
                            outcome.is_complete = reducer.is_complete();
                            if let Some(at) = reducer.completed_at() {
                                outcome.ended_at = at;
                            }
                            outcome.reducer = reducer.counts();
                        }
                        Role::Mapper {
                            mapper, job, flow, ..
                        } if *job == planned.job => {
                            outcome.mappers[usize::from(*flow)] = mapper.counts();
                        }
                        _ => {}
                    }
                }
            }
            outcome
        };
        reductions.map(outcome).collect()
    }

    /// Returns the simulation.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }
}

/// Returns the role of a mapper.
fn mapper_role(
    planned: &PlannedReduction,
    ends: &[Endpoint],
    mapper: Mapper,
    flow: u16,
) -> HostRole {
    let reducer = match planned.sent_back_by(usize::from(flow)) {
        Some(switch) => switch_end(switch),
        None => ends[planned.request.reducer.0],
    };
    Role::Mapper {
        mapper: Box::new(mapper),
        job: planned.job,
        flow,
        reducer,
    }
}

/// Returns the role of a reducer in an attempt.
fn reducer_role(
    planned: &PlannedReduction,
    ends: &[Endpoint],
    options: &RunOptions,
    attempt: u16,
    incarnation: u32,
) -> HostRole {
    let request = &planned.request;
    let mappers = request.mappers.iter().map(|(host, _)| ends[host.0]);
    let switches = planned.switches.iter();
    let switches = switches.map(|planned| switch_end(planned.switch));
    let config = planned.reducer_config(attempt, options.open_epochs, options.patience);
    Role::Reducer {
        reducer: Box::new(Reducer::new(config, incarnation)),
        job: planned.job,
        flows: mappers.chain(switches).collect(),
    }
}

/// Returns the end of messages to a switch.
fn switch_end(switch: SwitchId) -> Endpoint {
    endpoint(SWITCH_MAC, switch_address(switch))
}
