//! `polyplane pof`: a POF switch on real interfaces. `polyplane pof ctl` is a small controller.

mod ctl;
mod metrics;
pub(crate) mod program;
mod show;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use offload_runtime::OffloadSetup;
use pof::model::port::MAX as LAST_PORT;
use pof::model::{ObjectName, TableType};
use pof::tables::{Limits, TableNumber, Tables};
use pof::text::TABLE_TYPES;
use pof::wire::Port as PortDescription;
use pof::{ForwarderOptions, OnMiss};
use pof_runtime::{
    ControllerAddress, DescribedPort, Fail, Listen, PofReport, PofSwitch, Stop, StoredState,
    SwitchOptions, pof_roles,
};
use port::PortSpec;
use runtime::{MetricsServer, MetricsSource, ProcessSetup, WorkerConfig};

use crate::args::Io;
use crate::engine::Choice;
use crate::log::{self, Verbosity};
use crate::offload::arguments::{OffloadArguments, OffloadPorts};
use crate::run::Workers;
use crate::{Ended, out, run};
use tls::TlsFiles;

#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Example, a switch and its controller in two terminals:\n  sudo polyplane pof --listen 127.0.0.1:6633 --port 0=eth0 --port 1=eth1\n  \
                  polyplane pof ctl 127.0.0.1:6633 do 'table add mm/0 size 8 fields in_port=meta:16/8'\n  \
                  polyplane pof ctl 127.0.0.1:6633 do 'flow add mm/0 match meta:16/8=0 do output 1'\n\nThe switch dials each --controller again and \
                  again, and goes on forwarding meanwhile. Of several controllers one may be master; slaves only read. docs/how-to/pof.md shows the \
                  steps, `polyplane pof ctl --help` the text of tables and flows.\n\nStops on SIGINT (Ctrl-C), SIGTERM and SIGHUP with a final report. \
                  Exit status: 0 when stopped by a signal, 1 for errors, 2 for wrong usage."
)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    switch: SwitchArguments,
}

#[derive(Subcommand)]
enum Command {
    /// Make, change and show the tables and flows of a switch.
    Ctl(ctl::Options),
}

#[derive(Args)]
struct SwitchArguments {
    /// A controller to dial: tcp:HOST:PORT or tls:HOST:PORT. Give one for each.
    #[arg(long = "controller", value_name = "ADDRESS")]
    controllers: Vec<ControllerAddress>,
    /// Take connections of controllers here, for tools and tests.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// A switch port and its interface; `tap:NAME` creates a TAP device, `ring:NAME` is shared
    /// memory with another process. Give one for each port.
    #[arg(long = "port", value_name = "NUMBER=INTERFACE", required = true)]
    ports: Vec<PortSpec>,
    /// Packet I/O of ports on interfaces.
    #[arg(long, value_enum, default_value_t)]
    io: Io,
    #[command(flatten)]
    workers: Workers,
    #[command(flatten)]
    choice: Choice,
    /// Treatment of packets while no controller is connected.
    #[arg(long, value_enum, default_value_t)]
    fail: FailMode,
    /// Treatment of packets that no entry matches.
    #[arg(long, value_enum, default_value_t)]
    miss: Miss,
    /// Keep tables, flows, groups and meters in this directory, and begin with what it has. Counts
    /// begin at 0. Without it all is lost with the switch.
    #[arg(long = "state", value_name = "DIR")]
    state: Option<PathBuf>,
    /// The number by which controllers know the switch.
    #[arg(long, value_name = "N", default_value_t = 1)]
    device_id: u32,
    #[command(flatten)]
    tls: TlsFiles,
    /// Also write a report at this interval, not only at the end; with --json each is one line.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: Option<u64>,
    /// Write reports as JSON.
    #[arg(long)]
    json: bool,
    /// Serve metrics for Prometheus at this loopback address, such as 127.0.0.1:9100
    /// (docs/reference/metrics.md).
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    offload: OffloadArguments,
    /// Log on standard error: off, error, warn, info or debug; with `json,` before it, as lines of
    /// JSON.
    #[arg(long, value_name = "[json,]LEVEL", default_value_t)]
    log: Verbosity,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum FailMode {
    /// The entries forward them.
    #[default]
    Secure,
    /// Each is sent to all ports but its own, as by a hub.
    Standalone,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Miss {
    /// They go to the controllers.
    #[default]
    Controller,
    /// They are dropped.
    Drop,
}

impl Options {
    /// Returns true if the command runs until it is stopped.
    pub(crate) fn follows(&self) -> bool {
        match &self.command {
            None => true,
            Some(Command::Ctl(options)) => options.follows(),
        }
    }
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    match &options.command {
        Some(Command::Ctl(options)) => ctl::run(options, early),
        None => run_switch(&options.switch, early),
    }
}

fn run_switch(options: &SwitchArguments, early: &ProcessSetup) -> Result<Ended, String> {
    log::begin(options.log);
    if options.controllers.is_empty() && options.listen.is_none() {
        return Err(
            "no controller can reach the switch; give --controller tcp:HOST:PORT, or --listen ADDRESS"
                .to_owned(),
        );
    }
    if options.offload.is_given() && matches!(options.fail, FailMode::Standalone) {
        return Err(
            "--fail standalone floods packets, and a NIC goes on by the entries: leave out one of --offload and --fail standalone"
                .to_owned(),
        );
    }
    MetricsServer::check(options.metrics)?;
    let (mut workers, _) = options.workers.begin(1);
    let tls = options.tls.read()?;
    let listen = options.listen.map(|address| Listen::open(address, &tls));
    let listen = listen.transpose().map_err(|error| error.to_string())?;
    let stored = options.state.as_deref().map(StoredState::open).transpose();
    let stored = stored.map_err(|error| error.to_string())?;
    if let Some(stored) = stored.as_ref().filter(|stored| !stored.is_empty()) {
        let count = crate::amount::count(stored.len() as u64, "object");
        out::note(&format!(
            "the switch goes on with its stored state: {count}"
        ));
    }
    let ports = open_ports(options)?;
    let switch_options = SwitchOptions {
        offload: offload_setup(options)?,
        workers: workers.pop().unwrap_or_default(),
        ..switch_options(options)
    };
    let mut switch =
        PofSwitch::new(switch_options, ports, stored).map_err(|error| error.to_string())?;
    let (source, asked) = MetricsSource::of_pof(options.device_id.into(), switch.offload_handle());
    let _metrics = run::serve_metrics(options.metrics, vec![source])?;
    for controller in &options.controllers {
        let dialed = switch.dial(controller, &tls);
        dialed.map_err(|error| format!("controller {controller}: {error}"))?;
        out::note(&format!("controller {controller} is dialed"));
    }
    if let Some(listen) = listen {
        let address = listen.address().map_err(|error| error.to_string())?;
        switch.listen(listen).map_err(|error| error.to_string())?;
        out::note(&format!("POF is served at {address}"));
    }
    out::note("the switch is running; Ctrl-C stops it");
    let stop = Stop {
        is_over: &|| early.take_signal().is_some(),
        fd: early.signal_fd(),
    };
    let every = options.every.map(Duration::from_secs);
    let mut reported = Instant::now();
    let mut tick = |switch: &mut PofSwitch| {
        asked.answer(|| metrics::sample(&switch.report()));
        if every.is_some_and(|every| reported.elapsed() >= every) {
            reported = Instant::now();
            show_report(&switch.report(), options, true);
        }
    };
    let ran = switch.run(&stop, &mut |line| out::note(line), &mut tick);
    show_report(&switch.report(), options, every.is_some());
    ran.map_err(|error| error.to_string())?;
    Ok(Ended::Well)
}

fn switch_options(options: &SwitchArguments) -> SwitchOptions {
    SwitchOptions {
        engine: Arc::from(options.choice.engine()),
        forwarder: ForwarderOptions {
            on_miss: match options.miss {
                Miss::Controller => OnMiss::PacketIn,
                Miss::Drop => OnMiss::Drop,
            },
            ..ForwarderOptions::default()
        },
        device: options.device_id,
        fail: match options.fail {
            FailMode::Secure => Fail::Secure,
            FailMode::Standalone => Fail::Standalone,
        },
        offload: None,
        workers: WorkerConfig::default(),
    }
}

/// Returns the offload of flows, if any. The ports must be open.
fn offload_setup(options: &SwitchArguments) -> Result<Option<OffloadSetup>, String> {
    let of = OffloadPorts {
        device: options.device_id.into(),
        ports: &options.ports,
        controllers: Vec::new(),
        keeps_entries: true,
        table_name,
    };
    let ids = options.ports.iter();
    let ids: Vec<u16> = ids
        .filter_map(|spec| u16::try_from(spec.id.0).ok())
        .collect();
    options.offload.setup(of, pof_roles(&ids), table_of)
}

/// Returns the name in the program of a table such as `mm/0`.
fn table_of(name: &str) -> Result<String, String> {
    let tables = Tables::new(Limits::default());
    let found = name.split_once('/').and_then(|(kind, id)| {
        let at = TABLE_TYPES.iter().position(|known| *known == kind)?;
        tables.number(TableType::ALL[at], id.parse().ok()?)
    });
    let number = found.ok_or_else(|| {
        format!("--offload-table {name}: `{name}` is no table; write mm/N, lpm/N, em/N or linear/N")
    })?;
    Ok(format!("t{}", number.0))
}

/// Returns the name for users, such as `mm/0`, of a table of the program.
fn table_name(in_program: &str) -> String {
    let number = in_program
        .strip_prefix('t')
        .and_then(|number| number.parse().ok());
    let Some(number) = number.map(TableNumber) else {
        return in_program.to_owned();
    };
    let tables = Tables::new(Limits::default());
    let id = tables.id_in_type(number);
    let kinds = TABLE_TYPES.iter().zip(TableType::ALL);
    let mut kinds = kinds.filter(|(_, kind)| tables.number(*kind, id) == Some(number));
    kinds
        .next()
        .map_or_else(|| in_program.to_owned(), |(kind, _)| format!("{kind}/{id}"))
}

/// Opens the ports, each with its description for controllers.
fn open_ports(options: &SwitchArguments) -> Result<Vec<DescribedPort>, String> {
    PortSpec::check_distinct(&options.ports).map_err(|error| error.to_string())?;
    let mut ports = Vec::new();
    for spec in &options.ports {
        let id = u16::try_from(spec.id.0).ok();
        let id = id.filter(|id| *id <= LAST_PORT).ok_or_else(|| {
            format!("port {spec}: POF has ports up to {LAST_PORT}; give a smaller number")
        })?;
        let opened = run::open(spec, options.io, options.workers.number())?;
        run::tell_ports("", std::slice::from_ref(&opened));
        let interfaces = port::interfaces().unwrap_or_default();
        let interface = interfaces.iter().find(|one| one.name == spec.name());
        let plain = pof::port(options.device_id, id, spec.name());
        let description = PortDescription {
            name: ObjectName::new(spec.name()),
            address: interface.map_or(plain.address, |interface| interface.address),
            ..plain
        };
        ports.push((description, opened));
    }
    Ok(ports)
}

fn show_report(report: &PofReport, options: &SwitchArguments, is_one_of_several: bool) {
    match (options.json, is_one_of_several) {
        (true, true) => out::json_line(report),
        (true, false) => out::json(report),
        (false, _) => out::text(&report.text()),
    }
}
