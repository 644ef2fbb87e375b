//! `cargo xtask soak --seconds S`: the real binary under sustained overload, between network
//! namespaces.
//!
//! A generator sends more by a veth pair than the example router takes. Forwarded frames arrive at
//! the other end. The router reports every few seconds, and each report comes with a sample of its
//! memory. [`judge`] checks that it drops only with counted reasons, never stalls and never grows.

mod judge;
mod traffic;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Outcome, split};
use judge::{Sample, judge};
use traffic::{Lab, Sender};

/// Maximum time in which the switch reports that it runs, and in which it ends.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds to run.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..=604_800))]
    seconds: u64,
    /// Workers of the switch.
    #[arg(long, default_value_t = 1)]
    workers: u16,
    /// I/O driver of the ports: auto, xdp or packet.
    #[arg(long, default_value = "auto")]
    io: String,
    /// Seconds between samples (default: a sixtieth of the time).
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,
    /// Bytes of a frame.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Send new flows through the source NAT over a switch, two servers and their coordinator
    /// instead. No process may grow.
    #[arg(long)]
    split: bool,
    /// With --split: minutes to run.
    #[arg(long, default_value_t = 60, requires = "split")]
    minutes: u64,
    /// With --split: new flows in a second.
    #[arg(long, default_value_t = 10_000, requires = "split")]
    flows: u64,
    /// A binary to run (default: this repository's, which is built).
    #[arg(long)]
    binary: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let binary = split::binary(options.binary.as_ref())?;
    if options.split {
        let churn = split::Churn {
            flows_per_second: options.flows,
            time: Duration::from_secs(options.minutes * 60),
        };
        return split::run_churn(root, &binary, &churn);
    }
    let lab = Lab::new()?;
    let every = options.every.unwrap_or((options.seconds / 60).max(1));
    let mut switch = Switch::start(root, &binary, options, &lab, every)?;
    let sender = Sender::start(&lab, options.bytes)?;
    let start = Instant::now();
    let mut samples = Vec::new();
    let mut stalled = None;
    while start.elapsed() < Duration::from_secs(options.seconds) {
        match switch.next_report(Duration::from_secs(every * 3 + 5)) {
            Ok(report) => samples.push(Sample::new(&report, switch.memory(), sender.sent())),
            Err(why) => {
                stalled = Some(why);
                break;
            }
        }
    }
    // The switch runs until all sent frames were received or dropped.
    let offered = sender.stop()?;
    std::thread::sleep(Duration::from_millis(500));
    let cable = lab.lost_on_cable()?;
    let (report, ended_well) = switch.stop()?;
    let last = Sample::new(&report, 0, offered);
    let mut verdict = judge(&samples, &last, &report, cable);
    verdict.extend(stalled);
    if !ended_well {
        verdict.push("the switch did not end with status 0".to_owned());
    }
    let passed = verdict.is_empty();
    let object = json!({
        "seconds": start.elapsed().as_secs_f64(),
        "workers": options.workers,
        "io": switch.how,
        "samples": samples.iter().map(Sample::json).collect::<Vec<Value>>(),
        "end": last.json(),
        "lost_on_cable": cable,
        "arrived_behind": lab.arrived_behind()?,
        "report": report,
        "verdict": if passed { "passed" } else { "failed" },
        "failed_because": verdict,
    });
    println!(
        "{}",
        serde_json::to_string_pretty(&object).map_err(|e| e.to_string())?
    );
    match passed {
        true => Ok(()),
        false => Err("the soak failed".to_owned()),
    }
}

/// The switch process.
struct Switch {
    child: Child,
    /// Reports, line by line.
    lines: std::sync::mpsc::Receiver<String>,
    /// Lines about its ports.
    how: Vec<String>,
}

impl Switch {
    fn start(
        root: &Path,
        binary: &Path,
        options: &Options,
        lab: &Lab,
        every: u64,
    ) -> Result<Switch, String> {
        let router = root.join("examples/router");
        let mut command = Command::new(binary);
        command
            .arg("run")
            .arg(router.join("router.p4"))
            .arg("--entries")
            .arg(router.join("router.entries"))
            .args(["--port", "0=port0", "--port", "1=port1", "--json"])
            .args(["--every", &every.to_string(), "--io", &options.io])
            .args(["--workers", &options.workers.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let spawned = lab.in_switch(|| command.spawn())?;
        let mut child = spawned.map_err(|e| format!("cannot start the switch: {e}"))?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let lines = out.map(|out| BufReader::new(out).lines());
            for line in lines.into_iter().flatten().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut how = Vec::new();
        let said = err.map(|err| BufReader::new(err).lines());
        let mut said = said.into_iter().flatten().map_while(Result::ok);
        for line in said.by_ref() {
            if line.contains(" is running on ") {
                // Other output must not fill the pipe.
                std::thread::spawn(move || said.for_each(|line| eprintln!("switch: {line}")));
                return Ok(Switch { child, lines, how });
            }
            how.push(line);
        }
        Err(format!("the switch did not start: {}", how.join("; ")))
    }

    fn next_report(&mut self, patience: Duration) -> Result<Value, String> {
        let line = self.lines.recv_timeout(patience).map_err(|e| match e {
            RecvTimeoutError::Timeout => format!("no report came in {} s", patience.as_secs()),
            RecvTimeoutError::Disconnected => "the switch has ended by itself".to_owned(),
        })?;
        serde_json::from_str(&line).map_err(|e| format!("a report is no JSON: {e}"))
    }

    /// Returns the resident memory in KiB.
    fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Ends the switch. Returns its last report, and true if the exit status was 0.
    fn stop(&mut self) -> Result<(Value, bool), String> {
        let command = format!("kill -TERM {}", self.child.id());
        let killed = Command::new("sh").args(["-c", &command]).status();
        killed.map_err(|e| format!("cannot signal the switch: {e}"))?;
        let mut last = None;
        while let Ok(report) = self.next_report(PATIENCE) {
            last = Some(report);
        }
        let status = self.child.wait().map_err(|e| e.to_string())?;
        let last = last.ok_or("the switch gave no last report")?;
        Ok((last, status.success()))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // The process has ended, unless an error came before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
