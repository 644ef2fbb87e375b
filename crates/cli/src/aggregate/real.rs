//! Jobs between real hosts on this machine: each host is a network namespace with an agent, each
//! switch a thread, and the master is this process.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use aggregate::{Input, set_neighbours};
use aggregate_runtime::{
    AgentLink, Connected, Event, LoadedPlanes, Master, RealOutcome, Site, Stream, SwitchLoad,
    SwitchTask,
};
use command::switches::Maker;
use fabric::topology::{HostId, PlaneSpec, SwitchId};
use runtime::ProcessSetup;

use super::{JobOptions, Planned, Ran, Scheme, tcp};
use crate::fabric::real::Running;

/// Longest wait for an event.
const TURN: Duration = Duration::from_millis(20);

/// Time that agents get to start.
const START: Duration = Duration::from_secs(10);

/// Runs a job in network namespaces. Agents map the parts themselves; the scheme `tcp` takes the
/// inputs.
///
/// # Errors
/// The process may not create them, a part cannot be read, or a mapper fails.
pub(super) fn run(
    planned: &mut Planned,
    inputs: Option<&[Vec<Input>]>,
    options: &JobOptions,
    early: &ProcessSetup,
) -> Result<Vec<Ran>, String> {
    check_parts(planned)?;
    set_neighbours(&mut planned.topology).map_err(|error| error.to_string())?;
    early.begin_work();
    let mut maker = Maker::new(options.choice, planned.topology.seed);
    maker.set_routes(&planned.topology)?;
    let running = Running::start(&planned.topology, options.io, maker)?;
    let ran = reduce(planned, inputs, (&running, options), early);
    let stopped = running.stop();
    let ran = ran?;
    stopped?;
    Ok(ran)
}

/// Runs the reductions, and counts the bytes to the reducers' hosts.
fn reduce(
    planned: &Planned,
    inputs: Option<&[Vec<Input>]>,
    (running, options): (&Running, &JobOptions),
    early: &ProcessSetup,
) -> Result<Vec<Ran>, String> {
    let reductions = &planned.plan.reductions;
    let received = || {
        let hosts = reductions.iter().map(|reduction| reduction.request.reducer);
        let bytes = hosts.map(|host| running.received_bytes(host));
        bytes.collect::<Result<Vec<u64>, String>>()
    };
    let before = received()?;
    let outcomes = match (options.scheme, inputs) {
        (Scheme::Tcp, Some(inputs)) => tcp::run(planned, inputs, (running, options), early),
        _ => outcomes(planned, running, options, early),
    };
    let outcomes = outcomes?.into_iter();
    let bytes = received()?.into_iter().zip(before);
    let ran = outcomes.zip(bytes).map(|(outcome, (after, before))| Ran {
        link_bytes: after - before,
        ..Ran::from(outcome)
    });
    Ok(ran.collect())
}

/// Starts an agent in each host of the plan, and runs the reductions.
fn outcomes(
    planned: &Planned,
    running: &Running,
    options: &JobOptions,
    early: &ProcessSetup,
) -> Result<Vec<RealOutcome>, String> {
    let topology = &planned.topology;
    let mut own = topology.clone();
    // Its switches are threads of this process.
    own.switches
        .iter_mut()
        .for_each(|it| it.hosts_tenants = false);
    let master = Master::new(own, 0).map_err(|error| error.to_string())?;
    let maker = RefCell::new(Maker::new(options.choice, topology.seed));
    let mut site = Site::new(
        master,
        Box::new(|switch, task| {
            let SwitchTask::Load(SwitchLoad {
                planes: LoadedPlanes::Whole(text),
                ..
            }) = task
            else {
                return Some(Err("it hosts no tenants".to_owned()));
            };
            let plane = maker.borrow_mut().text_plane(&text.program, &text.entries);
            Some(plane.and_then(|plane| running.replace(topology, (switch, plane), options.io)))
        }),
        Box::new(super::read_job),
    );
    for (number, switch) in topology.switches.iter().enumerate() {
        if matches!(switch.plane, PlaneSpec::Aggregate { .. }) {
            // The site is there, so this arrives.
            let _ = site.sender().send(Event::SwitchConnected(SwitchId(number)));
        }
    }
    let requests = planned.plan.reductions.iter().map(|it| &it.request);
    let of_request = requests.clone().flat_map(|request| {
        let mappers = request.mappers.iter().map(|(host, _)| *host);
        mappers.chain([request.reducer])
    });
    let mut hosts: Vec<HostId> = of_request.collect();
    hosts.sort_unstable();
    hosts.dedup();
    let requests: Vec<_> = requests.cloned().collect();
    let is_stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let site = &mut site;
        for host in &hosts {
            let link = AgentLink {
                host: *host,
                address: topology.hosts[host.0].address,
                connect: Box::new(|| start_agent(topology, running, *host)),
            };
            let (events, is_stopped) = (site.sender(), &is_stopped);
            scope.spawn(move || link.run(&events, is_stopped));
        }
        let outcomes = follow(site, (planned, &hosts, &requests), options, early);
        is_stopped.store(true, Relaxed);
        site.end_connections();
        outcomes
    })
}

/// Submits the job when the agents are there, and waits for its end.
fn follow(
    site: &mut Site<'_>,
    (planned, hosts, requests): (&Planned, &[HostId], &[aggregate::ReductionRequest]),
    options: &JobOptions,
    early: &ProcessSetup,
) -> Result<Vec<RealOutcome>, String> {
    let turn = |site: &mut Site<'_>| {
        site.turn(TURN);
        match early.take_signal() {
            Some(signal) => Err(format!("interrupted by {signal}")),
            None => Ok(()),
        }
    };
    let began = Instant::now();
    while !site.has_agents(hosts.iter().copied()) && began.elapsed() < START {
        turn(site)?;
    }
    let directory = std::path::absolute(Path::new(".").join(&planned.directory));
    let directory = directory.map_err(|error| error.to_string())?;
    let job = (&planned.job, directory);
    let number = site.master.submit("this job", job, requests)?;
    let began = Instant::now();
    let mut is_cancelled = false;
    while !site.take_ended().contains(&number) {
        turn(site)?;
        if began.elapsed() >= Duration::from_secs(options.seconds) && !is_cancelled {
            is_cancelled = true;
            // It may have ended at this moment.
            let _ = site.master.cancel(number);
        }
    }
    let outcomes = site.master.take_outcomes(number);
    // A job that did not begin has no counts to show.
    let mut never_begun = outcomes.iter().filter(|outcome| outcome.attempts == 0);
    match never_begun.find_map(|outcome| outcome.failure.clone()) {
        Some(failure) => Err(failure),
        None => Ok(outcomes),
    }
}

/// Starts the agent of a host. It ends with its connection.
fn start_agent(
    topology: &fabric::Topology,
    running: &Running,
    host: HostId,
) -> Result<Connected, String> {
    let failed = |error: std::io::Error| format!("cannot start an agent: {error}");
    let own = std::env::current_exe().map_err(failed)?;
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let address = topology.hosts[host.0].address.to_string();
    let mut command = Command::new(own);
    command.args(["aggregate", "agent", "--on-stdin", "--address", &address]);
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    command.stdout(Stdio::null());
    let process = running.start_in(host, &mut command)?;
    Ok(Connected {
        stream: Stream::Unix(ours),
        keep: Some(Box::new(process)),
    })
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
