//! Commands that run all processes of a split program: a switch, servers and their coordinator, in
//! a network namespace of their own.

mod churn;
mod routes;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use port::Netns;
use serde_json::Value;

pub(crate) use churn::{Churn, run as run_churn};
pub(crate) use routes::{Options as RouteOptions, run as run_routes};

/// Address of a server on a free port of the loopback interface.
const SERVING: [&str; 2] = ["--p4runtime", "127.0.0.1:0"];

/// Number of servers.
const SERVERS: usize = 2;

/// Returns the binary to run: a given one, or this repository's, which is built.
pub(crate) fn binary(given: Option<&PathBuf>) -> Result<PathBuf, String> {
    match given {
        Some(binary) => Ok(binary.clone()),
        None => {
            crate::cargo(&["build", "--release", "--package", "cli"])?;
            Ok(crate::target().join("release/polyplane"))
        }
    }
}

/// Network namespace in which processes run.
pub(crate) struct Namespace<'b> {
    netns: Netns,
    binary: &'b Path,
}

impl Namespace<'_> {
    pub(crate) fn new(binary: &Path) -> Result<Namespace<'_>, String> {
        let netns = Netns::create().map_err(|error| error.to_string())?;
        // Processes reach each other by the namespace's own loopback interface.
        let mut rtnl = netns.rtnl().map_err(|error| error.to_string())?;
        rtnl.set_up("lo").map_err(|error| error.to_string())?;
        Ok(Namespace { netns, binary })
    }

    pub(crate) fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Starts a process, and waits until it serves P4Runtime.
    pub(crate) fn start(&self, name: &str, words: &[&str]) -> Result<Process, String> {
        let mut command = Command::new(self.binary);
        command
            .args(words)
            .args(SERVING)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let spawned = self.netns.run(|| command.spawn());
        let spawned = spawned.map_err(|error| error.to_string())?;
        let mut child = spawned.map_err(|error| format!("cannot start {name}: {error}"))?;
        let said = child.stderr.take().map(|said| BufReader::new(said).lines());
        let mut said = said.into_iter().flatten().map_while(Result::ok);
        let mut before = Vec::new();
        for line in said.by_ref() {
            if let Some((_, rest)) = line.split_once(" served at ") {
                let address = rest.split(';').next().unwrap_or_default().to_owned();
                let name = name.to_owned();
                let of = name.clone();
                // Other output must not fill the pipe.
                std::thread::spawn(move || said.for_each(|line| eprintln!("{of}: {line}")));
                return Ok(Process {
                    name,
                    child,
                    address,
                });
            }
            before.push(line);
        }
        let _ = child.wait();
        Err(format!("{name} did not start: {}", before.join("; ")))
    }

    /// Runs a command to its end, and returns the JSON that it prints.
    pub(crate) fn json(&self, words: &[&str]) -> Result<Value, String> {
        let mut command = Command::new(self.binary);
        command.args(words).arg("--json").stderr(Stdio::inherit());
        let run = self.netns.run(|| command.output());
        let run = run.map_err(|error| error.to_string())?;
        let output = run.map_err(|error| format!("cannot run {words:?}: {error}"))?;
        if !output.status.success() {
            return Err(format!("{} failed", words.join(" ")));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| format!("{words:?}: {error}"))
    }
}

/// Process that serves P4Runtime. It is killed when dropped.
pub(crate) struct Process {
    pub(crate) name: String,
    child: Child,
    pub(crate) address: String,
}

impl Process {
    /// Returns the resident memory in KiB: now, and at most so far.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            number.and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        (field("VmRSS:"), field("VmHWM:"))
    }

    /// Returns the processor time in seconds.
    pub(crate) fn processor_seconds(&self) -> f64 {
        let path = format!("/proc/{}/stat", self.child.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // Fields 14 and 15, in hundredths; the name before may have spaces.
        let fields = text.rsplit(") ").next().unwrap_or_default();
        let fields: Vec<&str> = fields.split(' ').collect();
        let number = |at: usize| -> u64 {
            let field = fields.get(at - 3).and_then(|field| field.parse().ok());
            field.unwrap_or(0)
        };
        (number(14) + number(15)) as f64 / 100.0
    }
}

impl Process {
    fn kill(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Switch, servers and coordinator of a program.
pub(crate) struct SplitProcesses {
    pub(crate) switch: Process,
    pub(crate) servers: Vec<Process>,
    pub(crate) control: Process,
    /// Arguments of the coordinator.
    control_words: Vec<String>,
}

impl SplitProcesses {
    /// Starts the processes: the switch with these ports, of which those from 2 on lead to the
    /// servers, the servers with one port each, and the coordinator with these further options.
    /// Waits until all are connected.
    pub(crate) fn start(
        namespace: &Namespace<'_>,
        program: &str,
        (ports, links): (&[String], &[String; SERVERS]),
        options: &[&str],
    ) -> Result<SplitProcesses, String> {
        let mut words = vec!["split", "switch", program];
        let at_ports = ports.iter().flat_map(|port| ["--port", port]);
        words.extend(at_ports);
        words.extend(["--server", "1=2", "--server", "2=3"]);
        let switch = namespace.start("switch", &words)?;
        let mut servers = Vec::new();
        for (at, link) in links.iter().enumerate() {
            let id = (at + 1).to_string();
            let words = [
                &["split", "server", program, "--id", &id][..],
                &["--group-size", "2", "--port", link],
            ];
            servers.push(namespace.start(&format!("server {id}"), &words.concat())?);
        }
        let addresses = servers.iter().enumerate();
        let addresses: Vec<String> = addresses
            .map(|(at, server)| format!("{}={}", at + 1, server.address))
            .collect();
        let mut words = vec!["split", "control", program, "--switch", &switch.address];
        words.extend(addresses.iter().flat_map(|address| ["--server", address]));
        words.extend(options);
        let control = namespace.start("control", &words)?;
        let control_words = words.into_iter().map(str::to_owned).collect();
        let processes = SplitProcesses {
            switch,
            servers,
            control,
            control_words,
        };
        processes.wait(namespace)?;
        Ok(processes)
    }

    /// Kills the coordinator and starts another one, which gets the entries of handlers from the
    /// servers. Waits until all are connected.
    pub(crate) fn restart_control(&mut self, namespace: &Namespace<'_>) -> Result<(), String> {
        self.control.kill();
        let words: Vec<&str> = self.control_words.iter().map(String::as_str).collect();
        self.control = namespace.start("control", &words)?;
        self.wait(namespace)
    }

    /// Returns the state that the coordinator reports.
    pub(crate) fn status(&self, namespace: &Namespace<'_>) -> Result<Value, String> {
        namespace.json(&["split", "status", "--addr", &self.control.address])
    }

    fn wait(&self, namespace: &Namespace<'_>) -> Result<(), String> {
        for _ in 0..200 {
            let state = self.status(namespace)?;
            let planes = state["planes"].as_array().into_iter().flatten();
            if planes.clone().count() == SERVERS + 1
                && planes.clone().all(|plane| plane["is_connected"] == true)
            {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        Err("the planes did not connect".to_owned())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Process> {
        let planes = [&self.switch].into_iter().chain(&self.servers);
        planes.chain([&self.control])
    }
}
