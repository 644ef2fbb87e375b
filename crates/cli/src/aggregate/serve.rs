//! `polyplane aggregate serve`: the master of a site.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aggregate_runtime::{
    Address, AgentLink, Connected, Listener, Master, Site, SwitchHandle, SwitchKind, SwitchLink,
    read_requests,
};
use clap::Args;
use command::topology::read as read_topology;
use fabric::Topology;
use fabric::topology::{HostId, PlaneSpec, SwitchId};
use p4rt::client::Endpoint;
use runtime::ProcessSetup;

use crate::{Ended, out};

/// Longest wait for an event.
const TURN: Duration = Duration::from_millis(100);

/// Time that switches get to forget jobs at the end.
const LAST_LOADS: Duration = Duration::from_secs(5);

#[derive(Args)]
#[command(
    after_help = "The topology names the agent of each host (`agent = \"unix:PATH\"` or `\"HOST:PORT\"`) and the P4Runtime server of each switch with slots \
                  (`p4runtime = \"HOST:PORT\"`, `device = 1`; or `tenants = true` for `polyplane host`). Agents and switches may come later.\n\nStops on SIGINT (Ctrl-C), SIGTERM and SIGHUP: jobs \
                  are cancelled, and switches forget them. Exit status: 0 when stopped by a signal, 1 for errors, 2 for wrong usage."
)]
pub(super) struct ServeOptions {
    /// The topology, with the addresses of agents and switches.
    #[arg(long, value_name = "TOPO.toml")]
    fabric: PathBuf,
    /// Address for jobs: unix:PATH or HOST:PORT.
    #[arg(long, value_name = "ADDRESS", default_value = super::MASTER)]
    listen: Address,
    /// Allow an address that other machines reach, on a network where all may run jobs.
    #[arg(long)]
    listen_beyond_loopback: bool,
    /// The master's election id at the switches.
    #[arg(long, value_name = "N", default_value_t = 1)]
    election_id: u128,
}

/// Returns the number before that of the first load: those of a master that is started again are
/// greater, since it makes fewer than one load a second.
pub(super) fn first_number() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as u32)
}

/// Serves jobs until a signal.
pub(super) fn run(options: &ServeOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let topology = read_topology(&options.fabric)?;
    super::check_reach(&options.listen, options.listen_beyond_loopback)?;
    let agents = agents(&topology)?;
    let switches = switches(&topology, options.election_id)?;
    let listener = Listener::bind(&options.listen)?;
    let master = Master::new(topology, first_number()).map_err(|error| error.to_string())?;
    let handles: Vec<(SwitchId, SwitchHandle)> = Vec::new();
    let handles = std::rc::Rc::new(std::cell::RefCell::new(handles));
    let loader = std::rc::Rc::clone(&handles);
    let mut site = Site::new(
        master,
        Box::new(move |switch, task| {
            let handles = loader.borrow();
            let found = handles.iter().find(|(id, _)| *id == switch);
            found.map_or_else(
                || Some(Err("it has no P4Runtime server".to_owned())),
                |(_, handle)| {
                    handle.change(task);
                    None
                },
            )
        }),
        Box::new(super::read_job),
    );
    early.begin_work();
    let is_stopped = Arc::new(AtomicBool::new(false));
    for link in switches {
        let switch = link.switch;
        let handle = link.start(site.sender(), Arc::clone(&is_stopped))?;
        handles.borrow_mut().push((switch, handle));
    }
    let failed = |error: std::io::Error| format!("cannot start a thread: {error}");
    for link in agents {
        let (events, is_stopped) = (site.sender(), Arc::clone(&is_stopped));
        let thread = std::thread::Builder::new().name("agent".to_owned());
        let run = move || link.run(&events, &is_stopped);
        thread.spawn(run).map_err(failed)?;
    }
    out::note(&format!("jobs are served at {}", listener.address()));
    let (events, accepting) = (site.sender(), Arc::new(listener));
    // Dropped at the end, when its file is removed.
    let _listener = Arc::clone(&accepting);
    let thread = std::thread::Builder::new().name("clients".to_owned());
    let accept = move || {
        for client in 1.. {
            // A client that has gone again, or too many descriptors for now.
            let Ok(stream) = accepting.accept() else {
                std::thread::sleep(TURN);
                continue;
            };
            let events = events.clone();
            let read = move || read_requests(stream, client, &events);
            // Without a thread the client sees the end of its connection.
            let _ = std::thread::Builder::new().spawn(read);
        }
    };
    thread.spawn(accept).map_err(failed)?;
    while early.take_signal().is_none() {
        site.turn(TURN);
        site.take_notices().iter().for_each(|it| out::note(it));
        site.take_ended();
    }
    stop(&mut site);
    if let Address::Unix(path) = &options.listen {
        // The thread of clients still has the listener.
        let _ = std::fs::remove_file(path);
    }
    Ok(Ended::Well)
}

/// Cancels all jobs, and waits until the switches have forgotten them.
fn stop(site: &mut Site<'_>) {
    let running = |site: &Site<'_>| {
        let jobs = site.master.jobs().into_iter();
        let running = jobs.filter(|job| job.state == "running");
        running.map(|job| job.number).collect::<Vec<u32>>()
    };
    for job in running(site) {
        // It may have ended at this moment.
        let _ = site.master.cancel(job);
    }
    let began = Instant::now();
    while !running(site).is_empty() && began.elapsed() < LAST_LOADS {
        site.turn(TURN);
    }
    site.take_notices().iter().for_each(|it| out::note(it));
}

/// Returns the agents that a topology names.
fn agents(topology: &Topology) -> Result<Vec<AgentLink<'static>>, String> {
    let mut links = Vec::new();
    for (number, host) in topology.hosts.iter().enumerate() {
        let Some(agent) = &host.agent else {
            continue;
        };
        let address: Address = agent
            .parse()
            .map_err(|error| format!("host {}: agent: {error}", host.name))?;
        links.push(AgentLink {
            host: HostId(number),
            address: host.address,
            connect: Box::new(move || {
                let stream = address.connect();
                let stream = stream.map_err(|error| format!("{address}: {error}"))?;
                Ok(Connected { stream, keep: None })
            }),
        });
    }
    match links.is_empty() {
        false => Ok(links),
        true => Err(format!(
            "the topology {} names no agents; add agent = \"unix:PATH\" or \"HOST:PORT\" to its \
             [[host]] sections",
            topology.name
        )),
    }
}

/// Returns the switches with slots.
fn switches(topology: &Topology, election: u128) -> Result<Vec<SwitchLink>, String> {
    let mut links = Vec::new();
    for (number, switch) in topology.switches.iter().enumerate() {
        if !matches!(switch.plane, PlaneSpec::Aggregate { .. }) {
            continue;
        }
        let Some((server, device)) = &switch.p4runtime else {
            return Err(format!(
                "switch {}: it has slots and no P4Runtime server; add p4runtime = \"HOST:PORT\"",
                switch.name
            ));
        };
        links.push(SwitchLink {
            switch: SwitchId(number),
            endpoint: Endpoint {
                address: server.clone(),
                tls: None,
            },
            kind: match switch.hosts_tenants {
                true => SwitchKind::Host,
                false => SwitchKind::Device(*device),
            },
            election,
        });
    }
    Ok(links)
}
