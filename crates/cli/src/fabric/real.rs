//! A real fabric: each switch has a worker thread between virtual links, each host is a network
//! namespace for any program.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Args;
use fabric::Topology;
use fabric::topology::{CommandSpec, SwitchId};
use port::{OpenedPort, Poller};
use runtime::report::{DeviceReport, PortReport};
use runtime::{Forwarder, ForwarderEvent, ForwarderOptions, ProcessSetup, StopSources};
use serde::Serialize;
use switch::Device;

use super::hosting;
use super::namespaces::Namespaces;
use crate::args::Io;
use crate::engine::Choice;
use crate::{Ended, amount, out};
use command::switches::{Maker, SwitchPlane};

/// Time that servers get before the programs that need them start.
const SERVERS_FIRST: Duration = Duration::from_millis(300);

/// Interval at which a running program is checked.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Args)]
pub(super) struct UpOptions {
    /// The topology (docs/reference/topology.md).
    #[arg(value_name = "TOPO.toml")]
    topology: PathBuf,
    /// Packet I/O of the switches' ports.
    #[arg(long, value_enum, default_value_t)]
    io: Io,
    #[command(flatten)]
    choice: Choice,
}

/// Final report of a switch.
#[derive(Serialize)]
pub(super) struct Switched {
    pub(super) name: String,
    pub(super) ports: Vec<PortReport>,
    #[serde(flatten)]
    pub(super) device: DeviceReport,
}

/// Result of a program in a host.
#[derive(Serialize)]
struct Done {
    host: String,
    command: Vec<String>,
    /// Exit status. `None` if a signal ended the program.
    status: Option<i32>,
    seconds: f64,
}

#[derive(Serialize)]
struct Json {
    commands: Vec<Done>,
    switches: Vec<Switched>,
}

/// Running switches.
struct Running {
    namespaces: Namespaces,
    /// Each switch stops when its stream is closed.
    switches: Vec<(UnixStream, JoinHandle<Result<Switched, String>>)>,
}

/// Runs a topology until a stop signal.
///
/// # Errors
/// The process may not create namespaces, or a switch cannot be created.
pub(super) fn up(options: &UpOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let topology = super::read(&options.topology)?;
    early.begin_work();
    let running = Running::start(&topology, options.io, options.choice)?;
    for host in &topology.hosts {
        out::line(&format!(
            "{}: ip netns exec {} COMMAND",
            host.address, host.name
        ));
    }
    out::note(&format!("{} is up until SIGINT or SIGTERM", topology.name));
    let mut poller = Poller::new();
    while early.take_signal().is_none() {
        let waited = poller.wait(early.signal_fd(), Duration::from_secs(1));
        waited.map_err(|error| format!("cannot wait for signals: {error}"))?;
    }
    for switched in running.stop()? {
        tell(&switched);
    }
    Ok(Ended::Well)
}

/// Runs the programs of a topology in its hosts: starts the servers, then runs the other programs
/// one by one.
///
/// # Errors
/// As for [`up`]. Also if there is no program, or one cannot be started.
pub(super) fn run(
    topology: &Topology,
    io: Io,
    choice: Choice,
    early: &ProcessSetup,
    json: bool,
) -> Result<Ended, String> {
    if topology.commands.iter().all(|command| command.is_server) {
        return Err(
            "no program is to be run in a host; add [[command]] with host and run".to_owned(),
        );
    }
    early.begin_work();
    let running = Running::start(topology, io, choice)?;
    let commands = running.commands(topology, early);
    let switches = running.stop()?;
    let commands = commands?;
    let is_well = commands.iter().all(|done| done.status == Some(0));
    match json {
        true => out::json(&Json { commands, switches }),
        false => {
            commands.iter().for_each(tell_command);
            switches.iter().for_each(tell);
        }
    }
    Ok(if is_well {
        Ended::Well
    } else {
        Ended::WithErrors
    })
}

impl Running {
    fn start(topology: &Topology, io: Io, choice: Choice) -> Result<Running, String> {
        if let Some(server) = topology.servers.first() {
            return Err(format!(
                "{}: [split] and [[server]] are only simulated; run the halves by `polyplane split \
                 switch` and `polyplane split server`",
                server.name
            ));
        }
        let mut maker = Maker::new(choice, topology.seed);
        maker.set_routes(topology)?;
        let mut running = Running {
            namespaces: Namespaces::make(topology)?,
            switches: Vec::new(),
        };
        for (number, spec) in topology.switches.iter().enumerate() {
            let named = |why: String| format!("switch {}: {why}", spec.name);
            let plane = maker.plane(spec).map_err(named)?;
            let ports = running
                .namespaces
                .open(topology, SwitchId(number), io.into());
            let started = begin(spec.name.clone(), plane, ports.map_err(named)?);
            running.switches.push(started.map_err(named)?);
        }
        Ok(running)
    }

    /// Stops the switches. Returns their reports.
    fn stop(self) -> Result<Vec<Switched>, String> {
        let (streams, threads): (Vec<_>, Vec<_>) = self.switches.into_iter().unzip();
        drop(streams);
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(switched) => switched,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    }

    fn commands(&self, topology: &Topology, early: &ProcessSetup) -> Result<Vec<Done>, String> {
        let (servers, others): (Vec<&CommandSpec>, Vec<&CommandSpec>) = topology
            .commands
            .iter()
            .partition(|command| command.is_server);
        let mut serving = Servers(Vec::new());
        for server in servers {
            serving.0.push(self.spawn(server)?);
        }
        if !serving.0.is_empty() {
            std::thread::sleep(SERVERS_FIRST);
        }
        let done = others.into_iter().map(|command| {
            let start = Instant::now();
            let status = wait(self.spawn(command)?, early)?;
            Ok(Done {
                host: topology.hosts[command.host.0].name.clone(),
                command: command.run.clone(),
                status: status.code(),
                seconds: start.elapsed().as_secs_f64(),
            })
        });
        done.collect()
    }

    /// Starts a program in its host. Its output goes to standard error, because standard output
    /// is for the report.
    fn spawn(&self, command: &CommandSpec) -> Result<Child, String> {
        let (program, args) = command.run.split_first().ok_or("there is nothing to run")?;
        let start = || {
            let mut process = Command::new(program);
            process.args(args).stdin(Stdio::null());
            process.stdout(std::io::stderr()).spawn()
        };
        let started = self.namespaces.host(command.host.0).run(start);
        let started = started.map_err(|error| error.to_string())?;
        started.map_err(|error| format!("cannot start {program}: {error}"))
    }
}

/// Programs that are killed when this value is dropped.
struct Servers(Vec<Child>);

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.0 {
            // Fails if the program has ended already, which is fine.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn wait(mut child: Child, early: &ProcessSetup) -> Result<ExitStatus, String> {
    loop {
        let ended = child.try_wait();
        if let Some(status) =
            ended.map_err(|error| format!("cannot wait for a program: {error}"))?
        {
            return Ok(status);
        }
        if let Some(signal) = early.take_signal() {
            drop(Servers(vec![child]));
            return Err(format!("interrupted by {signal}"));
        }
        std::thread::sleep(LOOK);
    }
}

/// Starts a switch in a thread.
fn begin(
    name: String,
    plane: SwitchPlane,
    ports: Vec<OpenedPort>,
) -> Result<(UnixStream, JoinHandle<Result<Switched, String>>), String> {
    let (running, done) =
        UnixStream::pair().map_err(|error| format!("cannot make a pair of sockets: {error}"))?;
    let thread = std::thread::Builder::new().name(name.clone());
    let thread = thread.spawn(move || match plane {
        SwitchPlane::Alone(device) => carry(name, *device, ports, &done),
        SwitchPlane::Shared(hypervisor) => hosting::carry(name, *hypervisor, ports, &done),
    });
    let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok((running, thread))
}

/// Forwards packets until the other end of the stream is closed.
fn carry(
    name: String,
    device: Device,
    ports: Vec<OpenedPort>,
    done: &UnixStream,
) -> Result<Switched, String> {
    let mut forwarder = Forwarder::new(device, ports, ForwarderOptions::default())?;
    let early = ProcessSetup::default();
    let stop = StopSources {
        process: &early,
        done: Some(done.as_fd()),
    };
    forwarder.run(&stop, Duration::from_secs(1), &mut |event| {
        if let ForwarderEvent::Notice(notice) = event {
            out::note(&format!("{name}: {notice}"));
        }
    })?;
    forwarder.check_conservation()?;
    Ok(Switched {
        ports: forwarder.port_reports(),
        device: forwarder.device_report(),
        name,
    })
}

fn tell_command(done: &Done) {
    let how = match done.status {
        Some(0) => "well".to_owned(),
        Some(status) => format!("with status {status}"),
        None => "by a signal".to_owned(),
    };
    let time = amount::time(Duration::from_secs_f64(done.seconds));
    out::line(&format!(
        "{}: {} ended {how} after {time}",
        done.host,
        done.command.join(" ")
    ));
}

fn tell(switched: &Switched) {
    let sum = |count: fn(&PortReport) -> u64| switched.ports.iter().map(count).sum::<u64>();
    let (received, sent) = (
        sum(|port| port.received.packets),
        sum(|port| port.sent.packets),
    );
    out::line(&format!(
        "switch {}: {} received, {sent} sent",
        switched.name,
        amount::count(received, "packet")
    ));
}
