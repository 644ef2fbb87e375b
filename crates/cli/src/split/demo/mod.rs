//! `polyplane split demo`: the source NAT over a switch and servers between two Linux hosts, with
//! real traffic while the group of servers changes.
//!
//! Hosts, switch, servers and coordinator are in network namespaces that vanish with the process.
//! On machines that forbid them, the same program is simulated. Program and entries are in the
//! binary: the demo needs no files, but a C compiler.

mod network;
mod processes;
mod traffic;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use clap::Args;
use p4info::polyplane::split::v1 as wire;
use port::Privilege;
use runtime::ProcessSetup;
use serde::Serialize;

use crate::engine::Choice;
use crate::live::{self, LiveLine};
use crate::{Ended, amount, out};
use network::Network;
use processes::Processes;
use traffic::{Connections, Progress, Volume};

/// The program, its entries, and a topology for a simulation.
const PROGRAM: &str = include_str!("../../../../../examples/split/snat.p4c");
const ENTRIES: &str = include_str!("../../../../../examples/split/snat.entries");
const TOPOLOGY: &str = include_str!("../../../../../examples/split/snat.toml");

/// Simulated seconds without namespaces.
const SIMULATED_SECONDS: u64 = 60;

/// Interval of progress lines.
const INTERVAL: Duration = Duration::from_millis(200);

/// Width of the progress bar in characters.
const BAR: usize = 30;

#[derive(Args)]
#[command(
    after_help = "Hosts, switch and servers are network namespaces and processes of this one, and vanish with it. Without the right to create namespaces \
                  the same program is simulated.\n\nExit status: 0 only if all data arrived intact."
)]
pub(in crate::split) struct Options {
    /// Number of TCP connections, one after the other in four threads.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    connections: u32,
    /// Data of each connection in kilobytes.
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    kilobytes: u32,
    #[command(flatten)]
    choice: Choice,
    /// Write the report as JSON.
    #[arg(long)]
    json: bool,
    /// Create no namespaces: simulate.
    #[arg(long)]
    simulate: bool,
}

/// Report of the demo.
#[derive(Serialize)]
struct Report {
    intact: bool,
    connections: u32,
    failed_connections: u32,
    bytes: u64,
    seconds: f64,
    /// Packets that the switch received without those of servers, and those of them that went to
    /// servers.
    packets: u64,
    requests: u64,
    unanswered: u64,
    changes: Vec<Change>,
    tables: Vec<Table>,
}

/// A change of the group.
#[derive(Serialize)]
struct Change {
    name: String,
    known_flows: u64,
    pinned_flows: u64,
}

/// A mirrored table at the end.
#[derive(Serialize)]
struct Table {
    name: String,
    entries: u64,
    in_switch: u64,
}

/// Directory with the files of the demo, which is removed at the end.
struct Files(PathBuf);

impl Files {
    fn write() -> Result<Files, String> {
        let directory = std::env::temp_dir().join(format!("polyplane-demo-{}", std::process::id()));
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        std::fs::create_dir(&directory).map_err(failed)?;
        let files = Files(directory.clone());
        let all = [
            ("snat.p4c", PROGRAM),
            ("snat.entries", ENTRIES),
            ("snat.toml", TOPOLOGY),
        ];
        for (name, text) in all {
            std::fs::write(directory.join(name), text).map_err(failed)?;
        }
        Ok(files)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // It is in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Options {
    /// Returns true if the demo needs namespaces.
    pub(in crate::split) fn wants_hosts(&self) -> bool {
        !self.simulate
    }

    pub(in crate::split) fn run(&self, early: &ProcessSetup) -> Result<Ended, String> {
        let files = Files::write()?;
        let network = match &early.private {
            None => return self.simulate(&files, early),
            Some(Err(error)) => Err(error.to_string()),
            Some(Ok(privilege)) => Network::connect().map(|network| (*privilege, network)),
        };
        match network {
            Ok((privilege, network)) => self.carry(privilege, &network, &files, early),
            Err(why) => {
                out::note(&format!("no hosts to connect: {why}"));
                out::note("the same program is simulated instead:");
                self.simulate(&files, early)
            }
        }
    }

    fn simulate(&self, files: &Files, early: &ProcessSetup) -> Result<Ended, String> {
        let topology = files.path("snat.toml");
        let simulated = (SIMULATED_SECONDS, self.choice, self.json);
        crate::fabric::simulate_file(&topology, simulated, early)
    }

    fn carry(
        &self,
        privilege: Privilege,
        network: &Network,
        files: &Files,
        early: &ProcessSetup,
    ) -> Result<Ended, String> {
        let right = match privilege {
            Privilege::Administrator => "as root",
            Privilege::UserNamespace => "without root",
        };
        out::note(&format!(
            "two hosts of Linux network namespaces ({right}): {} -- switch with snat.p4c -- {}; three servers",
            network.inside.address, network.outside.address
        ));
        let program = files.path("snat.p4c");
        let mut processes = Processes::start(&program, &files.path("snat.entries"), self.choice)?;
        let volume = Volume {
            connections: self.connections,
            bytes: u64::from(self.kilobytes) * 1000,
        };
        let progress = Arc::new(Progress::default());
        let connections = Connections::start(network, volume, &progress)?;
        let changed = self.change_group(&mut processes, &program, &progress, early);
        if changed.is_err() {
            progress.is_cancelled.store(true, Relaxed);
        }
        let carried = connections.finish()?;
        let changes = changed?;
        // The switch reports its counts every second.
        std::thread::sleep(Duration::from_millis(1500));
        let state = processes.status()?;
        processes.stop();
        let group = state.group.unwrap_or_default();
        let table = |table: &wire::MirroredState| Table {
            name: table.name.clone(),
            entries: table.entries,
            in_switch: table.in_switch,
        };
        let report = Report {
            intact: carried.failed.is_empty() && carried.intact == self.connections,
            connections: carried.intact,
            failed_connections: carried.failed.len() as u32,
            bytes: carried.bytes,
            seconds: carried.took.as_secs_f64(),
            packets: group.packets,
            requests: group.sent,
            unanswered: group.unanswered,
            changes,
            tables: state.tables.iter().map(table).collect(),
        };
        for error in &carried.failed {
            out::note(error);
        }
        report.show(self.json);
        Ok(match report.intact {
            true => Ended::Well,
            false => Ended::WithErrors,
        })
    }

    /// Lets a server join after a third of the connections, and another one leave after two thirds.
    fn change_group(
        &self,
        processes: &mut Processes,
        program: &Path,
        progress: &Progress,
        early: &ProcessSetup,
    ) -> Result<Vec<Change>, String> {
        let mut line = LiveLine::new();
        let mut changes: Vec<Change> = Vec::new();
        let all = u64::from(self.connections);
        loop {
            if let Some(signal) = early.take_signal() {
                return Err(format!("interrupted by {signal}"));
            }
            let done = u64::from(progress.connections.load(Relaxed));
            let bytes = amount::bytes(progress.bytes.load(Relaxed));
            line.show(&format!("TCP {} {bytes}", live::bar(done, all, BAR)));
            let due = match changes.len() {
                0 => done >= all / 3,
                1 => done >= 2 * all / 3,
                _ => false,
            };
            if due {
                let task = match changes.is_empty() {
                    true => processes.join(program, 3)?,
                    false => wire::operate_request::Task::Leave(1),
                };
                let change = processes.change(task, early)?;
                line.note(&format!(
                    "{}: {} known, {} pinned",
                    change.name,
                    amount::count(change.known, "flow"),
                    change.pinned
                ));
                changes.push(Change {
                    name: change.name,
                    known_flows: change.known,
                    pinned_flows: change.pinned,
                });
            }
            if done >= all && changes.len() == 2 {
                return Ok(changes);
            }
            std::thread::sleep(INTERVAL);
        }
    }
}

impl Report {
    fn show(&self, json: bool) {
        if json {
            out::json(self);
            return;
        }
        let rate = self.bytes as f64 * 8.0 / self.seconds.max(1e-9) / 1e6;
        out::line(&format!(
            "{}, {} in {:.1} s ({rate:.0} Mbit/s), {} failed",
            amount::count(self.connections.into(), "connection"),
            amount::bytes(self.bytes),
            self.seconds,
            self.failed_connections
        ));
        let in_switch = self.packets.saturating_sub(self.requests);
        out::line(&format!(
            "{}: {in_switch} in the switch alone, {} over servers ({} not answered)",
            amount::count(self.packets, "packet"),
            self.requests,
            self.unanswered
        ));
        for table in &self.tables {
            out::line(&format!(
                "{}: {} entries, {} of them in the switch",
                table.name, table.entries, table.in_switch
            ));
        }
        out::line(match self.intact {
            true => "all data arrived intact, while a server joined and one left",
            false => "data was lost or changed",
        });
    }
}

/// Waits until `is_done` returns true.
///
/// # Errors
/// It takes too long, or a signal arrives.
fn wait_for(
    what: &str,
    early: Option<&ProcessSetup>,
    mut is_done: impl FnMut() -> Result<bool, String>,
) -> Result<(), String> {
    const LIMIT: Duration = Duration::from_secs(60);
    let start = Instant::now();
    while !is_done()? {
        if let Some(signal) = early.and_then(ProcessSetup::take_signal) {
            return Err(format!("interrupted by {signal}"));
        }
        if start.elapsed() > LIMIT {
            return Err(format!(
                "{what}: not complete after {}",
                amount::time(LIMIT)
            ));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
