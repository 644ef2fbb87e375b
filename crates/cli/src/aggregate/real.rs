//! Jobs between real hosts: each host is a network namespace with an agent, each switch a thread.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use aggregate::{PlannedReduction, RunOptions, set_neighbours, switch_address};
use aggregate_runtime::{
    Agent, AgentIndex, Attempt, MapOrder, MapperTask, ReduceOrder, ReductionTask,
};
use clap::Args;
use command::reductions;
use command::switches::Maker;
use fabric::topology::HostId;
use port::ProcessGroup;
use runtime::ProcessSetup;

use super::{JobOptions, Planned, Ran};
use crate::Ended;
use crate::fabric::real::Running;

/// The attempt of a job that runs once.
const ATTEMPT: u16 = 1;

/// The number of the only load of its switches.
const INCARNATION: u32 = 1;

#[derive(Args)]
pub(super) struct AgentOptions {
    /// The address of the host.
    #[arg(long, value_name = "IP")]
    address: Ipv4Addr,
}

/// Runs the mappers and reducers of a host. Orders come by standard input, reports go to standard
/// output.
pub(super) fn agent(options: &AgentOptions) -> Result<Ended, String> {
    let mut agent = Agent::new(options.address)?;
    let orders = io::stdin().as_fd().try_clone_to_owned();
    let mut orders: File = orders
        .map_err(|error| format!("cannot read orders: {error}"))?
        .into();
    agent.run(&mut orders, &mut io::stdout().lock(), &mut |order| {
        reductions::map_part(&order.function, &order.part, order.operator())
    })?;
    Ok(Ended::Well)
}

/// Runs a job in network namespaces.
///
/// # Errors
/// The process may not create them, a part cannot be read, or a mapper fails.
pub(super) fn run(
    planned: &mut Planned,
    options: &JobOptions,
    early: &ProcessSetup,
) -> Result<Vec<Ran>, String> {
    check_parts(planned)?;
    set_neighbours(&mut planned.topology).map_err(|error| error.to_string())?;
    early.begin_work();
    let mut maker = Maker::new(options.choice, planned.topology.seed);
    maker.set_plan(&planned.topology, &planned.plan, INCARNATION);
    let running = Running::start(&planned.topology, options.io, maker)?;
    let ran = reduce(planned, &running, options, early);
    let stopped = running.stop();
    let ran = ran?;
    stopped?;
    Ok(ran)
}

/// Starts an agent in each host of the plan, and runs the reductions.
fn reduce(
    planned: &Planned,
    running: &Running,
    options: &JobOptions,
    early: &ProcessSetup,
) -> Result<Vec<Ran>, String> {
    let reductions = &planned.plan.reductions;
    let received = || {
        let hosts = reductions.iter().map(|reduction| reduction.request.reducer);
        let bytes = hosts.map(|host| running.received_bytes(host));
        bytes.collect::<Result<Vec<u64>, String>>()
    };
    let before = received()?;
    let mut attempt = Attempt::default();
    let mut agents = Agents::default();
    for (number, reduction) in reductions.iter().enumerate() {
        let task = task(planned, (number, reduction), |host| {
            agents.of(host, planned, running, &mut attempt)
        })?;
        attempt.add_reduction(task);
    }
    let mut signal = None;
    let outcomes = attempt.run(Duration::from_secs(options.seconds), &mut || {
        signal = signal.or_else(|| early.take_signal());
        signal.is_some()
    });
    if let Some(signal) = signal {
        return Err(format!("interrupted by {signal}"));
    }
    let outcomes = outcomes.map_err(|error| error.to_string())?.into_iter();
    let bytes = received()?.into_iter().zip(before);
    let ran = outcomes.zip(bytes).map(|(outcome, (after, before))| Ran {
        result: outcome.result,
        vector: None,
        failure: outcome.failure,
        is_complete: outcome.is_complete,
        took: outcome.took,
        reducer: outcome.reducer,
        mappers: outcome.mappers,
        link_bytes: after - before,
    });
    Ok(ran.collect())
}

/// Returns the orders of a reduction.
fn task(
    planned: &Planned,
    (number, reduction): (usize, &PlannedReduction),
    mut agent_of: impl FnMut(HostId) -> Result<AgentIndex, String>,
) -> Result<ReductionTask, String> {
    let Planned { job, topology, .. } = planned;
    let request = &reduction.request;
    let address = |host: HostId| topology.hosts[host.0].address;
    let flows = reduction.flow_config(ATTEMPT);
    let mut mappers = Vec::new();
    let lines = job.reducers[number].mappers.iter();
    for ((flow, line), (host, _)) in (0..).zip(lines).zip(&request.mappers) {
        let line = &job.mappers[*line];
        let part = std::path::absolute(part_of(planned, line.part));
        mappers.push(MapperTask {
            name: line.name.clone(),
            agent: agent_of(*host)?,
            order: MapOrder {
                flows,
                flow,
                function: line.function.clone(),
                part: part.map_err(|error| error.to_string())?,
                reducer: address(request.reducer),
            },
        });
    }
    let switches = reduction.switches.iter();
    let hosts = request.mappers.iter().map(|(host, _)| address(*host));
    let addresses = hosts.chain(switches.clone().map(|it| switch_address(it.switch)));
    let RunOptions {
        open_epochs,
        patience,
        ..
    } = RunOptions::default();
    let config = reduction.reducer_config(ATTEMPT, open_epochs, patience);
    Ok(ReductionTask {
        name: request.name.clone(),
        agent: agent_of(request.reducer)?,
        order: ReduceOrder::new(config, INCARNATION, addresses.collect()),
        mappers,
        switches: switches
            .map(|it| topology.switches[it.switch.0].name.clone())
            .collect(),
    })
}

/// The agents of hosts. They end when this value is dropped.
#[derive(Default)]
struct Agents {
    hosts: BTreeMap<HostId, AgentIndex>,
    processes: Vec<ProcessGroup>,
}

impl Agents {
    /// Returns the agent of a host, which is started if there is none.
    fn of(
        &mut self,
        host: HostId,
        planned: &Planned,
        running: &Running,
        attempt: &mut Attempt,
    ) -> Result<AgentIndex, String> {
        if let Some(agent) = self.hosts.get(&host) {
            return Ok(*agent);
        }
        let spec = &planned.topology.hosts[host.0];
        let own = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let mut command = Command::new(own);
        command.args(["aggregate", "agent", "--address", &spec.address.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = running.start_in(host, &mut command)?;
        let streams = (process.child.stdin.take(), process.child.stdout.take());
        let (Some(orders), Some(reports)) = streams else {
            return Err(format!("the agent of {} has no pipes", spec.name));
        };
        let agent = attempt.add_agent(&spec.name, orders, reports)?;
        self.hosts.insert(host, agent);
        self.processes.push(process);
        Ok(agent)
    }
}

/// Checks that all parts can be opened, before anything is started.
fn check_parts(planned: &Planned) -> Result<(), String> {
    for mapper in &planned.job.mappers {
        let path = part_of(planned, mapper.part);
        File::open(&path)
            .map_err(|error| format!("mapper {}: {}: {error}", mapper.name, path.display()))?;
    }
    Ok(())
}

fn part_of(planned: &Planned, part: usize) -> PathBuf {
    planned.directory.join(&planned.job.parts[part].path)
}
