//! `polyplane reflex run` without a fabric, and `polyplane reflex member`: the process of a plane.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::reflex::{ElementDevice, Loops, MonitorIndex, PlaneDriver, ReflexPlane};
use clap::Args;
use p4rt::client::Tls;
use packet::Nanos;
use reflex_runtime::{PlaneEvent, PlaneObserver, PlaneProcess, ProcessCounts, ProcessOptions};
use runtime::ProcessSetup;
use serde_json::Value;
use support::amount;
use terminal::live::LiveLine;

use super::programs::Reload;
use super::show::{self, Report};
use crate::address::pem;
use crate::engine::Choice;
use crate::{Ended, out};

/// Options of a process.
#[derive(Args)]
pub(super) struct LiveOptions {
    /// Serve `polyplane reflex show`, `watch` and `kv` at this UNIX socket, in a real run.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Poll for this number of microseconds after the last report before sleeping, in a real run:
    /// reports are taken sooner, and a core is busy.
    #[arg(long, value_name = "US", default_value_t = 0)]
    spin: u64,
}

impl LiveOptions {
    /// Returns true if an option of real runs is given.
    pub(super) fn is_given(&self) -> bool {
        self.control.is_some() || self.spin > 0
    }
}

#[derive(Args)]
#[command(
    after_help = "Give each node of [store] an address, and start one process for each. All read the same file. The node that leads sends commands to switches; \
                  decisions of the others are proposed to it. Votes and entries are kept in [store] dir, so a killed process is started again with the same \
                  command.\n\nStops on SIGINT, SIGTERM and SIGHUP. Exit status: 0; 1 for errors, also for changes that are at no switch at the end; 2 for wrong usage."
)]
pub(super) struct MemberOptions {
    /// The loop file.
    #[arg(value_name = "LOOPS.toml")]
    loops: PathBuf,
    /// The node of the store that this process is.
    #[arg(long)]
    name: String,
    /// Maximum time in seconds.
    #[arg(long, value_name = "S", value_parser = super::run::seconds)]
    seconds: Option<Duration>,
    #[command(flatten)]
    live: LiveOptions,
    #[command(flatten)]
    choice: Choice,
    /// Write JSON: an event a line, then the counts.
    #[arg(long)]
    json: bool,
}

/// A run of a process.
pub(super) struct LiveRun<'a> {
    pub(super) file: &'a Path,
    /// Place of its node in the list of the store, if the nodes are in several processes.
    pub(super) node: Option<usize>,
    pub(super) time: Option<Duration>,
    pub(super) json: bool,
    /// Engine of monitors that are programs.
    pub(super) choice: Choice,
    /// File of a capture of each source.
    pub(super) captures: Vec<Option<PathBuf>>,
}

pub(super) fn member(options: &MemberOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let loops = super::read(&options.loops)?;
    let nodes = &loops.store.nodes;
    let Some(node) = nodes.iter().position(|node| *node == options.name) else {
        let (name, all) = (&options.name, nodes.join(", "));
        return Err(format!(
            "the store has no node \"{name}\"; name one of: {all}"
        ));
    };
    if !loops.store.transport.is_between_processes() {
        return Err(format!(
            "{} gives its nodes no addresses; write nodes = [{{ name = \"{}\", address = \"ADDRESS:PORT\" }}, ..], or ring = \"NAME\" for nodes on one machine, or use `polyplane reflex run`",
            options.loops.display(),
            options.name
        ));
    }
    let run = LiveRun {
        file: &options.loops,
        node: Some(node),
        time: options.seconds,
        json: options.json,
        choice: options.choice,
        captures: Vec::new(),
    };
    self::run(loops, &run, &options.live, early)
}

pub(super) fn run(
    loops: Loops,
    run: &LiveRun<'_>,
    options: &LiveOptions,
    early: &ProcessSetup,
) -> Result<Ended, String> {
    if run.node.is_none() && loops.store.transport.is_between_processes() {
        let (file, name) = (run.file.display(), &loops.store.nodes[0]);
        return Err(format!(
            "the nodes of the store are in several processes: start each with `polyplane reflex member {file} --name {name}`"
        ));
    }
    let folder = run.file.parent().unwrap_or(Path::new(""));
    let process_options = ProcessOptions {
        folder: folder.to_owned(),
        tls: tls(&loops, run.file)?,
        node: run.node,
        control: options.control.clone(),
        spin: Duration::from_micros(options.spin),
        captures: run.captures.clone(),
    };
    early.begin_work();
    let process = PlaneProcess::open(loops, &process_options);
    let mut process = process.map_err(|error| error.to_string())?;
    super::set_topology(process.plane_mut(), run.file)?;
    let start = process.started();
    super::programs::set(process.plane_mut(), run.file, run.choice, start)?;
    show::keys_text(process.driver())
        .iter()
        .for_each(|line| out::note(line));
    for warning in process.warnings() {
        out::note(&format!("warning: {warning}"));
    }
    let name = process.driver().plane().loops().name.clone();
    let node = run
        .node
        .map(|at| &process.driver().plane().loops().store.nodes[at]);
    let at = options.control.as_deref();
    out::note(&format!(
        "{name}: running{}{}",
        node.map_or(String::new(), |node| format!(" as node {node}")),
        at.map_or(String::new(), |at| format!(", control at {}", at.display()))
    ));
    let mut printer = Printer {
        file: run.file,
        choice: run.choice,
        json: run.json,
        start,
        line: LiveLine::new(),
        reload: None,
    };
    let ran = process.run(early.signal_fd(), run.time, &mut printer);
    printer.line.clear();
    // A signal ends a run well.
    let _ = early.take_signal();
    let finished = process.finish();
    ran.and(finished).map_err(|error| error.to_string())?;
    let counts = process.counts();
    let report = Report::new(process.driver(), process.now());
    let report = report.with_start(start).with_others(counts.others);
    match run.json {
        true => out::json_line(&show::state(process.driver(), counts, start, process.now())),
        false => out::text(&report.text()),
    }
    let mut is_well = true;
    if let Some(error) = report.error() {
        is_well = false;
        out::error(&error);
    }
    for error in process.source_errors() {
        is_well = false;
        out::error(error);
    }
    Ok(match is_well {
        true => Ended::Well,
        false => Ended::WithErrors,
    })
}

/// Reads the keys and certificates of elements with TLS.
fn tls(loops: &Loops, file: &Path) -> Result<Vec<Option<Tls>>, String> {
    let of = |device: &ElementDevice| {
        let ElementDevice::P4Runtime(device) = device else {
            return Ok(None);
        };
        let Some(files) = &device.tls else {
            return Ok(None);
        };
        let read = |path: &Path, what| pem(&file.with_file_name("").join(path), what);
        let identity = files.identity.as_ref().map(|(certificate, key)| {
            Ok::<_, String>((read(certificate, "CERTIFICATE")?, read(key, "PRIVATE KEY")?))
        });
        Ok(Some(Tls {
            ca: read(&files.ca, "CERTIFICATE")?,
            identity: identity.transpose()?,
            name: files.name.clone(),
        }))
    };
    let elements = loops.elements.iter();
    let tls = elements.map(|element| {
        of(&element.device).map_err(|error: String| {
            let (file, line) = (file.display(), element.line);
            format!("{file}:{line}: element {}: {error}", element.name)
        })
    });
    tls.collect()
}

/// Prints events while a plane runs.
struct Printer<'a> {
    file: &'a Path,
    choice: Choice,
    json: bool,
    start: Nanos,
    line: LiveLine,
    /// The program that is loaded again.
    reload: Option<Reload>,
}

impl PlaneObserver for Printer<'_> {
    fn event(&mut self, driver: &PlaneDriver, event: &PlaneEvent) -> Value {
        let shown = show::event(driver, event);
        if self.json {
            out::json_line(&shown);
        } else if !matches!(event, PlaneEvent::Decision(_)) {
            // Decisions are in the table at the end.
            self.line.note(&show::event_text(&shown));
        }
        shown
    }

    fn state(&mut self, driver: &PlaneDriver, counts: ProcessCounts, now: Nanos) -> Value {
        show::state(driver, counts, self.start, now)
    }

    fn reload(&mut self, plane: &ReflexPlane, monitor: MonitorIndex) -> Result<(), String> {
        if self.reload.is_some() {
            return Err("another program is compiled now: ask again when it is loaded".to_owned());
        }
        let loops = plane.loops();
        let reload = Reload::begin(loops, self.file, self.choice, self.start, monitor)?;
        self.reload = Some(reload);
        Ok(())
    }

    fn reloaded(&mut self, plane: &mut ReflexPlane) -> Option<Result<String, String>> {
        let result = self.reload.as_ref()?.finish(plane)?;
        self.reload = None;
        Some(result)
    }

    fn progress(&mut self, driver: &PlaneDriver) {
        if self.line.is_due() {
            let counts = driver.plane().counts();
            let received = amount::count(counts.received, "datagram");
            let commands = amount::count(counts.commands, "command");
            self.line.show(&format!("{received}, {commands}"));
        }
    }
}
