//! A real fabric: each switch has a worker thread between virtual links, each host is a network
//! namespace for any program.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fabric::Topology;
use fabric::topology::{CommandSpec, HostId, Link, NodeId, SwitchId};
use packet::PortId;
use port::{OpenedPort, PortDriver, ProcessGroup};
use runtime::observation::PacketObservers;
use runtime::report::{DeviceReport, PortReport, TableReport};
use runtime::trace_filter::{PacketFilter, TraceControl, TracedPacket};
use runtime::{
    Forwarder, ForwarderEvent, ForwarderOptions, PortControl, ProcessSetup, StopSources,
    TakenInterfaces,
};
use serde::Serialize;
use switch::{Change, Device, QueueConfig};
use trace_format::PacketTrace;

use super::capture::LinkCaptures;
use super::link_states::LinkStates;
use super::namespaces::{Namespaces, interface};
use super::served::{ServedSwitch, Servers};
use super::{hosting, routing};
use crate::args::Io;
use crate::capture::{PortFile, RunningCapture};
use crate::engine::Choice;
use crate::trace::OwnFiles;
use crate::{Ended, amount, out};
use command::switches::{Maker, SwitchPlane};

/// Time that servers get before the programs that need them start.
const SERVERS_FIRST: Duration = Duration::from_millis(300);

/// Time in which a switch notices that a link has gone down or come up.
const NOTICED: Duration = Duration::from_secs(3);

/// Interval at which a running program is checked.
const LOOK: Duration = Duration::from_millis(20);

/// Final report of a switch.
#[derive(Serialize)]
pub(crate) struct Switched {
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

/// Hosts, and running switches.
pub(crate) struct Running {
    namespaces: Namespaces,
    switches: Mutex<Vec<RunningSwitch>>,
    extras: Extras,
    /// The packets that all switches trace.
    trace: Arc<TraceControl>,
    links: Arc<LinkStates>,
}

/// Parts of a switch that it shares with the fabric.
pub(super) struct Common {
    trace: Arc<TraceControl>,
    links: Arc<LinkStates>,
    switch: SwitchId,
    /// Texts in notices of its ports, and what the prompt says in their place.
    advice: Vec<(String, String)>,
}

impl Common {
    /// Prints a notice of a switch.
    pub(super) fn note(&self, name: &str, notice: &str) {
        let of = self.advice.iter().find(|(text, _)| notice.contains(text));
        match of {
            Some((text, advice)) => {
                out::note(&format!("{name}: {}", notice.replace(text, advice)));
            }
            None => out::note(&format!("{name}: {notice}")),
        }
    }

    /// Notes that a port of the switch has come up or gone down.
    pub(super) fn set_link(&self, port: PortId, is_up: bool) {
        self.links.set((self.switch, port), is_up);
    }
}

/// Parts that only a network with a prompt has.
#[derive(Default)]
pub(super) struct Extras {
    /// Servers for controllers.
    pub(super) servers: Option<Servers>,
    /// Captures of the links.
    pub(super) captures: LinkCaptures,
}

/// A switch at work. It stops when its stream is closed.
struct RunningSwitch {
    stream: UnixStream,
    thread: JoinHandle<Result<Switched, String>>,
    /// The address of its P4Runtime server and its device number there, if it has one.
    controllers: Option<(SocketAddr, u64)>,
}

impl RunningSwitch {
    /// Stops it. Returns its report.
    fn stop(self) -> Result<Switched, String> {
        drop(self.stream);
        match self.thread.join() {
            Ok(switched) => switched,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Runs the programs of a topology in its hosts: starts the servers, then all other programs at
/// once, and waits for these.
///
/// # Errors
/// As for [`Running::start`]. Also if there is no program, or one cannot be started.
pub(super) fn run(
    mut topology: Topology,
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
    let maker = routing(choice, &mut topology)?;
    let running = Running::start(&topology, io, maker)?;
    let commands = running.commands(&topology, early);
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
    /// Creates hosts and links, and starts the switches, without controllers.
    ///
    /// # Errors
    /// The process may not create namespaces, or a switch cannot be created.
    pub(crate) fn start(topology: &Topology, io: Io, maker: Maker) -> Result<Running, String> {
        Running::start_with(topology, io, maker, Extras::default())
    }

    /// Creates hosts and links, and starts the switches, with servers and captures.
    ///
    /// # Errors
    /// As for [`Running::start`], and if the address of a server is in use.
    pub(super) fn start_with(
        topology: &Topology,
        io: Io,
        mut maker: Maker,
        extras: Extras,
    ) -> Result<Running, String> {
        if let Some(server) = topology.servers.first() {
            return Err(format!(
                "{}: [split] and [[server]] are only simulated; run the halves by `polyplane split \
                 switch` and `polyplane split server`",
                server.name
            ));
        }
        let running = Running {
            namespaces: Namespaces::make(topology)?,
            switches: Mutex::default(),
            extras,
            trace: Arc::default(),
            links: Arc::default(),
        };
        for (number, spec) in topology.switches.iter().enumerate() {
            let named = |why: String| format!("switch {}: {why}", spec.name);
            let plane = maker.plane(spec).map_err(named)?;
            let started = running.begin(topology, (SwitchId(number), plane), io);
            running.lock().push(started.map_err(named)?);
        }
        Ok(running)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RunningSwitch>> {
        // A switch that was not replaced by a panicking thread is still whole.
        self.switches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the ports of a switch, and starts it.
    fn begin(
        &self,
        topology: &Topology,
        (switch, mut plane): (SwitchId, SwitchPlane),
        io: Io,
    ) -> Result<RunningSwitch, String> {
        if let SwitchPlane::Alone(device) = &mut plane {
            set_queues(device, topology, switch)?;
        }
        let files = self.extras.captures.files(topology, switch)?;
        let ports = self.namespaces.open(topology, switch, io.into())?;
        let name = topology.switches[switch.0].name.clone();
        let served = match (&self.extras.servers, &plane) {
            (Some(servers), SwitchPlane::Alone(device)) => {
                Some(servers.serve(topology, switch, device)?)
            }
            _ => None,
        };
        let controllers = served
            .as_ref()
            .map(|served| (served.address, served.device));
        let common = Common {
            trace: Arc::clone(&self.trace),
            links: Arc::clone(&self.links),
            switch,
            advice: match &self.extras.servers {
                Some(_) => advice(topology, switch),
                None => Vec::new(),
            },
        };
        let (stream, thread) = begin(name, plane, (ports, files), (served, common))?;
        Ok(RunningSwitch {
            stream,
            thread,
            controllers,
        })
    }

    /// Returns the address of a switch's P4Runtime server and its device number there, if it has
    /// a server.
    pub(super) fn controllers(&self, switch: SwitchId) -> Option<(SocketAddr, u64)> {
        self.lock().get(switch.0)?.controllers
    }

    /// Sets which packets all switches trace, from now on.
    pub(super) fn set_trace(&self, filter: Option<PacketFilter>) {
        self.trace.set(filter);
    }

    /// Takes a link down or up, and waits until the switches at its ends have noticed it.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn set_link(&self, link: &Link, is_up: bool) -> Result<(), String> {
        self.namespaces.set_link(link, is_up)?;
        let mut has_all = true;
        for end in link.ends {
            if let NodeId::Switch(switch) = end.node {
                has_all &= self.links.wait((switch, end.port), is_up, NOTICED);
            }
        }
        if !has_all {
            let state = if is_up { "up" } else { "down" };
            out::note(&format!("warning: a switch does not see the link {state}"));
        }
        Ok(())
    }

    /// Stops a switch, and starts it with another program. Frames that it holds are lost.
    ///
    /// # Errors
    /// The switch has failed, or its ports cannot be opened.
    pub(crate) fn replace(
        &self,
        topology: &Topology,
        (switch, plane): (SwitchId, SwitchPlane),
        io: Io,
    ) -> Result<(), String> {
        let mut switches = self.lock();
        let old = switches.remove(switch.0);
        let stopped = old.stop();
        let started = self.begin(topology, (switch, plane), io)?;
        switches.insert(switch.0, started);
        stopped.map(|_| ())
    }

    /// Stops the switches. Returns their reports.
    ///
    /// # Errors
    /// A switch has failed.
    pub(crate) fn stop(self) -> Result<Vec<Switched>, String> {
        let switches = self.switches.into_inner();
        let switches = switches.unwrap_or_else(PoisonError::into_inner);
        let stopped = switches.into_iter().map(RunningSwitch::stop);
        // All are stopped, also after an error.
        let stopped: Vec<Result<Switched, String>> = stopped.collect();
        stopped.into_iter().collect()
    }

    fn commands(&self, topology: &Topology, early: &ProcessSetup) -> Result<Vec<Done>, String> {
        let (servers, others): (Vec<&CommandSpec>, Vec<&CommandSpec>) = topology
            .commands
            .iter()
            .partition(|command| command.is_server);
        let servers = servers.into_iter().map(|server| self.spawn(server));
        let serving: Vec<ProcessGroup> = servers.collect::<Result<_, _>>()?;
        if !serving.is_empty() {
            std::thread::sleep(SERVERS_FIRST);
        }
        let programs = others.into_iter().map(|command| {
            Ok(Program {
                command,
                started: Instant::now(),
                group: self.spawn(command)?,
                ended: None,
            })
        });
        let mut programs: Vec<Program<'_>> = programs.collect::<Result<_, String>>()?;
        while !Program::have_ended(&mut programs)? {
            if let Some(signal) = early.take_signal() {
                return Err(format!("interrupted by {signal}"));
            }
            std::thread::sleep(LOOK);
        }
        let done = programs.iter().filter_map(|program| {
            let (status, time) = program.ended?;
            Some(Done {
                host: topology.hosts[program.command.host.0].name.clone(),
                command: program.command.run.clone(),
                status: status.code(),
                seconds: time.as_secs_f64(),
            })
        });
        Ok(done.collect())
    }

    /// Starts a program in its host. Its output goes to standard error, because standard output
    /// is for the report.
    fn spawn(&self, command: &CommandSpec) -> Result<ProcessGroup, String> {
        let (program, args) = command.run.split_first().ok_or("there is nothing to run")?;
        let mut process = Command::new(program);
        process.args(args).stdin(Stdio::null());
        process.stdout(std::io::stderr());
        self.start_in(command.host, &mut process)
    }

    /// Starts a program in a host.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) fn start_in(
        &self,
        host: HostId,
        command: &mut Command,
    ) -> Result<ProcessGroup, String> {
        let program = command.get_program().display().to_string();
        let started = self.in_host(host, || ProcessGroup::start(command))?;
        started.map_err(|error| format!("cannot start {program}: {error}"))
    }

    /// Does work inside a host, on a thread. Sockets that it creates stay those of the host.
    ///
    /// # Errors
    /// The host cannot be entered.
    pub(crate) fn in_host<T: Send>(
        &self,
        host: HostId,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, String> {
        let done = self.namespaces.host(host).run(work);
        done.map_err(|error| error.to_string())
    }

    /// Returns the number of bytes of the frames that a host has received.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub(crate) fn received_bytes(&self, host: HostId) -> Result<u64, String> {
        self.namespaces.received_bytes(host)
    }
}

/// A program that runs, or has ended.
struct Program<'a> {
    command: &'a CommandSpec,
    started: Instant,
    group: ProcessGroup,
    ended: Option<(ExitStatus, Duration)>,
}

impl Program<'_> {
    /// Notes which programs have ended. Returns true if all have.
    fn have_ended(programs: &mut [Program<'_>]) -> Result<bool, String> {
        for program in programs.iter_mut().filter(|it| it.ended.is_none()) {
            let status = program.group.try_wait();
            let status = status.map_err(|error| format!("cannot wait for a program: {error}"))?;
            program.ended = status.map(|status| (status, program.started.elapsed()));
        }
        Ok(programs.iter().all(|program| program.ended.is_some()))
    }
}

/// Gives the queues of a switch the rates of its links, unless its entries files give them others.
fn set_queues(device: &mut Device, topology: &Topology, switch: SwitchId) -> Result<(), String> {
    for link in &topology.links {
        let own = link
            .ends
            .iter()
            .find(|end| end.node == NodeId::Switch(switch));
        let (Some(end), Some(rate)) = (own, link.spec.rate) else {
            continue;
        };
        let of_link = QueueConfig {
            depth: link.spec.queue,
            bits_per_second: Some(rate.0),
            ..QueueConfig::default()
        };
        let queue = queue_of(device.queue(end.port), of_link);
        let set = device.apply(Change::SetQueue(end.port, queue));
        set.map_err(|error| error.to_string())?;
    }
    device.publish();
    Ok(())
}

/// Returns the queue of a port: what an entries file sets, and else what its link has.
fn queue_of(of_file: QueueConfig, of_link: QueueConfig) -> QueueConfig {
    let first = QueueConfig::default();
    let depth = match of_file.depth == first.depth {
        true => of_link.depth,
        false => of_file.depth,
    };
    match (of_file.bits_per_second, of_file.packets_per_second) {
        (None, None) => QueueConfig {
            depth,
            priorities: of_file.priorities,
            ..of_link
        },
        _ => QueueConfig { depth, ..of_file },
    }
}

/// Returns what notices of a switch's ports say at the prompt, in place of commands for interfaces
/// that no shell reaches.
fn advice(topology: &Topology, switch: SwitchId) -> Vec<(String, String)> {
    let own = topology.links.iter().flat_map(|link| {
        let [a, b] = link.ends;
        [(a, b), (b, a)]
    });
    let own = own.filter(|(end, _)| end.node == NodeId::Switch(switch));
    let advice = own.map(|(end, other)| {
        let (here, there) = (topology.name_of(end.node), topology.name_of(other.node));
        (
            format!("'ip link set {} up'", interface(end)),
            format!("`link {here} {there} up` at the prompt"),
        )
    });
    advice.collect()
}

/// Starts a switch in a thread.
fn begin(
    name: String,
    plane: SwitchPlane,
    (ports, files): (Vec<OpenedPort>, Vec<PortFile>),
    (served, common): (Option<ServedSwitch>, Common),
) -> Result<(UnixStream, JoinHandle<Result<Switched, String>>), String> {
    let (running, done) =
        UnixStream::pair().map_err(|error| format!("cannot make a pair of sockets: {error}"))?;
    let thread = std::thread::Builder::new().name(name.clone());
    let thread = thread.spawn(move || {
        let carried = match plane {
            SwitchPlane::Alone(device) => carry(
                name.clone(),
                *device,
                (ports, served),
                files,
                (&common, &done),
            ),
            SwitchPlane::Shared(hypervisor) => {
                hosting::carry(name.clone(), *hypervisor, (ports, files), (&common, &done))
            }
        };
        if let Err(why) = &carried {
            out::note(&format!("switch {name} has stopped: {why}"));
        }
        carried
    });
    let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok((running, thread))
}

/// Forwards packets until the other end of the stream is closed.
fn carry(
    name: String,
    device: Device,
    (mut ports, served): (Vec<OpenedPort>, Option<ServedSwitch>),
    files: Vec<PortFile>,
    (common, done): (&Common, &UnixStream),
) -> Result<Switched, String> {
    let sources = OwnFiles::of(device.program());
    let mut options = ForwarderOptions {
        trace_control: Some(Arc::clone(&common.trace)),
        ..ForwarderOptions::default()
    };
    let mut controllers = None;
    let mut _name = None;
    if let Some(served) = served {
        options.ports = Some(PortControl {
            may_change: false,
            is_in_kernel: false,
            ports: served.ports,
            allowed: Vec::new(),
            io: PortDriver::default(),
            taken: TakenInterfaces::default(),
            known: Some(served.channel.known),
            cpu: Vec::new(),
        });
        options.inbox = Some(served.channel.inbox);
        ports.push(served.channel.port);
        controllers = Some(served.controllers);
        _name = Some(served.name);
    }
    let mut forwarder = Forwarder::new(device, ports, options)?;
    if let Some(controllers) = &controllers {
        controllers.observe_by(forwarder.observation());
    }
    let capture = capture(&name, files, forwarder.observers())?;
    let early = ProcessSetup::default();
    let stop = StopSources {
        process: &early,
        done: Some(done.as_fd()),
    };
    let ended = forwarder.run(&stop, Duration::from_secs(1), &mut |event| match event {
        ForwarderEvent::Notice(notice) => common.note(&name, &notice),
        ForwarderEvent::Link(port, is_up) => {
            common.set_link(port, is_up);
            if let Some(controllers) = &controllers {
                controllers.port_changed(port, is_up);
            }
        }
        ForwarderEvent::Traced(device, traced) => show_trace(&name, device, &traced, &sources),
        // The ports of a switch are those of its topology.
        ForwarderEvent::PortAdded(..) | ForwarderEvent::PortRemoved(_) => {}
        ForwarderEvent::Tick(_) => {}
    });
    if let Some(capture) = capture {
        capture.finish();
    }
    ended?;
    forwarder.check_conservation()?;
    Ok(Switched {
        ports: forwarder.port_reports(),
        device: forwarder.device_report(),
        name,
    })
}

/// Begins to capture the links of a switch that have files.
///
/// # Errors
/// The operating system provides no thread.
pub(super) fn capture(
    name: &str,
    files: Vec<PortFile>,
    observers: &Arc<PacketObservers>,
) -> Result<Option<RunningCapture>, String> {
    if files.is_empty() {
        return Ok(None);
    }
    let files_of = format!("the capture of {name}'s links");
    RunningCapture::start_ports(files_of, files, observers).map(Some)
}

/// Prints the steps of a packet.
fn show_trace(name: &str, device: &Device, traced: &TracedPacket, sources: &OwnFiles) {
    if !Arc::ptr_eq(&traced.program, device.program()) {
        return out::note(&format!("{name}: a packet of the program before this one"));
    }
    let packet = (traced.port.0, &traced.bytes[..]);
    let trace = PacketTrace::new(device.configuration(), packet, &traced.events, &|file| {
        sources.read(file)
    });
    let text = trace.without_middle_rounds().text(out::colours());
    out::note(&format!("{name}:\n{}", text.trim_end()));
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

/// Prints what a switch has done: frames, drops by reason, and lookups of its tables.
pub(super) fn tell(switched: &Switched) {
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
    let drops = switched.ports.iter().flat_map(|port| &port.dropped);
    for drop in drops.chain(&switched.device.dropped) {
        let packets = amount::count(drop.packets, "packet");
        out::line(&format!("  dropped: {packets}, {}", drop.reason));
    }
    let used = |table: &&TableReport| table.hits + table.misses > 0;
    for table in switched.device.tables.iter().filter(used) {
        let (hits, misses) = (amount::count(table.hits, "hit"), table.misses);
        out::line(&format!(
            "  table {}: {hits}, {misses} without an entry",
            table.name
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entries_file_sets_queues_before_links_do() {
        let queue = |depth, bits_per_second, packets_per_second| QueueConfig {
            depth,
            bits_per_second,
            packets_per_second,
            ..QueueConfig::default()
        };
        let of_link = queue(100, Some(1_000_000), None);
        let first = QueueConfig::default();
        let cases = [
            (first, of_link),
            (queue(5, None, None), queue(5, Some(1_000_000), None)),
            (queue(5, None, Some(10)), queue(5, None, Some(10))),
            (
                queue(first.depth, None, Some(10)),
                queue(100, None, Some(10)),
            ),
        ];
        for (of_file, expected) in cases {
            assert_eq!(queue_of(of_file, of_link), expected, "{of_file:?}");
        }
    }
}
