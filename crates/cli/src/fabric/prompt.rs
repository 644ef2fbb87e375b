//! Commands of a real fabric's prompt.

use std::io::IsTerminal;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use fabric::Topology;
use fabric::topology::{End, HostId, NodeId, SwitchId};
use packet::PortId;
use port::{EchoSocket, ProcessGroup, Signal, start_in_foreground};
use runtime::ProcessSetup;
use runtime::trace_filter::FilterError;

use super::real::Running;
use super::{measure, ping};
use crate::{amount, out};

/// Interval at which a running program is checked.
const LOOK: Duration = Duration::from_millis(10);

/// Default time of `iperf` in seconds.
const IPERF_SECONDS: u64 = 3;

/// Makes `ping` a command of the shell, where the machine has none. The variable is this program.
const PING: &str = "ping() { \"$POLYPLANE\" fabric ping \"$@\"; }\n";

/// Commands of `polyplane ctl` that take a statement.
const WRITES: [&str; 3] = ["add", "change", "delete"];

/// Commands of the prompt, beside names of nodes.
pub(super) const COMMANDS: [&str; 11] = [
    "exit", "help", "iperf", "link", "links", "nodes", "pingall", "quit", "sh", "trace", "xterm",
];

const HELP: &str = "\
HOST COMMAND      run a command in a host; names of hosts in it become addresses
HOST COMMAND &    run it in the background, until the network ends
SWITCH COMMAND    polyplane ctl COMMAND, as in `s1 tables` and `s1 counters`; `&` as above
pingall           send an echo request from each host to each other one
iperf H1 H2 [S]   measure TCP from H1 to H2, for 3 seconds or S
link A B down|up  take the links between two nodes down, or up again; link s1-eth2 down: one link
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
                let seconds = seconds.ok_or("write iperf H1 H2 [SECONDS], from 1 to 3600")?;
                self.iperf(from, to, seconds)
            }
            ("link", [ends @ .., state @ ("up" | "down")]) if matches!(ends.len(), 1 | 2) => {
                self.link(ends, *state == "up")
            }
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
                self.keep(group);
                Ok(Answer::Done)
            }
            ("sh", [_, ..]) => self.shell(None, rest),
            _ => self.node_command(first, rest),
        }
    }

    /// Runs a command of a host or a switch.
    fn node_command(&mut self, name: &str, rest: &str) -> Result<Answer, String> {
        match (self.node(name), rest) {
            (Some(NodeId::Host(_)), "") => {
                Err(format!("write {name} COMMAND, as in `{name} ip addr`"))
            }
            (Some(NodeId::Host(host)), _) => self.shell(Some(host), &self.with_addresses(rest)),
            (Some(NodeId::Switch(_)), "") => {
                Err(format!("write {name} COMMAND, as in `{name} tables`"))
            }
            (Some(NodeId::Switch(switch)), _) => self.control(switch, rest),
            (Some(NodeId::Server(_) | NodeId::Nanopu(_)) | None, _) => Err(match usage(name) {
                Some(usage) => format!("write {usage}"),
                None => format!(
                    "there is no command and no node {name}; `help` lists the commands, `nodes` the nodes"
                ),
            }),
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
        match host {
            Some(_) if !is_installed("ping") => {
                command.env("POLYPLANE", this_program()?);
                command.args(["-c", &format!("{PING}{line}")]);
            }
            _ => {
                command.args(["-c", line]);
            }
        }
        self.run_program(host, &mut command, in_background)
    }

    /// Runs a program in a host, or outside of the network: at a terminal in the foreground, where
    /// it gets Ctrl-C.
    fn run_program(
        &mut self,
        host: Option<HostId>,
        command: &mut Command,
        in_background: bool,
    ) -> Result<Answer, String> {
        let program = command.get_program().display().to_string();
        let failed = |error: std::io::Error| format!("cannot start {program}: {error}");
        if self.is_terminal && !in_background {
            let mut start = || start_in_foreground(command);
            let child = match host {
                Some(host) => self.running.in_host(host, start)?,
                None => start(),
            };
            let mut child = child.map_err(failed)?;
            let answer = self.wait_for(&mut || child.try_wait());
            if let Ok(Answer::Stopped(_)) = answer {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
            return answer;
        }
        command.stdin(Stdio::null());
        let mut group = match host {
            Some(host) => self.running.start_in(host, command)?,
            None => ProcessGroup::start(command).map_err(failed)?,
        };
        let answer = match in_background {
            true => Answer::Done,
            false => self.wait_for(&mut || group.try_wait())?,
        };
        // What it has left in the background runs until the network ends.
        self.keep(group);
        Ok(answer)
    }

    /// Keeps the programs of a group until the network ends.
    pub(super) fn keep(&mut self, group: ProcessGroup) {
        self.background.push(group);
        self.background.retain_mut(ProcessGroup::is_running);
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

    /// Returns the answer to a stop signal, if one has arrived. At a terminal Ctrl-C ends only the
    /// command.
    fn stopped(&self) -> Option<Answer> {
        let signal = self.early.take_signal()?;
        Some(match signal {
            Signal::Interrupt if self.is_terminal => Answer::Failed,
            signal => Answer::Stopped(signal),
        })
    }

    /// Runs `polyplane ctl` for a switch.
    fn control(&mut self, switch: SwitchId, line: &str) -> Result<Answer, String> {
        let name = &self.topology.switches[switch.0].name;
        let served = self.running.controllers(switch);
        let (address, device) = served.ok_or_else(|| format!("{name} has no P4Runtime server"))?;
        let (words, in_background) = control_words(line)?;
        let mut command = Command::new(this_program()?);
        let (address, device) = (address.to_string(), device.to_string());
        command.args(["ctl", "--addr", &address, "--device-id", &device]);
        command.args(words);
        self.run_program(None, &mut command, in_background)
    }

    fn echo_socket(&self, host: HostId, target: Ipv4Addr) -> Result<EchoSocket, String> {
        let identifier = (std::process::id() as u16) ^ (host.0 as u16).rotate_left(8);
        let socket = self
            .running
            .in_host(host, || EchoSocket::open(target, identifier))?;
        socket.map_err(|error| format!("cannot send to {target}: {error}"))
    }

    fn ping_all(&self) -> Result<Answer, String> {
        let hosts = self.topology.hosts.len();
        let (mut asked, mut answered) = (0, 0);
        for from in (0..hosts).map(HostId) {
            let mut row = format!("{} ->", self.topology.hosts[from.0].name);
            for to in (0..hosts).map(HostId).filter(|to| *to != from) {
                if let Some(answer) = self.stopped() {
                    return Ok(answer);
                }
                asked += 1;
                let reply = match self.echo_socket(from, self.address(to)) {
                    Ok(socket) => ping::echo(&socket, 1)?,
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
        let mut answer = None;
        let measured = measure::throughput(&listener, stream, time, &mut || {
            answer = self.stopped();
            answer.is_some()
        })?;
        let rate = amount::bit_rate(measured.bits_per_second);
        let time = match answer {
            Some(_) => amount::time(measured.time),
            None => format!("{seconds} s"),
        };
        out::line(&format!("iperf {from} to {to}: {rate} in {time}"));
        Ok(answer.unwrap_or(Answer::Done))
    }

    /// Takes links down or up: those between two ends, or that of one end.
    fn link(&self, names: &[&str], is_up: bool) -> Result<Answer, String> {
        let ends = names.iter().map(|name| self.link_end(name));
        let ends = ends.collect::<Result<Vec<LinkEnd>, String>>()?;
        if let ([end], [name]) = (&ends[..], names)
            && end.port.is_none()
        {
            let message = format!("say which link of {name}: link {name} NODE down");
            return Err(format!("{message}, or its interface, as in {name}-eth1"));
        }
        let links = self.topology.links.iter().filter(|link| {
            let [one, other] = link.ends;
            match &ends[..] {
                [a, b] => a.is(one) && b.is(other) || a.is(other) && b.is(one),
                ends => ends.iter().any(|end| end.is(one) || end.is(other)),
            }
        });
        let mut has_any = false;
        for link in links {
            has_any = true;
            self.running.set_link(link, is_up)?;
        }
        match has_any {
            true => Ok(Answer::Done),
            false => Err(format!(
                "there is no link {} {}; `links` lists them",
                match names.len() {
                    1 => "at",
                    _ => "between",
                },
                names.join(" and ")
            )),
        }
    }

    /// Reads an end of a link: a node, or an interface with the name that Mininet (`s1-eth2`), the
    /// tutorials (`s1-p2`) or `links` (`s1:2`) give it.
    fn link_end(&self, name: &str) -> Result<LinkEnd, String> {
        if let Some(node) = self.node(name) {
            return Ok(LinkEnd { node, port: None });
        }
        let interface = ["-eth", "-p", ":"].into_iter().find_map(|mark| {
            let (node, port) = name.rsplit_once(mark)?;
            let (node, port) = (self.node(node)?, port.parse().ok().map(PortId)?);
            Some(LinkEnd {
                node,
                port: Some(port),
            })
        });
        interface.ok_or_else(|| format!("there is no node {name}; `nodes` lists the nodes"))
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

/// An end of links, as a command names it.
struct LinkEnd {
    node: NodeId,
    /// Number of the interface, if the command names one.
    port: Option<PortId>,
}

impl LinkEnd {
    /// Returns true if a link's end is this one. Hosts have one interface, whatever its number.
    fn is(&self, end: End) -> bool {
        let is_any = self.port.is_none() || !matches!(end.node, NodeId::Switch(_));
        end.node == self.node && (is_any || self.port == Some(end.port))
    }
}

/// Returns how a command of the prompt is written.
fn usage(command: &str) -> Option<&'static str> {
    Some(match command {
        "pingall" => "pingall alone: it asks all hosts once",
        "iperf" => "iperf H1 H2 [SECONDS]",
        "link" => "link A B down, link A B up, or link s1-eth2 down",
        "trace" => "trace FILTER, as in `trace icmp`, or trace off",
        "nodes" => "nodes alone",
        "links" | "net" => "links alone",
        "xterm" => "xterm HOST",
        "sh" => "sh COMMAND",
        _ => return None,
    })
}

/// Splits a command of `polyplane ctl` into words as a shell does. Returns true with them if `&` is
/// at its end. The arrow of a statement without quotes is no option.
fn control_words(line: &str) -> Result<(Vec<String>, bool), String> {
    let (line, in_background) = match line.strip_suffix('&') {
        Some(line) => (line, true),
        None => (line, false),
    };
    let words = shlex::split(line);
    let mut words = words.ok_or_else(|| format!("a quote in `{line}` has no end"))?;
    let is_write = words.iter().any(|word| WRITES.contains(&word.as_str()));
    let arrow = words.iter().position(|word| word == "->");
    let is_guarded = words.iter().any(|word| word == "--");
    if let Some(arrow) = arrow.filter(|_| is_write && !is_guarded) {
        words.insert(arrow, "--".to_owned());
    }
    Ok((words, in_background))
}

/// Returns the path of this program.
fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot find polyplane: {error}"))
}

/// Returns true if a program is in a directory of PATH.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
