//! Operator commands for a running coordinator: `polyplane split status`, `join`, `leave`,
//! `reload` and `policy`.

use std::fmt::Write;
use std::time::{Duration, Instant};

use clap::Args;
use p4info::polyplane::split::v1 as wire;
use p4info::polyplane::split::v1::operate_request::Task;
use p4rt::client::{ClientError, Code, SplitOperator};
use runtime::ProcessSetup;
use serde::Serialize;

use super::placement::PlacementArgs;
use crate::address::Address;
use crate::amount::count;
use crate::{Ended, out};

/// Interval of questions while a change goes on.
const POLL: Duration = Duration::from_millis(100);

/// Minimum time between two progress lines.
const PROGRESS: Duration = Duration::from_secs(2);

#[derive(Args)]
#[command(
    after_help = "Examples:\n  polyplane split status\n  polyplane split status --json --addr 10.0.0.1:9559"
)]
pub(super) struct Status {
    #[command(flatten)]
    address: Address,
}

#[derive(Args)]
#[command(
    after_help = "The server must run: `polyplane split server P.p4c --id 3 --group-size 4 --p4runtime ADDRESS --port 0=INTERFACE`. The command ends when the group \
                  has changed.\n\nExamples:\n  polyplane split join 3 --address 10.0.0.3:9561 --port 5\n  polyplane split join 2    a server that left"
)]
pub(super) struct Join {
    /// Number of the server.
    #[arg(value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=64))]
    server: u16,
    /// P4Runtime address of the server, if the coordinator does not know it.
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// Port of the switch that leads to the server, if the switch does not know it.
    #[arg(long, value_name = "NUMBER")]
    port: Option<u32>,
    #[command(flatten)]
    coordinator: Address,
}

#[derive(Args)]
#[command(
    after_help = "New flows go to the other servers at once. The process of the server may end when `polyplane split status` no longer lists it."
)]
pub(super) struct Leave {
    /// Number of the server.
    #[arg(value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=64))]
    server: u16,
    #[command(flatten)]
    coordinator: Address,
}

#[derive(Args)]
#[command(
    after_help = "Each server reads its own files, those of its command line, and compiles them beside the traffic. When all have, they take the new \
                  code between two bursts of packets. Only the C code may differ. Variables with the same name and size stay."
)]
pub(super) struct Reload {
    /// Lose variables and pools that the new code does not have in the same form.
    #[arg(long)]
    may_lose: bool,
    #[command(flatten)]
    coordinator: Address,
}

#[derive(Args)]
#[command(
    after_help = "All entries leave the switch, and those that the policy selects come back.\n\nExamples:\n  polyplane split policy --policy threshold \
                  --top 1000 --window 100ms --sketch 8192x2\n  polyplane split policy --policy none"
)]
pub(super) struct Policy {
    #[command(flatten)]
    placement: PlacementArgs,
    #[command(flatten)]
    coordinator: Address,
}

/// State of a coordinator, as JSON.
#[derive(Serialize)]
struct Shown<'s> {
    planes: Vec<ShownPlane<'s>>,
    group: ShownGroup,
    tables: Vec<ShownTable<'s>>,
    policy: ShownPolicy<'s>,
    moves: u64,
    change: Option<ShownChange<'s>>,
    code: Option<ShownCode<'s>>,
    refused: &'s [String],
}

#[derive(Serialize)]
struct ShownPlane<'s> {
    name: &'s str,
    address: &'s str,
    is_connected: bool,
    reason: &'s str,
    /// `member`, `leaving`, `down` or `outside`; absent for the switch.
    membership: Option<&'static str>,
    port: Option<u32>,
    flows: u64,
}

#[derive(Serialize)]
struct ShownGroup {
    pins: u64,
    is_changing: bool,
    error_rate: f64,
    packets: u64,
    requests: u64,
    unanswered: u64,
    lost: u64,
    lost_to_failed: u64,
    held: u64,
    overtaken: u64,
}

#[derive(Serialize)]
struct ShownTable<'s> {
    name: &'s str,
    entries: u64,
    in_switch: u64,
    covers: u64,
    capacity: u64,
    reports: u64,
}

#[derive(Serialize)]
struct ShownPolicy<'s> {
    policy: &'s str,
    order: &'static str,
    nesting: &'s str,
    top: Option<u64>,
    window_packets: u64,
    window_ns: u64,
}

#[derive(Serialize)]
struct ShownChange<'s> {
    name: &'s str,
    known: u64,
    pinned: u64,
    waiting: u64,
    error: &'s str,
    is_complete: bool,
}

#[derive(Serialize)]
struct ShownCode<'s> {
    servers: &'s [u32],
    error: &'s str,
    is_complete: bool,
}

fn membership(group: &wire::GroupState, server: u32) -> &'static str {
    let is_member = group.members.iter().any(|member| member.server == server);
    match (group.down.contains(&server), is_member) {
        (true, _) => "down",
        (false, true) => "member",
        (false, false) if group.leaving.contains(&server) => "leaving",
        (false, false) => "outside",
    }
}

impl<'s> Shown<'s> {
    fn of(state: &'s wire::OperateResponse) -> Shown<'s> {
        let none = &wire::GroupState::default();
        let group = state.group.as_ref().unwrap_or(none);
        let plane = |plane: &'s wire::PlaneState| {
            let mut members = group.members.iter();
            let member = members.find(|member| member.server == plane.server);
            ShownPlane {
                name: &plane.name,
                address: &plane.address,
                is_connected: plane.is_connected,
                reason: &plane.reason,
                membership: (plane.server > 0).then(|| membership(group, plane.server)),
                port: member.and_then(|member| member.port),
                flows: plane.flows,
            }
        };
        let table = |table: &'s wire::MirroredState| ShownTable {
            name: &table.name,
            entries: table.entries,
            in_switch: table.in_switch,
            covers: table.covers,
            capacity: table.capacity,
            reports: table.reports,
        };
        let policy = state.policy.as_ref();
        let placement = policy.and_then(|policy| policy.placement.as_ref());
        let change = state.change.as_ref();
        Shown {
            planes: state.planes.iter().map(plane).collect(),
            group: ShownGroup {
                pins: group.pins,
                is_changing: group.is_changing,
                error_rate: group.error_rate,
                packets: group.packets,
                requests: group.sent,
                unanswered: group.unanswered,
                lost: group.lost,
                lost_to_failed: group.lost_to_failed,
                held: group.held,
                overtaken: group.overtaken,
            },
            tables: state.tables.iter().map(table).collect(),
            policy: ShownPolicy {
                policy: placement.map_or("", |placement| &placement.policy),
                order: match placement.is_some_and(|placement| placement.is_strict) {
                    true => "strict",
                    false => "loose",
                },
                nesting: policy.map_or("", |policy| &policy.nesting),
                top: policy.and_then(|policy| policy.top),
                window_packets: placement.map_or(0, |placement| placement.window_packets),
                window_ns: placement.map_or(0, |placement| placement.window_ns),
            },
            moves: state.moves,
            change: change.map(|change| ShownChange {
                name: &change.name,
                known: change.known,
                pinned: change.pinned,
                waiting: change.waiting,
                error: &change.error,
                is_complete: change.is_complete,
            }),
            code: state.code.as_ref().map(|code| ShownCode {
                servers: &code.servers,
                error: &code.error,
                is_complete: code.is_complete,
            }),
            refused: &state.refused,
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for plane in &self.planes {
            let state = match (plane.is_connected, plane.reason) {
                (true, _) => "connected".to_owned(),
                (false, "") => "not connected yet".to_owned(),
                (false, reason) => format!("not connected: {reason}"),
            };
            let membership = match (plane.membership, plane.port) {
                (Some("member"), Some(port)) => format!(", member at port {port}"),
                (Some(membership), _) => format!(", {membership}"),
                (None, _) => String::new(),
            };
            let (name, address) = (plane.name, plane.address);
            // Writing to a string never fails.
            let _ = writeln!(text, "{name:<10} {address:<22} {state}{membership}");
        }
        let policy = &self.policy;
        let _ = writeln!(
            text,
            "policy {}, order {}, prefixes {}",
            policy.policy, policy.order, policy.nesting
        );
        for table in &self.tables {
            let covers = match table.covers {
                0 => String::new(),
                covers => format!(" and {}", count(covers, "cover")),
            };
            let _ = writeln!(
                text,
                "{}: {}, {} of at most {} in the switch{covers}",
                table.name,
                count_entries(table.entries),
                table.in_switch,
                table.capacity
            );
        }
        let group = &self.group;
        let _ = writeln!(
            text,
            "{}: {} to servers, {} not answered; {} of entries",
            count(group.packets, "packet"),
            count(group.requests, "request"),
            group.unanswered,
            count(self.moves, "move")
        );
        if let Some(change) = &self.change {
            let _ = writeln!(text, "group: {}", change.text());
        }
        if let Some(code) = &self.code {
            let _ = writeln!(text, "C code: {}", code.text());
        }
        for refused in self.refused {
            let _ = writeln!(text, "refused: {refused}");
        }
        text
    }
}

fn count_entries(entries: u64) -> String {
    match entries {
        1 => "1 entry".to_owned(),
        entries => format!("{entries} entries"),
    }
}

impl ShownCode<'_> {
    fn text(&self) -> String {
        let servers = count(self.servers.len() as u64, "server");
        match (self.error, self.is_complete) {
            ("", true) => format!("new on {servers}"),
            ("", false) => format!("{servers} compile it"),
            (error, _) => format!("refused: {error}"),
        }
    }
}

impl ShownChange<'_> {
    fn text(&self) -> String {
        let state = match (self.is_complete, self.error, self.waiting) {
            (true, "", _) => "complete".to_owned(),
            (_, error, _) if !error.is_empty() => format!("failed: {error}"),
            (_, _, 0) => "goes on".to_owned(),
            (_, _, waiting) => format!("waits for the end of {}", count(waiting, "flow")),
        };
        format!(
            "{}: {state} ({} known, {} pinned)",
            self.name,
            count(self.known, "flow"),
            self.pinned
        )
    }
}

/// Connection to a coordinator.
struct Session<'a> {
    operator: SplitOperator,
    address: &'a Address,
}

impl Session<'_> {
    fn open(address: &Address) -> Result<Session<'_>, String> {
        let operator = SplitOperator::connect(&address.endpoint()?);
        let operator = operator.map_err(|error| explain(address, &error))?;
        Ok(Session { operator, address })
    }

    fn operate(&mut self, task: Task) -> Result<wire::OperateResponse, String> {
        self.operator.operate(task).map_err(|error| match &error {
            ClientError::Refused(refused) if refused.code == Code::FailedPrecondition => {
                refused.message.clone()
            }
            ClientError::Refused(refused) if refused.code == Code::Unimplemented => format!(
                "{}: there is no coordinator at this address: give --addr of `polyplane split control`",
                self.address.addr
            ),
            error => explain(self.address, error),
        })
    }

    /// Shows a state.
    fn show(&self, state: &wire::OperateResponse) -> Result<(), String> {
        let shown = Shown::of(state);
        match self.address.json {
            true => out::json(&shown),
            false => out::text(&shown.text()),
        }
        Ok(())
    }

    /// Waits until the change of the group is complete.
    fn wait(
        &mut self,
        mut state: wire::OperateResponse,
        early: &ProcessSetup,
    ) -> Result<Ended, String> {
        let mut next_line = Instant::now() + PROGRESS;
        let mut last_line = String::new();
        loop {
            let shown = Shown::of(&state);
            match &shown.change {
                Some(change) if !change.error.is_empty() => {
                    return Err(format!("{}: {}", change.name, change.error));
                }
                Some(change) if !change.is_complete => {
                    if Instant::now() >= next_line {
                        next_line = Instant::now() + PROGRESS;
                        let line = change.text();
                        if line != last_line {
                            out::note(&line);
                        }
                        last_line = line;
                    }
                }
                Some(change) => {
                    match self.address.json {
                        true => out::json(&shown),
                        false => out::line(&change.text()),
                    }
                    return Ok(Ended::Well);
                }
                None => return Ok(Ended::Well),
            }
            if early.take_signal().is_some() {
                out::note("the change goes on; `polyplane split status` shows it");
                return Ok(Ended::Well);
            }
            std::thread::sleep(POLL);
            state = self.operate(Task::Status(wire::StatusTask {}))?;
        }
    }
}

/// Describes an error and suggests a remedy.
fn explain(address: &Address, error: &ClientError) -> String {
    match error {
        ClientError::Unreachable {
            with_tls: false, ..
        } => format!(
            "{error}; start a coordinator with `polyplane split control`, or name another with \
             --addr HOST:PORT"
        ),
        error => address.explain(error),
    }
}

impl Reload {
    pub(super) fn run(&self, early: &ProcessSetup) -> Result<Ended, String> {
        let mut session = Session::open(&self.coordinator)?;
        let mut state = session.operate(Task::Reload(wire::ReloadTask {
            may_lose: self.may_lose,
        }))?;
        loop {
            let shown = Shown::of(&state);
            match &shown.code {
                Some(code) if !code.error.is_empty() => return Err(code.error.to_owned()),
                Some(code) if code.is_complete => {
                    match self.coordinator.json {
                        true => out::json(&shown),
                        false => out::line(&code.text()),
                    }
                    return Ok(Ended::Well);
                }
                _ => {}
            }
            if early.take_signal().is_some() {
                out::note("the change goes on; `polyplane split status` shows it");
                return Ok(Ended::Well);
            }
            std::thread::sleep(POLL);
            state = session.operate(Task::Status(wire::StatusTask {}))?;
        }
    }
}

impl Status {
    pub(super) fn run(&self) -> Result<Ended, String> {
        let mut session = Session::open(&self.address)?;
        let state = session.operate(Task::Status(wire::StatusTask {}))?;
        session.show(&state)?;
        Ok(Ended::Well)
    }
}

impl Join {
    pub(super) fn run(&self, early: &ProcessSetup) -> Result<Ended, String> {
        let mut session = Session::open(&self.coordinator)?;
        let state = session.operate(Task::Join(wire::JoinTask {
            server: self.server.into(),
            address: self.address.clone().unwrap_or_default(),
            port: self.port,
        }))?;
        session.wait(state, early)
    }
}

impl Leave {
    pub(super) fn run(&self, early: &ProcessSetup) -> Result<Ended, String> {
        let mut session = Session::open(&self.coordinator)?;
        let state = session.operate(Task::Leave(self.server.into()))?;
        session.wait(state, early)
    }
}

impl Policy {
    pub(super) fn run(&self) -> Result<Ended, String> {
        let placement = self.placement.placement()?;
        let task = split_runtime::policy_task(&placement, self.placement.order());
        let mut session = Session::open(&self.coordinator)?;
        let state = session.operate(Task::Policy(task))?;
        session.show(&state)?;
        Ok(Ended::Well)
    }
}
