//! Reductions in a simulated fabric.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use fabric::topology::{HostId, NodeId, SwitchId, Topology};
use fabric::{FabricError, Node, Simulation};
use packet::Nanos;

use crate::datagram::Endpoint;
use crate::host::{HostNode, Roles, endpoint};
use crate::mapper::{KeyTooLongError, Mapper, MapperCounts};
use crate::message::PORTS;
use crate::pair::Pair;
use crate::plan::{Plan, SWITCH_MAC, switch_address};
use crate::reducer::{Reducer, ReducerCounts, ReductionError};
use crate::role::Role;

/// Creates a switch with a program and entries. Returns an error message on failure.
pub type MakeSwitch<'a> = dyn FnMut(SwitchId, &str, &str) -> Result<Box<dyn Node>, String> + 'a;

/// Time between two looks at the reductions.
const LOOK: Nanos = Nanos::from_millis(1);

/// Parameters of a simulated run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Number of epochs that mappers may send at once.
    pub open_epochs: u16,
    /// Time without a message after which a mapper or a switch counts as failed.
    pub patience: Nanos,
    /// Maximum simulated time.
    pub end: Nanos,
    /// Restarts of switches: each loses its registers and is loaded again.
    pub restarts: Vec<(Nanos, SwitchId)>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            open_epochs: 2,
            patience: Nanos::from_secs(5),
            end: Nanos::from_secs(600),
            restarts: Vec::new(),
        }
    }
}

/// Outcome of a reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The reduced pairs, sorted by key.
    pub result: Vec<Pair>,
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
    /// A key of a mapper.
    Key {
        /// The host of the mapper.
        host: String,
        /// The error.
        error: KeyTooLongError,
    },
    /// A switch cannot be loaded.
    Switch(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Fabric(error) => error.fmt(f),
            RunError::Key { host, error } => write!(f, "mapper on {host}: {error}"),
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
    /// For each reduction: time of its end.
    ended: Vec<Option<Nanos>>,
}

/// The first number of a load. 0 is none.
const FIRST_INCARNATION: u32 = 1;

/// The attempt of a simulated run.
const ATTEMPT: u16 = 1;

impl Run {
    /// Creates the fabric. `pairs` are, for each reduction and each of its mappers, the pairs of
    /// the mapper; each key is once in them.
    ///
    /// # Errors
    /// A switch cannot be loaded, or a key is too long.
    pub fn new(
        topology: Topology,
        plan: Plan,
        pairs: Vec<Vec<Vec<Pair>>>,
        options: RunOptions,
        make: &mut MakeSwitch<'_>,
    ) -> Result<Run, RunError> {
        let mut hosts: BTreeMap<HostId, Roles> = BTreeMap::new();
        let mut add = |host: HostId, role: Role<Endpoint>| {
            let roles = hosts.entry(host).or_default();
            roles.borrow_mut().push(role);
        };
        let end_of = |host: HostId| {
            let spec = &topology.hosts[host.0];
            endpoint(spec.mac, spec.address)
        };
        for (planned, pairs) in plan.reductions.iter().zip(pairs) {
            let (job, request) = (planned.job, &planned.request);
            let config = planned.flow_config(ATTEMPT);
            for ((flow, (host, _)), pairs) in (0..).zip(&request.mappers).zip(pairs) {
                let mapper = Mapper::new(config, flow, pairs);
                let mapper = mapper.map_err(|error| RunError::Key {
                    host: topology.hosts[host.0].name.clone(),
                    error,
                })?;
                let role = Role::Mapper {
                    mapper: Box::new(mapper),
                    job,
                    flow,
                    reducer: end_of(request.reducer),
                };
                add(*host, role);
            }
            let mappers = request.mappers.iter().map(|(host, _)| end_of(*host));
            let switches = planned.switches.iter().map(|planned| Endpoint {
                mac: SWITCH_MAC,
                address: switch_address(planned.switch),
                port: *PORTS.start(),
            });
            let flows = mappers.chain(switches).collect();
            let config = planned.reducer_config(ATTEMPT, options.open_epochs, options.patience);
            let reducer = Box::new(Reducer::new(config, FIRST_INCARNATION));
            let role = Role::Reducer {
                reducer,
                job,
                flows,
            };
            add(request.reducer, role);
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
        let mut restarts = self.options.restarts.clone();
        restarts.sort_unstable();
        let mut restarts = restarts.into_iter().peekable();
        while self.simulation.now() < self.options.end && !self.note_ends() {
            if !observe(&self.simulation) {
                break;
            }
            let mut slice = (self.simulation.now() + LOOK).min(self.options.end);
            let next = restarts.peek().filter(|(at, _)| *at <= slice).copied();
            if let Some((at, _)) = next {
                slice = at.max(self.simulation.now());
            }
            self.simulation.run_until(slice)?;
            if let Some((_, switch)) = next {
                restarts.next();
                self.restart(switch, make)?;
            }
        }
        Ok(())
    }

    /// Loads a switch again, and gives all switches and reducers the number of this load.
    fn restart(&mut self, lost: SwitchId, make: &mut MakeSwitch<'_>) -> Result<(), RunError> {
        self.incarnation += 1;
        let reductions = self.plan.reductions.iter();
        let switches = reductions.flat_map(|r| r.switches.iter().map(|s| s.switch));
        let mut switches: Vec<SwitchId> = switches.chain([lost]).collect();
        switches.sort_unstable();
        switches.dedup();
        for switch in switches {
            let entries = self.plan.entries(switch, ATTEMPT, self.incarnation);
            let node = make(switch, &self.plan.program(switch), &entries);
            let node = node.map_err(RunError::Switch)?;
            self.simulation.replace_switch(switch, node)?;
        }
        let now = self.simulation.now();
        for (host, roles) in &self.hosts {
            for role in roles.borrow_mut().iter_mut() {
                if let Role::Reducer { reducer, .. } = role {
                    reducer.restart(self.incarnation, now);
                }
            }
            self.simulation.wake(NodeId::Host(*host))?;
        }
        Ok(())
    }

    /// Notes the reductions that have ended. Returns true if all have, and their mappers know.
    fn note_ends(&mut self) -> bool {
        let now = self.simulation.now();
        let mut are_done = true;
        for roles in self.hosts.values() {
            for role in roles.borrow().iter() {
                match role {
                    Role::Reducer { reducer, job, .. } => {
                        let has_ended = reducer.is_complete() || reducer.failure().is_some();
                        let ended = &mut self.ended[usize::from(*job) - 1];
                        if has_ended {
                            ended.get_or_insert(now);
                        }
                        are_done &= has_ended;
                    }
                    Role::Mapper { mapper, job, .. } => {
                        let has_failed = self.failure(*job).is_some();
                        are_done &= mapper.is_complete() || has_failed;
                    }
                }
            }
        }
        are_done
    }

    /// Returns the failure of a reduction.
    fn failure(&self, job: u16) -> Option<ReductionError> {
        let mut roles = self.hosts.values().map(|roles| roles.borrow());
        roles.find_map(|roles| {
            roles.iter().find_map(|role| match role {
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
        let outcome = |(planned, ended): (&crate::plan::PlannedReduction, &Option<Nanos>)| {
            let mut outcome = Outcome {
                result: Vec::new(),
                failure: None,
                is_complete: false,
                reducer: ReducerCounts::default(),
                mappers: vec![MapperCounts::default(); planned.request.mappers.len()],
                ended_at: ended.unwrap_or(self.simulation.now()),
            };
            for roles in self.hosts.values() {
                for role in roles.borrow().iter() {
                    match role {
                        Role::Reducer { reducer, job, .. } if *job == planned.job => {
                            outcome.result = reducer.result();
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
