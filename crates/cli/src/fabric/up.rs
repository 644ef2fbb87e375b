//! `polyplane fabric up`: a network of real interfaces with a prompt, for people and for scripts.

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use command::topology::read_with_program;
use fabric::Topology;
use fabric::topology::{End, HostId, LinkSpec, NodeId, PlaneSpec, ServiceSpec, SwitchId};
use packet::Nanos;
use port::{Poller, ProcessGroup, Signal};
use runtime::ProcessSetup;

use super::capture::LinkCaptures;
use super::editor::{LineEditor, Words};
use super::prompt::{Answer, COMMANDS, Prompt};
use super::real::{self, Extras, Running};
use super::routing;
use super::served::Servers;
use crate::args::Io;
use crate::engine::Choice;
use crate::{Ended, out};

/// Time that a command which sets up a host may take.
const MAX_SETUP: Duration = Duration::from_secs(10);

/// The prompt at a terminal.
const PROMPT: &str = "polyplane> ";

/// Bytes that are read from standard input at once.
const CHUNK: usize = 4096;

/// Maximum length of a line of commands.
const MAX_LINE: usize = 64 << 10;

#[derive(Args)]
pub(super) struct UpOptions {
    /// The topology (docs/reference/topology.md), or one of the P4 tutorials or of p4-utils
    /// (docs/how-to/from-bmv2.md).
    #[arg(value_name = "TOPOLOGY")]
    topology: PathBuf,
    /// The program of switches for which a topology in JSON names none.
    #[arg(long, value_name = "FILE.p4")]
    program: Option<PathBuf>,
    /// Run these lines of the prompt, and end. May be given several times.
    #[arg(short = 'c', long = "command", value_name = "LINE")]
    commands: Vec<String>,
    /// Write a capture of each link into this directory, as LINK.pcapng.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Packet I/O of the switches' ports.
    #[arg(long, value_enum, default_value_t)]
    io: Io,
    #[command(flatten)]
    choice: Choice,
}

/// Runs a topology until `quit`, the end of the commands, or a stop signal.
///
/// # Errors
/// The process may not create namespaces, or a switch cannot be created.
pub(super) fn up(options: &UpOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let topology = read_with_program(&options.topology, options.program.as_deref())?;
    let mut topology = super::without_models(topology)?;
    early.begin_work();
    let maker = routing(options.choice, &mut topology)?;
    let servers = Servers::new(options.choice, topology.seed);
    warn_of_keys_without_effect(&topology);
    let captures = match &options.pcap {
        Some(directory) => LinkCaptures::create(directory)?,
        None => LinkCaptures::default(),
    };
    let extras = Extras {
        servers: Some(servers),
        captures,
    };
    let running = Running::start_with(&topology, options.io, maker, extras)?;
    let mut prompt = Prompt::new(&topology, &running, early);
    for group in set_up_hosts(&topology, &running) {
        prompt.keep(group);
    }
    introduce(&topology, &running);
    let ended = match options.commands.is_empty() {
        true => from_input(&mut prompt, &topology, early),
        false => run_all(&mut prompt, &options.commands),
    };
    drop(prompt);
    for switched in running.stop()? {
        real::tell(&switched);
    }
    ended
}

/// Names the keys of the topology that change nothing on real links, each once.
fn warn_of_keys_without_effect(topology: &Topology) {
    let link = |has: fn(&fabric::topology::LinkSpec) -> bool| {
        topology.links.iter().any(|link| has(&link.spec))
    };
    let service =
        |has: fn(ServiceSpec) -> bool| topology.switches.iter().any(|switch| has(switch.service));
    let keys = [
        ("delay", link(|spec| spec.delay > Nanos::ZERO)),
        (
            "queue` without `rate",
            link(|spec| spec.rate.is_none() && spec.queue != LinkSpec::DEFAULT_QUEUE),
        ),
        ("service", service(|spec| spec.time > Nanos::ZERO)),
        (
            "backlog",
            service(|spec| spec.backlog != ServiceSpec::DEFAULT_BACKLOG),
        ),
        ("[[flow]]", !topology.flows.is_empty()),
        ("[[ping]]", !topology.pings.is_empty()),
        ("[[traffic]]", !topology.traffic.is_empty()),
        ("[[fault]]", !topology.faults.is_empty()),
        ("[workload]", topology.workload.is_some()),
        ("[[command]]", !topology.commands.is_empty()),
    ];
    for (key, _) in keys.iter().filter(|(_, is_used)| *is_used) {
        out::note(&format!("warning: `{key}` has no effect on real links"));
    }
    let limited = topology
        .links
        .iter()
        .filter(|link| link.spec.rate.is_some());
    let is_shared = |end: &End| match end.node {
        NodeId::Switch(switch) => {
            matches!(topology.switches[switch.0].plane, PlaneSpec::Shared(_))
        }
        NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_) => false,
    };
    if limited.flat_map(|link| &link.ends).any(is_shared) {
        out::note("warning: `rate` has no effect on what switches with vPDPs send");
    }
}

/// Runs the shell commands of the hosts. One that fails is reported, and changes nothing else.
/// Returns the programs that still run in the background.
fn set_up_hosts(topology: &Topology, running: &Running) -> Vec<ProcessGroup> {
    let mut groups = Vec::new();
    for (number, host) in topology.hosts.iter().enumerate() {
        for line in &host.setup {
            let mut command = Command::new("sh");
            command.args(["-c", line]).stdin(Stdio::null());
            command.stdout(std::io::stderr());
            match wait_for_setup(running, HostId(number), &mut command) {
                Ok((group, None)) => groups.push(group),
                Ok((group, Some(why))) => {
                    out::note(&format!("{}: `{line}` {why}", host.name));
                    groups.push(group);
                }
                Err(why) => out::note(&format!("{}: `{line}` {why}", host.name)),
            }
        }
    }
    groups
}

/// Runs a command that sets up a host. Returns its group with what it has started, and what is
/// wrong with its end.
fn wait_for_setup(
    running: &Running,
    host: HostId,
    command: &mut Command,
) -> Result<(ProcessGroup, Option<String>), String> {
    let mut group = running.start_in(host, command)?;
    let start = Instant::now();
    loop {
        let status = group.try_wait();
        match status.map_err(|error| format!("cannot be waited for: {error}"))? {
            Some(status) if status.success() => return Ok((group, None)),
            Some(status) => return Ok((group, Some(format!("ended with {status}")))),
            None if start.elapsed() > MAX_SETUP => {
                return Err(format!("was ended after {} s", MAX_SETUP.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Prints where hosts and switches are reached.
fn introduce(topology: &Topology, running: &Running) {
    for host in &topology.hosts {
        let (address, name) = (host.address, &host.name);
        out::line(&format!("{address}: ip netns exec {name} COMMAND"));
    }
    for (number, switch) in topology.switches.iter().enumerate() {
        if let Some((address, device)) = running.controllers(SwitchId(number)) {
            let name = &switch.name;
            out::line(&format!(
                "{address} device {device}: polyplane ctl --addr {name} COMMAND"
            ));
        }
    }
}

/// Runs the lines of the command line.
fn run_all(prompt: &mut Prompt<'_>, lines: &[String]) -> Result<Ended, String> {
    let mut ended = Ended::Well;
    for line in lines {
        match prompt.run(line) {
            Answer::Done => {}
            Answer::Failed => ended = Ended::WithErrors,
            Answer::Quit => break,
            Answer::Stopped(signal) => return Err(format!("interrupted by {signal}")),
        }
    }
    Ok(ended)
}

/// Runs the lines of standard input. An input without a line, as of a service, keeps the network
/// up until a signal.
fn from_input(
    prompt: &mut Prompt<'_>,
    topology: &Topology,
    early: &ProcessSetup,
) -> Result<Ended, String> {
    let stdin = std::io::stdin();
    let is_terminal = stdin.is_terminal();
    let duplicate = stdin.as_fd().try_clone_to_owned();
    let input = duplicate.map_err(|error| format!("cannot read standard input: {error}"))?;
    // What is written to a file or a pipe has no escape sequences.
    let mut input = match is_terminal && std::io::stdout().is_terminal() {
        true => Lines::Edited(LineEditor::start(PROMPT, words(topology))?),
        false => Lines::Plain(Input {
            file: File::from(input),
            rest: Vec::new(),
        }),
    };
    match is_terminal {
        true => out::note("`help` lists the commands, `quit` ends"),
        false => out::note(&format!(
            "{} is up until the end of the lines of standard input, or without one until SIGINT or SIGTERM",
            topology.name
        )),
    }
    let (mut ended, mut has_lines) = (Ended::Well, false);
    loop {
        if is_terminal && let Lines::Plain(_) = input {
            out::text(PROMPT);
            // A prompt has no line end, so it would stay in the buffer. A closed output is noticed
            // at the next line.
            let _ = std::io::stdout().flush();
        }
        match input.next(early)? {
            Next::Line(line) => {
                has_lines = true;
                match prompt.run(&line) {
                    Answer::Done => {}
                    // At a terminal the message is enough.
                    Answer::Failed if is_terminal => {}
                    Answer::Failed => ended = Ended::WithErrors,
                    Answer::Quit => return Ok(ended),
                    Answer::Stopped(_) => return Ok(ended),
                }
            }
            // At a terminal Ctrl-C ends a command, and a line that is being written.
            Next::Signal(Signal::Interrupt) if is_terminal => match input {
                Lines::Plain(_) => out::line(""),
                // The editor has written the end of the line.
                Lines::Edited(_) => {}
            },
            Next::Signal(_) => return Ok(ended),
            Next::End if has_lines || is_terminal => return Ok(ended),
            Next::End => {
                wait_for_signal(early)?;
                return Ok(ended);
            }
        }
    }
}

/// Returns the words that lines at a terminal are completed with.
fn words(topology: &Topology) -> Words {
    let hosts = topology.hosts.iter().map(|host| &host.name);
    let switches = topology.switches.iter().map(|switch| &switch.name);
    Words {
        commands: &COMMANDS,
        nodes: hosts.chain(switches).cloned().collect(),
    }
}

fn wait_for_signal(early: &ProcessSetup) -> Result<(), String> {
    let mut poller = Poller::new();
    while early.take_signal().is_none() {
        let waited = poller.wait(early.signal_fd(), Duration::from_secs(1));
        waited.map_err(|error| format!("cannot wait for signals: {error}"))?;
    }
    Ok(())
}

/// The lines of standard input.
enum Lines {
    Plain(Input),
    /// Those of a terminal.
    Edited(LineEditor),
}

impl Lines {
    fn next(&mut self, early: &ProcessSetup) -> Result<Next, String> {
        match self {
            Lines::Plain(input) => input.next(early),
            Lines::Edited(editor) => editor.next(early),
        }
    }
}

/// Lines of standard input, read without blocking signals.
struct Input {
    file: File,
    rest: Vec<u8>,
}

/// A line, or another event of the input.
pub(super) enum Next {
    Line(String),
    Signal(Signal),
    End,
}

impl Input {
    fn next(&mut self, early: &ProcessSetup) -> Result<Next, String> {
        let mut poller = Poller::new();
        loop {
            if let Some(signal) = early.take_signal() {
                return Ok(Next::Signal(signal));
            }
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                return Ok(Next::Line(line));
            }
            if self.rest.len() > MAX_LINE {
                return Err(format!("a line of commands has more than {MAX_LINE} bytes"));
            }
            let fds = early.signal_fd().into_iter().chain([self.file.as_fd()]);
            let waited = poller.wait(fds, Duration::from_secs(1));
            waited.map_err(|error| format!("cannot wait for commands: {error}"))?;
            let input = usize::from(early.signal_fd().is_some());
            if !poller.is_ready(input) {
                continue;
            }
            let mut chunk = [0; CHUNK];
            let count = self.file.read(&mut chunk);
            match count.map_err(|error| format!("cannot read commands: {error}"))? {
                0 if self.rest.is_empty() => return Ok(Next::End),
                // The last line may have no end.
                0 => self.rest.push(b'\n'),
                count => self.rest.extend_from_slice(&chunk[..count]),
            }
        }
    }
}
