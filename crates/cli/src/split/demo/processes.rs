//! The processes of the demo: switch, servers and coordinator, in the namespace of this process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use p4info::polyplane::split::v1 as wire;
use p4info::polyplane::split::v1::operate_request::Task;
use p4rt::client::{Endpoint, SplitOperator};
use runtime::ProcessSetup;

use super::network::{SERVERS, server_interface, switch_interface};
use super::wait_for;
use crate::engine::Choice;

/// Servers that share the ports of the NAT.
const GROUP_SIZE: &str = "4";

/// A process that ends with the demo.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processes, and the connection to the coordinator.
pub(super) struct Processes {
    operator: SplitOperator,
    running: Vec<Process>,
    choice: Choice,
}

/// Starts a process. Returns it with the address at which it serves P4Runtime.
fn start(
    task: &str,
    program: &Path,
    arguments: &[String],
    choice: Choice,
) -> Result<(Process, String), String> {
    let own = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let mut command = Command::new(own);
    command.args(["split", task]).arg(program).args(arguments);
    command.args(["--p4runtime", "127.0.0.1:0"]);
    command.args(choice.arguments());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(Stdio::piped()).spawn();
    let failed = |error: std::io::Error| format!("cannot start `split {task}`: {error}");
    let mut process = Process(child.map_err(failed)?);
    let Some(stderr) = process.0.stderr.take() else {
        return Err(format!("`split {task}` has no standard error"));
    };
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let mut said: Vec<String> = Vec::new();
    for line in lines.by_ref() {
        if let Some((_, rest)) = line.split_once(" served at ") {
            let address = rest.split(';').next().unwrap_or(rest).to_owned();
            // Without a reader the process could not write its later lines.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((process, address));
        }
        said.push(line);
    }
    Err(format!("`split {task}` has ended: {}", said.join(" ")))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(ToOwned::to_owned).collect()
}

impl Processes {
    /// Starts two servers, the switch and the coordinator. Returns when all are connected.
    ///
    /// # Errors
    /// A process does not start, with what it has said.
    pub(super) fn start(
        program: &Path,
        entries: &Path,
        choice: Choice,
    ) -> Result<Processes, String> {
        let mut running = Vec::new();
        let mut control = words("--window 100ms");
        for server in 1..SERVERS {
            let (process, address) = start_server(program, server, choice)?;
            running.push(process);
            control.extend(["--server".to_owned(), format!("{server}={address}")]);
        }
        let mut switch = words("--port 0=port0 --port 1=port1");
        for server in 1..=SERVERS {
            let port = server + 1;
            let interface = switch_interface(server);
            switch.extend(["--port".to_owned(), format!("{port}={interface}")]);
        }
        // The last server joins later.
        for server in 1..SERVERS {
            switch.extend(["--server".to_owned(), format!("{server}={}", server + 1)]);
        }
        let (process, address) = start("switch", program, &switch, choice)?;
        running.push(process);
        control.extend(["--switch".to_owned(), address, "--entries".to_owned()]);
        control.push(entries.display().to_string());
        let (process, address) = start("control", program, &control, choice)?;
        running.push(process);
        let endpoint = Endpoint { address, tls: None };
        let operator = SplitOperator::connect(&endpoint).map_err(|error| error.to_string())?;
        let mut processes = Processes {
            operator,
            running,
            choice,
        };
        wait_for("connections to switch and servers", None, || {
            let state = processes.status()?;
            let members = state.group.map_or(0, |group| group.members.len());
            let are_connected = state.planes.iter().all(|plane| plane.is_connected);
            Ok(are_connected && members == usize::from(SERVERS) - 1)
        })?;
        Ok(processes)
    }

    /// Returns the state of the coordinator.
    pub(super) fn status(&mut self) -> Result<wire::OperateResponse, String> {
        let asked = self.operator.operate(Task::Status(wire::StatusTask {}));
        asked.map_err(|error| error.to_string())
    }

    /// Starts a server. Returns the task that lets it join.
    pub(super) fn join(&mut self, program: &Path, server: u16) -> Result<Task, String> {
        let (process, address) = start_server(program, server, self.choice)?;
        self.running.push(process);
        Ok(Task::Join(wire::JoinTask {
            server: server.into(),
            address,
            port: Some(u32::from(server) + 1),
        }))
    }

    /// Changes the group. Returns when the change is complete.
    pub(super) fn change(
        &mut self,
        task: Task,
        early: &ProcessSetup,
    ) -> Result<wire::ChangeState, String> {
        let changed = self.operator.operate(task);
        let changed = changed.map_err(|error| error.to_string())?;
        let mut change = changed.change.unwrap_or_default();
        wait_for("change of the group", Some(early), || {
            change = self.status()?.change.unwrap_or_default();
            Ok(change.is_complete)
        })?;
        match change.error.is_empty() {
            true => Ok(change),
            false => Err(format!("{}: {}", change.name, change.error)),
        }
    }

    /// Stops all processes.
    pub(super) fn stop(mut self) {
        self.running.clear();
    }
}

fn start_server(program: &Path, server: u16, choice: Choice) -> Result<(Process, String), String> {
    let interface = server_interface(server);
    let arguments = format!("--id {server} --group-size {GROUP_SIZE} --port 0={interface}");
    start("server", program, &words(&arguments), choice)
}
