//! `polyplane host`: a switch on real interfaces that hosts virtual data planes, each of which is
//! a P4Runtime device.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use clap::Args;
use p4rt::{Listen, Reach};
use passes::slots::{Capacity, SlotPlan};
use port::PortSpec;
use runtime::tenancy_host::{
    ControlLoop, FIRST_CONTROLLER_PORT, HostEvent, HostOptions, OperatorServer,
};
use runtime::{Ending, MetricsServer, ProcessSetup};
use tracing::level_filters::LevelFilter;

use crate::args::Io;
use crate::capture::{CaptureOptions, RunningCapture};
use crate::config::ConfigOption;
use crate::engine::Choice;
use crate::listen::Guard;
use crate::log::{self, Verbosity};
use crate::run::{self, MissingPorts, PortOpening, Workers};
use crate::service::{CertificateFiles, Reload, Service};
use crate::state::Keeping;
use crate::{Ended, out};

#[derive(Args)]
#[command(
    // Hidden because it is refused: only certificates distinguish operators from tenants.
    mut_arg("anyone_may_control", |arg| arg.hide(true)),
    after_help = "It starts without virtual data planes, or with those of --state; `polyplane tenant` makes and changes them at the same address, under traffic:\n\n  \
                  polyplane host --port 0=eth0 --port 1=eth1 &\n  polyplane tenant create blue --port 0 --port 1 --program router.p4\n  \
                  polyplane ctl --device-id 1 show\n\nWith --metrics 127.0.0.1:9100 Prometheus sees who uses how much of what it may:\n\n  \
                  curl -s http://127.0.0.1:9100/metrics | grep 'vpdp=\"blue\"'\n\nEach virtual data plane is a P4Runtime device whose device_id is its \
                  number. With --tls-client-ca, \
                  --allow NAME=* names the operators; who owns a virtual data plane controls that one alone. docs/how-to/tenants.md has the rest.\n\nStops \
                  on SIGINT (Ctrl-C) and SIGTERM with a final report. SIGHUP reads the certificates again. Exit status: 0 when stopped by a signal, 1 for \
                  errors in what was given or when the last port has gone, 2 for wrong usage, 78 for errors in the file of --config or in files that it \
                  names."
)]
pub(crate) struct Options {
    /// Serve operators and controllers here.
    #[arg(
        long = "p4runtime",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9559"
    )]
    address: SocketAddr,
    #[command(flatten)]
    guard: Guard,
    /// A port of the switch and its interface; `tap:NAME` creates a TAP device, `ring:NAME` is
    /// shared memory with another process. Give one for each port.
    #[arg(long = "port", value_name = "NUMBER=INTERFACE", required = true)]
    ports: Vec<PortSpec>,
    /// Packet I/O of ports on interfaces.
    #[arg(long, value_enum, default_value_t)]
    io: Io,
    /// Treatment of ports without an interface at the start.
    #[arg(long, value_name = "TREATMENT", value_enum, default_value_t)]
    missing_ports: MissingPorts,
    #[command(flatten)]
    workers: Workers,
    /// Share each worker's processor by the weights of virtual data planes while they want more
    /// than it has; without it, first come, first served.
    #[arg(long)]
    fair: bool,
    /// Write the final report as JSON.
    #[arg(long)]
    json: bool,
    /// Serve metrics for Prometheus at this loopback address, such as 127.0.0.1:9100: of the
    /// switch, and of each virtual data plane with its number, its name and its owner
    /// (docs/reference/metrics.md).
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Log of the controllers on standard error: off, error, warn, info or debug; with `json,`
    /// before it, as lines of JSON. Changes of operators are always logged.
    #[arg(long, value_name = "[json,]LEVEL", default_value_t)]
    log: Verbosity,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    keeping: Keeping,
    #[command(flatten)]
    capture: CaptureOptions,
    #[command(flatten)]
    config: ConfigOption,
    // Last: options after it would be listed under its heading.
    #[command(flatten)]
    slots: SlotOptions,
}

/// The stage slots of the switch.
#[derive(Args)]
#[command(next_help_heading = "Stage slots")]
struct SlotOptions {
    /// Number of stage slots for all programs; a longer program continues in further turns
    /// through them. Default: as many as programs take.
    #[arg(long = "slots", value_name = "N", value_parser = read_slots)]
    count: Option<NonZeroU16>,
    /// Number of tables that a slot holds.
    #[arg(long = "slot-tables", value_name = "N")]
    tables: Option<u64>,
    /// Number of entries that the tables of a slot have, by their declared sizes.
    #[arg(long = "slot-entries", value_name = "N")]
    entries: Option<u64>,
    /// Bytes that the entries of a slot take: keys, masks and arguments.
    #[arg(long = "slot-memory", value_name = "BYTES")]
    memory: Option<u64>,
}

fn read_slots(word: &str) -> Result<NonZeroU16, String> {
    let read = word.parse();
    read.map_err(|_| {
        format!(
            "a switch has 1 to {} slots; without --slots, as many as programs take",
            u16::MAX
        )
    })
}

impl SlotOptions {
    fn plan(&self) -> SlotPlan {
        SlotPlan {
            slots: self.count,
            capacity: Capacity {
                tables: self.tables,
                entries: self.entries,
                memory: self.memory,
            },
        }
    }
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    early.expect_hangup();
    log::begin(options.log);
    let (mut habits, urgency) = options.workers.begin(1);
    let listen = match check_files(options) {
        Ok(listen) => listen,
        Err(error) => {
            out::error(&error);
            return Ok(Ended::Misconfigured);
        }
    };
    let stored = options.keeping.open_host()?;
    let server = OperatorServer::start(listen, urgency)?;
    let certificates = CertificateFiles {
        server: server.certificates(),
        guard: options.guard.clone(),
        address: options.address,
    };
    let opening = PortOpening {
        io: options.io,
        missing: options.missing_ports,
        workers: options.workers.number(),
        needs_one: true,
        kernel: None,
    };
    let opened = run::open_all(&options.ports, &opening)?;
    run::tell_ports("", &opened);
    let specs: Vec<String> = options.ports.iter().map(PortSpec::to_string).collect();
    out::note(&format!(
        "virtual data planes are hosted on {}; operators and controllers are served at {}; Ctrl-C stops it",
        specs.join(", "),
        server.address()
    ));
    let setup = HostOptions {
        engine: Arc::from(options.choice.engine()),
        workers: habits.pop().unwrap_or_default(),
        slots: options.slots.plan(),
        is_fair: options.fair,
    };
    let mut control_loop = ControlLoop::new(opened, server, setup)?;
    if let Some(stored) = stored {
        let summary = stored.summary();
        control_loop.keep_in(stored)?;
        summary.iter().for_each(|line| out::note(line));
    }
    let _metrics = run::serve_metrics(options.metrics, vec![control_loop.metrics()])?;
    let capture = RunningCapture::start(&options.capture, "switch", control_loop.observers())?;
    let status = format!("virtual data planes on {}", specs.join(", "));
    let reload = Reload::new(Some(certificates), None, options.config.watch("host")?);
    let service = Service::start(early, reload, vec![early.turns()], &status)?;
    let ended = control_loop.run(early, &mut show);
    service.stop();
    if let Some(capture) = capture {
        capture.finish();
    }
    let ending = ended?;
    let kept = control_loop.keep_state();
    let report = control_loop.report();
    match options.json {
        true => out::json(&report),
        false => out::text(&report.text()),
    }
    kept?;
    control_loop.check_conservation()?;
    match ending {
        Ending::NoPortLeft => Err("no port is left to carry anything".to_owned()),
        Ending::Stopped(_) | Ending::Done => Ok(Ended::Well),
    }
}

/// Checks the options and the files that they name. Opens no port.
///
/// # Errors
/// The first error.
pub(crate) fn check(options: &Options) -> Result<(), String> {
    check_files(options)?;
    run::warn_of_missing(&options.ports);
    Ok(())
}

/// Returns the address with its certificates. They, the ports and the address for metrics are
/// checked.
fn check_files(options: &Options) -> Result<Listen, String> {
    MetricsServer::check(options.metrics)?;
    check_ports(&options.ports)?;
    let listen = options.guard.listen(options.address)?;
    check_reach(&listen)?;
    let checked = listen.check_certificates();
    checked.map_err(|error| error.to_string())?;
    Ok(listen)
}

/// Shows an event of the switch.
fn show(event: HostEvent) {
    match event {
        HostEvent::Notice(line) => out::note(&line),
        HostEvent::Message(vpdp, line) if log::says(LevelFilter::ERROR) => {
            out::note(&format!("vPDP {vpdp}: {line}"));
        }
        HostEvent::Message(..) => {}
    }
}

/// Checks that clients have certificates. Only these distinguish operators from tenants.
fn check_reach(listen: &Listen) -> Result<(), String> {
    match listen.reach {
        Reach::Loopback | Reach::Certified => Ok(()),
        Reach::Anyone => Err(
            "--anyone-may-control would make anyone who reaches the switch an operator of all virtual data planes; give --tls-client-ca, and \
             --allow NAME=* for each operator"
                .to_owned(),
        ),
    }
}

fn check_ports(specs: &[PortSpec]) -> Result<(), String> {
    PortSpec::check_distinct(specs).map_err(|error| error.to_string())?;
    PortSpec::check_interfaces(specs).map_err(|error| error.to_string())?;
    if let Some(spec) = specs.iter().find(|spec| spec.id.0 >= FIRST_CONTROLLER_PORT) {
        return Err(format!(
            "port {spec}: numbers from {} on are those of controllers; take a smaller one",
            FIRST_CONTROLLER_PORT
        ));
    }
    Ok(())
}
