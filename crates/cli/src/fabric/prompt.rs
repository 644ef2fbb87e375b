//! Commands of a real fabric's prompt.

use std::io::IsTerminal;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fabric::Topology;
use fabric::topology::{HostId, NodeId, SwitchId};
use port::{EchoSocket, ProcessGroup, Signal, start_in_foreground};
use runtime::ProcessSetup;
use runtime::trace_filter::FilterError;

use super::measure;
use super::real::Running;
use crate::{amount, out};

/// Interval at which a running program is checked.
const LOOK: Duration = Duration::from_millis(10);

/// Time that an echo request waits for its reply.
const PING_PATIENCE: Duration = Duration::from_secs(1);

/// Number of requests of `ping` in a script that gives none.
const PINGS: u16 = 4;

/// Default time of `iperf` in seconds.
const IPERF_SECONDS: u64 = 3;

const HELP: &str = "\
HOST COMMAND      run a command in a host; names of hosts in it become addresses
HOST COMMAND &    run it in the background, until the network ends
SWITCH COMMAND    polyplane ctl COMMAND, as in `s1 tables` and `s1 counters`
pingall           send an echo request from each host to each other one
iperf H1 H2 [S]   measure TCP from H1 to H2, for 3 seconds or S
link A B down|up  take the links between two nodes down, or up again
trace FILTER      show each step of packets like `ipv4.dst == 10.0.2.2 and icmp` in all switches
trace off         show no more of them
nodes, links      list hosts and switches, or links
xterm HOST        open a terminal in a host
sh COMMAND        run a command outside of the network
quit              end the network (also exit, and Ctrl-D)";

/// Outcome of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is done.
    Done,
    /// It failed, which was reported.
    Failed,
    /// The network is to end.
    Quit,
    /// A signal came that is not for a command.
    Stopped(Signal),
}

/// The prompt of a network, with the programs that run in the background.
pub(super) struct Prompt<'n> {
    topology: &'n Topology,
    running: &'n Running,
    early: &'n ProcessSetup,
    background: Vec<ProcessGroup>,
    /// True if commands have the terminal, where Ctrl-C ends them.
    is_terminal: bool,
}

impl<'n> Prompt<'n> {
    pub(super) fn new(
        topology: &'n Topology,
        running: &'n Running,
        early: &'n ProcessSetup,
    ) -> Prompt<'n> {
        Prompt {
            topology,
            running,
            early,
            background: Vec::new(),
            is_terminal: std::io::stdin().is_terminal(),
        }
    }

    /// Runs a line, and reports what is wrong with it.
    pub(super) fn run(&mut self, line: &str) -> Answer {
        match self.answer(line.trim()) {
            Ok(answer) => answer,
            Err(message) => {
                out::note(&message);
                Answer::Failed
            }
        }
    }

    fn answer(&mut self, line: &str) -> Result<Answer, String> {
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let words: Vec<&str> = rest.split_whitespace().collect();
        match (first, &words[..]) {
            ("", _) => Ok(Answer::Done),
            (comment, _) if comment.starts_with('#') => Ok(Answer::Done),
            ("help" | "?", _) => {
                out::line(HELP);
                Ok(Answer::Done)
            }
            ("quit" | "exit", _) => Ok(Answer::Quit),
            ("pingall", []) => self.ping_all(),
            ("iperf", [from, to]) => self.iperf(from, to, IPERF_SECONDS),
            ("iperf", [from, to, seconds]) => {
                let seconds = seconds
                    .parse()
                    .ok()
                    .filter(|seconds| (1..=3600).contains(seconds));
                let seconds = seconds.ok_or("write iperf H1 H2 SECONDS, from 1 to 3600")?;
                self.iperf(from, to, seconds)
            }
            ("link", [a, b, state @ ("up" | "down")]) => self.link(a, b, *state == "up"),
            ("link", _) => Err("write link A B down, or link A B up".to_owned()),
            ("trace", ["off"]) => {
                self.running.set_trace(None);
                Ok(Answer::Done)
            }
            ("trace", [_, ..]) => {
                let filter = rest
                    .parse()
                    .map_err(|error: FilterError| error.to_string())?;
                self.running.set_trace(Some(filter));
                Ok(Answer::Done)
            }
            ("trace", []) => Err("write trace FILTER, as in `trace icmp`, or trace off".to_owned()),
            ("nodes", []) => {
                self.list_nodes();
                Ok(Answer::Done)
            }
            ("links" | "net", []) => {
                self.list_links();
                Ok(Answer::Done)
            }
            ("xterm", [host]) => {
                let mut command = Command::new("xterm");
                command.args(["-T", host]).stdin(Stdio::null());
                let host = self.host(host)?;
                let group = self.running.start_in(host, &mut command)?;
                self.background.push(group);
                Ok(Answer::Done)
            }
            ("sh", [_, ..]) => self.shell(None, rest),
            _ => self.node_command(first, rest, &words),
        }
    }

    /// Runs a command of a host or a switch.
    fn node_command(&mut self, name: &str, rest: &str, words: &[&str]) -> Result<Answer, String> {
        match self.node(name) {
            Some(NodeId::Host(host)) => match words {
                [] => Err(format!("write {name} COMMAND, as in `{name} ip addr`")),
                ["ping", arguments @ ..] if !is_installed("ping") => self.ping(host, arguments),
                _ => self.shell(Some(host), &self.with_addresses(rest)),
            },
            Some(NodeId::Switch(switch)) => self.control(switch, words),
            Some(NodeId::Server(_) | NodeId::Nanopu(_)) | None => Err(format!(
                "there is no command and no node {name}; `help` lists the commands, `nodes` the nodes"
            )),
        }
    }

    fn node(&self, name: &str) -> Option<NodeId> {
        let hosts = self.topology.hosts.iter();
        let switches = self.topology.switches.iter();
        let host = hosts.map(|host| &host.name).position(|own| own == name);
        let switch = switches
            .map(|switch| &switch.name)
            .position(|own| own == name);
        let host = host.map(|number| NodeId::Host(HostId(number)));
        host.or_else(|| switch.map(|number| NodeId::Switch(SwitchId(number))))
    }

    fn host(&self, name: &str) -> Result<HostId, String> {
        match self.node(name) {
            Some(NodeId::Host(host)) => Ok(host),
            _ => Err(format!("there is no host {name}; `nodes` lists the nodes")),
        }
    }

    fn address(&self, host: HostId) -> Ipv4Addr {
        self.topology.hosts[host.0].address
    }

    /// Replaces words that are names of hosts by their addresses.
    fn with_addresses(&self, line: &str) -> String {
        let words = line.split(' ').map(|word| match self.node(word) {
            Some(NodeId::Host(host)) => self.address(host).to_string(),
            _ => word.to_owned(),
        });
        let words: Vec<String> = words.collect();
        words.join(" ")
    }

    /// Runs a line of the shell in a host, or outside of the network. With `&` at its end it stays
    /// in the background.
    fn shell(&mut self, host: Option<HostId>, line: &str) -> Result<Answer, String> {
        let in_background = line.ends_with('&') && !line.ends_with("&&");
        let line = match in_background {
            true => line.trim_end_matches('&'),
            false => line,
        };
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        let has_terminal = self.is_terminal && !in_background;
        if !has_terminal {
            command.stdin(Stdio::null());
        }
        match has_terminal {
            true => {
                let mut start = || start_in_foreground(&mut command);
                let child = match host {
                    Some(host) => self.running.in_host(host, start)?,
                    None => start(),
                };
                let mut child = child.map_err(|error| format!("cannot start sh: {error}"))?;
                self.wait_for(&mut || child.try_wait())
            }
            false => {
                let group = match host {
                    Some(host) => self.running.start_in(host, &mut command)?,
                    None => ProcessGroup::start(&mut command)
                        .map_err(|error| format!("cannot start sh: {error}"))?,
                };
                self.finish(group, in_background)
            }
        }
    }

    /// Waits for a program, or keeps it in the background.
    fn finish(&mut self, mut group: ProcessGroup, in_background: bool) -> Result<Answer, String> {
        if in_background {
            self.background.push(group);
            return Ok(Answer::Done);
        }
        self.wait_for(&mut || group.try_wait())
    }

    /// Waits for a program. At a terminal Ctrl-C is for the program.
    fn wait_for(
        &self,
        try_wait: &mut dyn FnMut() -> std::io::Result<Option<ExitStatus>>,
    ) -> Result<Answer, String> {
        loop {
            let status = try_wait();
            let status = status.map_err(|error| format!("cannot wait for a program: {error}"))?;
            let signal = self.early.take_signal();
            match (status, signal) {
                (_, Some(signal)) if !self.is_terminal || signal != Signal::Interrupt => {
                    return Ok(Answer::Stopped(signal));
                }
                (Some(status), _) if status.success() => return Ok(Answer::Done),
                (Some(_), _) => return Ok(Answer::Failed),
                (None, _) => std::thread::sleep(LOOK),
            }
        }
    }

    /// Runs `polyplane ctl` for a switch.
    fn control(&mut self, switch: SwitchId, words: &[&str]) -> Result<Answer, String> {
        let name = &self.topology.switches[switch.0].name;
        let served = self.running.controllers(switch);
        let (address, device) = served.ok_or_else(|| format!("{name} has no P4Runtime server"))?;
        let program = std::env::current_exe();
        let program = program.map_err(|error| format!("cannot find polyplane: {error}"))?;
        if words.is_empty() {
            return Err(format!("write {name} COMMAND, as in `{name} tables`"));
        }
        let mut command = Command::new(program);
        let (address, device) = (address.to_string(), device.to_string());
        command.args(["ctl", "--addr", &address, "--device-id", &device]);
        command.args(words).stdin(Stdio::null());
        let group = ProcessGroup::start(&mut command);
        let group = group.map_err(|error| format!("cannot start polyplane ctl: {error}"))?;
        self.finish(group, false)
    }

    /// Sends echo requests, where the machine has no `ping`.
    fn ping(&self, host: HostId, arguments: &[&str]) -> Result<Answer, String> {
        let mut count = match self.is_terminal {
            true => u16::MAX,
            false => PINGS,
        };
        let mut target = None;
        let mut interval = Duration::from_secs(1);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match *word {
                "-c" => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    count = number.ok_or("write ping -c COUNT HOST")?;
                }
                "-i" => {
                    let seconds = words.next().and_then(|number| number.parse::<f64>().ok());
                    let seconds = seconds.filter(|seconds| (0.001..=60.0).contains(seconds));
                    interval =
                        Duration::from_secs_f64(seconds.ok_or("write ping -i SECONDS HOST")?);
                }
                name => {
                    let host = self.host(name).map(|host| self.address(host));
                    let address = name.parse().or(host);
                    target = Some(address.map_err(|why| format!("{why}; ping takes -c and -i"))?);
                }
            }
        }
        let target = target.ok_or("write ping HOST")?;
        let socket = self.echo_socket(host, target)?;
        let mut answered = 0;
        for sequence in 1..=count {
            let start = Instant::now();
            match self.echo(&socket, sequence)? {
                Some(time) => {
                    answered += 1;
                    let time = amount::time(time);
                    out::line(&format!(
                        "reply from {target}: icmp_seq={sequence} time={time}"
                    ));
                }
                None => out::line(&format!("{target} does not reply: icmp_seq={sequence}")),
            }
            if let Some(signal) = self.early.take_signal() {
                if !self.is_terminal || signal != Signal::Interrupt {
                    return Ok(Answer::Stopped(signal));
                }
                break;
            }
            if sequence < count {
                std::thread::sleep(interval.saturating_sub(start.elapsed()));
            }
        }
        match answered {
            0 => Ok(Answer::Failed),
            _ => Ok(Answer::Done),
        }
    }

    fn echo_socket(&self, host: HostId, target: Ipv4Addr) -> Result<EchoSocket, String> {
        let identifier = (std::process::id() as u16) ^ (host.0 as u16).rotate_left(8);
        let socket = self
            .running
            .in_host(host, || EchoSocket::open(target, identifier))?;
        socket.map_err(|error| format!("cannot send to {target}: {error}"))
    }

    /// Sends an echo request. Returns the time of its reply, if it came.
    fn echo(&self, socket: &EchoSocket, sequence: u16) -> Result<Option<Duration>, String> {
        let payload = [0x50; 56];
        let start = Instant::now();
        let sent = socket.request(sequence, &payload);
        let reply = sent.and_then(|()| socket.wait_reply(sequence, &payload, PING_PATIENCE));
        match reply {
            Ok(true) => Ok(Some(start.elapsed())),
            // An unreachable host is one that does not reply.
            Ok(false) => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::HostUnreachable => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NetworkUnreachable => Ok(None),
            Err(error) => Err(format!("cannot send an echo request: {error}")),
        }
    }

    fn ping_all(&self) -> Result<Answer, String> {
        let hosts = self.topology.hosts.len();
        let (mut asked, mut answered) = (0, 0);
        for from in (0..hosts).map(HostId) {
            let mut row = format!("{} ->", self.topology.hosts[from.0].name);
            for to in (0..hosts).map(HostId).filter(|to| *to != from) {
                if let Some(signal) = self.early.take_signal() {
                    return Ok(Answer::Stopped(signal));
                }
                asked += 1;
                let reply = match self.echo_socket(from, self.address(to)) {
                    Ok(socket) => self.echo(&socket, 1)?,
                    // Without a route there is no reply.
                    Err(_) => None,
                };
                answered += usize::from(reply.is_some());
                row.push(' ');
                row.push_str(match reply {
                    Some(_) => &self.topology.hosts[to.0].name,
                    None => "X",
                });
            }
            out::line(&row);
        }
        out::line(&format!("{answered} of {asked} answered"));
        match answered == asked {
            true => Ok(Answer::Done),
            false => Ok(Answer::Failed),
        }
    }

    fn iperf(&self, from: &str, to: &str, seconds: u64) -> Result<Answer, String> {
        let (sender, receiver) = (self.host(from)?, self.host(to)?);
        let address = self.address(receiver);
        let listener = self
            .running
            .in_host(receiver, || TcpListener::bind((address, 0)))?;
        let listener = listener.map_err(|error| format!("{to} cannot listen: {error}"))?;
        let server = listener.local_addr().map_err(|error| error.to_string())?;
        let connect = || TcpStream::connect_timeout(&server, measure::CONNECT);
        let stream = self.running.in_host(sender, connect)?;
        let stream = stream.map_err(|error| format!("{from} cannot connect to {to}: {error}"))?;
        let time = Duration::from_secs(seconds);
        let bits_per_second = measure::throughput(&listener, stream, time)?;
        let rate = amount::bit_rate(bits_per_second);
        out::line(&format!("iperf {from} to {to}: {rate} in {seconds} s"));
        Ok(Answer::Done)
    }

    fn link(&self, a: &str, b: &str, is_up: bool) -> Result<Answer, String> {
        let missing = |name: &str| format!("there is no node {name}; `nodes` lists the nodes");
        let wanted = [
            self.node(a).ok_or_else(|| missing(a))?,
            self.node(b).ok_or_else(|| missing(b))?,
        ];
        let links = self.topology.links.iter().filter(|link| {
            let [one, other] = link.ends.map(|end| end.node);
            [one, other] == wanted || [other, one] == wanted
        });
        let mut has_any = false;
        for link in links {
            has_any = true;
            self.running.set_link(link, is_up)?;
        }
        match has_any {
            true => Ok(Answer::Done),
            false => Err(format!(
                "there is no link between {a} and {b}; `links` lists them"
            )),
        }
    }

    fn list_nodes(&self) {
        for host in &self.topology.hosts {
            out::line(&format!(
                "{} {}/{}",
                host.name, host.address, host.prefix_len
            ));
        }
        for (number, switch) in self.topology.switches.iter().enumerate() {
            match self.running.controllers(SwitchId(number)) {
                Some((address, device)) => {
                    out::line(&format!(
                        "{} P4Runtime {address} device {device}",
                        switch.name
                    ));
                }
                None => out::line(&switch.name),
            }
        }
    }

    fn list_links(&self) {
        for link in &self.topology.links {
            let ends = link.ends.map(|end| {
                let name = self.topology.name_of(end.node);
                match end.node {
                    NodeId::Switch(_) => format!("{name}:{}", end.port),
                    NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_) => name.to_owned(),
                }
            });
            out::line(&ends.join(" "));
        }
    }
}

/// Returns true if a program is in a directory of PATH.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
